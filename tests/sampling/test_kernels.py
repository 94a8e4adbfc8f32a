import math
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp.sampling.as_sampler import as_sampler
from gibbs_dp.sampling.kernels import base
from gibbs_dp.sampling.kernels.hmc import INTEGRATORS, transition

KERNELS = {"hmc": gdp.HMC(), "leapfrog": gdp.HMC(integrator="leapfrog"), "mala": gdp.MALA()}


def quartic(u):
    return 0.25 * jnp.sum(u**4) + 0.5 * jnp.sum(u) ** 2


def tuning(step_size, num_inner=3):
    return base.Tuning(jnp.asarray(step_size, jnp.zeros(()).dtype), jnp.asarray(num_inner))


def follow(name, state, momentum, size, count):
    return INTEGRATORS[name](state, momentum, quartic, size, jnp.asarray(count))


@pytest.mark.parametrize("name", INTEGRATORS)
def test_trajectory_is_reversible(precision, name):
    start = base.evaluate(jnp.asarray([0.7, -1.1], precision), quartic)
    momentum = jnp.asarray([0.3, 1.4], precision)
    size = jnp.asarray(0.2, precision)
    run = jax.jit(lambda state, p: follow(name, state, p, size, 7))
    end, last, begun = run(start, momentum)
    np.testing.assert_allclose(begun, momentum, rtol=1e-5)
    assert float(jnp.linalg.norm(end.position - start.position)) > 0.3
    back, first, _ = run(end, -last)
    tolerance = 200 * float(jnp.finfo(precision).eps)
    np.testing.assert_allclose(back.position, start.position, atol=tolerance)
    np.testing.assert_allclose(first, -momentum, atol=tolerance)


@pytest.mark.parametrize("name", INTEGRATORS)
def test_trajectory_preserves_volume_and_is_second_order(float64, name):
    start, momentum = jnp.asarray([0.7, -1.1]), jnp.asarray([0.3, 1.4])

    @jax.jit
    def flow(point, size, count):
        state = base.evaluate(point[:2], quartic)
        end, last, _ = follow(name, state, point[2:], size, count)
        return jnp.concatenate([end.position, last])

    point = jnp.concatenate([start, momentum])
    jacobian = jax.jit(jax.jacfwd(flow))(point, jnp.asarray(0.2), 5)
    assert abs(float(jnp.linalg.det(jacobian)) - 1) < 1e-10

    def energy(point):
        return float(quartic(point[:2]) + 0.5 * jnp.sum(point[2:] ** 2))

    errors = [
        abs(energy(flow(point, jnp.asarray(1.0 / count), count)) - energy(point))
        for count in (40, 80)
    ]
    assert 3.5 < errors[0] / errors[1] < 4.5


def test_splitting_makes_no_error_on_a_standard_gaussian(precision):
    def gaussian(v):
        return 0.5 * jnp.sum(v**2)

    start, momentum = jnp.asarray([0.7, -1.1], precision), jnp.asarray([0.3, 1.4], precision)
    state, quarter = base.evaluate(start, gaussian), jnp.asarray(np.pi / 2, precision)
    tolerance = 20 * float(jnp.finfo(precision).eps)

    @partial(jax.jit, static_argnums=0)
    def run(name, size, count):
        return INTEGRATORS[name](state, momentum, gaussian, size, count)

    for count in (1, 3):  # quarter orbits: position and momentum change places
        end, last, _ = run("split", quarter / count, jnp.asarray(count))
        np.testing.assert_allclose(end.position, momentum, atol=tolerance)
        np.testing.assert_allclose(last, -start, atol=tolerance)
    end, last, _ = run("leapfrog", quarter / 3, jnp.asarray(3))
    assert float(jnp.abs(end.position - momentum).max()) > 0.01


@pytest.mark.parametrize("name", KERNELS)
def test_step_is_pure_and_its_state_is_consistent(precision, name):
    start = base.evaluate(jnp.asarray([0.7, -1.1], precision), quartic)
    move = jax.jit(lambda key, state: KERNELS[name].step(key, state, quartic, tuning(0.3)))
    (one, info), (two, _) = move(jax.random.key(0), start), move(jax.random.key(0), start)
    jax.tree.map(np.testing.assert_array_equal, one, two)
    other, _ = move(jax.random.key(1), start)
    assert not np.array_equal(one.position, other.position)
    np.testing.assert_allclose(one.potential, quartic(one.position), rtol=1e-5)
    np.testing.assert_allclose(one.gradient, jax.grad(quartic)(one.position), rtol=1e-4)
    assert 0 <= float(info.accept_prob) <= 1
    assert {leaf.dtype for leaf in one} == {precision}


