"""The direct estimator against closed-form KL of Gaussians, from exact draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gibbs_dp._jaxlib.compile import known_of
from gibbs_dp._jaxlib.precision import exact_products, precision
from gibbs_dp.estimators import direct_kl, direct_kl_of_pairs, on_average_kl, two_sided_kl
from gibbs_dp.estimators.on_average_kl import group_sums, log_mean_ratio, log_mean_ratio_of_few
from gibbs_dp.sampling.noise import spread_radii

CHAINS, SAMPLES = 8, 8
WEIGHT = jnp.full((CHAINS, SAMPLES), 1.0 / SAMPLES)


def linear_losses(key, slopes_train, slopes_ghost):
    """Losses ``a theta`` of standard normal draws: replacing one shifts the mean by gamma da."""
    theta = jax.random.normal(key, (CHAINS, SAMPLES, 1))
    return theta * slopes_train, theta * slopes_ghost


def exact_kl(gamma, train, ghost):
    return 0.5 * gamma**2 * np.mean((ghost[None, :] - train[:, None]) ** 2)


@pytest.fixture(scope="module")
def slopes():
    rng = np.random.default_rng(0)
    return rng.normal(size=10).astype(np.float32), rng.normal(size=6).astype(np.float32)


def estimates(gamma, slopes, repeats=4000):
    train, ghost = slopes
    keys = jax.random.split(jax.random.key(1), repeats)

    @jax.jit
    @jax.vmap
    def run(key):
        return direct_kl(*linear_losses(key, train, ghost), WEIGHT, jnp.asarray(gamma))

    return jax.tree.map(lambda a: np.asarray(a, np.float64), run(keys))


@pytest.mark.trust(but="0.01")
@pytest.mark.parametrize("gamma", [3e-4, 0.01, 0.3])
def test_jackknife_removes_the_plug_in_bias(gamma, slopes):
    # False-alarm rate of |z| <= 4: 6e-5. Second-order bias is below a hundredth of the standard
    # error here; at gamma = 3e-4 the KL is 1e-7 and float32 must still resolve it.
    truth = exact_kl(gamma, *slopes)
    found = estimates(gamma, slopes)
    se = found.value.std(ddof=1) / np.sqrt(found.value.size)
    assert abs(found.value.mean() - truth) < 4 * se
    # The plug-in value is biased by about -1/draws, many standard errors.
    assert found.plug_in.mean() < truth - 4 * se
    assert found.plug_in.mean() == pytest.approx(truth * (1 - 1 / 64), rel=0.01)


@pytest.mark.trust
def test_the_tail_is_the_mean_square_of_the_pairs_corrections(slopes):
    train, ghost = slopes[0][:4], slopes[1][:3]
    whole = direct_kl(*linear_losses(jax.random.key(4), train, ghost), WEIGHT, jnp.asarray(0.3))
    squares = []
    for i in range(min(16, len(train))):
        for j in range(min(8, len(ghost))):
            losses = linear_losses(jax.random.key(4), train[i : i + 1], ghost[j : j + 1])
            one = direct_kl(*losses, WEIGHT, jnp.asarray(0.3))
            squares.append(float(one.value - one.plug_in) ** 2 / float(one.value))
    assert float(whole.tail) == pytest.approx(np.mean(squares), rel=1e-3)
    # Of independent draws and small ratios it is what the jackknife corrects, 1 / draws, and the
    # correction's own noise, which is about half of it.
    found = estimates(0.01, slopes)
    assert 1 < 64 * np.sqrt(found.tail.mean() / found.value.mean()) < 1.5


@pytest.mark.trust
def test_ratios_whose_squares_no_float32_holds_are_what_double_precision_says(slopes):
    theta = np.random.default_rng(5).normal(size=(CHAINS, SAMPLES, 1))
    found = []
    for double in (False, True):
        with precision(double):
            train, ghost = (jnp.asarray(theta * slope, float) for slope in slopes)
            weight = jnp.full((CHAINS, SAMPLES), 1.0 / SAMPLES, float)
            whole = direct_kl(train, ghost, weight, jnp.asarray(20.0))
            delta = 20.0 * (ghost[..., None, :] - train[..., :, None])
            pairs = direct_kl_of_pairs(delta.reshape(CHAINS, SAMPLES, -1), weight)
            found.append(np.array([whole, pairs], np.float64))
    single, exact = found
    assert (exact[:, 1] > 10).all()
    np.testing.assert_allclose(single[:, 1], exact[:, 1], rtol=1e-5)
    # Without the draw that has all the weight nothing is left but rounding: each bounds its log.
    np.testing.assert_allclose(single[:, 0], exact[:, 0], rtol=0.05)
    assert np.isfinite(single[:, 2]).all()


@pytest.mark.parametrize("broken", [np.nan, np.inf])
@pytest.mark.parametrize("has_weight", [True, False])
def test_a_loss_that_is_no_number_leaves_none(slopes, broken, has_weight):
    """Clips and bounds would make one of it."""
    train, ghost = (np.array(a) for a in linear_losses(jax.random.key(3), *slopes))
    weight = np.array(WEIGHT)
    if not has_weight:
        weight[0, 1] = 0.0
    train[0, 1, 2] = ghost[0, 1] = broken
    train, ghost, weight = map(jnp.asarray, (train, ghost, weight))
    for found in (
        direct_kl(train, ghost, weight, jnp.asarray(0.3)),
        direct_kl_of_pairs(ghost - train[..., :1], weight),
    ):
        assert np.isnan(found.value)
        assert np.isnan(found.plug_in)


def all_deltas(train, ghost):
    return 0.7 * (ghost[..., None, :] - train[..., :, None]).reshape(CHAINS, SAMPLES, -1)


@pytest.mark.trust
def test_all_pairs_equal_the_pair_by_pair_form(dtype, slopes):
    few = [jnp.asarray(x[:4]) for x in slopes]  # both jackknife all 16 pairs
    train, ghost = linear_losses(jax.random.key(2), *few)
    a = direct_kl(train, ghost, WEIGHT, jnp.asarray(0.7))
    b = direct_kl_of_pairs(all_deltas(train, ghost), WEIGHT)
    assert float(a.value) == pytest.approx(float(b.value), rel=1e-4)
    assert float(a.plug_in) == pytest.approx(float(b.plug_in), rel=1e-4)
    assert float(a.tail) == pytest.approx(float(b.tail), rel=1e-3)


def test_of_many_single_pairs_the_first_are_jackknifed_for_all(slopes):
    train, ghost = linear_losses(jax.random.key(2), *map(jnp.asarray, slopes))
    delta = 0.3 * all_deltas(train, ghost)  # single draws are left out to second order
    assert delta.shape[-1] > 32
    found = direct_kl_of_pairs(delta, WEIGHT)
    exact = np.asarray(delta, np.float64)
    assert float(found.plug_in) == pytest.approx(by_hand(exact).mean(), rel=1e-4)
    correction = two_way(exact[..., :16]).mean()
    assert float(found.value - found.plug_in) == pytest.approx(correction, rel=2e-2)


def by_hand(delta):
    """Plug-in KL of every pair from its log ratios at all draws."""
    delta = delta.reshape(-1, *delta.shape[2:])
    return delta.mean(0) + np.log(np.exp(-delta).mean(0))


def left_out(delta, axis):
    """The jackknife's correction for leaving out slices of an axis, by hand, per pair."""
    num = delta.shape[axis]
    without = [by_hand(np.delete(delta, k, axis=axis)) for k in range(num)]
    return (num - 1) * (by_hand(delta) - np.mean(without, axis=0))


