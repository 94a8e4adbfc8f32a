"""Draws of one posterior with gibbs_dp.sample: chains, an ensemble, a path of SMC, in turn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray, PyTree
from numpy.typing import ArrayLike

from gibbs_dp._cautions import DrawsWarning, warns
from gibbs_dp._jaxlib.compile import make_room, on_default_backend, program
from gibbs_dp._jaxlib.devices import is_accelerator, on_device, platform
from gibbs_dp._progress import Progress
from gibbs_dp.model.charts import on_every_device
from gibbs_dp.model.check import (
    NUM_DRAWS,
    as_key,
    check_dataset,
    check_examples,
    check_gamma,
    check_posterior,
    names_keywords,
    positive_count,
)
from gibbs_dp.model.examples import as_examples, num_examples
from gibbs_dp.model.fingerprint import kept_programs
from gibbs_dp.model.posterior import GibbsPosterior, check_mask, masked
from gibbs_dp.model.supports import Support
from gibbs_dp.sampling.adaptive_hmc import AdaptiveHMC, Ensemble, draw_ensemble
from gibbs_dp.sampling.as_sampler import as_sampler
from gibbs_dp.sampling.draws import Draws
from gibbs_dp.sampling.ensemble import recentring_of
from gibbs_dp.sampling.kernels import Kernel, Unadjusted
from gibbs_dp.sampling.kernels.base import Counts, Schedule, make_schedule
from gibbs_dp.sampling.laplace import MAX_ITERATIONS, MAX_LAPLACE_DIM
from gibbs_dp.sampling.modes import Modes, look_around
from gibbs_dp.sampling.remedies import Task, label_of, remedied
from gibbs_dp.sampling.sampler import ChainDraws, GammaSampler, PathSampler, Sampler
from gibbs_dp.sampling.smc_particles import Segment, evenly
from gibbs_dp.sampling.target import ImproperPosteriorError, Target, derivatives_named, reach

# Draws of one dataset's posterior, or of several datasets', along an SMC path.

# Of the same data, with particles of their own: a path is found on at least so many.
LEAST_PILOTS = 4


def _draw_of(
    posterior: GibbsPosterior,
    sampler: PathSampler,
    keys: Key[Array, " datasets"],
    data: PyTree,
    segments: Segment,
) -> tuple[ChainDraws, PyTree]:
    def one(pair: tuple[PRNGKeyArray, PyTree, Segment]) -> tuple[ChainDraws, PyTree]:
        key, data, segments = pair
        at_gammas = sampler.draw_path(key, posterior, data, segments)
        draws = jax.tree.map(lambda a: a[0], at_gammas)
        # Islands weigh by their normalizers; draws that users average do not.
        rows = evenly(jnp.log(draws.weight), draws.weight.shape)
        u = draws.u.reshape(-1, draws.u.shape[-1])[rows]
        potential = draws.potential.ravel()[rows]
        draws = draws._replace(
            u=u, potential=potential, weight=jnp.full_like(draws.weight, 1.0 / rows.shape[1])
        )
        return draws, jax.vmap(jax.vmap(posterior.constrain))(u)

    return jax.lax.map(one, (keys, data, segments))


_draw = on_default_backend(_draw_of, "posterior", "sampler")


def sample_path(
    posterior: GibbsPosterior, batch: PyTree, gamma: float, sampler: PathSampler, key: PRNGKeyArray
) -> tuple[ChainDraws, PyTree]:
    """Find each dataset's own path, with other particles, then draw along it."""
    count = num_examples(batch)
    path_key, draw_key = jax.random.split(key)
    paths = []
    for i, one in enumerate(jax.random.split(path_key, count)):
        pilots = jax.tree.map(lambda a, i=i: jnp.stack([a[i]] * LEAST_PILOTS), batch)
        paths.append(sampler.find_path(one, posterior, pilots, [gamma]))
    length = max(path.length for path in paths)
    segments = jax.tree.map(lambda *a: jnp.stack(a), *(path.padded(length) for path in paths))
    return _draw(posterior, sampler, jax.random.split(draw_key, count), batch, segments)


