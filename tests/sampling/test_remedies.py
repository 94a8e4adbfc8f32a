"""Which sampler comes after which, and what draws are said to need: scripted draws of any R-hat."""

from dataclasses import fields, replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax.scipy.special import gammaincc
from scipy import special

import gibbs_dp as gdp
from gibbs_dp._cautions import names_of
from gibbs_dp.sampling import lost_places, modes
from gibbs_dp.sampling.lost_places import knows_tails_less, missed_by_a_sum
from gibbs_dp.sampling.modes import Modes
from gibbs_dp.sampling.remedies import Task, remedied


def make_task(dim=2):
    prior = dist.Normal(jnp.zeros(dim), 1.0)
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, prior)
    batch = jnp.zeros((1, 3, dim))
    return Task(posterior, batch, 1.0, jax.random.key(0), 4, 0, 8, None, False, 3, None)


def make_draws(apart, num_samples=1000, **settings):
    """Four chains of independent draws, whose means differ: R-hat is about 1 + apart^2 / 2."""
    draws = np.random.default_rng(0).normal(size=(4, num_samples, 2))
    draws += apart * np.array([-1.2, -0.4, 0.4, 1.2])[:, None, None]
    every = np.zeros((4, num_samples))
    return gdp.Draws(draws, every, np.ones(4), np.zeros(4, bool), 1.0, settings)


def drawn(script, max_seconds=None, dim=2):
    """Go through samplers that return these draws, the last again and again."""
    called = []

    def run(task, sampler):
        what = getattr(sampler, "kernel", None) or sampler
        own = {f.name: getattr(what, f.name) for f in fields(what)}
        called.append((type(what).__name__, own.get("patience", own.get("num_particles"))))
        return script[min(len(called), len(script)) - 1]

    return remedied(make_task(dim), run, max_seconds), called


FIRST = ("HMC", None)
CHAINS = [FIRST, ("AdaptiveHMC", 1), ("AdaptiveHMC", 4)]
EVERY = [*CHAINS, ("SMC", 1024), ("SMC", 4096)]


def test_what_is_right_at_once_is_kept_as_it_is():
    script = [make_draws(0.0)]
    draws, called = drawn(script)
    assert called == [FIRST]
    assert draws is script[0]
    assert not draws.warnings


def test_few_effective_draws_of_many_are_no_excuse_for_an_r_hat():
    """Some 200 of 4,000 are, and as many have an R-hat of 1.02 by chance: still it is flagged."""
    script = [make_draws(0.17), make_draws(0.0)]
    assert 1.01 < script[0].worst_r_hat < 1.04
    assert 100 < script[0].mixing[1][0] < 400
    draws, called = drawn(script)
    assert called == CHAINS[:2]
    assert not draws.warnings
    assert draws.notes[0].startswith("tried in turn: HMC() (r-hat); AdaptiveHMC() (nothing")


def make_slow():
    """Some 240 of 4,000 are effective, and chains agree: nothing is warned of."""
    noise = np.random.default_rng(1).normal(size=(4, 5000, 2))
    moved = np.zeros_like(noise)
    for i in range(1, 5000):
        moved[:, i] = 0.88 * moved[:, i - 1] + noise[:, i]
    halves = moved[:, -1000:].reshape(4, 2, 500, 2) * (1 - 0.88**2) ** 0.5
    halves = halves - 0.6 * halves.mean(axis=2, keepdims=True)
    every = np.zeros((4, 1000))
    return gdp.Draws(halves.reshape(4, 1000, 2), every, np.ones(4), np.zeros(4, bool), 1.0, {})


def test_slow_plain_chains_are_not_left_at_that():
    script = [make_slow(), make_draws(0.0)]
    assert not script[0].warnings
    assert 100 < script[0].mixing[1][0] < 400
    draws, called = drawn(script)
    assert called == CHAINS[:2]
    np.testing.assert_array_equal(draws.theta, script[1].theta)
    assert draws.notes[0].startswith("tried in turn: HMC() (few-effective-draws); AdaptiveHMC()")


def test_plain_chains_that_seldom_move_are_not_left_at_that():
    script = [replace(make_draws(0.0), accept_rate=np.full(4, 0.22)), make_draws(0.0)]
    assert not script[0].warnings
    draws, called = drawn(script)
    assert called == CHAINS[:2]
    assert draws is not script[0]
    assert draws.notes[0].startswith("tried in turn: HMC() (few moves accepted); AdaptiveHMC()")