def two_way(delta):
    """Chains, steps and single draws, in the proportions of a two-way layout."""
    c, t = delta.shape[:2]
    singles = left_out(delta.reshape(1, c * t, *delta.shape[2:]), 1)
    mixed = left_out(delta, 0) * t / (t - 1) + left_out(delta, 1) * c / (c - 1)
    return mixed - singles * (c * t - 1) / ((c - 1) * (t - 1))


def test_jackknife_matches_leaving_chains_and_draws_out_by_hand(slopes):
    # Single draws are left out to second order: what is beyond is 1e-3 of so small a correction.
    train, ghost = (np.asarray(x, np.float64) for x in linear_losses(jax.random.key(3), *slopes))
    gamma = 0.02
    delta = gamma * (ghost[..., None, :] - train[..., :, None])
    found = direct_kl(jnp.asarray(train), jnp.asarray(ghost), WEIGHT, jnp.asarray(gamma))
    assert float(found.plug_in) == pytest.approx(by_hand(delta).mean(), rel=1e-4)
    correction = float(found.value - found.plug_in)
    assert correction == pytest.approx(two_way(delta).mean(), rel=3e-3)


def only_chains(excess, mean, weight):
    """Known wrong where chains share noise: they are not as independent as they look."""
    share = jnp.mean(weight, axis=1)
    return on_average_kl._leave_one_out(jnp.mean(excess, axis=1), mean, share / share.sum())