# Draws from the Gibbs posterior of one dataset, or of a batch of equally long ones.

# Draws as near an end of their support as numbers go: what lies beyond is lost.

# Gaps between neighbouring numbers.
NEAR = 4.0


def share_at_ends(
    supports: Sequence[Support],
    leaves: Sequence[Float[Array | np.ndarray, "dataset chain draw ..."]],
) -> float:
    """Largest share of a coordinate's draws within four roundings of an end of its support."""
    shares = [0.0]
    for support, leaf in zip(supports, leaves, strict=True):
        shares += [_share(np.asarray(leaf), end) for end in support.ends()]
    return max(shares)


def _share(leaf: Float[np.ndarray, "dataset chain draw ..."], end: Any) -> float:
    end = np.asarray(end, leaf.dtype)
    if not np.isfinite(end).any():
        return 0.0
    gap = NEAR * np.finfo(leaf.dtype).eps * np.abs(end)
    with np.errstate(invalid="ignore"):
        is_near = (np.abs(leaf - end) <= gap) & (end != 0) & np.isfinite(end)
    return float(np.mean(is_near, axis=(1, 2)).max(initial=0.0))


DEFAULT_WARMUP = 200
ADAPT_ROUNDS = 12
# Seconds for which nothing is said of what is going on.
SILENCE = 3.0
# Standard deviation of a whitened coordinate, or its inverse, above which adaptation pays.
UNIT_SCALE = 1.4
NO_DENSITY_AT_INIT = (
    "init: the posterior has no density there (the loss is NaN or infinite); give a point where "
    "all examples have a finite loss."
)
# Points that a chain tries to begin at, where the loss is infinite at most.
MOST_TRIES = 500


def _sample_batch_of(
    posterior: GibbsPosterior,
    sampler: GammaSampler,
    num_chains: int,
    num_samples: int,
    data: PyTree,
    gamma: Array,
    keys: Key[Array, " datasets"],
    starts: Array,
    schedule: Schedule,
    counts: Counts | None,
) -> tuple[ChainDraws, PyTree, Float[Array, " datasets"]]:
    if counts is not None:
        schedule = schedule.fixed(counts)

    def one(
        key: PRNGKeyArray, data: PyTree, starts: Array
    ) -> tuple[ChainDraws, PyTree, Float[Array, ""]]:
        target = Target(posterior, data, gamma)
        draws = sampler.draw(key, target, starts, schedule, num_chains, num_samples)
        rounding = target.rounding(draws.mode, draws.reference)
        return draws, jax.vmap(jax.vmap(posterior.constrain))(draws.u), rounding

    every = keys, data, starts
    if keys.shape[0] == 1:  # an axis less is traced and compiled faster
        found = one(*jax.tree.map(lambda a: a[0], every))
        return jax.tree.map(lambda a: a[None], found)
    return jax.vmap(one)(*every)


def _begin_of(
    posterior: GibbsPosterior, num_datasets: int, num_chains: int, root: Key[Array, ""]
) -> tuple[Key[Array, " datasets"], Float[Array, "datasets chains dim"]]:
    """Split off a key for each dataset, and where the mode searches of its chains start."""

    def one(index: Array) -> tuple[Key[Array, ""], Array]:
        first, second = jax.random.split(jax.random.fold_in(root, index))
        return second, jax.vmap(posterior.initial)(jax.random.split(first, num_chains))

    return jax.vmap(one)(jnp.arange(num_datasets))


def _sample_batch(is_little: bool, *arguments: Any) -> Any:
    return program(_sample_batch_of, STATIC, platform(), is_little)(*arguments)


STATIC = ("posterior", "sampler", "num_chains", "num_samples", "counts")
_begin = on_default_backend(_begin_of, "posterior", "num_datasets", "num_chains", is_quick=True)