@pytest.mark.parametrize("name", KERNELS)
def test_a_small_step_is_accepted_and_a_huge_one_leaves_the_chain_where_it_is(name):
    start = base.evaluate(jnp.asarray([0.7, -1.1]), quartic)
    move = jax.jit(lambda key, size: KERNELS[name].step(key, start, quartic, tuning(size)))
    assert float(move(jax.random.key(0), 1e-3)[1].accept_prob) > 0.999
    end, info = move(jax.random.key(0), 1e6)  # the energy overflows to infinity or NaN
    np.testing.assert_array_equal(end.position, start.position)
    assert not bool(info.is_accepted)
    assert float(info.accept_prob) == 0.0


def test_underdamped_chains_turn_round_where_they_are_rejected():
    """On ``exp(-x^4 / 4)``, from draws of it: momenta that went on would lead to another law.

    Its second moment is ``2 Gamma(3/4) / Gamma(1/4)``; a false alarm has 6e-7.
    """
    count, kernel = 40_000, gdp.UnderdampedLangevin(friction=0.1)
    keys = jax.random.split(jax.random.key(1), 4)
    sign = jax.random.rademacher(keys[0], (count, 1))
    x = sign * (4.0 * jax.random.gamma(keys[1], 0.25, (count, 1))) ** 0.25

    def potential(u):
        return 0.25 * jnp.sum(u**4)

    def walk(key, place):
        first, *steps = jax.random.split(key, 9)
        state, accepted = kernel.init(first, place, potential), 0.0
        for step in steps:
            state, info = kernel.step(step, state, potential, tuning(1.3, 2))
            accepted += info.accept_prob / 8
        return state.position[0], accepted

    end, accepted = jax.jit(jax.vmap(walk))(jax.random.split(keys[2], count), x)
    assert 0.3 < float(accepted.mean()) < 0.9
    square = np.asarray(end, np.float64) ** 2
    z = (square.mean() - 2 * math.gamma(0.75) / math.gamma(0.25)) * count**0.5 / square.std()
    assert abs(z) < 5


def test_nan_is_never_accepted():
    state = base.evaluate(jnp.zeros(2), quartic)
    broken = state._replace(potential=jnp.asarray(jnp.nan))
    kept, info = base.metropolis(jnp.asarray(0.0), state, broken, jnp.asarray(jnp.nan))
    assert float(kept.potential) == 0.0
    assert float(info.accept_prob) == 0.0


def test_acceptance_is_the_metropolis_ratio():
    state, other = (base.evaluate(jnp.full(2, x), quartic) for x in (0.0, 1.0))
    for uniform, accepted in ((0.29, True), (0.31, False)):
        kept, info = base.metropolis(jnp.asarray(uniform), state, other, jnp.log(jnp.asarray(0.3)))
        np.testing.assert_allclose(info.accept_prob, 0.3, rtol=1e-6)
        assert bool(info.is_accepted) is accepted
        np.testing.assert_array_equal(kept.position, (other if accepted else state).position)


@pytest.mark.parametrize("size", [0.5, 0.7])
def test_hmc_accepts_by_the_change_of_potential_and_kinetic_energy(float64, size):
    """Two leapfrog steps in NumPy."""
    x, p = np.array([0.7, -1.1]), np.array([0.3, 1.4])

    def energy(x, p):
        return np.sum(x**4) / 4 + np.sum(x) ** 2 / 2 + p @ p / 2

    before = energy(x, p)
    start, momentum = base.evaluate(jnp.asarray(x), quartic), jnp.asarray(p)
    for _ in range(2):
        p = p - size / 2 * (x**3 + x.sum())
        x = x + size * p
        p = p - size / 2 * (x**3 + x.sum())
    uniforms = jnp.asarray([0.5, 0.5])  # the first: a step that is not jittered
    _, info = transition(
        momentum, uniforms, start, quartic, tuning(size, 2), 0.2, INTEGRATORS["leapfrog"]
    )
    expected = np.exp(before - energy(x, p))
    assert 0.05 < expected < 0.95
    assert float(info.accept_prob) == pytest.approx(expected, rel=1e-9)


def test_friction_takes_from_momenta_what_noise_gives_back():
    """Without forces their variance stays 1: of 200,000, 5 standard errors; 6e-7 a false alarm."""
    dim, kernel = 200_000, gdp.UnderdampedLangevin(integrator="leapfrog")
    nothing = jnp.zeros(dim)
    start = kernel.init(jax.random.key(0), nothing, lambda u: 0.0 * jnp.sum(u))
    end, info = kernel.step(jax.random.key(1), start, lambda u: 0.0 * jnp.sum(u), tuning(0.5, 4))
    assert bool(info.is_accepted)
    variance = np.var(np.asarray(end.momentum, np.float64))
    assert variance == pytest.approx(1.0, rel=5 * (2 / dim) ** 0.5)


