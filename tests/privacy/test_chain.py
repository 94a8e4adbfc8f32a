"""Guarantees of the chain that is run, against exact laws of quadratics and dp-accounting."""

import inspect
import math
from dataclasses import replace

import dp_accounting
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from dp_accounting import pld
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

import gibbs_dp as gdp
from gibbs_dp.information.divergences import gaussian_hockey_stick
from gibbs_dp.privacy import ChainDraw, chain_guarantee
from gibbs_dp.privacy.chain import chain_constants, subsampled_epsilon
from gibbs_dp.privacy.routes import GaussianDP, epsilon_at
from gibbs_dp.sampling import unadjusted
from gibbs_dp.sampling.kernels import gradients
from gibbs_dp.sampling.kernels.gradients import (
    LEAST_NUMBERS,
    Batch,
    Parts,
    example_gradients,
    in_parts,
    parts_of,
    poisson_batch,
)
from gibbs_dp.sampling.unadjusted import run_langevin, walk_plainly

UNIT = gdp.Domain(x_bound=1.0)
MEAN = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(1), 0.5))
LOGISTIC = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(jnp.zeros(2), 1.0))
SQUARED = gdp.GibbsPosterior(gdp.losses.squared, dist.Normal(jnp.zeros(2), 1.0))


def exact_law(data, gamma, precision, h, num_steps, start=0.0):
    """Mean and variance of the chain on the quadratic, step by step."""
    mean, variance = start, 0.0
    for _ in range(num_steps):
        mean = mean - h * (precision * mean - gamma * data.sum())
        variance = (1 - h * precision) ** 2 * variance + 2 * h
    return mean, variance


@settings(max_examples=30, deadline=None)
@given(
    gamma=st.floats(0.05, 3.0),
    n=st.integers(1, 30),
    num_steps=st.integers(1, 60),
    reach=st.floats(0.05, 1.0),
    eps=st.floats(0.0, 3.0),
)
def test_on_a_quadratic_the_exact_curve_is_the_formula(gamma, n, num_steps, reach, eps):
    """Neighbours z = 1 and z = -1: hockey-stick curve of the exact laws, to 1e-8."""
    precision = n * gamma + 4.0
    kernel = gdp.ULA(reach / precision, num_steps)
    found = chain_guarantee(
        MEAN, kernel, gamma=gamma, n=n, adjacency="replace-one", domain=UNIT, delta=1e-6
    )
    data = np.zeros(n)
    laws = []
    for z in (1.0, -1.0):
        data[0] = z
        laws.append(exact_law(data, gamma, precision, kernel.step_size, num_steps))
    exact = gaussian_hockey_stick(*laws[0], *laws[1], math.exp(eps))
    assert GaussianDP(found.gdp).delta(eps, 1) == pytest.approx(exact, rel=1e-8, abs=1e-13)


def test_the_run_has_that_exact_law():
    """4000 chains: mean and variance within 4 standard errors (false alarm 1.3e-4)."""
    data = jnp.asarray([[0.9], [-0.3], [0.5]])
    kernel = gdp.ULA(0.08, 7)
    draws = run_langevin(
        MEAN, data, gamma=1.3, kernel=kernel, num_draws=4000, key=1, start=jnp.array([1.0])
    )
    mean, variance = exact_law(np.asarray(data), 1.3, 3 * 1.3 + 4, 0.08, 7, start=1.0)
    assert abs(float(draws.mean()) - mean) < 4 * math.sqrt(variance / 4000)
    assert abs(float(draws.var(ddof=1)) / variance - 1) < 4 * math.sqrt(2 / 4000)


def test_a_start_that_depends_on_the_data_breaks_the_formula():
    """Known-wrong variant: starting at the mode (a whitening would do) exceeds the figure."""
    n, gamma, num_steps = 5, 1.0, 3
    precision = n * gamma + 4.0
    kernel = gdp.ULA(0.1 / precision, num_steps)
    found = chain_guarantee(
        MEAN, kernel, gamma=gamma, n=n, adjacency="replace-one", domain=UNIT, delta=1e-6
    )
    data, laws = np.zeros(n), []
    for z in (1.0, -1.0):
        data[0] = z
        mode = gamma * data.sum() / precision
        laws.append(exact_law(data, gamma, precision, kernel.step_size, num_steps, mode))
    exact = gaussian_hockey_stick(*laws[0], *laws[1], math.exp(0.5))
    assert exact > 1.5 * GaussianDP(found.gdp).delta(0.5, 1)


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 40), size=st.integers(1, 45), least=st.integers(0, 40), seed=st.integers(0, 99)
)
@example(n=40, size=3, least=0, seed=0)  # more rows than a step is made for
def test_a_batch_in_parts_is_summed_whole(n, size, least, seed):
    """Every row that weighs something, once; of the others not even NaNs are seen."""
    rng = np.random.default_rng(seed)
    weight = rng.integers(0, 3, n) * (rng.random(n) < rng.random())
    x = np.where(weight > 0, rng.integers(-9, 9, n), np.nan)
    batch = Batch(jnp.asarray(x), jnp.asarray(weight, float))

    def of(part):
        assert part.weight.shape[0] in (n, size)
        return jnp.sum(jnp.where(part.weight > 0, part.data, 0.0) * part.weight)[None]

    wanted = np.sum(np.where(weight > 0, x, 0.0) * weight)
    found = in_parts(of, batch, Parts(size, min(least, n)))
    assert float(found[0]) == wanted  # of whole numbers, exactly


