"""Kernels leave their target invariant and find it from elsewhere, judged against exact laws.

Chains are independent, so the last draw of each is an iid sample. Its probability integral
transform must be uniform: Kolmogorov-Smirnov, and z-tests of mean and variance. With at most 400
p-values in this file and each refused below 2e-6, a correct kernel fails with probability 1e-3.
"""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import special, stats

import gibbs_dp as gdp
from gibbs_dp.sampling.kernels import base, hmc, langevin

FALSE_ALARM = 2e-6
NUM_CHAINS = 4096
NUM_STEPS = 80
KERNELS = {"hmc": gdp.HMC(), "mala": gdp.MALA(), "underdamped": gdp.UnderdampedLangevin()}


class Case:
    """A posterior with a known law: exact draws, and uniform transforms of any draws."""

    gamma = 1.0
    data = np.zeros(1)
    step = 0.5
    start = 0.0

    def potential(self, dtype):
        target = self.posterior().unconstrained(jnp.asarray(self.data, dtype), self.gamma)
        return lambda u: -target.log_density(u)


class Gaussian(Case):
    gamma = 0.5
    data = np.array([[1.0, 2.0, 0.0], [3.0, 0.0, 1.0]])
    step = 0.35
    start = 3.0
    prior_scale = np.array([[1.0, 0.0, 0.0], [0.9, 0.5, 0.0], [-0.4, 0.2, 1.0]])

    def posterior(self):
        prior = dist.MultivariateNormal(jnp.zeros(3), scale_tril=jnp.asarray(self.prior_scale))
        return gdp.GibbsPosterior(gdp.losses.half_squared_distance, prior)

    def law(self):
        precision = np.linalg.inv(self.prior_scale @ self.prior_scale.T)
        covariance = np.linalg.inv(precision + self.gamma * 2 * np.eye(3))
        mean = covariance @ (self.gamma * self.data.sum(axis=0))
        return mean, np.linalg.cholesky(covariance)

    def exact(self, rng):
        mean, scale = self.law()
        return mean + rng.normal(size=(NUM_CHAINS, 3)) @ scale.T

    def uniforms(self, theta):
        mean, scale = self.law()
        return special.ndtr(np.linalg.solve(scale, (theta - mean).T))


class Truncated(Case):
    gamma = 2.0
    data = np.array([1.5, 2.5])
    law = stats.truncnorm((-1 - 2) / 0.5, 0.0, 2.0, 0.5)

    def posterior(self):
        flat = gdp.Flat(gdp.supports.box(-1.0, 2.0))
        return gdp.GibbsPosterior(lambda theta, z: 0.5 * (theta - z) ** 2, flat)

    def exact(self, rng):
        return self.law.rvs(NUM_CHAINS, random_state=rng)

    def uniforms(self, theta):
        return self.law.cdf(theta)[None]


class Positive(Case):
    gamma = 2.0
    data = np.array([0.5, 1.0, 0.2])
    step = 0.3
    law = stats.gamma(3 + 2 * 3, scale=1 / (2 + 2 * 1.7))

    def posterior(self):
        return gdp.GibbsPosterior(lambda theta, z: theta * z - jnp.log(theta), dist.Gamma(3.0, 2.0))

    exact = Truncated.exact
    uniforms = Truncated.uniforms


class Simplex(Case):
    gamma = 0.5
    data = np.array([0, 0, 1, 2, 2, 2, 2])
    step = 0.5
    concentration = np.array([1.0, 2.0, 3.0]) + 0.5 * np.array([2, 1, 4])

    def posterior(self):
        prior = dist.Dirichlet(jnp.asarray([1.0, 2.0, 3.0]))
        return gdp.GibbsPosterior(lambda theta, z: -jnp.log(theta[z]), prior)

    def potential(self, dtype):
        target = self.posterior().unconstrained(jnp.asarray(self.data), self.gamma)
        return lambda u: -target.log_density(u)

    def exact(self, rng):
        return rng.dirichlet(self.concentration, NUM_CHAINS)

    def uniforms(self, theta):
        rest = self.concentration.sum() - self.concentration
        return stats.beta.cdf(theta, self.concentration, rest).T