# Products of numbers that all gradients are estimated to take, half a second of a core's time, up
# to which it is compilation that is to be shortened; those that an elementwise function costs.
LITTLE, ELEMENTWISE = 5e8, 32


def _is_little(num_steps: int, num_rows: int, dim: int) -> bool:
    """Return True if compilation and diagnostics take longer than the losses' gradients."""
    return not is_accelerator(platform()) and num_steps * num_rows * (ELEMENTWISE + dim) < LITTLE


def _told(draws: Draws) -> Sequence[str]:
    """Return the warnings; of many coordinates they take long, and are for whoever asks."""
    return draws.warnings if draws.num_coordinates <= MAX_LAPLACE_DIM else ()


@names_keywords
@warns(lambda _: DrawsWarning, _told)
def sample(
    posterior: GibbsPosterior,
    data: PyTree,
    gamma: float = 1.0,
    key: int | PRNGKeyArray = 0,
    sampler: Kernel | Unadjusted | Sampler | None = None,
    num_chains: int = 4,
    num_warmup: int = DEFAULT_WARMUP,
    num_samples: int = 1000,
    init: PyTree | None = None,
    is_batch: bool = False,
    mask: ArrayLike | None = None,
    max_seconds: float | None = None,
    progress: bool = True,
) -> Draws:
    """Draw from the Gibbs posterior of one dataset, or of each dataset of a batch.

    Where no sampler is given, several are tried until one's diagnostics have nothing against its
    draws; ``notes`` says which were. First HMC from a mode: every chain searches for one from an
    overdispersed start of its own and is whitened by the Laplace fit at the best; where that fit is
    of no use (chains hardly move, or the draws are not of its scale), whitening and step size are
    learned from draws pooled over the chains. Then `gibbs_dp.AdaptiveHMC`, which knows no mode and
    comes first for hierarchical priors; then `gibbs_dp.SMC`, with more particles where its islands
    disagree. Draws of one coordinate are held against a sum over its density. The draws are not
    exact: no privacy guarantee of an exact draw applies to them.

    Parameters
    ----------
    posterior
        Loss and prior.
    data
        Examples, a pytree whose leaves have leading axis ``n``; for a batch, ``[datasets, n]``.
        Spread over devices or machines where :func:`gibbs_dp.shard_examples` made them so.
    gamma
        Inverse temperature, finite and >= 0; multiplies the total loss.
    key
        Integer seed or JAX key.
    sampler
        None: HMC, and others where that fails. ``gibbs_dp.HMC()`` alone, or ``gibbs_dp.MALA()``;
        ``gibbs_dp.AdaptiveHMC()`` for hierarchies; ``gibbs_dp.SMC()`` for posteriors
        with several modes, whose islands are the chains and whose particles the draws, however
        many chains and samples are asked for; ``gibbs_dp.ULA()`` and ``gibbs_dp.SGLD()`` for long
        or large-``n`` chains without an acceptance step, whose draws are biased: the summary
        estimates by how much.
    num_chains, num_samples
        Chains (at least 2, for R-hat) and draws kept per chain (at least 4).
    num_warmup
        Steps discarded per chain, after any adaptation; each is ``num_steps`` Langevin steps
        of ULA and SGLD.
    init
        A parameter where all mode searches start; overdispersed points by default.
    is_batch
        The data are a batch of datasets of the same size.
    mask
        Which examples count, ``[n]`` or ``[datasets, n]`` of 0 and 1: datasets of different
        length under one compiled shape. `gibbs_dp.populations.pad` makes data and mask.
    max_seconds
        No other sampler is begun after so long; None: all are tried that may help.
    progress
        What takes longer than some seconds shows which sampler is at work, and for how long.

    Returns
    -------
    Draws
        With ``warnings`` when the chains cannot be trusted.

    Raises
    ------
    ValueError
        For arguments that make no sense or do not fit together, and for a loss that JAX cannot
        differentiate as often as the sampler asks for.
    ImproperPosteriorError
        If a posterior cannot be normalized.

    Examples
    --------
    >>> import jax.numpy as jnp, numpyro.distributions as dist, gibbs_dp as gdp
    >>> posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance,
    ...                                dist.Normal(jnp.zeros(1), 1.0))
    >>> draws = gdp.sample(posterior, jnp.ones((3, 1)), num_samples=500)
    >>> draws.theta.shape                                            # exactly N(3/4, 1/4)
    (4, 500, 1)
    >>> abs(float(draws.theta.mean()) - 0.75) < 0.1
    True
    """
    num_chains = positive_count("num_chains", num_chains, least=2)
    num_samples = positive_count("num_samples", num_samples, least=4)
    num_warmup = positive_count("num_warmup", num_warmup, least=0)
    check_posterior(posterior, sampler)
    gamma = check_gamma(gamma)
    if max_seconds is not None and not max_seconds >= 0:
        raise ValueError(f"max_seconds: must be a number >= 0 or None, got {max_seconds}.")
    chosen = None if sampler is None else as_sampler(sampler)
    make_room()
    examples = as_examples(data)
    batch = examples if is_batch else jax.tree.map(lambda a: a[None], examples)
    first = jax.tree.map(lambda a: a[0], batch) if is_batch else examples
    keep = None if mask is None else check_mask(mask, examples, is_batch)
    if keep is not None:
        kept = keep if is_batch else keep[None]
        first = jax.tree.map(lambda a: a[kept[0]], first)
    num_draws = NUM_DRAWS if isinstance(chosen, PathSampler) else 0  # chains look below
    check_dataset(posterior, first, num_draws, needs_gradient=True)
    if is_batch:
        every = np.ones(num_examples(batch), bool) if keep is None else keep
        check_examples(posterior, jax.tree.map(lambda a: _joined(a, every), batch))
    source = (posterior, examples) if keep is None else None
    if keep is not None:
        posterior, batch = masked(posterior), (batch, jnp.asarray(kept))

    if chosen is not None:
        chosen.check(posterior)
    task = Task(
        posterior,
        batch,
        gamma,
        as_key(key),
        num_chains,
        num_warmup,
        num_samples,
        init,
        is_batch,
        num_examples(examples),
        source,
    )
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), task.batch)
    with kept_programs(task.posterior, shapes), Progress(progress, after=SILENCE) as bar:

        def run(task: Task, sampler: Sampler) -> Draws:
            bar.stage(f"sampling with {label_of(sampler)}")
            return _run(task, sampler)

        return remedied(task, run, max_seconds) if chosen is None else run(task, chosen)