@pytest.mark.parametrize("rate", [0.001, 0.02, 0.3])
def test_steps_are_made_for_any_sample_but_one_in_a_billion(rate):
    """By the exact tail, so that the time of a step depends on a sample's size no more often."""
    for n in (2_000, 50_000):
        size, least = parts_of(n, 1000, 1.0, rate)
        assert size <= least
        assert stats.binom.sf(least, n, rate) < 1e-9
        assert least < 3 * rate * n + 40


@pytest.mark.parametrize("n", [1000, 9000])
@pytest.mark.parametrize("rate", [None, 0.02, 0.5])
def test_a_step_follows_the_clipped_gradients_of_its_sample(n, rate, float64):
    """From two gammas with one key: their noise is the same; few rows in one sum, many in parts."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(n, 8)), rng.normal(size=n)
    posterior = gdp.GibbsPosterior(gdp.losses.squared, dist.Normal(jnp.zeros(8), 1.0))
    is_in_parts = parts_of(n, 8, 2.0, rate).size < n
    assert is_in_parts == (n * 8 > LEAST_NUMBERS and rate is not None)
    kernel = gdp.ULA(0.01, 1, 2.0) if rate is None else gdp.SGLD(0.01, 1, 2.0, rate)
    start, key = jnp.asarray(rng.normal(size=8)), jax.random.key(5)
    moved = [
        run_langevin(posterior, (x, y), gamma=g, kernel=kernel, start=start, key=key)[0]
        for g in (0.0, 3.0)
    ]
    chain = jax.random.fold_in(jax.random.split(key, 1)[0], 0)
    batch_key = jax.random.split(chain)[1]
    is_in = np.asarray(jax.random.bernoulli(batch_key, rate or 1.0, (n,), mode="high"))
    slope = 2 * (x @ np.asarray(start) - y)[:, None] * x
    slope *= np.minimum(1.0, 2.0 / np.linalg.norm(slope, axis=1))[:, None]
    wanted = slope[is_in].sum(axis=0) / (rate or 1.0)
    np.testing.assert_allclose((moved[0] - moved[1]) / 0.03, wanted, rtol=1e-9, atol=1e-9 * n)


@pytest.mark.parametrize("rate", [None, 0.01])
def test_no_step_holds_the_gradients_of_all_examples(rate):
    """Of 20,000 rows and 600 weights: 12 million numbers, or a hundredth at a time."""
    posterior = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(jnp.zeros(600), 1.0))
    kernel = gdp.ULA(0.01, 9, 1.0) if rate is None else gdp.SGLD(0.01, 9, 1.0, rate)
    dtype = jnp.result_type(float)
    data = jax.ShapeDtypeStruct((20_000, 600), dtype), jax.ShapeDtypeStruct((20_000,), dtype)
    walk = 1.0, jnp.zeros((1, 600)), jax.random.split(jax.random.key(0), 1), 0, 9
    compiled = walk_plainly.lower(posterior, kernel.plain_form(), data, *walk).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 4e6


@pytest.mark.trust
def test_sample_in_parts_follows_the_whole_gradient(float64, monkeypatch):
    """Clipped at a norm that none has, or all rows sampled and relative to the mode: plain ULA."""
    monkeypatch.setattr(gradients, "MOST_NUMBERS", 2**7)
    monkeypatch.setattr(gradients, "LEAST_NUMBERS", 0)
    rng = np.random.default_rng(4)
    n, dim = 143, 3  # shapes of this test alone
    data = jnp.asarray(rng.normal(size=(n, dim))), jnp.asarray(rng.normal(size=n))
    posterior = gdp.GibbsPosterior(gdp.losses.squared, dist.Normal(jnp.zeros(dim), 1.0))
    assert parts_of(n, dim, 1.0) == (42, n)
    kernels = (
        gdp.ULA(1e-4, 2),
        gdp.ULA(1e-4, 2, 1e9),
        gdp.SGLD(1e-4, 2, sampling_rate=1.0, control_variate=True),
    )
    given = {"gamma": 0.5, "key": 1, "num_chains": 2, "num_warmup": 3, "num_samples": 4}
    plain, clipped, relative = (
        np.asarray(gdp.sample(posterior, data, sampler=kernel, **given).theta) for kernel in kernels
    )
    np.testing.assert_allclose(clipped, plain, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(relative, plain, rtol=1e-9, atol=1e-12)


def test_a_batch_of_fixed_size_looks_at_its_own_rows(monkeypatch):
    """In parts of its own, whatever the number of all rows."""
    asked = []
    plan = unadjusted.parts_of
    monkeypatch.setattr(unadjusted, "parts_of", lambda *given: asked.append(given) or plan(*given))
    data = jnp.ones((97, 3)), jnp.ones(97)  # a shape of this test alone
    posterior = gdp.GibbsPosterior(gdp.losses.squared, dist.Normal(jnp.zeros(3), 1.0))
    given = {"gamma": 0.5, "key": 1, "num_chains": 2, "num_warmup": 3, "num_samples": 4}
    for kernel, rows, rate in (
        (gdp.SGLD(1e-4, 2, 0.5, batch_size=7), 7, None),
        (gdp.SGLD(1e-4, 2, 0.5, 0.3), 97, 0.3),
        (gdp.ULA(1e-4, 2, 0.5), 97, None),
    ):
        gdp.sample(posterior, data, sampler=kernel, **given)
        assert set(asked) == {(rows, 3, 0.5, rate)}
        asked.clear()


def test_clipping_never_lengthens_and_leaves_short_gradients(float64):
    x = jnp.asarray([[3.0, 4.0], [0.1, 0.0]])
    y = jnp.asarray([10.0, 0.05])
    theta = jnp.asarray([0.3, -0.2])
    raw = np.asarray(example_gradients(SQUARED, theta, (x, y), None))
    clipped = np.asarray(example_gradients(SQUARED, theta, (x, y), 0.5))
    by_hand = -2 * (np.asarray(y) - np.asarray(x) @ np.asarray(theta))[:, None] * np.asarray(x)
    np.testing.assert_allclose(raw, by_hand, rtol=1e-12)
    assert np.linalg.norm(clipped[0]) == pytest.approx(0.5, rel=1e-12)
    np.testing.assert_allclose(clipped[1], raw[1], rtol=1e-12)
    np.testing.assert_allclose(clipped[0] / 0.5, raw[0] / np.linalg.norm(raw[0]), rtol=1e-12)


def layers():
    """A posterior of two arrays, each in the precision of its test."""
    return gdp.GibbsPosterior(
        lambda theta, z: jnp.sum(theta["w"] * z) + 0.01 * z[0, 0] * jnp.sum(theta["b"]),
        {"b": dist.Normal(jnp.zeros(4), 1.0), "w": dist.Normal(jnp.zeros((2, 3)), 1.0)},
    )


def test_by_array_each_has_its_share_of_the_norm(float64):
    """Gradients of ``w`` are long and those of ``b`` short: these stay, whatever those are."""
    posterior, z = layers(), jnp.asarray(np.random.default_rng(0).normal(size=(5, 2, 3)))
    found = np.asarray(example_gradients(posterior, jnp.zeros(10), z, 0.5, "array"))
    b, w = found[:, :4], found[:, 4:]
    np.testing.assert_allclose(b, 0.01 * np.asarray(z[:, 0, :1]) * np.ones(4), rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(w, axis=1), 0.5 / math.sqrt(2), rtol=1e-12)
    assert np.linalg.norm(found, axis=1).max() <= 0.5
    given = {"gamma": 2.0, "key": 3}
    moved = [
        run_langevin(posterior, z, kernel=gdp.ULA(0.01, 1, 0.5, clip_by=by), **given)[0]
        - run_langevin(posterior, z, kernel=gdp.SGLD(0.01, 1, 0.5, 1.0, clip_by=by), **given)[0]
        for by in ("example", "array")
    ]
    np.testing.assert_allclose(moved, 0.0, atol=1e-14)
    whole, shared = (
        run_langevin(posterior, z, kernel=gdp.ULA(0.01, 1, 0.5, clip_by=by), **given)[0]
        for by in ("example", "array")
    )
    plain = np.asarray(example_gradients(posterior, jnp.zeros(10), z, 0.5))
    np.testing.assert_allclose(shared - whole, -0.02 * (found - plain).sum(axis=0), atol=1e-14)


def test_by_array_the_guarantee_is_that_of_the_whole_norm():
    given = {"gamma": 0.5, "n": 40, "domain": None, "delta": 1e-6}
    for make, adjacency in ((gdp.ULA, "replace-one"), (gdp.SGLD, "add-remove")):
        rate = {"sampling_rate": 0.2} if make is gdp.SGLD else {}
        whole, shared = (
            chain_guarantee(
                layers(), make(0.01, 50, 0.3, clip_by=by, **rate), adjacency=adjacency, **given
            )
            for by in ("example", "array")
        )
        assert shared.epsilon == whole.epsilon
    # One array is the whole; of two no convexity is known, unless no gradient is ever cut.
    one = {"gamma": 0.5, "n": 40, "adjacency": "replace-one", "domain": UNIT}
    assert chain_constants(LOGISTIC, clip=0.1, clip_by="array", **one) == chain_constants(
        LOGISTIC, clip=0.1, **one
    )
    two = gdp.GibbsPosterior(gdp.losses.logistic, [dist.Normal(jnp.zeros(2), 1.0)] * 2)
    found = {
        clip: chain_constants(two, clip=clip, clip_by="array", **one).strong_convexity
        for clip in (1.5, 1.4)
    }
    assert found == {1.5: 1.0, 1.4: -math.inf}  # gradients of norm at most 1, and 1.4 / sqrt(2)


@pytest.mark.trust(but="array-1-ULA")
@pytest.mark.parametrize("make", [gdp.ULA, gdp.SGLD])
@pytest.mark.parametrize(("by", "share"), [("example", 0), ("array", 1)])
def test_sample_clips_by_array_too(make, by, share):
    """Only ``w`` is ever cut: by array more, so that its draws are pulled less."""
    posterior, z = layers(), jnp.ones((20, 2, 3))
    rate = {"sampling_rate": 0.5} if make is gdp.SGLD else {}
    kernel = make(0.05, 10, 0.5, clip_by=by, **rate)
    draws = gdp.sample(posterior, z, gamma=0.2, key=0, sampler=kernel, num_samples=400)
    assert np.isfinite(draws.settings["variance_inflation"])
    # The prior is standard normal: minus gamma n clip / sqrt(6), and by array that over sqrt(2).
    pull = 0.2 * 20 * 0.5 / math.sqrt(6)
    np.testing.assert_allclose(draws.theta["w"].mean(), -pull / math.sqrt(2) ** share, atol=0.05)


def test_clips_that_make_no_sense():
    kernel = gdp.ULA(0.1, 3, 1.0)
    object.__setattr__(kernel, "clip_by", "layer")  # tests check types before
    with pytest.raises(ValueError, match=r"ULA\(clip_by\): 'layer' is not one of example, array"):
        kernel.__post_init__()
    with pytest.raises(ValueError, match=r"SGLD\(clip_by\): there is no clip to share out"):
        gdp.SGLD(0.1, 3, clip_by="array")


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), clip=st.floats(0.05, 5.0))
def test_a_clipped_step_of_a_linear_loss_contracts_as_claimed(seed, clip):
    """What the theorem needs of clipping: the drift is a contraction by max|1 - h m|, |1 - h M|."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(6, 2))
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1)
    y, gamma = rng.uniform(-3, 3, 6), 0.7
    found = chain_constants(
        SQUARED, gamma=gamma, clip=clip, n=6, adjacency="replace-one", domain=UNIT
    )
    h = 1.9 / found.smoothness
    c = max(abs(1 - h * found.strong_convexity), abs(1 - h * found.smoothness))

    def drift(theta):
        slope = 2 * (x @ theta - y)
        length = np.abs(slope) * np.linalg.norm(x, axis=1)
        slope = slope * np.minimum(1, clip / np.maximum(length, 1e-300))
        return theta - h * (gamma * slope @ x + theta)

    a, b = rng.normal(size=2) * 3, rng.normal(size=2) * 3
    moved = np.linalg.norm(drift(a) - drift(b))
    assert moved <= c * np.linalg.norm(a - b) * (1 + 1e-9)