class Ball(Case):
    gamma = 0.7
    data = np.array([1.0, 2.0])
    step = 0.5
    radius, rate = 1.5, 2 * 0.7 * 3.0

    def posterior(self):
        flat = gdp.Flat(gdp.supports.l2_ball(3, self.radius))
        return gdp.GibbsPosterior(lambda theta, z: z * jnp.sum(theta**2), flat)

    def exact(self, rng):
        top = stats.chi2.cdf(self.rate * self.radius**2, 3)
        square = stats.chi2.ppf(top * rng.random(NUM_CHAINS), 3) / self.rate
        v = rng.normal(size=(NUM_CHAINS, 3))
        return np.sqrt(square)[:, None] * v / np.linalg.norm(v, axis=1, keepdims=True)

    def uniforms(self, theta):
        square = np.sum(theta**2, axis=1)
        top = stats.chi2.cdf(self.rate * self.radius**2, 3)
        direction = 0.5 + 0.5 * theta / np.sqrt(square)[:, None]  # Archimedes: uniform in 3-D
        return np.array([stats.chi2.cdf(self.rate * square, 3) / top, *direction.T])


class HeavyTailed(Case):
    law = stats.t(4)
    step = 0.8

    def posterior(self):
        return gdp.GibbsPosterior(lambda theta, z: 0.0 * theta, dist.StudentT(4.0))

    exact = Truncated.exact
    uniforms = Truncated.uniforms


CASES = {
    "gaussian": Gaussian(),
    "truncated": Truncated(),
    "positive": Positive(),
    "simplex": Simplex(),
    "l2_ball": Ball(),
    "heavy-tailed": HeavyTailed(),
}


def endpoints(case, kernel, dtype, potential=None, from_afar=True):
    """Draws after ``NUM_STEPS`` from exact starts, and from one far point unless that is False."""
    posterior = case.posterior()
    if potential is None:
        potential = case.potential(dtype)
    rng = np.random.default_rng(11)
    exact = jnp.asarray(case.exact(rng), dtype)
    noise = jnp.asarray(rng.normal(size=(NUM_CHAINS, posterior.dim)), dtype)
    tuning = base.Tuning(jnp.asarray(case.step, dtype), jnp.asarray(3))

    @partial(jax.jit, compiler_options={"xla_backend_optimization_level": 1})
    def run(key, theta, noise):
        u = jax.vmap(posterior.unconstrain)(theta)
        if from_afar:
            u = jnp.concatenate([u, case.start + 0.1 * noise])
        begin = jax.random.split(jax.random.fold_in(key, NUM_STEPS), u.shape[0])
        states = jax.vmap(lambda k, x: kernel.init(k, x, potential))(begin, u)

        def move(t, states):
            keys = jax.random.split(jax.random.fold_in(key, t), u.shape[0])
            return jax.vmap(lambda k, s: kernel.step(k, s, potential, tuning)[0])(keys, states)

        states = jax.lax.fori_loop(0, NUM_STEPS, move, states)
        return jax.vmap(posterior.constrain)(states.position)

    out = np.asarray(run(jax.random.key(12), exact, noise), float)
    return out[:NUM_CHAINS], out[NUM_CHAINS:]


def smallest_p_value(case, theta):
    """Of KS, mean and variance of every transform that should be uniform."""
    smallest = 1.0
    for v in case.uniforms(theta):
        centred = (v - 0.5) * np.sqrt(12 * len(v))
        z_mean = centred.sum() / len(v)
        # (v - 1/2)^2 has mean 1/12 and variance 1/180.
        if not np.isfinite(z_mean):
            return 0.0  # chains that left the support
        z_variance = (np.mean((v - 0.5) ** 2) - 1 / 12) * np.sqrt(180 * len(v))
        moments = 2 * stats.norm.sf(np.abs([z_mean, z_variance]))
        smallest = min(smallest, stats.kstest(v, "uniform").pvalue, *moments)
    return smallest


@cache
def p_values(name, kernel, dtype):
    return [
        smallest_p_value(CASES[name], x) for x in endpoints(CASES[name], KERNELS[kernel], dtype)
    ]