ASKS_FOR_GRADIENTS = (
    "leave sampler= out, or take gibbs_dp.AdaptiveHMC(recentre=False), which asks for gradients"
)


def _run(task: Task, sampler: Sampler) -> Draws:
    with derivatives_named(ASKS_FOR_GRADIENTS):
        if isinstance(sampler, PathSampler):
            return _by_path(task, sampler)
        if isinstance(sampler, AdaptiveHMC):
            return _by_ensemble(task, sampler)
        assert isinstance(sampler, GammaSampler)
        return _by_chains(task, sampler)


def _by_path(task: Task, sampler: PathSampler) -> Draws:
    if task.init is not None:
        raise ValueError("init: SMC begins at draws of the prior; leave it out.")
    found = sample_path(task.posterior, task.batch, task.gamma, sampler, task.key)
    settings = _describe(sampler, 0, task.rows) | {
        "num_particles": found[0].u[0, ..., 0].size,
        "at_ends": share_at_ends(task.posterior.prior.supports, jax.tree.leaves(found[1])),
    }
    return _pack(*found, task, settings)


def _by_ensemble(task: Task, sampler: AdaptiveHMC) -> Draws:
    posterior, batch = task.posterior, task.batch
    count = num_examples(batch)
    keys, is_given = jax.random.split(task.key, count), task.init is not None
    # Where chains begin that have no density around the origin; and where they are asked to.
    point = _point(posterior, task.init) if is_given else jnp.zeros(posterior.dim)
    starts = jnp.broadcast_to(point, (count, task.num_chains, posterior.dim))
    temperature = on_device(np.asarray(task.gamma, jnp.result_type(float)))

    def run(starts: Array) -> Any:
        sizes = task.num_chains, task.num_samples, is_given
        traced = batch, temperature, keys, starts
        return on_every_device(draw_ensemble(posterior, sampler, *sizes, *traced), batch)

    found = run(starts)
    lost = ~jnp.isfinite(found.potential).all(axis=(1, 2))
    if bool(lost.any()):
        if is_given:
            raise ValueError(NO_DENSITY_AT_INIT)
        inside = _begin_inside(posterior, batch, keys, starts)
        found = run(jnp.where(lost[:, None, None], inside, starts))
    adapted = found.adapted
    searched = Modes(num_searched=count, num_starts=sampler.chains_for(task.num_chains))
    settings = _describe(sampler, 0, task.rows) | {
        "num_leapfrog": int(adapted.num_leapfrog.max()),
        "num_gradients": int(adapted.num_gradients.max()),
        "num_replaced": int(adapted.num_replaced.sum()),
        "rounding": float(found.rounding.max()),
        "at_ends": share_at_ends(posterior.prior.supports, jax.tree.leaves(found.theta)),
        "reach": 0.0 if task.is_batch else _reach_of_one(sampler, posterior, found),
        "modes": searched.plain,
        "notes": _recentred(posterior, sampler, np.asarray(adapted.share)),
    }
    return _pack(found, found.theta, task, settings)