def test_constants_under_clipping():
    given = {"gamma": 0.5, "n": 40, "adjacency": "replace-one"}
    far = chain_constants(LOGISTIC, clip=2.0, domain=UNIT, **given)
    assert far == (2.0, 1.0, 0.5 * 40 / 4 + 1.0)  # gradients of norm at most 1: never clipped
    near = chain_constants(LOGISTIC, clip=0.1, domain=UNIT, **given)
    assert near.gradient_sensitivity == pytest.approx(0.2)
    assert near.strong_convexity == 1.0
    mean = chain_constants(MEAN, clip=0.1, domain=UNIT, **given)
    assert mean.strong_convexity == 4.0  # the examples' own curvature is lost
    ball = gdp.Flat(gdp.supports.l2_ball(2, 1.0))
    on_ball = gdp.GibbsPosterior(gdp.losses.half_squared_distance, ball)
    for clip, convexity in ((2.0, 0.5 * 40), (1.9, 0.0)):  # gradients have norms up to 2
        found = chain_constants(on_ball, clip=clip, domain=UNIT, **given)
        assert found.strong_convexity == convexity
    own = gdp.GibbsPosterior(
        gdp.losses.Declared(lambda t, z: jnp.sum((t - z) ** 4)), dist.Normal(jnp.zeros(1), 1.0)
    )
    assert chain_constants(own, clip=0.1, domain=UNIT, **given).strong_convexity == -math.inf
    removed = chain_constants(
        LOGISTIC, clip=0.1, gamma=0.5, n=40, adjacency="add-remove", domain=UNIT
    )
    assert removed.gradient_sensitivity == pytest.approx(0.1)


