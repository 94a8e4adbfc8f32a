"""Attacks that are actually run: train on one of two datasets, release a draw, let others guess."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree
from numpy.typing import ArrayLike

from gibbs_dp._progress import Progress
from gibbs_dp.auditing.audit import check_gammas
from gibbs_dp.auditing.report import Report
from gibbs_dp.engine.datasets import Stream, check_examples, num_fresh, stream_key
from gibbs_dp.engine.plan import default_block_size
from gibbs_dp.engine.quantity import Settings
from gibbs_dp.engine.sweep import SweepInterruptedError, run_sweep
from gibbs_dp.model.check import as_key, check_gamma, check_posterior, positive_count
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.examples import num_examples
from gibbs_dp.model.populations import HasSample, Population, as_population
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.papers.attack.result import AttackResult
from gibbs_dp.papers.attack.rows import audited, measured_rows, warned, worst_case
from gibbs_dp.papers.attack.trial import AttackTrial
from gibbs_dp.papers.tables import Row
from gibbs_dp.privacy.attacks import OneRunEpsilon, epsilon_of_one_run
from gibbs_dp.privacy.guarantee import Guarantee
from gibbs_dp.sampling.as_sampler import as_sampler
from gibbs_dp.sampling.kernels import Kernel, Unadjusted
from gibbs_dp.sampling.sample import sample
from gibbs_dp.sampling.sampler import Sampler

# A population whose first example, and the one that may replace it, are always the same.

# Fresh examples of which the worst pair is taken, and chains and draws that judge them.
NUM_CANDIDATES, NUM_CHAINS, NUM_SAMPLES = 64, 4, 32


class FixedPair:
    """Datasets of a population with a chosen example in the first place, and a chosen fresh one."""

    is_dependent = False

    def __init__(self, population: Population, pair: Any) -> None:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ValueError("pair: give two examples, (z, other).")
        self.population, self.is_conditional = population, population.is_conditional
        self.pair = tuple(jax.tree.map(jnp.asarray, z) for z in pair)

    def sample(self, key: PRNGKeyArray, n: int, num_ghosts: int) -> tuple[PyTree, PyTree]:
        """Draw a dataset and fresh examples, and put the pair in."""
        drawn = self.population.sample(key, n, num_ghosts)
        try:
            train, fresh = (
                jax.tree.map(lambda a, value: a.at[0].set(value), examples, z)
                for examples, z in zip(drawn, self.pair, strict=True)
            )
        except ValueError as error:
            raise ValueError(
                f"pair: its examples are not like those of the population ({error})."
            ) from error
        return train, fresh


def worst_pair(
    posterior: GibbsPosterior, population: Population, n: int, gamma: float, key: PRNGKeyArray
) -> tuple[Any, Any]:
    """Find two fresh examples that are told apart best, as far as one posterior's draws say."""
    train, fresh = population.sample(key, n, NUM_CANDIDATES)
    draws = sample(
        posterior,
        train,
        gamma,
        jax.random.fold_in(key, 1),
        num_chains=NUM_CHAINS,
        num_samples=NUM_SAMPLES,
        progress=False,
    )
    theta = jax.tree.map(lambda a: jnp.asarray(a).reshape(-1, *a.shape[2:]), draws.theta)

    def losses(point: PyTree) -> Array:
        if not posterior.structured:
            return posterior.losses(point, fresh)

        def with_first(z: PyTree) -> Array:
            return posterior.empirical_loss(
                point, jax.tree.map(lambda a, value: a.at[0].set(value), train, z)
            )

        return jax.vmap(with_first)(fresh)

    covariance = np.cov(np.asarray(jax.vmap(losses)(theta), np.float64), rowvar=False)
    own = np.diag(covariance)
    variance = own[:, None] + own - 2.0 * covariance
    places = np.unravel_index(np.argmax(variance), variance.shape)
    first, second = (jax.tree.map(lambda a, i=int(i): a[i], fresh) for i in places)
    return first, second


ATTACKERS = ("optimal", "loss", "lira")
# Fewer coins may all fall the same way, and say nothing of one of the two rates.
LEAST_TRIALS = 32
# Further trials in which the attackers that need a threshold find it, at least and by share.
LEAST_SEPARATE, SEPARATE_SHARE = 64, 0.25