def _reach_of_one(sampler: AdaptiveHMC, posterior: GibbsPosterior, found: Ensemble) -> float:
    return sampler.reach(posterior, found.u[0], jax.tree.map(lambda a: a[0], found.adapted))


def _recentred(
    posterior: GibbsPosterior, sampler: AdaptiveHMC, share: Float[np.ndarray, "datasets dim"]
) -> list[str]:
    recentring = recentring_of(posterior) if sampler.recentre else None
    if recentring is None:
        return []
    told = [
        f"{name} {share[:, at].min():.2f} to {share[:, at].max():.2f}"
        for name, at in recentring.places.items()
    ]
    return [
        f"sampled in coordinates between non-centred (0) and centred (1): {', '.join(told)}; the "
        "draws are of theta as it is written."
    ]


def _by_chains(task: Task, sampler: GammaSampler) -> Draws:
    """Run chains from modes, whitened by a Laplace fit or by what they learned."""
    posterior, batch, gamma, init = task.posterior, task.batch, task.gamma, task.init
    num_chains, num_warmup, num_samples = task.num_chains, task.num_warmup, task.num_samples
    keys, starts = _begin(posterior, num_examples(batch), num_chains, task.key)
    if init is not None:
        starts = jnp.broadcast_to(_point(posterior, init), starts.shape)

    tuning = sampler.default_tuning(posterior.dim)
    steps = num_chains * (num_warmup + num_samples) * tuning[1]
    num_rows = math.prod(jax.tree.leaves(batch)[0].shape[:2])
    is_little = _is_little(steps, num_rows, posterior.dim)
    # Without a fit nothing but adaptation will do.
    is_adapted = sampler.traits.is_adjusted and posterior.dim > MAX_LAPLACE_DIM
    if is_little and not is_adapted:
        tuning = sampler.lengthened(tuning)

    def run(gamma: Array, keys: Array, starts: Array, schedule: Schedule) -> Any:
        counts = None
        if is_accelerator(platform()):  # where a loop of unknown length asks the host
            (_, num_inner), num_burn_in, num_rounds = schedule.on_host
            counts = Counts(num_inner, num_burn_in, num_rounds, MAX_ITERATIONS)
        traced = batch, gamma, keys, starts, schedule
        static = posterior, sampler, num_chains, num_samples
        found = _sample_batch(is_little, *static, *traced, counts)
        return on_every_device(found, batch)

    temperature = on_device(np.asarray(gamma, jnp.result_type(float)))
    schedule = make_schedule(tuning, num_warmup, ADAPT_ROUNDS * is_adapted)
    draws, theta, rounding = run(temperature, keys, starts, schedule)
    # NumPy here and below: of JAX's functions each would be compiled.
    losses, log_prior = map(np.asarray, (draws.reference.losses, draws.reference.log_prior))
    lost = ~(np.isfinite(losses).all(1) & np.isfinite(log_prior))
    if lost.any():  # no start leads to a point of finite density
        if init is not None:
            raise ValueError(NO_DENSITY_AT_INIT)
        starts = jnp.where(
            lost[:, None, None], _begin_inside(posterior, batch, keys, starts), starts
        )
        draws, theta, rounding = run(temperature, keys, starts, schedule)
    if np.asarray(draws.is_improper).any():
        raise ImproperPosteriorError(
            f"posterior: improper at gamma={gamma:g} (it does not decay along some direction); "
            "use a proper prior, a bounded support, more data or a larger gamma, or double "
            "precision where columns are nearly equal."
        )
    if not sampler.traits.is_adjusted:
        draws = draws._replace(accept_prob=jnp.full_like(draws.accept_prob, jnp.nan))
        settings = _describe(sampler, num_warmup, task.rows)
        settings["variance_inflation"] = float(draws.inflation.mean())
        return _pack(draws, theta, task, settings)
    if not is_adapted and not _is_whitened(draws, sampler.least_accept):
        is_adapted = True
        # Of heavy tails longer trajectories hide from R-hat what they do not reach either.
        tuning = sampler.default_tuning(posterior.dim)
        draws, theta, rounding = run(
            temperature, keys, starts, make_schedule(tuning, num_warmup, ADAPT_ROUNDS)
        )
    settings = _describe(sampler, num_warmup, task.rows) | {
        "is_adapted": is_adapted,
        "reach": 0.0 if task.is_batch else reach(np.asarray(draws.u)[0]),
        "rounding": float(np.asarray(rounding).max()),
        "at_ends": share_at_ends(posterior.prior.supports, jax.tree.leaves(theta)),
    }

    def run_far(starts: Array, num_last: int) -> ChainDraws:
        """Run chains that are as short as the compiled program allows."""
        steps = 2 * num_last
        if is_accelerator(platform()):
            steps = max(steps, num_warmup + num_samples)  # which are static there
        # The last draws are kept: before those, fewer steps leave blanks.
        schedule = make_schedule(tuning, steps - num_samples, ADAPT_ROUNDS * is_adapted)
        return run(temperature, keys, starts, schedule)[0]

    if posterior.dim <= MAX_LAPLACE_DIM:
        modes = look_around(draws, run_far, posterior, batch, gamma, task.key)
        settings["modes"] = modes.plain
    return _pack(draws, theta, task, settings)


