"""Small matrices in batches: NumPy's numbers, and no LAPACK call that XLA's pool would share."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gibbs_dp
from gibbs_dp._jaxlib.devices import compiled_for
from gibbs_dp._jaxlib.linalg import SHARED_OUT, cholesky, cholesky_solve, eigh, solve_lower

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

    def all_four(matrix, column):
        factor = cholesky(matrix)
        return factor, solve_lower(factor, column), cholesky_solve(factor, column), eigh(matrix)

    batched = all_four
    for _ in shape:
        batched = jax.vmap(batched)
    factor, half, whole, (values, vectors) = jax.jit(batched)(matrices, right)
    wide = np.asarray(matrices, np.float64)
    exact = np.linalg.cholesky(wide)
    np.testing.assert_allclose(factor, exact, rtol=0, atol=tolerance * np.abs(exact).max())
    np.testing.assert_allclose(
        half, np.linalg.solve(exact, right[..., None])[..., 0], rtol=0, atol=20 * tolerance
    )
    np.testing.assert_allclose(
        whole, np.linalg.solve(wide, right[..., None])[..., 0], rtol=0, atol=100 * tolerance
    )
    np.testing.assert_allclose(values, np.linalg.eigvalsh(wide), atol=10 * tolerance)
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


@pytest.mark.parametrize("count", [3, 32, 100])
def test_no_batch_is_large_enough_to_be_shared_out(count):
    matrices = positive((count,), 24, jnp.float32)
    right = jnp.ones((count, 50, 24))

    def work(matrix, columns):
        factor = cholesky(matrix)
        whitened = jax.vmap(lambda c: solve_lower(factor, c))(columns)
        return whitened, cholesky_solve(factor, columns[0]), eigh(matrix)

    assert not shared_out(jax.vmap(work), matrices, right)
    plain = shared_out(jax.vmap(jnp.linalg.eigh), matrices)
    assert bool(plain) == (count * 5 * 24**3 >= SHARED_OUT)  # the check would see it


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
