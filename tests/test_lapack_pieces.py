"""Users' matrices in large batches: the same numbers, and no LAPACK call that XLA's pool shares."""

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest
from test_linalg import positive, shared_out

from gibbs_dp._jaxlib import compile
from gibbs_dp._jaxlib.compile import Program, in_pieces

MATRICES = positive((600,), 12, jnp.float32)
RIGHT = jnp.asarray(np.random.default_rng(1).normal(size=(600, 12)), jnp.float32)


def quadratic(matrix, z):
    factor = jnp.linalg.cholesky(matrix)
    return jnp.sum(jax.scipy.linalg.solve_triangular(factor, z, lower=True) ** 2)


def in_loops(matrix, z):
    def step(total, shift):
        return total + quadratic(matrix + shift * jnp.eye(12), z), total

    total, _ = jax.lax.scan(step, 0.0, jnp.arange(3.0))
    fixed = jax.lax.stop_gradient(matrix), jax.lax.stop_gradient(z)
    step = lambda s: (s[0] + 1, s[1] + quadratic(*fixed))  # noqa: E731
    return total + jax.lax.while_loop(lambda s: s[0] < 2, step, (0, 0.0))[1]


def in_branches(matrix, z):
    branches = [lambda m: quadratic(m, z), lambda m: quadratic(2 * m, z)]
    return jax.lax.switch((z[0] > 0).astype(int), branches, matrix)


@jax.custom_jvp
def with_its_rule(matrix, z):
    return quadratic(matrix, z)


with_its_rule.defjvp(lambda p, t: (with_its_rule(*p), jnp.sum(p[1] * t[1])))


def checkpointed(matrix, z):
    return jax.checkpoint(quadratic)(matrix, z)


def general(matrix, z):
    return jnp.sum(jnp.linalg.solve(matrix, z) ** 2)


def spectral(matrix, z):
    return jnp.sum(jnp.linalg.eigvalsh(matrix) * z)


def singular(matrix, z):
    return jnp.sum(jnp.linalg.svd(matrix, compute_uv=False) * z)


def orthogonal(matrix, z):
    q, r = jnp.linalg.qr(matrix)
    return jnp.sum((q @ r @ z) ** 2)


def tridiagonal(matrix, z):
    lower, upper = z.at[0].set(0.0), z.at[-1].set(0.0)
    wide = jnp.tile(z[:, None], (1, 40))
    return jnp.sum(jax.lax.linalg.tridiagonal_solve(lower, 9 + jnp.diag(matrix), upper, wide))


FUNCTIONS = [
    *(quadratic, in_loops, in_branches, with_its_rule, checkpointed),
    *(general, spectral, singular, orthogonal, tridiagonal),
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_large_batches_are_cut_and_numbers_stay(function):
    derivative = jax.grad(function, 1)

    def whole(matrices, right, scale):
        one = lambda m, z: (scale * function(m, z), derivative(m, z))  # noqa: E731
        return jax.vmap(one)(matrices, right)

    cut = in_pieces(whole, (False, False, True))
    here = lambda m, z: cut(m, z, 2.0)  # noqa: E731
    plain = lambda m, z: whole(m, z, 2.0)  # noqa: E731
    if function not in (tridiagonal, general):  # which no call of these names stands for
        assert shared_out(plain, MATRICES, RIGHT)
        assert not shared_out(here, MATRICES, RIGHT)
    for ours, theirs in zip(
        jax.jit(here)(MATRICES, RIGHT), jax.jit(plain)(MATRICES, RIGHT), strict=True
    ):
        scale = np.abs(theirs).max()
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-4 * scale)


def test_every_operation_of_a_program_is_small():
    def whole(matrices, right):
        return jax.vmap(lambda m, z: general(m, z) + tridiagonal(m, z))(matrices, right)

    plain = jax.make_jaxpr(whole)(MATRICES, RIGHT).jaxpr
    assert sum(compile._large(plain)) >= 2
    cut = jax.make_jaxpr(in_pieces(whole, (False, False)))(MATRICES, RIGHT).jaxpr
    assert not any(compile._large(cut))


def test_programs_are_cut_where_jaxlib_needs_it(monkeypatch):
    def function(kind, matrices, right):
        return {kind: jax.vmap(quadratic)(matrices, right)}

    def is_cut(backend):
        program = Program(function, ("kind",), backend, False)
        traced = program.jitted.trace("name", MATRICES, RIGHT).jaxpr.jaxpr
        return not any(compile._large(traced))

    for version, expected in (((0, 9, 2), False), ((0, 10, 0), True), ((0, 11, 0), True)):
        monkeypatch.setattr(jaxlib.version, "__version_info__", version)
        assert is_cut("cpu") == expected
    monkeypatch.setattr(jaxlib.version, "__version_info__", (0, 11, 1))
    assert not is_cut("cpu")
    monkeypatch.setattr(jaxlib.version, "__version_info__", (0, 10, 2))
    assert not is_cut("tpu")