def test_any_loss_by_composition_and_the_smaller_of_two():
    given = {"gamma": 0.5, "n": 40, "adjacency": "replace-one", "domain": UNIT, "delta": 1e-6}
    own = gdp.GibbsPosterior(lambda t, z: jnp.sum(jnp.sin(t * z)), dist.Normal(jnp.zeros(1), 1.0))
    found = chain_guarantee(own, gdp.ULA(0.01, 400, clip=0.3), **given)
    # K Gaussians of shift h gamma 2 C and deviation sqrt(2 h), by dp-accounting.
    sigma = math.sqrt(0.02) / (0.01 * 0.5 * 0.6)
    events = dp_accounting.ComposedDpEvent([dp_accounting.GaussianDpEvent(sigma / 20)])
    theirs = pld.PLDAccountant().compose(events).get_epsilon(1e-6)
    assert found.epsilon == pytest.approx(theirs, rel=1e-3)
    long = [
        chain_guarantee(LOGISTIC, gdp.ULA(0.05, k), **given).gdp for k in (1, 10, 1000, 100_000)
    ]
    assert long == sorted(long)
    assert long[3] == pytest.approx(long[2], rel=1e-6)  # last iterate: it stops growing
    nine = chain_guarantee(LOGISTIC, gdp.ULA(0.05, 10), num_draws=9, **given)
    assert nine.gdp == pytest.approx(3 * long[1], rel=1e-12)  # as Gaussians compose
    too_large = chain_guarantee(LOGISTIC, gdp.ULA(0.4, 50), **given)  # h > 2 / M
    assert "composition" in too_large.assumptions[0]