def relative_bias(kl, repeats=24_000):
    """Bias and its standard error of draws whose steps share their lengths' noise, as audits'.

    Most of the noise is that of the draws' mean square, whose expectation is known to be 1.
    """
    rng = np.random.default_rng(0)
    train, ghost = (jnp.asarray(rng.normal(size=k), jnp.float32) for k in (10, 6))
    gamma = float(np.sqrt(kl / exact_kl(1.0, np.asarray(train), np.asarray(ghost))))

    def run(key):
        normal_key, radius_key, turn_key = jax.random.split(key, 3)
        normals = jax.random.normal(normal_key, (SAMPLES, CHAINS, 1))
        uniforms = jax.random.uniform(radius_key, (SAMPLES, CHAINS))
        theta = jax.vmap(spread_radii)(normals, uniforms, jax.random.uniform(turn_key, (SAMPLES,)))
        theta = jnp.swapaxes(theta, 0, 1)
        found = direct_kl(theta * train, theta * ghost, WEIGHT, jnp.asarray(gamma))
        return found.value, jnp.mean(theta**2) - 1.0

    keys = jax.random.split(jax.random.key(8), repeats)
    # Running is most of the time here, not compiling.
    full = (("xla_backend_optimization_level", 1), ("xla_cpu_use_fusion_emitters", True))
    program = jax.jit(jax.vmap(run), compiler_options=dict(known_of(full)))
    found, control = (np.asarray(a, np.float64) for a in program(keys))
    found -= np.cov(found, control)[0, 1] / control.var(ddof=1) * control
    return found.mean() / kl - 1, found.std() / np.sqrt(repeats) / kl


@pytest.mark.trust
def test_jackknife_allows_for_noise_that_chains_share(monkeypatch):
    # Second-order bias is 0.02% here; false-alarm rate of |z| <= 4: 6e-5.
    bias, se = relative_bias(kl=0.1)
    assert abs(bias) < 4 * se
    monkeypatch.setattr(on_average_kl, "_correction", only_chains)
    bias, se = relative_bias(kl=0.1)
    assert bias > 4 * se


@pytest.mark.trust
def test_of_very_many_pairs_groups_stand_for_all():
    # 203 x 64 pairs: six groups would not divide 64, four do, and three examples are left over.
    # By hand, over the pairs within groups, without the jackknife; and its correction on a part.
    rng = np.random.default_rng(3)
    train, ghost = linear_losses(jax.random.key(6), *(0.3 * rng.normal(size=k) for k in (203, 64)))
    found = direct_kl(train, ghost, WEIGHT, jnp.asarray(1.0))
    delta = np.asarray(ghost[..., None, :] - train[..., :, None], np.float64)
    every = by_hand(delta)
    within = [every[k * 50 : (k + 1) * 50, k * 16 : (k + 1) * 16].mean() for k in range(4)]
    assert float(found.plug_in) == pytest.approx(np.mean(within), rel=1e-4)
    assert np.mean(within) == pytest.approx(every.mean(), rel=0.08)  # means of groups: 3%
    correction = two_way(delta[..., :16, :8]).mean()
    assert float(found.value - found.plug_in) == pytest.approx(correction, rel=2e-2)


def test_large_losses_do_not_cancel():
    # Both losses swing by 30 together: exp(-delta) is tame, its factors are not.
    theta = jax.random.normal(jax.random.key(4), (CHAINS, SAMPLES, 1))
    found = direct_kl(30 * theta, 30.5 * theta, WEIGHT, jnp.asarray(1.0))
    reference = direct_kl_of_pairs(0.5 * theta, WEIGHT)
    assert float(found.value) == pytest.approx(float(reference.value), rel=1e-2)


def test_one_weighted_chain_is_an_exact_sum():
    # Weighted lattice draws, as of a grid: no jackknife, no sampling error.
    grid = jnp.linspace(-8.0, 8.0, 801)
    weight = jax.nn.softmax(-0.5 * grid**2)[None]
    found = direct_kl(
        grid[None, :, None] * 0.2, grid[None, :, None] * 0.9, weight, jnp.asarray(1.0)
    )
    assert float(found.value) == pytest.approx(0.5 * 0.7**2, rel=1e-4)
    assert float(found.value) == float(found.plug_in)


def test_groups_sum_their_members():
    losses = jnp.arange(7.0).reshape(1, 1, 7)
    assert group_sums(losses, 3).tolist() == [[[3.0, 12.0]]]