@pytest.mark.trust(but=["gaussian-hmc", "truncated-mala", "l2_ball-underdamped"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", CASES)
def test_kernel_keeps_and_finds_its_target(name, kernel):
    from_exact, from_afar = p_values(name, kernel, jnp.float32)
    assert from_exact > FALSE_ALARM
    assert from_afar > FALSE_ALARM


@pytest.mark.trust(but="truncated-mala")
@pytest.mark.parametrize(("name", "kernel"), [("truncated", "mala"), ("simplex", "hmc")])
def test_kernel_keeps_and_finds_its_target_in_float64(float64, name, kernel):
    from_exact, from_afar = p_values(name, kernel, jnp.float64)
    assert from_exact > FALSE_ALARM
    assert from_afar > FALSE_ALARM


def test_exact_draws_pass_the_check():
    for case in CASES.values():
        assert smallest_p_value(case, case.exact(np.random.default_rng(3))) > FALSE_ALARM


# -- known wrong kernels fail the same check ----------------------------------------------------


def accept_all(uniform, state, proposal, log_ratio):
    return proposal, base.StepInfo(jnp.ones(()), jnp.ones((), bool))


def forget_proposal_density(uniform, state, proposal, log_ratio):
    return base.metropolis(uniform, state, proposal, state.potential - proposal.potential)


@pytest.mark.trust(but=["hmc-unadjusted", "mala-without-proposal-density"])
@pytest.mark.parametrize(
    ("name", "module", "wrong"),
    [
        ("gaussian", hmc, accept_all),
        ("gaussian", langevin, accept_all),
        ("positive", langevin, forget_proposal_density),
    ],
    ids=["hmc-unadjusted", "mala-unadjusted", "mala-without-proposal-density"],
)
def test_a_wrong_acceptance_is_caught(monkeypatch, name, module, wrong):
    kernel = gdp.HMC() if module is hmc else gdp.MALA()
    monkeypatch.setattr(module, "metropolis", wrong)
    from_exact, _ = endpoints(CASES[name], kernel, jnp.float32, from_afar=False)
    assert smallest_p_value(CASES[name], from_exact) < FALSE_ALARM


def test_a_missing_jacobian_is_caught():
    case = CASES["l2_ball"]
    posterior = case.posterior()

    def wrong(u):
        return -posterior.log_density(posterior.constrain(u), jnp.asarray(case.data), case.gamma)

    from_exact, _ = endpoints(case, gdp.HMC(), jnp.float32, potential=wrong, from_afar=False)
    assert smallest_p_value(case, from_exact) < FALSE_ALARM


def test_a_tempered_prior_is_caught():
    case = CASES["positive"]
    posterior, right = case.posterior(), case.potential(jnp.float32)

    def wrong(u):
        extra = (case.gamma - 1) * posterior.prior.log_prob(posterior.constrain(u))
        return right(u) - extra

    from_exact, _ = endpoints(case, gdp.HMC(), jnp.float32, potential=wrong, from_afar=False)
    assert smallest_p_value(case, from_exact) < FALSE_ALARM


def go_straight_on(uniform, state, proposal, log_ratio):
    """Keep the momentum of a chain that stays where it is."""
    return base.metropolis(uniform, state._replace(momentum=-state.momentum), proposal, log_ratio)


@pytest.mark.trust
@pytest.mark.parametrize("wrong", [accept_all, go_straight_on])
def test_a_chain_with_momentum_is_corrected_and_turns_round(monkeypatch, wrong):
    # Steps so long that a good part is rejected; the right kernel keeps the law with them too.
    case, kernel = Truncated(), gdp.UnderdampedLangevin(friction=0.3)
    case.step = 1.0
    assert (
        smallest_p_value(case, endpoints(case, kernel, jnp.float32, from_afar=False)[0])
        > FALSE_ALARM
    )
    monkeypatch.setattr(langevin, "metropolis", wrong)
    assert (
        smallest_p_value(case, endpoints(case, kernel, jnp.float32, from_afar=False)[0])
        < FALSE_ALARM
    )