def test_sgld_is_the_subsampled_gaussian_mechanism():
    kernel = gdp.SGLD(step_size=0.02, num_steps=5, clip=0.5, sampling_rate=0.2)
    gamma = 4.0
    found = chain_guarantee(
        LOGISTIC, kernel, gamma=gamma, n=100, adjacency="add-remove", domain=UNIT, delta=1e-5
    )
    noise = math.sqrt(2 * 0.02) * 0.2 / (0.02 * gamma * 0.5)
    event = dp_accounting.PoissonSampledDpEvent(0.2, dp_accounting.GaussianDpEvent(noise))
    theirs = pld.PLDAccountant().compose(event, 5).get_epsilon(1e-5)
    assert found.epsilon == pytest.approx(theirs, rel=1e-5)
    three = {"n": 100, "adjacency": "add-remove", "domain": UNIT, "delta": 1e-5, "num_draws": 3}
    found = chain_guarantee(LOGISTIC, kernel, gamma=gamma, **three)
    theirs = pld.PLDAccountant().compose(event, 15).get_epsilon(1e-5)
    assert found.epsilon == pytest.approx(theirs, rel=1e-5)
    found = chain_guarantee(LOGISTIC, kernel, gamma=gamma, **three | {"num_draws": 1})
    whole = subsampled_epsilon(noise, 1.0, num_steps=5, delta=1e-5)
    assert found.epsilon < 0.5 * whole  # subsampling amplifies
    replaced = chain_guarantee(
        LOGISTIC, kernel, gamma=gamma, n=100, adjacency="replace-one", domain=UNIT, delta=1e-5
    )
    assert replaced.adjacency == "replace-one"
    theirs = subsampled_epsilon(noise, 0.2, num_steps=5, delta=1e-5, adjacency="replace-one")
    assert replaced.epsilon == pytest.approx(theirs, rel=1e-5)


def mixtures(x, sigma, rate):
    """Densities of a step with an example at 1 and at -1."""
    none, plus, minus = (stats.norm.pdf(x, m, sigma) for m in (0.0, 1.0, -1.0))
    return (1 - rate) * none + rate * plus, (1 - rate) * none + rate * minus


@pytest.mark.parametrize(("sigma", "rate"), [(1.0, 0.1), (0.7, 0.5), (3.0, 1.0)])
def test_a_replaced_example_has_the_two_sided_mixtures(sigma, rate):
    """One and two steps by quadrature on a fine grid, all steps sampled in closed form."""
    x, width = np.linspace(-1 - 8 * sigma, 1 + 8 * sigma, 2401, retstep=True)
    p, q = mixtures(x, sigma, rate)
    for delta in (1e-2, 1e-4):
        given = {"delta": delta, "adjacency": "replace-one"}
        found = subsampled_epsilon(sigma, rate, num_steps=1, **given)
        exact = np.maximum(p - math.exp(found) * q, 0).sum() * width
        assert exact == pytest.approx(delta, rel=2e-3)
        found = subsampled_epsilon(sigma, rate, num_steps=2, **given)
        pair = np.maximum(np.outer(p, p) - math.exp(found) * np.outer(q, q), 0)
        assert pair.sum() * width**2 == pytest.approx(delta, rel=3e-3)
        if rate == 1.0:
            mu = 2 * math.sqrt(2) / sigma
            assert GaussianDP(mu).delta(found, 1) == pytest.approx(delta, rel=1e-3)


@settings(max_examples=25, deadline=None)
@given(
    first=st.tuples(st.floats(0, 1), st.floats(0, 6.3)),
    second=st.tuples(st.floats(0, 1), st.floats(0, 6.3)),
    sigma=st.floats(0.5, 3.0),
    rate=st.floats(0.01, 1.0),
    eps=st.floats(0.0, 4.0),
)
def test_no_replacement_is_worse_than_the_opposite(first, second, sigma, rate, eps):
    """In a plane, by quadrature, at every level of the hockey stick."""
    x, width = np.linspace(-1 - 6 * sigma, 1 + 6 * sigma, 321, retstep=True)
    a, b = np.meshgrid(x, x)

    def law(radius, angle):
        at = radius * math.cos(angle), radius * math.sin(angle)
        none = np.exp(-(a**2 + b**2) / (2 * sigma**2))
        there = np.exp(-((a - at[0]) ** 2 + (b - at[1]) ** 2) / (2 * sigma**2))
        return ((1 - rate) * none + rate * there) / (2 * math.pi * sigma**2)

    stick = np.maximum(law(*first) - math.exp(eps) * law(*second), 0).sum() * width**2
    fine, step = np.linspace(-1 - 8 * sigma, 1 + 8 * sigma, 4001, retstep=True)
    p, q = mixtures(fine, sigma, rate)
    worst = np.maximum(p - math.exp(eps) * q, 0).sum() * step
    assert stick <= worst + 2e-5


