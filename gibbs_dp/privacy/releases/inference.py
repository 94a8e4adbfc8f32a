"""What a private draw says of the population that its data came from, its noise included.

Known are the released draws, their mechanism, and the analyst's model: a prior of the population's
parameters ``phi``, and how rows come from them. The data ``D`` are latent:

    p(phi | theta_1 .. theta_m)  ~  prior(phi) E[prod_j exp(-gamma L(theta_j; D)) / Z(D) | phi].

Chains move on ``phi`` and the random numbers that the rows are made of, block by block, so that
``phi`` may move while the noise stays (Ju, Awan, Gong & Rao, *Data Augmentation MCMC for Bayesian
Inference from Privatized Data*, NeurIPS 2022, propose rows from the population as well, given
``phi``). The ratio ``Z(D)/Z(D')`` of the posterior's normalizers is not known; draws from the
posterior of the proposed data stand for it (the exchange algorithm of Murray, Ghahramani & MacKay,
*MCMC for Doubly-Intractable Distributions*, UAI 2006), and are moved by the distance of the two
modes, so that posteriors that are alike but for their place exchange without loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray, PyTree

from gibbs_dp._cautions import DrawsWarning, warns
from gibbs_dp._jaxlib.compile import make_room, on_default_backend
from gibbs_dp._jaxlib.precision import total
from gibbs_dp.information import checks
from gibbs_dp.model.check import as_key, positive_count
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.guarantee import Guarantee
from gibbs_dp.privacy.releases.arguments import without_checks
from gibbs_dp.privacy.releases.population_posterior import PopulationPosterior
from gibbs_dp.privacy.table import clip_data
from gibbs_dp.sampling.as_sampler import as_sampler
from gibbs_dp.sampling.draws import Draws
from gibbs_dp.sampling.kernels.base import Potential, Tuning, make_schedule, metropolis
from gibbs_dp.sampling.kernels.hmc import HMC
from gibbs_dp.sampling.sampler import GammaSampler
from gibbs_dp.sampling.target import Target, Whitening

# population(phi, key, n) -> n independent rows; phi is a draw of the analyst's prior.
Simulator = Callable[[Any, PRNGKeyArray, int], Any]

# Mechanisms whose draws are, or are close to, draws of the Gibbs posterior itself.
GIBBS = ("exact draw", "approximate draw", "proven draw")
# Blocks of rows whose noise is refreshed together.
NUM_BLOCKS = 100
# Draws of a chain between two looks at it.
ROUND = 25
# Of both moves, while chains warm up; proposals of phi are so much wider than its draws.
ACCEPT, WIDER = 0.4, 1.1
# Steps from the centre of all posteriors to one's own mode, in units of its spread.
NUM_DESCENTS, DESCENT, LONGEST = 6, 0.7, 3.0
# Simulated parameters of the ensemble that chains start from, and its assimilations.
ENSEMBLE, ASSIMILATIONS = 64, 4
PILOT_BURN_IN = 24
# Parameters of the prior whose rows must be numbers.
NUM_TRIED = 64
# Draws a chain of which is asked whether longer auxiliary chains would move them on.
NUM_ASKED = 32


@dataclass(frozen=True)
class _Mechanism:
    """From parameters and noise to clipped rows, and the posterior that was drawn from."""

    posterior: GibbsPosterior
    law: GibbsPosterior  # of phi: only its prior and flat coordinates are used
    population: Simulator
    domain: Domain
    n: int

    def rows(self, u: Float[Array, " dim"], keys: Key[Array, " blocks"]) -> Any:
        """Make the rows, and clip them as a release does."""
        return clip_data(self.posterior, self.made(u, keys), self.domain)

    def made(self, u: Float[Array, " dim"], keys: Key[Array, " blocks"]) -> Any:
        """Make the rows, each block with its own key."""
        phi, size = self.law.constrain(u), -(-self.n // keys.shape[0])
        blocks = jax.vmap(lambda key: self.population(phi, key, size))(keys)
        found = {jnp.shape(leaf)[1:2] for leaf in jax.tree.leaves(blocks)}
        if found != {(size,)}:
            raise ValueError(f"asked for {size} rows, its arrays have lengths {sorted(found)}")
        return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[: self.n], blocks)

    @property
    def num_blocks(self) -> int:
        return min(NUM_BLOCKS, self.n)

    def fresh(self, key: PRNGKeyArray) -> Key[Array, " blocks"]:
        """Draw the noise of all rows."""
        return jax.random.split(key, self.num_blocks)


class _Shared(NamedTuple):
    """What chains share."""

    observed: PyTree  # released draws, leaves [m, ...]
    gamma: Float[Array, ""]
    whitening: Whitening  # flat coordinates of theta, about as one dataset's posterior spreads
    proposal: Whitening  # of phi's flat coordinates


class _Walker(NamedTuple):
    """A chain: parameters and noise, and the rows that they make."""

    u: Float[Array, " dim"]
    noise: Key[Array, " blocks"]
    rows: PyTree


# The chains.


class _Energy(NamedTuple):
    """The posterior of a dataset, relative to the centre of the shared whitening."""

    potential: Potential  # of whitened coordinates, around about its mode
    losses: Float[Array, " terms"]  # at that centre


def _energy(mechanism: _Mechanism, shared: _Shared, rows: PyTree) -> _Energy:
    """Shift the posterior of some rows to its mode."""
    whitening, target = shared.whitening, Target(mechanism.posterior, rows, shared.gamma)
    terms = target.terms(whitening.center)
    potential = whitening.pull_back(target.around(whitening.center, terms, whitening))

    def descend(_: Array, v: Array) -> Array:
        step = DESCENT * jax.grad(potential)(v)
        return v - step / jnp.maximum(1.0, jnp.linalg.norm(step) / LONGEST)

    dim = whitening.center.shape[0]
    mode = jax.lax.fori_loop(0, NUM_DESCENTS, descend, jnp.zeros(dim, whitening.center.dtype))
    return _Energy(lambda v: potential(mode + v), terms.losses)


def _gap(
    mechanism: _Mechanism, shared: _Shared, old: tuple[Any, _Energy], new: tuple[Any, _Energy]
) -> Float[Array, ""]:
    """Potential of what was released given the new rows, minus that given the old."""

    def gap(theta: PyTree) -> Float[Array, ""]:
        here = [
            _losses(mechanism.posterior, theta, rows) - energy.losses for rows, energy in (old, new)
        ]
        return shared.gamma * total(here[1] - here[0])

    return jnp.sum(jax.vmap(gap)(shared.observed))


def _losses(posterior: GibbsPosterior, theta: PyTree, rows: PyTree) -> Float[Array, " terms"]:
    if posterior.structured:
        return posterior.empirical_loss(theta, rows)[None]
    return posterior.losses(theta, rows)


def _tuning(dim: int) -> Tuning:
    return Tuning(*map(jnp.asarray, HMC().default_tuning(dim)))


def _moved(
    key: PRNGKeyArray, v: Float[Array, " dim"], potential: Potential, num_steps: int
) -> Float[Array, " dim"]:
    """Move a whitened point so many steps of HMC."""
    kernel, tuning = HMC(), _tuning(v.shape[0])

    def one(i: Array, state: Any) -> Any:
        return kernel.step(jax.random.fold_in(key, i), state, potential, tuning)[0]

    start = kernel.init(key, v, potential)
    return jax.lax.fori_loop(0, num_steps, one, start).position


def _start(key: PRNGKeyArray, shared: _Shared) -> Float[Array, " dim"]:
    """Draw where an auxiliary chain starts: from about a normal law at the mode."""
    center = shared.whitening.center
    return jax.random.normal(key, center.shape, center.dtype)


def _attempt(
    mechanism: _Mechanism,
    num_auxiliary: int,
    shared: _Shared,
    sizes: Float[Array, " 2"],
    is_refresh: Bool[Array, ""],
    walker: _Walker,
    key: PRNGKeyArray,
) -> tuple[_Walker, Float[Array, ""]]:
    """Propose other parameters with the same noise, or other noise of some blocks; or stay."""
    keys = jax.random.split(key, 6)
    law, proposal, size = mechanism.law, shared.proposal, sizes[0]
    v = proposal.whiten(walker.u)
    moved = jnp.sqrt(1 - size**2) * v + size * jax.random.normal(keys[0], v.shape, v.dtype)
    u = jnp.where(is_refresh, walker.u, proposal.color(moved))
    is_new = jax.random.bernoulli(keys[1], sizes[1], walker.noise.shape)
    is_new = is_new.at[jax.random.randint(keys[2], (), 0, is_new.size)].set(True)
    fresh = mechanism.fresh(keys[3])
    noise = jnp.where(is_refresh & is_new, fresh, walker.noise)
    rows = mechanism.rows(u, noise)

    old, new = (_energy(mechanism, shared, of) for of in (walker.rows, rows))
    gap = _gap(mechanism, shared, (walker.rows, old), (rows, new))

    def exchanged(key: PRNGKeyArray) -> Float[Array, ""]:
        """Estimate ``log Z(old)/Z(new)`` from a draw of the new posterior, shifted to the old."""
        first, second = jax.random.split(key)
        v = _moved(second, _start(first, shared), new.potential, num_auxiliary)
        return new.potential(v) - old.potential(v)

    draws = jax.random.split(keys[4], jax.tree.leaves(shared.observed)[0].shape[0])
    ratio = jnp.sum(jax.vmap(exchanged)(draws)) - gap
    change = law.log_prior_unconstrained(u) - law.log_prior_unconstrained(walker.u)
    change += 0.5 * (jnp.sum(moved**2) - jnp.sum(v**2))
    ratio += jnp.where(is_refresh, 0.0, change)
    uniform = jax.random.uniform(keys[5], (), ratio.dtype)
    walker, info = metropolis(uniform, walker, _Walker(u, noise, rows), ratio)
    return walker, info.accept_prob


def _round_of(
    mechanism: _Mechanism,
    num_auxiliary: int,
    shared: _Shared,
    u: Float[Array, "chains dim"],
    noise: Key[Array, "chains blocks"],
    logits: Float[Array, " 2"],
    key: PRNGKeyArray,
    gain: Float[Array, ""],
) -> tuple[Any, ...]:
    """Move all chains for some draws of each; with a gain, the sizes of moves follow acceptance."""
    walkers = _Walker(u, noise, jax.vmap(mechanism.rows)(u, noise))

    def one(carry: tuple[Any, Array], t: Array) -> tuple[Any, Any]:
        walkers, logits = carry
        keys = jax.random.split(jax.random.fold_in(key, t), u.shape[0])
        which = t % 2
        step = partial(
            _attempt, mechanism, num_auxiliary, shared, jax.nn.sigmoid(logits), which == 1
        )
        walkers, accepted = jax.vmap(step)(walkers, keys)
        mean = jnp.mean(accepted)
        logits = logits.at[which].add(gain / jnp.sqrt(1.0 + t // 2) * (mean - ACCEPT))
        return (walkers, logits), (walkers.u, mean)

    (walkers, logits), (path, accepted) = jax.lax.scan(
        one, (walkers, logits), jnp.arange(2 * ROUND)
    )
    rates = jnp.mean(accepted.reshape(ROUND, 2), axis=0)
    return walkers.u, walkers.noise, logits, path[1::2], rates


def _drift_of(
    mechanism: _Mechanism,
    num_auxiliary: int,
    shared: _Shared,
    u: Float[Array, "chains dim"],
    noise: Key[Array, "chains blocks"],
    key: PRNGKeyArray,
) -> Float[Array, "pairs entries"]:
    """By how much auxiliary draws change when they move as long again: coordinates and energy."""

    def one(u: Array, noise: Array, key: PRNGKeyArray) -> Array:
        rows = mechanism.rows(u, noise)
        potential = _energy(mechanism, shared, rows).potential

        def pair(key: PRNGKeyArray) -> Array:
            start, first, second = jax.random.split(key, 3)

            def go_on(v: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
                v = _moved(key, v, potential, num_auxiliary)
                return v, jnp.append(v, potential(v))

            _, ends = jax.lax.scan(go_on, _start(start, shared), jnp.stack([first, second]))
            return ends[1] - ends[0]

        return jax.vmap(pair)(jax.random.split(key, NUM_ASKED))

    found = jax.vmap(one)(u, noise, jax.random.split(key, u.shape[0]))
    return found.reshape(-1, found.shape[-1])


# Where chains start: an ensemble of simulated releases.


def _simulated_of(
    mechanism: _Mechanism,
    num_draws: int,
    u: Float[Array, "ensemble dim"],
    gamma: Float[Array, ""],
    key: PRNGKeyArray,
) -> Float[Array, "ensemble draws dim"]:
    """Draw data for every parameter, and from their posteriors, in flat coordinates."""
    posterior, sampler = mechanism.posterior, as_sampler(None)
    assert isinstance(sampler, GammaSampler)
    schedule = make_schedule(sampler.default_tuning(posterior.dim), PILOT_BURN_IN, 0)

    def one(pair: tuple[Array, PRNGKeyArray]) -> Array:
        u, key = pair
        first, second, third = jax.random.split(key, 3)
        target = Target(posterior, mechanism.rows(u, mechanism.fresh(first)), gamma)
        starts = posterior.initial(second)[None]
        return sampler.draw(third, target, starts, schedule, num_draws, 1).u[:, 0]

    return jax.lax.map(one, (u, jax.random.split(key, u.shape[0])))


_round = on_default_backend(_round_of, "mechanism", "num_auxiliary")
_drift = on_default_backend(_drift_of, "mechanism", "num_auxiliary")
_simulated = on_default_backend(_simulated_of, "mechanism", "num_draws")


def _assimilated(
    u: Float[np.ndarray, "ensemble dim"],
    simulated: Float[np.ndarray, "ensemble size"],
    observed: Float[np.ndarray, " size"],
    rng: np.random.Generator,
) -> Float[np.ndarray, "ensemble dim"]:
    """Move parameters towards those that explain a release, one of several such steps.

    An ensemble smoother with multiple data assimilation (Emerick & Reynolds 2013); the noise's
    covariance is that of the residuals of a linear regression on the parameters.
    """
    count = len(u)
    centred, spread = u - u.mean(axis=0), simulated - simulated.mean(axis=0)
    rest = spread - centred @ np.linalg.lstsq(centred, spread, rcond=None)[0]
    noise = rest.T @ rest / max(1, count - 1 - u.shape[1])
    extra = (ASSIMILATIONS - 1) * noise
    gain = np.linalg.lstsq(spread.T @ spread / (count - 1) + extra, spread.T @ centred, rcond=None)
    shift = rng.multivariate_normal(np.zeros(len(observed)), extra, size=count, method="svd")
    return u + (observed + shift - simulated) @ gain[0] / (count - 1)


def _parameters_of(
    mechanism: _Mechanism, u: Float[Array, "chains draws dim"]
) -> tuple[PyTree, Float[Array, "chains draws"]]:
    """Parameters at flat coordinates, and the log density of their prior there."""
    law = mechanism.law
    return jax.vmap(jax.vmap(lambda u: (law.constrain(u), law.log_prior_unconstrained(u))))(u)


def _ensemble_of(mechanism: _Mechanism, observed: PyTree, key: PRNGKeyArray) -> tuple[Array, Array]:
    """Flat coordinates of draws of the prior, and of what was released."""
    law = mechanism.law
    starts = jax.vmap(law.prior.sample)(jax.random.split(key, ENSEMBLE))
    return jax.vmap(law.unconstrain)(starts), jax.vmap(mechanism.posterior.unconstrain)(observed)


_parameters = on_default_backend(_parameters_of, "mechanism")
_ensemble = on_default_backend(_ensemble_of, "mechanism")


def _begin(
    mechanism: _Mechanism, observed: PyTree, gamma: float, key: PRNGKeyArray
) -> tuple[Float[Array, "ensemble dim"], _Shared]:
    """Find parameters about as likely as the posterior has them, and what chains share."""
    keys = jax.random.split(key, ASSIMILATIONS + 3)
    u, flat = (np.asarray(a, np.float64) for a in _ensemble(mechanism, observed, keys[0]))
    if not np.isfinite(flat).all():
        raise ValueError(
            "theta: a released draw lies outside the prior's support, or on its boundary to the "
            "last digit; give the release's own posterior."
        )
    dtype, rng = jnp.result_type(float), np.random.default_rng(int(jax.random.bits(keys[1])))
    for i in range(ASSIMILATIONS + 1):
        simulated = np.asarray(
            _simulated(
                mechanism,
                max(2, len(flat)),
                jnp.asarray(u, dtype),
                jnp.asarray(gamma, dtype),
                keys[2 + i],
            ),
            np.float64,
        )
        if i < ASSIMILATIONS:
            means = simulated[:, : len(flat)].mean(axis=1)
            u = _assimilated(u, means, flat.mean(axis=0), rng)
    within = _whitening((simulated[:, 0] - simulated[:, 1]) / math.sqrt(2))
    whitening = within._replace(center=jnp.asarray(simulated.mean(axis=(0, 1)), dtype))
    shared = _Shared(observed, jnp.asarray(gamma, dtype), whitening, _whitening(u, WIDER))
    return jnp.asarray(u, dtype), shared


def _whitening(draws: Float[np.ndarray, "draws dim"], wider: float = 1.0) -> Whitening:
    """Fit a normal law to draws, correlations shrunk where they are few."""
    count, dim = draws.shape
    centred = draws - draws.mean(axis=0)
    covariance = centred.T @ centred / (count - 1)
    kept = count / (count + 3.0 * dim)
    covariance = kept * covariance + (1 - kept) * np.diag(np.diag(covariance))
    scale = wider * np.linalg.cholesky(covariance)
    return Whitening(*(jnp.asarray(a, jnp.result_type(float)) for a in (draws.mean(axis=0), scale)))


# The whole.


@warns(lambda _: DrawsWarning, lambda found: found.warnings)
def infer_population(
    theta: PyTree,
    guarantee: Guarantee,
    posterior: GibbsPosterior,
    domain: Domain,
    n: int,
    prior: Any,
    population: Simulator | Any,
    *,
    key: int | PRNGKeyArray = 0,
    num_chains: int = 4,
    num_warmup: int = 300,
    num_samples: int = 2000,
    num_auxiliary: int = 8,
) -> PopulationPosterior:
    """Infer a population's parameters from released draws: `gibbs_dp.privacy.Release.infer`."""
    if guarantee.mechanism not in GIBBS or guarantee.gamma is None:
        raise ValueError(
            f"mechanism: {guarantee.mechanism!r} does not draw from the Gibbs posterior, whose "
            f"density is what is known here; infer from {', '.join(GIBBS)} alone."
        )
    chains = positive_count("num_chains", num_chains, least=2)
    samples = positive_count("num_samples", num_samples, least=4)
    warmup = positive_count("num_warmup", num_warmup, least=ROUND)
    num_auxiliary = positive_count("num_auxiliary", num_auxiliary)
    mechanism = _mechanism(posterior, domain, checks.count("n", n), prior, population)
    make_room()
    observed = jax.tree.map(lambda a: jnp.asarray(a, jnp.result_type(float)), theta)
    posterior.prior.check(jax.tree.map(lambda a: a[0], observed))
    begin_key, noise_key, start_key, run_key, drift_key = jax.random.split(as_key(key), 5)
    u, shared = _begin(mechanism, observed, guarantee.gamma, begin_key)
    chosen = jax.random.choice(start_key, u.shape[0], (chains,), replace=chains > u.shape[0])
    u, noise = u[chosen], jax.vmap(mechanism.fresh)(jax.random.split(noise_key, chains))
    logits, paths, rates = jnp.zeros(2, u.dtype), [], []
    num_rounds = -(-warmup // ROUND)
    for i in range(num_rounds + -(-samples // ROUND)):
        is_warmup = i < num_rounds
        gain = jnp.asarray(2.0 if is_warmup else 0.0, u.dtype)
        u, noise, logits, path, rate = _round(
            mechanism, num_auxiliary, shared, u, noise, logits, jax.random.fold_in(run_key, i), gain
        )
        paths.append(np.asarray(path))
        rates.append(np.asarray(rate))
        if is_warmup:
            recent = np.concatenate(paths[len(paths) // 2 :]).reshape(-1, u.shape[1])
            shared = shared._replace(proposal=_whitening(recent, WIDER))
    change = np.asarray(_drift(mechanism, num_auxiliary, shared, u, noise, drift_key), np.float64)
    error = change.std(axis=0, ddof=1) / math.sqrt(len(change))
    kept = np.concatenate(paths[num_rounds:])[:samples].swapaxes(0, 1)
    phi, log_prior = jax.tree.map(np.asarray, _parameters(mechanism, jnp.asarray(kept)))
    accepted = np.mean(rates[num_rounds:], axis=0)
    draws = Draws(
        theta=phi,
        log_density=log_prior,
        accept_rate=np.full(chains, accepted[0], np.float32),
        is_stuck=(kept == kept[:, :1]).all(axis=(1, 2)),
        gamma=guarantee.gamma,
        settings={
            "kernel": "exchange algorithm",
            "accept_parameters": float(accepted[0]),
            "accept_rows": float(accepted[1]),
            "share_of_rows": float(jax.nn.sigmoid(logits[1])),
            "advice": "raise num_warmup and num_samples, or give a tighter prior",
        },
    )
    return PopulationPosterior(
        draws,
        mechanism.n,
        guarantee.mechanism,
        guarantee.total_variation,
        num_auxiliary,
        float(np.max(np.abs(change.mean(axis=0)) / np.maximum(error, 1e-30))),
    )


def _unused(phi: PyTree, z: PyTree) -> Any:
    """Stand for a loss where only a prior is wanted."""
    raise AssertionError


def _mechanism(
    posterior: GibbsPosterior, domain: Domain, n: int, prior: Any, population: Any
) -> _Mechanism:
    """Put the model together; refuse what cannot be simulated."""
    law = GibbsPosterior(_unused, prior)
    if not law.prior.has_draws:
        raise ValueError(
            "prior: it cannot be drawn from; give a proper one, such as NumPyro's distributions."
        )
    if not callable(population):
        raise ValueError(
            f"population: give a function (phi, key, n) -> n rows, got {type(population).__name__}."
        )
    found = _Mechanism(posterior, without_checks(law), population, domain, n)

    def trial(key: PRNGKeyArray) -> Any:
        rows = found.rows(law.initial(key), found.fresh(key))
        return _losses(posterior, posterior.prior.initial(key), rows)

    try:
        jax.eval_shape(trial, jax.random.key(0))
    except Exception as error:
        first = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ValueError(
            "population: no rows for the released posterior come of it; let it return (phi, key, "
            f"n) -> n rows as the loss takes them, made by jax.numpy and the key ({first})."
        ) from error

    def is_finite(key: PRNGKeyArray) -> Array:
        rows = jax.tree.leaves(found.made(law.initial(key), found.fresh(key)))
        return jnp.all(jnp.stack([jnp.all(jnp.isfinite(a)) for a in rows]))

    keys = jax.random.split(jax.random.key(0), NUM_TRIED)
    share = 1.0 - float(np.mean(jax.jit(lambda keys: jax.lax.map(is_finite, keys))(keys)))
    if share > 0:  # clipped, they would be numbers
        raise ValueError(
            f"population: {share:.0%} of {NUM_TRIED} parameters of the prior make rows that are no "
            "finite numbers; give a prior of those that do (a positive one, say), or other rows."
        )
    return found