def _joined(leaf: Array, keep: Bool[np.ndarray, datasets * n]) -> Array:
    """Lay the examples of all datasets end to end."""
    return leaf[keep] if keep.ndim == 2 else leaf.reshape(-1, *leaf.shape[2:])


def _begin_inside(
    posterior: GibbsPosterior,
    batch: PyTree,
    keys: Key[Array, " datasets"],
    starts: Float[Array, "datasets chains dim"],
) -> Float[Array, "datasets chains dim"]:
    """Look for starts of finite density, in the prior and then ever farther around it."""
    found, is_found = _search(posterior, starts.shape[1], batch, keys)
    if not bool(is_found.any(axis=1).all()):
        raise ValueError(
            f"posterior: none of {starts.shape[1] * MOST_TRIES} points, drawn from the prior and "
            "around it, has a finite density, so that chains have nowhere to start; give one that "
            "has as init=, or data (labels, counts) that the likelihood can have."
        )
    first = jnp.argmax(is_found, axis=1)[:, None, None]
    one = jnp.take_along_axis(found, first, axis=1)
    return jnp.where(is_found[:, :, None], found, one)


def _search_of(
    posterior: GibbsPosterior, num_chains: int, batch: PyTree, keys: Key[Array, " datasets"]
) -> tuple[Float[Array, "datasets chains dim"], Bool[Array, "datasets chains"]]:
    def one(key: PRNGKeyArray, data: PyTree) -> tuple[Array, Array]:
        def is_inside(u: Array) -> Array:
            terms = Target(posterior, data, jnp.ones(())).terms(u)
            return jnp.isfinite(jnp.sum(terms.losses)) & jnp.isfinite(terms.log_prior)

        def point(count: Array) -> Array:
            """From the prior at first; then wider, doubling ten times."""
            first, second = jax.random.split(jax.random.fold_in(key, count))
            width = 2.0 ** (20.0 * count / MOST_TRIES - 10.0)
            far = width * jax.random.normal(second, (posterior.dim,))
            return posterior.initial(first) + jnp.where(2 * count < MOST_TRIES, 0.0, far)

        def more(state: tuple[Array, Array]) -> tuple[Array, Array]:
            count = state[0] + 1
            return count, point(count)

        def goes_on(state: tuple[Array, Array]) -> Array:
            return (state[0] < MOST_TRIES) & ~is_inside(state[1])

        zero = jnp.zeros((), int)
        u = jax.lax.while_loop(goes_on, more, (zero, point(zero)))[1]
        return u, is_inside(u)

    def of_chains(key: PRNGKeyArray, data: PyTree) -> tuple[Array, Array]:
        return jax.vmap(lambda k: one(k, data))(jax.random.split(key, num_chains))

    return jax.vmap(of_chains)(keys, batch)


