"""Small matrices in batches: NumPy's numbers, and no LAPACK call that XLA's pool would share."""

import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest

import gibbs_dp
from gibbs_dp._jaxlib import linalg
from gibbs_dp._jaxlib.compile import Program
from gibbs_dp._jaxlib.devices import compiled_for
from gibbs_dp._jaxlib.jaxprs import equations
from gibbs_dp._jaxlib.linalg import (
    SHARED_OUT,
    cholesky,
    eigh,
    in_pieces,
    solve_lower,
)

of_cpus = pytest.mark.of_cpus("LAPACK")
COSTS = {"potrf": 1 / 3, "syevd": 5.0}


def positive(shape, dim, dtype, seed=0):
    rows = np.random.default_rng(seed).normal(size=(*shape, dim, 2 * dim))
    return jnp.asarray(rows @ rows.swapaxes(-1, -2) / dim, dtype)


def shared_out(function, *arguments):
    """LAPACK calls of a compiled program that are large enough to be shared out."""
    text = jax.jit(function).lower(*arguments).compile().as_text()
    shapes = re.findall(r"= (.*?) custom-call\(.*custom_call_target=\"[a-z]+_([a-z]+)_ffi", text)
    assert len(shapes) == text.count("custom-call(") > 0
    return [(shape, name) for shape, name in shapes if cost(shape, name) >= SHARED_OUT]


def cost(shape, name):
    """Operations of a call on a batch; a batch of one is never shared out."""
    batch, rows, columns = map(int, re.search(r"[fd]\d+\[(\d+),(\d+),(\d+)\]", shape).groups())
    if batch == 1:
        return 0
    each = COSTS[name[1:]] * rows**3 if name[1:] in COSTS else rows**2 * columns
    return batch * each


@pytest.mark.parametrize("shape", [(), (40,), (3, 25)])
@pytest.mark.parametrize("dim", [1, 24])
def test_all_agree_with_numpy_under_any_vmap(precision, shape, dim):
    matrices = positive(shape, dim, precision)
    right = jnp.asarray(np.random.default_rng(1).normal(size=(*shape, dim)), precision)
    tolerance = 200 * jnp.finfo(precision).eps

    def all_three(matrix, column):
        factor = cholesky(matrix)
        return factor, solve_lower(factor, column), eigh(matrix)

    batched = all_three
    for _ in shape:
        batched = jax.vmap(batched)
    factor, half, (values, vectors) = jax.jit(batched)(matrices, right)
    wide = np.asarray(matrices, np.float64)
    exact = np.linalg.cholesky(wide)
    np.testing.assert_allclose(factor, exact, rtol=0, atol=tolerance * np.abs(exact).max())
    np.testing.assert_allclose(
        half, np.linalg.solve(exact, right[..., None])[..., 0], rtol=0, atol=20 * tolerance
    )
    np.testing.assert_allclose(values, np.linalg.eigvalsh(wide), atol=10 * tolerance)
    values, vectors = np.asarray(values), np.asarray(vectors)
    again = (vectors * values[..., None, :]) @ vectors.swapaxes(-1, -2)
    np.testing.assert_allclose(again, wide, atol=10 * tolerance)


def test_many_right_hand_sides_of_one_factor_are_its_columns(precision):
    factor = jnp.linalg.cholesky(positive((5,), 6, precision))
    right = jnp.asarray(np.random.default_rng(2).normal(size=(5, 8, 3, 6)), precision)
    over_draws = jax.vmap(jax.vmap(solve_lower, (None, 0)), (None, 0))
    program = jax.jit(jax.vmap(over_draws))
    found = program(factor, right)
    exact = np.linalg.solve(np.asarray(factor, float)[:, None, None], right[..., None])[..., 0]
    np.testing.assert_allclose(found, exact, atol=500 * jnp.finfo(precision).eps)
    text = program.lower(factor, right).compile().as_text()
    assert "[5,6,24]" in text  # not a copy of the factor for every draw
    columns = jnp.moveaxis(right[0].reshape(24, 6), 0, 1)
    np.testing.assert_allclose(solve_lower(factor[0], columns)[:, 0], found[0, 0, 0], rtol=1e-5)