def test_noise_that_promises_nothing_is_refused_before_it_takes_minutes_and_gigabytes():
    given = {"gamma": 50.0, "n": 100, "adjacency": "add-remove", "domain": UNIT, "delta": 1e-5}
    for kernel in (gdp.SGLD(1e-3, 1, 50.0, 0.2), gdp.SGLD(1e-3, 10**9, 1.0, 0.2)):
        with pytest.raises(ValueError, match=r"kernel: noise of .* epsilon of hundreds"):
            chain_guarantee(LOGISTIC, kernel, **given)


@pytest.mark.trust
def test_little_noise_is_accounted_for_on_a_coarser_grid():
    found = subsampled_epsilon(0.05, 1.0, num_steps=1, delta=1e-5)
    exact = epsilon_at(GaussianDP(1 / 0.05), 1e-5, 1)
    assert found == pytest.approx(exact, rel=1e-5)
    assert found > exact * (1 - 1e-9)


def test_a_rate_of_one_may_be_a_whole_number():
    batch = inspect.unwrap(poisson_batch)  # the tests' types refuse it
    assert (batch(jax.random.key(0), jnp.zeros(5), 5, 1, jnp.dtype("float32")).weight == 1).all()


SUBSAMPLED = gdp.SGLD(step_size=0.02, num_steps=50, clip=0.5, sampling_rate=0.2)


def test_several_states_of_one_chain_cost_its_run_once():
    given = {"gamma": 4.0, "n": 100, "adjacency": "add-remove", "domain": UNIT, "delta": 1e-5}
    noise = math.sqrt(2 * 0.02) * 0.2 / (0.02 * 4.0 * 0.5)
    event = dp_accounting.PoissonSampledDpEvent(0.2, dp_accounting.GaussianDpEvent(noise))
    run = pld.PLDAccountant().compose(event, 50).get_epsilon(1e-5)
    for num_draws in (1, 10):
        found = chain_guarantee(LOGISTIC, SUBSAMPLED, num_draws=num_draws, thinning=5, **given)
        assert found.epsilon == pytest.approx(run, rel=1e-5)
        assert found.num_draws == num_draws
    assert "its last state and 9 before it, 5 steps apart" in found.assumptions[0]
    full = given | {"adjacency": "replace-one", "gamma": 0.5, "n": 40}
    clipped = gdp.GibbsPosterior(lambda t, z: jnp.sum(jnp.sin(t * z)), LOGISTIC.prior)
    kernel = gdp.ULA(0.01, 400, clip=0.3)
    one, five = (
        chain_guarantee(clipped, kernel, num_draws=m, thinning=k, **full)
        for m, k in ((1, None), (5, 7))
    )
    assert five.gdp == one.gdp == pytest.approx(math.sqrt(400 * 0.01 / 2) * 0.5 * 0.6, rel=1e-9)
    with pytest.raises(ValueError, match="thinning: 11 draws 5 steps apart need more than the 50"):
        chain_guarantee(LOGISTIC, SUBSAMPLED, num_draws=11, thinning=5, **given)
    with pytest.raises(ValueError, match="thinning"):
        chain_guarantee(LOGISTIC, SUBSAMPLED, num_draws=2, thinning=0, **given)


@settings(max_examples=30, deadline=None)
@given(
    gamma=st.floats(0.05, 3.0),
    num_draws=st.integers(1, 6),
    thinning=st.integers(1, 9),
    before=st.integers(1, 30),
    reach=st.floats(0.05, 1.0),
)
def test_states_of_a_chain_on_a_quadratic_tell_what_their_joint_law_tells(
    gamma, num_draws, thinning, before, reach
):
    """Jointly normal with one covariance: ``mu`` is the distance of the means in its metric."""
    n, num_steps = 5, before + (num_draws - 1) * thinning
    precision = n * gamma + 4.0
    kernel = gdp.ULA(reach / precision, num_steps)
    found = chain_guarantee(
        MEAN,
        kernel,
        gamma=gamma,
        n=n,
        adjacency="replace-one",
        domain=UNIT,
        delta=1e-6,
        num_draws=num_draws,
        thinning=thinning,
    )
    times = before + thinning * np.arange(num_draws)
    data, laws = np.zeros(n), []
    for z in (1.0, -1.0):
        data[0] = z
        laws.append([exact_law(data, gamma, precision, kernel.step_size, k) for k in times])
    one, other = np.asarray(laws)[:, :, 0]
    variance = np.asarray(laws)[0, :, 1]
    shrunk = (1 - kernel.step_size * precision) ** np.abs(times[:, None] - times)
    covariance = shrunk * np.minimum(variance[:, None], variance)
    exact = math.sqrt((one - other) @ np.linalg.solve(covariance, one - other))
    assert found.gdp == pytest.approx(exact, rel=1e-7)