@pytest.mark.trust
def test_the_tail_of_a_gamma_prior_that_dominates_is_drawn():
    """Chains whose step came from the other tail accepted 22% and had no draw above 1, of 2.4%."""
    posterior = gdp.GibbsPosterior(lambda t, z: 0.5 * (t - z) ** 2, dist.Gamma(0.1, 1.0))
    draws = gdp.sample(posterior, jnp.array([0.5, 1.5, 2.0, 4.0]), gamma=1e-3, key=2)
    nodes = np.linspace(-400.0, 4.0, 400_001)  # of log theta
    log_density = 0.1 * nodes - np.exp(nodes) - 5e-4 * (4 * np.exp(2 * nodes) - 16 * np.exp(nodes))
    mass = np.exp(log_density - log_density.max())
    for point in (0.5, 1.0):
        share = mass[nodes > np.log(point)].sum() / mass.sum()
        # At some 500 effective draws; false-alarm rate below 1e-4 each.
        assert abs(np.mean(draws.theta > point) - share) < 4 * np.sqrt(share / 500)


def test_slow_chains_are_better_than_what_is_warned_of():
    script = [make_slow(), make_draws(0.5)]
    draws, called = drawn(script)
    assert called == EVERY
    np.testing.assert_array_equal(draws.theta, script[0].theta)


@pytest.mark.trust
def test_the_arms_of_a_bent_density_are_not_missed():
    """Seed 4 of ten: HMC's 118 effective draws of 4,000 had an sd of 0.80 and 0.63 of the truth.

    Half as many independent draws as are effective: 4 standard errors.
    """

    def loss(theta, z):
        y = theta[1] + 0.03 * (theta[0] ** 2 - 100.0)
        return theta[0] ** 2 / 200 + 0.5 * y**2 + 0.0 * z

    posterior = gdp.GibbsPosterior(loss, gdp.Flat(gdp.supports.real(2)))
    draws = gdp.sample(posterior, jnp.zeros(1), key=4)
    assert not draws.warnings
    first = np.asarray(draws.theta)[..., 0]
    assert abs(first.std() / 10.0 - 1.0) < 4 * (1 / draws.to_dataframe()["ess"].iloc[0]) ** 0.5


def test_draws_that_are_only_few_ask_for_more_and_for_no_sampler():
    script = [make_draws(0.2, num_samples=60)]
    assert script[0].worst_r_hat > 1.01
    draws, called = drawn(script)
    assert called == [FIRST]
    (warned,) = map(str, draws.warnings)
    assert "raise num_samples" in warned
    assert "leave sampler= out" not in warned


@pytest.mark.parametrize(
    ("settings", "max_seconds", "dim", "expected", "advice"),
    [
        ({}, None, 2, EVERY, "no other sampler did better"),
        ({}, 0.0, 2, [FIRST], "max_seconds ended the search"),
        ({}, None, 600, [FIRST], "no other sampler is tried in so many coordinates"),
        (
            {"modes": Modes(1, 4, 0, 1.0, 10.0, 0.0).plain},
            None,
            11,
            [FIRST],
            "may miss what a search found",
        ),
    ],
)
def test_advice_is_what_has_not_been_tried(settings, max_seconds, dim, expected, advice):
    draws, called = drawn([make_draws(2.0, **settings)], max_seconds, dim)
    assert called == expected
    (warned,) = [str(w) for w in draws.warnings if "[r-hat]" in str(w)]
    assert advice in warned
    assert "leave sampler= out" not in warned


@pytest.mark.parametrize(("gap", "expected"), [(4.0, [FIRST]), (50.0, EVERY), (-50.0, [FIRST])])
def test_chains_that_began_where_there_is_no_mass_are_followed_by_others(gap, expected):
    """A model of time series began with e^-116 of the mass; others were right at once."""
    found = Modes(1, 4, 0, 1.0, 10.0, gap).plain
    assert drawn([make_draws(2.0, modes=found)], dim=11)[1] == expected


@pytest.mark.parametrize("apart", [0.2, 0.7])
@pytest.mark.parametrize("dim", [2, 11])
def test_particles_come_where_chains_disagree_or_coordinates_are_few(dim, apart):
    """R-hat 1.02 or 1.2."""
    _, called = drawn([make_draws(apart)], dim=dim)
    assert called[:3] == CHAINS
    assert (len(called) > 3) == (dim == 2 or apart > 0.5)


def test_the_best_draws_are_kept():
    script = [make_draws(0.5), make_draws(0.3), make_draws(2.0)]
    draws, called = drawn(script)
    assert called == EVERY
    assert "These are the draws of AdaptiveHMC()." in draws.notes[0]
    np.testing.assert_array_equal(draws.theta, script[1].theta)


def waited(theta, z):
    """Minus the log probability that a Gamma time of this shape is longer than z."""
    return -jnp.log(gammaincc(jnp.exp(theta), z))