_search = on_default_backend(_search_of, "posterior", "num_chains")


def _is_whitened(draws: ChainDraws, least_accept: float) -> bool:
    """Return True if chains moved, in coordinates in which every posterior has about unit scale."""
    scale = np.std(np.asarray(draws.v, np.float64), axis=(1, 2))
    is_curved, accept, is_stuck = map(
        np.asarray, (draws.is_curved, draws.accept_prob, draws.is_stuck)
    )
    return bool(
        is_curved.all()
        and accept.mean() >= least_accept
        and not is_stuck.any()
        and scale.max() <= UNIT_SCALE
        and scale.min() >= 1.0 / UNIT_SCALE
    )


def _point(posterior: GibbsPosterior, init: PyTree) -> Float[Array, " dim"]:
    posterior.prior.check(init)
    if not bool(posterior.prior.contains(init)):
        raise ValueError("init: it lies outside the prior's support; give a point inside.")
    point = posterior.unconstrain(init)
    if not bool(jnp.all(jnp.isfinite(point))):
        raise ValueError("init: it lies on the edge of the prior's support; give a point inside.")
    return point


def _describe(sampler: Sampler, num_warmup: int, rows: int) -> dict[str, Any]:
    return {"kernel": repr(sampler), "num_warmup": num_warmup, "rows": rows}


def _pack(draws: Any, theta: PyTree, task: Task, settings: dict[str, Any]) -> Draws:
    """Draws of chains or of an ensemble, without the axis of a single dataset."""

    def trim(leaf: Array) -> np.ndarray:
        whole = np.asarray(leaf)
        return whole if task.is_batch else whole[0]

    return Draws(
        theta=jax.tree.map(trim, theta),
        log_density=-trim(draws.potential),
        accept_rate=trim(draws.accept_prob),
        is_stuck=trim(draws.is_stuck),
        gamma=float(task.gamma),
        settings=settings,
        source=task.source,
    )