def test_a_matrix_that_is_not_positive_definite_has_no_factor():
    matrices = jnp.stack([jnp.eye(3), -jnp.eye(3)])
    found = jax.vmap(cholesky)(matrices)
    np.testing.assert_array_equal(found[0], np.eye(3))
    assert np.isnan(found[1][np.tril_indices(3)]).all()


@of_cpus
@pytest.mark.parametrize("count", [3, 32, 100])
def test_no_batch_is_large_enough_to_be_shared_out(count):
    matrices = positive((count,), 24, jnp.float32)
    right = jnp.ones((count, 50, 24))

    def work(matrix, columns):
        factor = cholesky(matrix)
        whitened = jax.vmap(lambda c: solve_lower(factor, c))(columns)
        return whitened, eigh(matrix)

    assert not shared_out(jax.vmap(work), matrices, right)
    plain = shared_out(jax.vmap(jnp.linalg.eigh), matrices)
    assert bool(plain) == (count * 5 * 24**3 >= SHARED_OUT)  # the check would see it


@of_cpus
def test_pieces_are_as_few_as_can_be_and_even():
    factors = jax.jit(jax.vmap(cholesky))
    text = factors.lower(positive((100,), 24, jnp.float32)).compile().as_text()
    batches = re.findall(r"= \(f32\[(\d+),24,24\].* custom-call\(.*lapack_spotrf", text)
    assert sorted(map(int, batches)) == [32, 34]  # 43 would be the most: three pieces, not four


def test_other_devices_take_a_batch_whole():
    with compiled_for("tpu"):
        traced = jax.jit(jax.vmap(cholesky)).trace(positive((100,), 24, jnp.float32))
    text = traced.lower(lowering_platforms=("tpu",)).as_text()
    assert "stablehlo.cholesky" in text
    assert "stablehlo.while" not in text
    assert "tensor<100x24x24xf32>" in text


def test_the_library_makes_no_lapack_call_elsewhere():
    root = Path(gibbs_dp.__file__).parent
    calls = re.compile(r"(jnp|jax\.numpy|lax|jax\.scipy|jsp)\.(linalg|scipy\.linalg)\.(?!norm)\w+")
    found = {str(p.relative_to(root)) for p in root.rglob("*.py") if calls.search(p.read_text())}
    assert found == {"_jaxlib/linalg.py"}


# Matrices of users, in losses and priors, in large batches.

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


@of_cpus
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
    assert sum(map(linalg._is_large, equations(plain))) >= 2
    cut = jax.make_jaxpr(in_pieces(whole, (False, False)))(MATRICES, RIGHT).jaxpr
    assert not linalg._has_large(cut)


def test_programs_are_cut_where_jaxlib_needs_it(monkeypatch):
    def function(kind, matrices, right):
        return {kind: jax.vmap(quadratic)(matrices, right)}

    def is_cut(backend):
        program = Program(function, ("kind",), backend, False)
        traced = program.jitted.trace("name", MATRICES, RIGHT).jaxpr.jaxpr
        return not linalg._has_large(traced)

    for version, expected in (((0, 9, 2), False), ((0, 10, 0), True), ((0, 11, 0), True)):
        monkeypatch.setattr(jaxlib.version, "__version_info__", version)
        assert is_cut("cpu") == expected
    monkeypatch.setattr(jaxlib.version, "__version_info__", (0, 11, 1))
    assert not is_cut("cpu")
    monkeypatch.setattr(jaxlib.version, "__version_info__", (0, 10, 2))
    assert not is_cut("tpu")


# Two programs with batched LAPACK calls at once must not wait for each other forever.

PROGRAM = """
import threading
import gibbs_dp
import jax, jax.numpy as jnp, numpy as np

@jax.jit
def work(a):
    def step(_, a):
        return a + 1e-3 * jax.vmap(lambda m: jnp.linalg.cholesky(m @ m.T + 31 * jnp.eye(31)))(a)
    return jax.lax.fori_loop(0, 20, step, a)

x = jax.random.normal(jax.random.key(0), (512, 31, 31))
work(x).block_until_ready()
threads = [
    threading.Thread(target=lambda: [np.asarray(work(x)) for _ in range(5)])
    for _ in range(gibbs_dp._jaxlib.threads.num_cores())
]
for t in threads:
    t.start()
for t in threads:
    t.join()
print("done")
"""


def test_concurrent_lapack_calls_finish() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout.strip() == "done", done.stderr