@pytest.mark.trust
@pytest.mark.parametrize("is_batch", [False, True])
def test_without_second_derivatives_chains_take_over(is_batch):
    """JAX differentiates the incomplete gamma function once by its shape."""
    posterior = gdp.GibbsPosterior(waited, dist.Normal(0.0, 1.0))
    data = jnp.array([1.0, 2.0, 4.0])
    draws = gdp.sample(posterior, data[None] if is_batch else data, is_batch=is_batch)
    assert not draws.warnings
    if not is_batch:
        assert "HMC() (the loss has no second derivative)" in draws.notes[0]
    u = np.linspace(-4.0, 6.0, 2001)
    log_p = np.log(special.gammaincc(np.exp(u)[:, None], np.asarray(data))).sum(axis=1) - u**2 / 2
    p = np.exp(log_p - log_p.max())
    mean = p @ u / p.sum()
    sd = np.sqrt(p @ (u - mean) ** 2 / p.sum())
    assert abs(float(draws.theta.mean()) - mean) < 4.0 * sd / np.sqrt(500)  # effective draws


def test_hmc_alone_says_that_it_needs_second_derivatives():
    posterior = gdp.GibbsPosterior(waited, dist.Normal(0.0, 1.0))
    with pytest.raises(ValueError, match=r"cannot be differentiated twice .*AdaptiveHMC"):
        gdp.sample(posterior, jnp.ones(3), sampler=gdp.HMC())


@jax.custom_vjp
def backwards(u):
    return 0.5 * u**2


backwards.defvjp(lambda u: (0.5 * u**2, u), lambda u, slope: (slope * u,))


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        (lambda theta, z: backwards(theta - z), r"^loss: its jax.custom_vjp has derivatives back"),
        (waited, r"^loss: it cannot be differentiated twice"),
    ],
)
def test_audits_say_which_derivatives_they_need(loss, sentence):
    posterior = gdp.GibbsPosterior(loss, dist.Normal(0.0, 1.0))

    def positive(key, n):
        return jax.random.uniform(key, (n,)) + 0.5

    with pytest.raises(ValueError, match=sentence):
        gdp.audit(posterior, positive, 10, 1.0, sampler=gdp.HMC(), progress=False)


def test_sampling_does_without_derivatives_forwards():
    """Mean 3/4 and precision 4; of 500 effective draws, 4.5 standard errors (1e-5)."""
    posterior = gdp.GibbsPosterior(lambda theta, z: backwards(theta - z), dist.Normal(0.0, 1.0))
    draws = gdp.sample(posterior, jnp.ones(3))
    assert not draws.warnings
    assert abs(float(draws.theta.mean()) - 0.75) < 4.5 * 0.5 / np.sqrt(500)
    assert abs(float(draws.theta.var()) - 0.25) < 4.5 * 0.25 * np.sqrt(2 / 500)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (lambda theta, z: 1.0 * (z > theta), "SMC"),
        (lambda theta, z: jnp.round(3.0 * jnp.tanh(theta - z)), "SMC"),
        (lambda theta, z: jnp.where(z > theta, theta, 0.0), "HMC"),
        (lambda theta, z: theta, "HMC"),
        (lambda theta, z: z, "HMC"),  # of the prior alone
    ],
)
def test_a_loss_that_changes_in_steps_begins_with_particles(loss, expected):
    posterior = gdp.GibbsPosterior(loss, dist.Normal(0.0, 2.0))
    task = make_task()._replace(posterior=posterior, batch=jnp.zeros((1, 3)))
    called = []

    def run(task, sampler):
        called.append(type(getattr(sampler, "kernel", None) or sampler).__name__)
        return make_draws(0.0)

    remedied(task, run, None)
    assert called[0] == expected


def make_lacking(share=0.001):
    """Draws of which few, all of one chain, are in the lowest twentieth of the others."""
    found = make_draws(0.0)
    low = np.sort(found.theta[..., 0].ravel())[200]
    is_there = found.theta[..., 0] < low
    theta = np.array(found.theta)
    theta[..., 0] = np.where(is_there, 1.0, theta[..., 0])
    theta[0, : int(4000 * share), 0] = low - 0.1
    return replace(found, theta=theta)


def test_a_tail_that_earlier_draws_knew_better_is_seen():
    posterior, right = make_task().posterior, make_draws(0.0)
    assert not knows_tails_less(posterior, [right], make_draws(0.0))
    assert not knows_tails_less(posterior, [], make_lacking())
    for share in (0.0, 0.001, 0.02):
        assert knows_tails_less(posterior, [right], make_lacking(share))
    # Chains that had not mixed say nothing, and particles are not judged as chains are.
    assert not knows_tails_less(posterior, [make_draws(0.7)], make_lacking())
    particles = replace(make_lacking(), settings={"num_particles": 1024})
    assert not knows_tails_less(posterior, [right], particles)