@pytest.mark.parametrize(
    ("posterior", "kernel", "gamma"),
    [
        (LOGISTIC, gdp.ULA(0.05, 1000), 0.5),
        (
            gdp.GibbsPosterior(gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball(2, 1.0))),
            gdp.ULA(0.01, 1000),
            8.0,
        ),
    ],
)
def test_further_states_cost_their_way_from_the_one_before(posterior, kernel, gamma):
    given = {"gamma": gamma, "n": 40, "adjacency": "replace-one", "domain": UNIT, "delta": 1e-5}

    def mu(num_steps=1000, **states):
        return chain_guarantee(posterior, replace(kernel, num_steps=num_steps), **given, **states)

    found = mu(num_draws=4, thinning=20)
    told = "released are its last state and 3 before it, 20 steps apart, each the last iterate of"
    assert found.assumptions[0].startswith(told)
    assert found.gdp == pytest.approx(math.hypot(mu(940).gdp, math.sqrt(3) * mu(20).gdp))
    assert mu().gdp < found.gdp < math.sqrt(1000 * kernel.step_size / 2) * gamma * 2
    alone = mu(num_draws=1, thinning=20)
    assert (alone.gdp, alone.assumptions) == (mu().gdp, mu().assumptions)
    # Steps apart so far as to forget where they began are as good as another chain.
    far, chains = mu(num_draws=2, thinning=500), mu(500, num_draws=2)
    assert far.gdp == pytest.approx(chains.gdp)


@pytest.mark.parametrize("kernel", [gdp.ULA(0.08, 21), SUBSAMPLED])
def test_states_of_one_chain_are_those_of_shorter_runs(kernel):
    data = np.asarray([[0.9], [-0.3], [0.5]])
    given = {"gamma": 1.3, "key": 1}
    draws = np.asarray(run_langevin(MEAN, data, kernel=kernel, num_draws=4, thinning=3, **given))
    for k, draw in enumerate(draws):
        shorter = replace(kernel, num_steps=kernel.num_steps - 3 * (3 - k))
        alone = np.asarray(run_langevin(MEAN, data, kernel=shorter, **given))
        np.testing.assert_allclose(draw, alone[0], rtol=1e-6)


class Steps(list):
    """In the place of a bar, steps that it was told of."""

    disable = False

    def __enter__(self):
        return self

    def __exit__(self, *given):
        pass

    update = list.append


@pytest.mark.parametrize("thinning", [None, 40])
def test_a_chain_that_shows_its_steps_is_the_same_chain(monkeypatch, thinning):
    kernel, shown = gdp.ULA(0.08, 1001), Steps()
    given = {"gamma": 1.3, "kernel": kernel, "num_draws": 3, "thinning": thinning, "key": 1}
    data = np.asarray([[0.9], [-0.3], [0.5]])
    alone = run_langevin(MEAN, data, **given)
    monkeypatch.setattr(unadjusted, "step_bar", lambda total, done, progress: shown)
    np.testing.assert_array_equal(run_langevin(MEAN, data, progress=True, **given), alone)
    assert sum(shown) == 1001
    assert max(shown) <= 6


def test_a_longer_run_compiles_nothing():
    given = {"gamma": 1.0, "key": 0}
    data = np.ones((7, 1))  # rows of this test alone
    run_langevin(MEAN, data, kernel=gdp.ULA(0.0625, 5), **given)
    num_programs = walk_plainly._cache_size()
    run_langevin(MEAN, data, kernel=gdp.ULA(0.0625, 9), **given)
    assert walk_plainly._cache_size() == num_programs


def test_states_of_one_chain_are_released_and_charged_once(tmp_path):
    ledger = gdp.Ledger.create(tmp_path / "l", adjacency="add-remove", epsilon=100.0, delta=1e-3)
    out = gdp.release(
        LOGISTIC,
        (np.ones((30, 2)), np.arange(30) % 2),
        n=40,
        domain=UNIT,
        adjacency="add-remove",
        ledger=ledger,
        delta=1e-5,
        num_draws=5,
        method=ChainDraw(SUBSAMPLED, gamma=4.0, thinning=10),
        accept="float-arithmetic",
    )
    assert np.asarray(out.theta).shape[0] == 5
    assert len(np.unique(np.asarray(out.theta), axis=0)) == 5
    given = {"gamma": 4.0, "n": 40, "adjacency": "add-remove", "domain": UNIT, "delta": 1e-5}
    assert out.guarantee.epsilon == chain_guarantee(LOGISTIC, SUBSAMPLED, **given).epsilon


@pytest.mark.parametrize("clip_by", ["example", "array"])
def test_an_example_without_a_gradient_cannot_end_a_private_chain(tmp_path, clip_by):
    """The distance from a point has none there: whether one row is at the start must not tell."""

    def distance(theta, z):
        return jnp.sqrt(jnp.sum((z - theta) ** 2))

    posterior = gdp.GibbsPosterior(distance, dist.Normal(jnp.zeros(2), 1.0))
    ledger = gdp.Ledger.create(tmp_path / "l", adjacency="add-remove", epsilon=9.0, delta=1e-3)
    out = gdp.release(
        posterior,
        np.asarray([[1.0, 1.0], [0.0, 0.0]]),
        n=9,
        domain=gdp.Domain(x_bound=2.0),
        adjacency="add-remove",
        ledger=ledger,
        delta=1e-5,
        method=ChainDraw(gdp.ULA(1e-3, 20, clip=1.0, clip_by=clip_by), gamma=0.1),
        accept="float-arithmetic",
    )
    assert np.isfinite(out.theta).all()