def test_two_sided_is_half_the_symmetrized_kl():
    # p = N(0, 1), p' = N(m, 1): both directions are m^2 / 2, even where exp(-delta) is hopeless.
    shift = 6.0
    theta = jax.random.normal(jax.random.key(5), (CHAINS, SAMPLES))
    log_ratio = lambda x: 0.5 * (x - shift) ** 2 - 0.5 * x**2  # noqa: E731
    coupled = two_sided_kl(log_ratio(theta)[..., None], log_ratio(theta + shift)[..., None], WEIGHT)
    assert float(coupled) == pytest.approx(shift**2 / 2, rel=1e-5)


# Logarithms of mean ratios written out draw by draw against the form with arrays.


@pytest.mark.of_cpus("they are one form elsewhere")
@pytest.mark.trust(but=["shape1-3.0", "shape4-1.0"])
@pytest.mark.parametrize(
    ("shape", "spread"),
    [((8, 4), 1e-3), ((8, 4), 3.0), ((2, 2), 1.0), ((3, 1), 1.0), ((1, 6), 1.0), ((5, 3), 1.0)],
)
def test_both_forms_agree(shape, spread, monkeypatch):
    # Single precision numbers of up to ten, added in another order: 1e-5 of the spread.
    delta = spread * jax.random.normal(jax.random.key(0), (*shape, 50)) + 3.0 * spread
    monkeypatch.setattr(on_average_kl, "log_mean_ratio", None)  # not what is called
    with exact_products():
        found, plain = log_mean_ratio_of_few(delta), log_mean_ratio(delta)
    np.testing.assert_allclose(found, plain, rtol=1e-5, atol=1e-5 * spread)


def test_many_draws_are_not_written_out():
    delta = jax.random.normal(jax.random.key(1), (10, 10, 3))
    for corrections in (1.0, 2.0):
        found = log_mean_ratio_of_few(delta, corrections)
        assert jnp.array_equal(found, log_mean_ratio(delta, corrections))


@pytest.mark.parametrize("form", [log_mean_ratio, log_mean_ratio_of_few])
@pytest.mark.parametrize("shape", [(8, 4), (16, 1)])
def test_one_correction_is_of_the_logarithm_and_two_of_its_inverse(form, shape):
    """Normal differences of variance ``s^2``: ``E e^-delta = e^(s^2 / 2)``, of 40,000 means each.

    Without the correction the logarithm is off by ``-v / 2`` and the inverse mean by a factor
    ``1 + v``, ``v = (e^(s^2) - 1) / 32`` or twice that; what is left is of second order.
    """
    spread, count = 0.6, shape[0] * shape[1]
    delta = spread * jax.random.normal(jax.random.key(2), (*shape, 40_000))
    v = np.expm1(spread**2) / count
    log, inverse = (np.asarray(form(delta, k), np.float64) for k in (1.0, 2.0))
    error = 4 * np.sqrt(v / 40_000)  # means of numbers whose variance is about v
    assert log.mean() == pytest.approx(spread**2 / 2, abs=error + v**2)
    assert np.exp(spread**2 / 2 - inverse).mean() == pytest.approx(1.0, abs=error + 3 * v**2)
    assert error + 3 * v**2 < v / 4


@pytest.mark.parametrize("is_of_pairs", [False, True])
def test_a_sum_tells_what_clips_leave_out(is_of_pairs):
    """Absolute losses: half the variance of the log ratio is 4 nats, and the KL 75."""
    u = np.linspace(-4.0, 4.0, 4001)
    potential, train, ghost = (50.0 * np.abs(u - at) for at in (0.0, 1.5, -1.5))
    weight = np.exp(-potential) / np.exp(-potential).sum()
    delta = ghost - train - weight @ (ghost - train)
    exact = np.log(np.sum(np.exp(-potential - delta))) - np.log(np.exp(-potential).sum())
    w = jnp.asarray(weight, jnp.float32)[None]
    if is_of_pairs:
        found = direct_kl_of_pairs(jnp.asarray(delta, jnp.float32)[None, :, None], w)
    else:
        x, y = (jnp.asarray(a / 50.0, jnp.float32)[None, :, None] for a in (train, ghost))
        found = direct_kl(x, y, w, jnp.asarray(50.0))
    assert 0.5 * weight @ delta**2 < 5.0
    assert found.value < 0.7 * exact
    np.testing.assert_allclose(found.value + found.lost, exact, rtol=1e-3)