def test_draws_that_lost_a_tail_are_not_preferred():
    """A mixture's stretched chains missed an arm with 4% of the mass; those before had it."""
    right = make_draws(0.0, reach=20.0)
    assert names_of(right.warnings) == ["heavy-tailed-draws"]
    draws, called = drawn([make_draws(0.7), right, make_lacking()])
    assert called[:3] == [FIRST, ("AdaptiveHMC", 1), ("AdaptiveHMC", 1)]
    assert draws.theta is right.theta
    assert "tails that earlier draws knew better" in draws.notes[0]


def two_peaks(t, z):
    """Half of the mass around -3, half around 3; no chain crosses in between."""
    return -jnp.logaddexp(-200.0 * (t + 3.0) ** 2, -2.0 * (t - 3.0) ** 2 - jnp.log(10.0)) + 0.0 * z


def drawn_at(posterior, theta):
    """Four chains of these draws."""
    theta = np.reshape(theta, (4, -1))
    every = np.zeros_like(theta)
    return gdp.Draws(theta, every, np.ones(4), np.zeros(4, bool), 1.0, {})


@pytest.mark.parametrize("seed", range(5))
def test_draws_of_one_coordinate_are_held_against_a_sum(seed):
    """Right draws agree, by one in a million; those of either peak alone do not."""
    posterior = gdp.GibbsPosterior(two_peaks, dist.Normal(0.0, 1e3))
    rng = np.random.default_rng(seed)
    is_left = rng.random(2000) < 0.5
    right = np.where(is_left, rng.normal(-3.0, 0.05, 2000), rng.normal(3.0, 0.5, 2000))
    arguments = posterior, jnp.zeros((1, 1)), 1.0
    assert missed_by_a_sum(*arguments, drawn_at(posterior, right)) is None
    found = missed_by_a_sum(*arguments, drawn_at(posterior, rng.normal(3.0, 0.5, 2000)))
    assert found.distance == pytest.approx(6.0 / 0.5, rel=0.1)
    assert found.log_mass_gap == pytest.approx(0.0, abs=0.1)


def test_heavy_tails_agree_with_their_sum():
    posterior = gdp.GibbsPosterior(
        lambda t, z: jnp.log1p((t - z) ** 2), gdp.Flat(gdp.supports.real())
    )
    draws = drawn_at(posterior, np.random.default_rng(1).standard_cauchy(4000))
    assert missed_by_a_sum(posterior, jnp.zeros((1, 1)), 1.0, draws) is None


def test_what_a_sum_finds_missing_another_sampler_is_asked_for():
    posterior = gdp.GibbsPosterior(two_peaks, dist.Normal(0.0, 1e3))
    rng = np.random.default_rng(3)
    of_one = rng.normal(3.0, 0.5, 2000)
    of_both = np.where(rng.random(2000) < 0.5, rng.normal(-3.0, 0.05, 2000), of_one)
    script = iter([of_one, of_both])
    task = make_task()._replace(posterior=posterior, batch=jnp.zeros((1, 1)))
    draws = remedied(task, lambda *_: drawn_at(posterior, next(script)), None)
    assert not draws.warnings
    assert np.mean(draws.theta < 0) == pytest.approx(0.5, abs=0.05)
    assert "several-modes" in draws.notes[0]


@pytest.mark.trust
def test_a_sum_over_many_rows_takes_some_at_a_time(monkeypatch):
    """As many losses at once as fit, fewer nodes of more rows, and the same answer."""
    sizes = []
    far = modes._far

    def spied(posterior, batch, gamma, zero, points):
        sizes.append(points.shape[1])
        return far(posterior, batch, gamma, zero, points)

    monkeypatch.setattr(modes, "_far", spied)
    posterior = gdp.GibbsPosterior(lambda t, z: 0.5 * (t - z) ** 2, dist.Normal(0.0, 1e3))
    rng = np.random.default_rng(4)
    num_rows = 400_000
    batch = jnp.asarray(rng.normal(size=(1, num_rows)), jnp.float32)
    right = float(batch.mean()) + rng.normal(size=2000) * num_rows**-0.5
    assert missed_by_a_sum(posterior, batch, 1.0, drawn_at(posterior, right)) is None
    assert missed_by_a_sum(posterior, batch, 1.0, drawn_at(posterior, right + 1e-3)) is not None
    assert len(set(sizes)) == 1
    assert sizes[0] * num_rows <= modes.LOSSES_AT_ONCE
    assert sum(sizes) / 2 * num_rows <= 2.1 * lost_places.MOST_LOSSES