def test_rows_enter_a_minibatch_as_seldom_as_is_accounted_for():
    """Of 2e7 rows at a rate of 1e-9 there are 0.02; at the smallest of 23 bits, 2.4."""

    @jax.jit
    def count(key):
        batch = poisson_batch(key, jnp.zeros((10**7, 1)), 10**7, 1e-9, jnp.dtype("float32"))
        return jnp.sum(batch.weight > 0)

    assert sum(int(count(key)) for key in jax.random.split(jax.random.key(0))) == 0


def test_one_sgld_step_has_the_right_mean_and_variance():
    """Poisson sampling and noise of one step, against the sums (4 standard errors)."""
    data = jnp.asarray([[0.9], [-0.3], [0.5], [0.8]])
    kernel = gdp.SGLD(step_size=0.1, num_steps=1, clip=10.0, sampling_rate=0.3)
    draws = np.asarray(run_langevin(MEAN, data, gamma=1.0, kernel=kernel, num_draws=20000, key=3))
    z = np.asarray(data)[:, 0]
    variance = 0.2 + 0.01 * (0.7 / 0.3) * np.sum(z**2)
    assert abs(draws.mean() - 0.1 * z.sum()) < 4 * math.sqrt(variance / 20000)
    assert abs(draws.var() / variance - 1) < 4 * math.sqrt(2 / 20000)


OUTSIDE_THE_FORM = {
    "a step that follows the data": (gdp.ULA(num_steps=20), "has one fixed step"),
    "a schedule": (gdp.ULA(lambda count: 0.1 / (1 + count), 20), "has one fixed step"),
    "no length": (gdp.ULA(0.05), "fixed number of steps"),
    "a preconditioner": (gdp.ULA(0.05, 20, preconditioner="laplace"), "looks at the data"),
    "batches of fixed size": (gdp.SGLD(0.05, 20, 1.0, batch_size=4), "needs Poisson"),
    "no clip": (gdp.SGLD(0.05, 20, None, 0.1), "needs Poisson"),
    "a control variate": (
        gdp.SGLD(0.05, 20, None, 0.1, control_variate=True),
        "needs Poisson minibatches and clipped gradients",
    ),
}


@pytest.mark.parametrize("case", OUTSIDE_THE_FORM)
def test_kernels_of_the_samplers_have_no_guarantee_and_do_not_run_privately(case):
    kernel, message = OUTSIDE_THE_FORM[case]
    with pytest.raises(ValueError, match=message):
        chain_guarantee(
            LOGISTIC,
            kernel,
            gamma=1.0,
            n=10,
            adjacency="add-remove",
            domain=UNIT,
            delta=1e-6,
        )
    with pytest.raises(ValueError, match=message):
        run_langevin(MEAN, np.ones((6, 1)), gamma=1.0, kernel=kernel, key=0)


def test_private_runs_clip_their_data_and_differ_every_time(tmp_path):
    huge = np.array([[1e9], [np.inf], [np.nan], [-5.0]])
    ledger = gdp.Ledger.create(tmp_path / "l", adjacency="replace-one", zcdp=1e6)
    given = {
        "method": ChainDraw(gdp.ULA(0.05, 300), gamma=1.0),
        "domain": UNIT,
        "adjacency": "replace-one",
        "ledger": ledger,
        "delta": 1e-6,
        "num_draws": 3,
        "accept": "float-arithmetic",
    }
    first, second = (np.asarray(gdp.release(MEAN, huge, **given).theta) for _ in range(2))
    assert np.isfinite(first).all()
    assert np.abs(first).max() < 6
    assert not np.array_equal(first, second)
    assert len(np.unique(first)) == 3


REFUSED = {
    "unbounded gradients": ({"posterior": SQUARED}, "not known to be bounded on the domain"),
    "structured": (
        {"posterior": gdp.GibbsPosterior(total_loss=lambda t, z: t, prior=dist.Normal(0.0, 1.0))},
        "a total_loss has none",
    ),
    "a simplex": (
        {"posterior": gdp.GibbsPosterior(gdp.losses.logistic, gdp.Flat(gdp.supports.simplex(2)))},
        "only a box or a ball is projected onto",
    ),
    "delta": ({"delta": 1.0}, "delta must lie in"),
    "no delta": ({"delta": 0.0}, "delta must lie in"),
    "gamma": ({"gamma": 0.0}, "gamma must be positive"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_of_a_chain_guarantee(case):
    change, message = REFUSED[case]
    arguments = {
        "posterior": LOGISTIC,
        "kernel": gdp.ULA(0.05, 20),
        "gamma": 1.0,
        "n": 10,
        "adjacency": "replace-one",
        "domain": UNIT,
        "delta": 1e-6,
    } | change
    with pytest.raises(ValueError, match=message):
        chain_guarantee(**arguments)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gdp.ULA(0.0, 5), r"ULA\(step_size\)"),
        (lambda: gdp.ULA(0.1, 0), r"ULA\(num_steps\)"),
        (lambda: gdp.ULA(0.1, 5, clip=-1.0), r"ULA\(clip\)"),
        (lambda: gdp.SGLD(0.1, 5, 1.0, 1.5), r"SGLD\(sampling_rate\)"),
    ],
)
def test_settings_out_of_range(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_secret_keys_do_not_repeat():
    from gibbs_dp.privacy.noise import secret_key

    words = {tuple(np.asarray(jax.random.key_data(secret_key())).tolist()) for _ in range(50)}
    assert len(words) == 50
