"""Samplers that gibbs_dp.sample tries in turn, until nothing speaks against the draws."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import partial_eval
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree
from scipy import special

from gibbs_dp._cautions import names_of
from gibbs_dp.model.changes import forget_with
from gibbs_dp.model.examples import num_examples
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.prior import Prior
from gibbs_dp.sampling.adaptive_hmc import AdaptiveHMC, is_hierarchy
from gibbs_dp.sampling.as_sampler import as_sampler
from gibbs_dp.sampling.cautions import (
    ALL_TRIED,
    ESS_LIMIT,
    FEW_HAVE_IT,
    NO_OTHER,
    RHAT_LIMIT,
    SEE_MODES,
    STOPPED,
)
from gibbs_dp.sampling.draws import Draws
from gibbs_dp.sampling.laplace import MAX_LAPLACE_DIM
from gibbs_dp.sampling.lost_places import knows_tails_less, missed_by_a_sum, passed_over
from gibbs_dp.sampling.modes import LEAST_MASS
from gibbs_dp.sampling.sampler import Sampler
from gibbs_dp.sampling.smc import SMC
from gibbs_dp.sampling.target import NoHessianError, Target, reaches


class Task(NamedTuple):
    """What is to be drawn, checked."""

    posterior: GibbsPosterior
    batch: PyTree
    gamma: float
    key: PRNGKeyArray
    num_chains: int
    num_warmup: int
    num_samples: int
    init: PyTree | None
    is_batch: bool
    rows: int  # of what the user gave
    source: tuple[GibbsPosterior, PyTree] | None


Run = Callable[[Task, Sampler], Draws]

# Warnings that another sampler may have no reason for.
REMEDIABLE = {
    "r-hat",
    "few-effective-draws",
    "stuck-chains",
    "several-modes",
    "islands-disagree",
    "heavy-tailed-draws",
}
# What a search has found chains that start elsewhere may miss, without any sign; of a narrow peak
# in a broad hill SMC's particles lose the peak, and of modes, in many coordinates, all but one.
NOTHING_BESIDE = 20.0  # in log mass: more than rough masses are off by
OF_THE_SEARCH, MAX_MODES_DIM = {"several-modes", "nested-scales"}, 10
# Draws in all, below which that they are few is no reason; the share that is effective, from which
# an R-hat is none that as many have by chance, once in so many coordinates: no other sampler would
# have more of them.
ENOUGH_DRAWS, GOOD_SHARE, ONCE_IN = 400, 0.25, 1000
MOST_BY_CHANCE = 1.1
# Effective draws (Vehtari et al. 2021, Section 4), fewer of which the plain first chains are not
# left at where many were asked for: those that miss an arm of a bent density show no other sign.
WANTED_ESS, MANY_DRAWS = 400.0, 2000
# Share of moves accepted below which they are not left at either: their step was found elsewhere.
LEAST_ACCEPTED = 0.4
# Reach of a tail (a Gaussian's is 3.4) from where on the prior is asked; of Student's t with five
# degrees of freedom the power is 6. Standard deviations away, where it is read off; coordinates.
LONG_TAIL, LOW_POWER, FAR_OUT, MOST_TAILS = 3.9, 6.5, (1e3, 1e6), 8
# Of chains that did not mix: times as long.
PATIENCE = 4
# Of SMC: fewest, most, and times as many where too few were effective.
FEWEST_PARTICLES, MOST_PARTICLES, MORE_PARTICLES = 1024, 2048, 4


def remedied(task: Task, run: Run, max_seconds: float | None) -> Draws:
    """Draw, and go on with other samplers where the draws cannot be trusted."""
    if task.posterior.dim > MAX_LAPLACE_DIM:
        return _advised(run(task, _first(task)), NO_OTHER)
    begin = time.monotonic()

    def is_late() -> bool:
        return max_seconds is not None and time.monotonic() - begin > max_seconds

    return _of_batch(task, run, is_late) if task.is_batch else _of_one(task, run, is_late)


def _of_one(task: Task, run: Run, is_late: Callable[[], bool]) -> Draws:
    tried: list[str] = []
    seen: list[Draws] = []
    last = _Last()
    best: tuple[tuple[float, float], Draws, str] | None = None
    advice, samplers = ALL_TRIED, _remedies(task, last)
    for sampler in samplers:
        label = label_of(sampler)
        try:
            sampler.check(task.posterior)
            draws = run(task, sampler)
        except NoHessianError:
            tried.append(f"{label} (the loss has no second derivative)")
            last.has_hessian = False
            continue
        except ValueError as error:
            if best is None and not isinstance(sampler, SMC):  # the first chains' are the task's
                raise
            tried.append(f"{label} refused ({error})")
            continue
        if not _reasons(draws):
            draws = _compared(task, seen, draws)
        seen.append(draws)
        names, r_hat = _reasons(draws), draws.worst_r_hat
        slow = [] if names or seen[1:] else _slow(sampler, draws)
        may_stretch = not (last.has_heavy_tails or isinstance(sampler, SMC))
        if may_stretch and falls_as_a_power(task.posterior.prior, draws.theta):
            last.has_heavy_tails = True
            slow = [] if names else [*slow, "the tail of a power"]
        is_worse = not (names or slow) and knows_tails_less(task.posterior, seen[:-1], draws)
        names = names or slow or ["tails that earlier draws knew better"] * is_worse
        last.names, last.r_hat = names, r_hat
        last.found = _may_be_missed(names, draws)
        last.has_heavy_tails |= "heavy-tailed-draws" in names
        tried.append(f"{label} ({', '.join(names) or 'nothing against it'})")
        # Slow chains are better than such as have a warning; a tail that is lost has none.
        rank = 0.5 if slow else 1.25 if is_worse else float(len(names)), r_hat if names else 0.0
        if best is None or rank <= best[0]:
            best = rank, draws, label
        if not names:
            advice = FEW_HAVE_IT
            break
        if is_late():
            advice = ALL_TRIED if next(samplers, None) is None else STOPPED
            break
    assert best is not None
    _, draws, label = best
    if len(tried) > 1:
        told = f"tried in turn: {'; '.join(tried)}. These are the draws of {label}."
        return _advised(draws, advice, [told])
    if advice is ALL_TRIED:  # of which there was none
        advice = SEE_MODES
    return _advised(draws, advice) if draws.warnings else draws


def _compared(task: Task, before: Sequence[Draws], draws: Draws) -> Draws:
    """Doubt draws that lack a place with mass, by a sum, or where chains had been before."""
    where = task.posterior, task.batch, task.gamma
    found = missed_by_a_sum(*where, draws) if task.posterior.dim == 1 else None
    if found is None and before:
        found = passed_over(*where, before, draws)
    if found is None:
        return draws
    return replace(draws, settings=draws.settings | {"modes": found.plain})


def _advised(draws: Draws, advice: str, notes: Sequence[str] = ()) -> Draws:
    told: dict[str, Any] = {"advice": advice}
    if notes:
        told["notes"] = [*notes, *draws.notes]
    return replace(draws, settings=draws.settings | told)


@dataclass
class _Last:
    """What speaks against the last draws: names of warnings, and how far chains are apart."""

    names: list[str] = field(default_factory=list)
    r_hat: float = math.inf
    has_hessian: bool = True  # the loss: coordinates are recentred by second derivatives
    found: set[str] = field(default_factory=set)  # what chains that start elsewhere may miss
    has_heavy_tails: bool = False  # or the draws of any before


def _remedies(task: Task, last: _Last) -> Iterator[Sampler]:
    """Samplers in turn."""
    posterior = task.posterior
    if _changes_in_steps(task):
        yield from _of_particles(task, last)
    yield _first(task)
    found = last.found
    if not found:
        yield from _of_chains(task, last)
        if posterior.dim > MAX_MODES_DIM and last.r_hat <= MOST_BY_CHANCE:
            return  # chains that all but agree: particles would be worth fewer draws
    elif "nested-scales" in found or posterior.dim > MAX_MODES_DIM:
        return
    if not _changes_in_steps(task):
        yield from _of_particles(task, last)


def _of_particles(task: Task, last: _Last) -> Iterator[Sampler]:
    if task.posterior.prior.has_draws and task.init is None:
        wanted = 8 * -(-task.num_chains * task.num_samples // 8)
        count = min(max(FEWEST_PARTICLES, wanted), MOST_PARTICLES)
        yield SMC(num_particles=count, recentre=last.has_hessian)
        if {"islands-disagree", "few-effective-draws"} & set(last.names):
            yield SMC(num_particles=MORE_PARTICLES * count, recentre=last.has_hessian)


def _changes_in_steps(task: Task) -> bool:
    shapes = (jax.ShapeDtypeStruct(a.shape[1:], a.dtype) for a in jax.tree.leaves(task.batch))
    return _has_no_slope(task.posterior, jax.tree.structure(task.batch), tuple(shapes))


@lru_cache(maxsize=64)
def _has_no_slope(posterior: GibbsPosterior, structure: Any, shapes: tuple[Any, ...]) -> bool:
    """Whether the loss changes in steps alone, as a count of errors does."""

    def loss(u: Float[Array, " dim"], *leaves: Array) -> Float[Array, ""]:
        data = jax.tree.unflatten(structure, leaves)
        return jnp.sum(Target(posterior, data, jnp.ones(())).terms(u).losses)

    u = jax.ShapeDtypeStruct((posterior.dim,), jnp.result_type(float))

    def asks_for(function: Callable[..., Any]) -> Sequence[bool]:
        traced = jax.make_jaxpr(function)(u, *shapes)
        return partial_eval.dce_jaxpr(traced.jaxpr, [True])[1]

    if not asks_for(loss)[0] or any(asks_for(jax.grad(loss))):
        return False
    blank = [jnp.zeros(each.shape, each.dtype) for each in (u, *shapes)]
    return not jnp.any(jax.grad(loss)(*blank))


forget_with(_has_no_slope.cache_clear)


def _first(task: Task) -> Sampler:
    is_given = task.init is not None
    return AdaptiveHMC() if is_hierarchy(task.posterior) and not is_given else as_sampler(None)


def _of_chains(task: Task, last: _Last) -> Iterator[Sampler]:
    """Chains that go on after the first ones; coordinates are moved by second derivatives."""
    recentre = last.has_hessian
    is_first = recentre and isinstance(_first(task), AdaptiveHMC)
    for patience in (1, PATIENCE):
        # In stretched coordinates chains may miss an arm that others are often in.
        if not (is_first if patience == 1 else last.has_heavy_tails):
            yield AdaptiveHMC(recentre=recentre, patience=patience)
        if last.has_heavy_tails:
            yield AdaptiveHMC(recentre=recentre, patience=patience, heavy_tails=True)


def _may_be_missed(names: Sequence[str], draws: Draws) -> set[str]:
    """Name what a search found, and chains that start elsewhere may miss.

    Not a peak without mass; nor heavy tails, which are most of what a ladder finds around a middle;
    nor a mode beside which that of the first chains has none: they began at the wrong place.
    """
    found = OF_THE_SEARCH & set(names)
    if (draws.modes.log_mass_gap or 0.0) > NOTHING_BESIDE:
        found -= {"several-modes"}
    if "heavy-tailed-draws" in names or draws.modes.ladder_excess * LEAST_MASS > 1.0:
        found -= {"nested-scales"}
    return found


def _reasons(draws: Draws) -> list[str]:
    """Names of warnings that another sampler may help with."""
    names = [name for name in names_of(draws.warnings) if name in REMEDIABLE | OF_THE_SEARCH]
    few: set[str] = set()
    if _num_draws(draws) < ENOUGH_DRAWS:
        few |= {"few-effective-draws"}
    if not _is_apart(draws).any():
        few |= {"r-hat"}
    return [name for name in names if name not in few]


def _slow(sampler: Sampler, draws: Draws) -> list[str]:
    """Name what speaks for another try where plain chains have no warning."""
    if isinstance(sampler, (AdaptiveHMC, SMC)):
        return []
    if _num_draws(draws) >= MANY_DRAWS and np.min(draws.mixing[1]) < WANTED_ESS:
        return ["few-effective-draws"]
    return ["few moves accepted"] if np.mean(draws.accept_rate) < LEAST_ACCEPTED else []


def falls_as_a_power(prior: Prior, theta: PyTree) -> bool:
    """Whether a tail is longer than a Gaussian's where the prior's falls as a low power.

    ``theta``: leaves ``[chains, draws, ...]``. Draws do not tell such tails, of Student's t with
    three degrees of freedom, from exponential ones, which chains reach well; the prior does. Where
    data decide, tails are short.
    """
    leaves, structure = jax.tree.flatten(jax.tree.map(lambda a: np.asarray(a, np.float64), theta))
    middle = [leaf[0, -1] for leaf in leaves]  # a draw: medians may leave a support

    def log_prior(place: int, at: int, value: float) -> float:
        moved = [np.array(m) for m in middle]
        moved[place].reshape(-1)[at] = value
        point = jax.tree.unflatten(structure, [m.astype(jnp.result_type(float)) for m in moved])
        return float(prior.log_prob(point))

    for place, (support, leaf) in enumerate(zip(prior.supports, leaves, strict=True)):
        if any(np.isfinite(end).any() for end in support.ends()):
            continue  # chains move in logarithms, whose tails are light
        flat = leaf.reshape(*leaf.shape[:2], -1)
        for at in np.flatnonzero(reaches(flat, LONG_TAIL) > LONG_TAIL)[:MOST_TAILS]:
            center, width = np.median(flat[..., at]), flat[..., at].std()
            for side in (-width, width):
                near, far = (log_prior(place, int(at), center + side * t) for t in FAR_OUT)
                if 0 < (near - far) / math.log(FAR_OUT[1] / FAR_OUT[0]) < LOW_POWER:
                    return True
    return False


def _num_draws(draws: Draws) -> int:
    """Draws of one dataset."""
    return math.prod(draws.log_density.shape[-2:])


def _is_apart(draws: Draws) -> Bool[np.ndarray, " datasets"]:
    """Whether chains differ by more than as many independent draws as are effective would."""
    r_hat, ess = draws.mixing
    halves = 2 * draws.log_density.shape[-2]
    ratio = special.chdtri(halves - 1, 1.0 / ONCE_IN) / (halves - 1)
    by_chance = np.sqrt(1.0 + ratio * halves / np.maximum(ess, 1.0))
    few_do = (_num_draws(draws) < ENOUGH_DRAWS) | (ess >= GOOD_SHARE * _num_draws(draws))
    limit = np.where(few_do, np.clip(by_chance, RHAT_LIMIT, MOST_BY_CHANCE), RHAT_LIMIT)
    return ~(r_hat <= limit)


def label_of(sampler: Sampler) -> str:
    """Name a sampler, with the settings that are not the default.

    >>> label_of(AdaptiveHMC(patience=3)), label_of(as_sampler(None))
    ('AdaptiveHMC(patience=3)', 'HMC()')
    """
    what: Any = getattr(sampler, "kernel", None) or sampler
    pairs = ((f.name, getattr(what, f.name), f.default) for f in fields(what))
    return f"{type(what).__name__}({', '.join(f'{k}={v!r}' for k, v, d in pairs if v != d)})"


# Of a batch, only the datasets whose chains did not mix go on, with chains again.


def _of_batch(task: Task, run: Run, is_late: Callable[[], bool]) -> Draws:
    last = _Last()
    try:
        draws = run(task, _first(task))
    except NoHessianError:
        last.has_hessian = False
        draws = run(task, AdaptiveHMC(recentre=False))
    count, advice = num_examples(task.batch), ALL_TRIED
    notes: list[str] = []
    for attempt, sampler in enumerate(_of_chains(task, last), 1):
        worst, is_bad = _doubts(draws)
        places = np.flatnonzero(is_bad)
        if not places.size or is_late():
            advice = STOPPED if places.size else FEW_HAVE_IT
            break
        # One program for counts of about one size.
        padded = np.resize(places, 2 ** (places.size - 1).bit_length())
        part = task._replace(
            batch=jax.tree.map(lambda a, at=padded: a[at], task.batch),
            key=jax.random.fold_in(task.key, attempt),
        )
        again = run(part, sampler)
        better, _ = _doubts(again)
        wins = better[: places.size] < worst[places]
        draws = _spliced(draws, again, places[wins], np.flatnonzero(wins))
        notes.append(f"{places.size:,} of {count:,} posteriors went on with {label_of(sampler)}.")
    return _advised(draws, advice, notes)


def _doubts(draws: Draws) -> tuple[Float[np.ndarray, " datasets"], Bool[np.ndarray, " datasets"]]:
    """Worst R-hat of every dataset, infinite where a chain is stuck, and who is to go on."""
    r_hat, ess = draws.mixing
    is_stuck = draws.is_stuck.any(axis=-1)
    is_few = (_num_draws(draws) >= ENOUGH_DRAWS) & ~(ess >= ESS_LIMIT)
    return np.where(is_stuck, np.inf, r_hat), is_stuck | is_few | _is_apart(draws)


def _spliced(
    draws: Draws, other: Draws, to: Int[np.ndarray, " some"], of: Int[np.ndarray, " some"]
) -> Draws:
    """Put rows of another batch in place of some."""

    def put(a: Any, b: Any) -> np.ndarray:
        new = np.array(a)
        new[to] = np.asarray(b)[of]
        return new

    return replace(
        draws,
        theta=jax.tree.map(put, draws.theta, other.theta),
        log_density=put(draws.log_density, other.log_density),
        accept_rate=put(draws.accept_rate, other.accept_rate),
        is_stuck=put(draws.is_stuck, other.is_stuck),
    )