def test_changing_the_tuning_compiles_nothing():
    traces = 0

    @jax.jit
    def move(key, state, tuning):
        nonlocal traces
        traces += 1
        return gdp.HMC().step(key, state, quartic, tuning)

    state = base.evaluate(jnp.zeros(2), quartic)
    for size, count in ((0.1, 1), (0.3, 5), (0.5, 20)):
        move(jax.random.key(0), state, tuning(size, count))
    assert traces == 1


@pytest.mark.of_cpus("trajectories stay short elsewhere")
@pytest.mark.trust(but="3-2.0")
@pytest.mark.parametrize(("rows", "angle"), [(3, 2.0), (3000, 1.6)])
def test_few_rows_are_sampled_by_longer_trajectories(rows, angle):
    """Of a Gaussian fitted exactly, neighbours' correlations are means over the jittered angles.

    Five standard errors of 32,000 pairs, whose products have at most these standard deviations: a
    false alarm in 10^6.
    """
    prior = dist.Normal(0.0, jnp.ones(8))
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, prior)
    draws = gdp.sample(posterior, np.zeros((rows, 8)), sampler=gdp.HMC(), key=8)
    theta = np.asarray(draws.theta) * np.sqrt(rows + 1)  # posterior N(0, 1 / (rows + 1))
    angles = angle * np.linspace(0.8, 1.2, 1001)
    for of, expected, spread in (
        (theta, np.cos(angles).mean(), 1.0),
        ((theta**2 - 1) / 2**0.5, (np.cos(angles) ** 2).mean(), 2.0),
    ):
        found = np.mean(of[:, 1:] * of[:, :-1])
        assert abs(found - expected) < 5 * spread / 32_000**0.5
    given = gdp.HMC(num_leapfrog=4)
    assert given.lengthened(given.default_tuning(8)) == given.default_tuning(8)


def test_default_tuning_is_the_user_s_where_given():
    assert gdp.HMC(step_size=0.1, num_leapfrog=7).default_tuning(3) == (0.1, 7)
    assert gdp.MALA(step_size=0.2, num_inner=2).default_tuning(3) == (0.2, 2)
    size, count = gdp.HMC().default_tuning(1000)
    assert size < gdp.HMC().default_tuning(3)[0]
    assert count > 3
    assert gdp.MALA().default_tuning(64)[0] == pytest.approx(1.3 / 2)


def unchecked(kernel, **settings):
    """Set what the runtime type checks of tests would refuse first."""
    for name, value in settings.items():
        object.__setattr__(kernel, name, value)
    kernel.__post_init__()


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: gdp.HMC(step_size=0.0), r"HMC\(step_size\)"),
        (lambda: gdp.HMC(step_size=float("nan")), r"HMC\(step_size\)"),
        (lambda: gdp.HMC(num_leapfrog=0), r"HMC\(num_leapfrog\)"),
        (lambda: gdp.HMC(jitter=1.0), r"HMC\(jitter\)"),
        (lambda: gdp.HMC(target_accept=1.0), r"HMC\(target_accept\)"),
        (lambda: unchecked(gdp.HMC(), integrator="euler"), r"HMC\(integrator\)"),
        (lambda: gdp.UnderdampedLangevin(step_size=0.0), r"Langevin\(step_size\)"),
        (lambda: gdp.UnderdampedLangevin(num_steps=0), r"Langevin\(num_steps\)"),
        (lambda: gdp.UnderdampedLangevin(friction=0.0), r"Langevin\(friction\)"),
        (lambda: gdp.UnderdampedLangevin(target_accept=1.0), r"Langevin\(target_accept\)"),
        (lambda: unchecked(gdp.UnderdampedLangevin(), integrator="x"), r"Langevin\(integrator\)"),
        (lambda: gdp.MALA(step_size=-1.0), r"MALA\(step_size\)"),
        (lambda: gdp.MALA(num_inner=0), r"MALA\(num_inner\)"),
        (lambda: gdp.MALA(target_accept=0.0), r"MALA\(target_accept\)"),
    ],
)
def test_bad_settings_are_refused(make, match):
    with pytest.raises(ValueError, match=match):
        make()


class NoStep(gdp.Kernel):
    def default_tuning(self, dim):
        return 0.1, 1


@dataclass
class Mutable(gdp.Kernel):
    size: float = 0.1

    def default_tuning(self, dim):
        return self.size, 1

    def step(self, key, state, potential, tuning):
        return gdp.MALA().step(key, state, potential, tuning)


@pytest.mark.parametrize(
    ("kernel", "match"),
    [
        (NoStep(), "sampler: NoStep has no method step"),
        (Mutable(), "sampler: Mutable cannot be hashed .* frozen dataclass"),
        (object(), "sampler: object is no Markov kernel that suits here"),
        (gdp.Grid([0.0, 1.0]), "Grid sums over the posterior .* gibbs_dp.audit takes one"),
    ],
)
def test_kernels_of_one_s_own_that_lack_something_are_refused(kernel, match):
    with pytest.raises(ValueError, match=match):
        as_sampler(kernel)