def attack(
    posterior: GibbsPosterior,
    population: HasSample | Callable[[PRNGKeyArray, int], Any],
    n: int,
    gammas: ArrayLike | float | Sequence[float],
    num_trials: int = 4096,
    key: int | PRNGKeyArray = 0,
    sampler: Kernel | Unadjusted | Sampler | None = None,
    attackers: Sequence[str] = ATTACKERS,
    domain: Domain | None = None,
    pair: Sequence[Any] | Literal["worst"] | None = None,
    guarantee: Guarantee | None = None,
    report: Report | None = None,
    num_chains: int = 8,
    num_warmup: int | None = None,
    num_samples: int = 16,
    progress: bool = True,
) -> AttackResult:
    """Attack thousands of posteriors, and compare what is reached with what is computed.

    In every trial a dataset ``Z`` is drawn and a fresh example that replaces its first one, which
    makes ``Z'``. A fair coin says which of the two is trained on, and **one** draw of that
    posterior is released. Attackers know both datasets and the draw, but not the coin, and guess:

    - "optimal": by the ratio of the two densities (Neyman & Pearson 1933), with the ratio of
      normalizers from draws of its own of both posteriors (Bennett 1976), or exactly on a
      `gibbs_dp.Grid`; guesses ``Z`` where the ratio is above 1.
    - "loss": by the loss of the fresh example minus that of the replaced one, with one threshold
      for all datasets, found on separate trials (Yeom et al. 2018). For a structured loss these are
      losses of the two datasets.
    - "lira": by the ratio of normals fitted to the same difference at shadow draws of both
      posteriors, without densities or normalizers (Carlini et al. 2022).

    No attacker's advantage, true minus false positive rate, can exceed the mean total variation
    of the pairs in expectation, and the optimal one reaches it (Hajek & Kang 2022). A pure
    ``epsilon`` allows ``(e^epsilon - 1) / (e^epsilon + 1)``. Replace-one throughout.

    Parameters
    ----------
    posterior
        Loss and prior.
    population
        ``(key, n) -> examples``, a distribution of NumPyro, or an object of
        ``gibbs_dp.populations``, of independent examples.
    n
        Examples per dataset.
    gammas
        Inverse temperatures, positive.
    num_trials
        Trials per gamma, at least 32, each with a dataset, a coin and two trained posteriors of its
        own; the same datasets and coins for every gamma. A quarter more (at least 64) find
        thresholds.
    key
        Integer seed or JAX key.
    sampler
        ``gibbs_dp.HMC()`` by default, ``gibbs_dp.MALA()``, or ``gibbs_dp.Grid(...)`` for posteriors
        summed exactly.
    attackers
        Any of "optimal", "loss" and "lira".
    domain
        Declared bounds on examples: supplies the worst-case epsilon of the built-in losses.
    pair
        The example and the one that replaces it, the same in every trial, to be compared with the
        worst case; "worst": the pair of 64 fresh examples whose losses differ in the most uneven
        way over a posterior. None: both are drawn anew.
    guarantee
        Of a release from this posterior at this gamma, to be compared with instead of the domain's
        epsilon; one for added or removed examples counts twice.
    report
        An audit of the same posterior, population and n, whose ``on_average_tv`` is then what is
        computed, from other datasets. By default it is from the attackers' draws of the same pairs.
    num_chains, num_samples
        Chains per posterior (at least 3, one of them released from) and draws kept per chain.
    num_warmup
        Burn-in steps. None: 16, lengthened where pilots or the drift test ask for it.
    progress
        Tell on stderr what is done.

    Returns
    -------
    AttackResult
        A row for every gamma and attacker.

    Raises
    ------
    ValueError
        If an argument makes no sense.
    KeyboardInterrupt
        On Ctrl-C; nothing is kept.

    Examples
    --------
    >>> import jax, gibbs_dp as gdp
    >>> posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance,
    ...                                gdp.Flat(gdp.supports.real(1)))
    >>> found = attack(posterior, lambda key, n: jax.random.normal(key, (n, 1)), n=30, gammas=20.0,
    ...                num_trials=1024, sampler=gdp.Grid(low=-1.0, high=1.0), progress=False)
    >>> row = found.rows()[0]
    >>> abs(row["advantage"] - 1 / 3) < 4 * row["advantage_se"]    # the exact advantage is 1/3
    True
    """
    check_posterior(posterior)
    n, num_trials = (
        positive_count("n", n),
        positive_count("num_trials", num_trials, least=LEAST_TRIALS),
    )
    names = _check_attackers(attackers)
    grid = check_gammas(gammas)
    if not grid[0] > 0:
        raise ValueError("gammas: at gamma=0 nothing is learnt; give positive ones.")
    sampler = as_sampler(sampler, also=", or gibbs_dp.Grid(...)")
    if sampler.traits.is_path or not sampler.traits.is_adjusted:
        raise ValueError(
            "sampler: attacks need draws of the posterior itself from separate chains; give "
            "gibbs_dp.HMC(), gibbs_dp.MALA() or gibbs_dp.Grid(...)."
        )
    sampler.check(posterior)
    source = as_population(population)
    if source.is_dependent:
        raise ValueError(
            "population: its examples are dependent; give one of independent examples."
        )
    if guarantee is not None and guarantee.gamma is None:
        raise ValueError(
            f"guarantee: it is of a {guarantee.mechanism!r}, which has no gamma; attack draws of a "
            "Gibbs posterior."
        )
    if guarantee is not None and guarantee.mechanism == "chain":
        raise ValueError(
            "guarantee: it is of a chain that is run, converged or not, and attacks are on draws "
            "of the posterior itself; give a guarantee of these, or leave it out."
        )
    if guarantee is not None and not all(math.isclose(g, guarantee.gamma or 0.0) for g in grid):
        raise ValueError(
            f"gammas: the guarantee is of gamma={guarantee.gamma:g}; attack that gamma alone."
        )
    root = as_key(key)
    fresh, trial_key = num_fresh(posterior, n, 1), stream_key(root, Stream.TRIAL)
    check_examples(posterior, source, n, fresh, trial_key)
    beside = [worst_case(posterior, n, gamma, domain, guarantee) for gamma in grid]
    if isinstance(pair, str) and pair == "worst":
        pair = worst_pair(posterior, source, n, grid[len(grid) // 2], trial_key)
    if pair is not None:
        source = as_population(FixedPair(source, pair))
        check_examples(posterior, source, n, fresh, trial_key)
    num_chains, num_samples = sampler.shape(
        posterior,
        positive_count("num_chains", num_chains, least=3),
        positive_count("num_samples", num_samples, least=4),
    )
    separate = max(LEAST_SEPARATE, math.ceil(SEPARATE_SHARE * num_trials))
    count = num_trials + separate
    settings = Settings(
        posterior=posterior,
        population=source,
        n=n,
        gammas=grid,
        num_datasets=count,
        num_ghosts=1,
        key=root,
        sampler=sampler,
        num_chains=num_chains,
        num_warmup=None if num_warmup is None else positive_count("num_warmup", num_warmup, 0),
        num_samples=num_samples,
        group_size=1,
        rel_error=None,
        max_datasets=count,
        block_size=default_block_size(
            posterior, n, 1, num_chains, num_samples, count, num_gammas=len(grid)
        ),
        leading=AttackTrial(),
    )
    computed = [audited(report, gamma) for gamma in grid]
    try:
        with Progress(enabled=progress) as bar:
            tracks = run_sweep(settings, bar)
    except SweepInterruptedError:
        raise KeyboardInterrupt from None
    rows: list[Row] = []
    warnings: list[str] = []
    for track, allows, found in zip(tracks, beside, computed, strict=True):
        result = track.result()
        own = measured_rows(result, separate, names, allows, found)
        warnings += [f"gamma={track.gamma:g}: {text}" for text in warned(result, own)]
        rows += own
    about = settings.describe() | {
        "num_trials": num_trials,
        "num_separate_trials": separate,
        "pair": "drawn" if pair is None else "the same in every trial",
        "domain": repr(domain),
    }
    return AttackResult(tuple(rows), about, tuple(warnings))


def _check_attackers(attackers: Sequence[str]) -> tuple[str, ...]:
    names = (attackers,) if isinstance(attackers, str) else tuple(attackers)
    if not names or not set(names) <= set(ATTACKERS):
        raise ValueError(f"attackers: give some of {', '.join(ATTACKERS)}; got {names}.")
    return tuple(name for name in ATTACKERS if name in names)


# Fewest chains and draws a chain of a shadow posterior.
SHADOW_CHAINS, SHADOW_SAMPLES = 4, 250


def attack_in_one_run(
    posterior: GibbsPosterior,
    canaries: Any,
    gamma: float,
    data: PyTree | None = None,
    *,
    delta: float = 0.0,
    key: int | PRNGKeyArray = 0,
    confidence: float = 0.95,
    num_draws: int = 1,
    num_guesses: int | None = None,
    sampler: Sampler | None = None,
) -> OneRunEpsilon:
    """Guess ``m`` coins from the draws of one posterior, and bound epsilon from below.

    A fair coin for each canary says which of its two examples is trained on, beside ``data``. From
    that posterior ``num_draws`` independent draws are released, and the auditor, who does not know
    the coins, scores a canary by how much less the released draws lose on its first example than on
    its second, beyond the same of two shadow posteriors: of coins of the auditor's own, and of
    the opposite ones. What that shows of epsilon, of replace-one neighbours and all draws together,
    is `gibbs_dp.privacy.epsilon_of_one_run` (Steinke, Nasr & Jagielski 2023). It holds whatever
    draws the sampler makes: what is audited is the sampler, not the posterior.

    Parameters
    ----------
    posterior
        Loss and prior; not of a structured loss.
    canaries
        Two sets of ``m`` examples, pytrees with leading axis ``m``.
    gamma
        Inverse temperature, positive.
    data
        Other examples, which are always trained on. None: there are none.
    delta, confidence, num_guesses
        As of `gibbs_dp.privacy.epsilon_of_one_run`.
    key
        Integer seed or JAX key.
    num_draws
        Independent draws that are released together.
    sampler
        As of `gibbs_dp.sample`.

    Returns
    -------
    OneRunEpsilon
        The lower bound.

    Raises
    ------
    ValueError
        If an argument makes no sense, or the two sets do not have the same shapes.
    """
    check_posterior(posterior)
    if posterior.structured:
        raise ValueError(
            "posterior: a structured loss has no loss of one canary; score draws of your own, and "
            "give the scores to gibbs_dp.privacy.epsilon_of_one_run."
        )
    gamma, num_draws = check_gamma(gamma), positive_count("num_draws", num_draws)
    first, second = _checked(canaries)
    count = num_examples(first)
    keys = jax.random.split(as_key(key), 5)
    coins, own = (jax.random.bernoulli(k, shape=(count,)) for k in keys[:2])

    def more_lost(theta: PyTree) -> Float[np.ndarray, " canaries"]:
        """How much more draws lose on the second examples than on the first, on average."""
        both: list[Array] = [
            jax.vmap(lambda t, z=z: posterior.losses(t, z))(theta) for z in (second, first)
        ]
        return np.asarray(both[0] - both[1], np.float64).mean(axis=0)

    def draws_for(chosen: Bool[Array, " canaries"], draw_key: Any, chains: int, kept: int) -> Any:
        def choose(a: Array, b: Array) -> Array:
            return jnp.where(chosen.reshape(-1, *(1,) * (a.ndim - 1)), a, b)

        train = jax.tree.map(choose, first, second)
        if data is not None:
            train = jax.tree.map(lambda a, b: jnp.concatenate([a, jnp.asarray(b)]), train, data)
        drawn = sample(
            posterior,
            train,
            gamma,
            draw_key,
            sampler,
            num_chains=chains,
            num_samples=kept,
            progress=False,
        )
        return drawn.theta

    chains = max(num_draws, SHADOW_CHAINS)
    released = draws_for(coins, keys[2], chains, SHADOW_SAMPLES)
    # One draw of each chain: those of one chain are not independent.
    last = jax.tree.map(lambda a: jnp.asarray(a)[:num_draws, -1], released)
    scores = more_lost(last)
    for chosen, shadow_key in ((own, keys[3]), (~own, keys[4])):
        theta = draws_for(chosen, shadow_key, SHADOW_CHAINS, SHADOW_SAMPLES)
        flat = jax.tree.map(lambda a: jnp.asarray(a).reshape(-1, *a.shape[2:]), theta)
        scores = scores - 0.5 * more_lost(flat)
    return epsilon_of_one_run(
        scores, np.asarray(coins), delta, confidence=confidence, num_guesses=num_guesses
    )


def _checked(canaries: Any) -> tuple[PyTree, PyTree]:
    if not isinstance(canaries, tuple | list) or len(canaries) != 2:
        raise ValueError("canaries: give two sets of examples, (first, second).")
    first, second = (jax.tree.map(jnp.asarray, one) for one in canaries)
    shapes = [jax.tree.map(jnp.shape, one) for one in (first, second)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"canaries: both sets must have the same shapes, got {shapes[0]} and {shapes[1]}."
        )
    return first, second
