"""Chains on minibatches for posteriors of networks: steps, draws, and how they go on."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, UInt32

from gibbs_dp._cautions import DrawsWarning, warns
from gibbs_dp._jaxlib.compile import make_room, on_default_backend
from gibbs_dp._jaxlib.precision import total
from gibbs_dp.information.checks import refuse_masked
from gibbs_dp.model.check import (
    as_key,
    check_dataset,
    check_examples,
    check_gamma,
    check_posterior,
    names_keywords,
    positive_count,
)
from gibbs_dp.model.examples import as_examples, num_examples
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.kernels import stochastic
from gibbs_dp.sampling.kernels.langevin import fixed_batch
from gibbs_dp.sampling.kernels.stochastic import (
    Cyclical,
    Numbers,
    Rule,
    StateInParts,
    StochasticLangevin,
    StochasticState,
)
from gibbs_dp.sampling.minibatch_draws import (
    MinibatchDraws,
    MinibatchState,
    load_minibatch_draws,
    told,
)
from gibbs_dp.sampling.noise import normals_and_uniforms, step_key

# The programs: many steps of all chains, and what is kept of where they are.


def _walk_of(
    posterior: GibbsPosterior,
    rule: Rule,
    batch_size: int | None,
    data: PyTree,
    state: MinibatchState,
    gamma: Float[Array, ""],
    numbers: Numbers,
    num_steps: Int[Array, ""],
    learn_until: Int[Array, ""],
) -> tuple[MinibatchState, Float[Array, " chains"]]:
    """Make steps; return estimates of the total loss before the last. None: all rows at each."""
    n = num_examples(data)

    def cost(parts: list[Array], rows: PyTree) -> tuple[Array, Array]:
        losses = posterior.losses(posterior.constrain(parts), rows)
        loss = numbers.num_rows / losses.shape[0] * total(losses)
        return gamma * loss - posterior.log_prior_unconstrained(parts), loss

    num_chains, dim = state.chains.position.shape
    dtype = state.chains.position.dtype

    def one(_: Array, carry: tuple[StateInParts, Array, Array, Array]) -> Any:
        chains, count, num_learnt, _loss = carry
        is_learning = count < learn_until
        num_learnt = num_learnt + is_learning.astype(num_learnt.dtype)

        def move(words: UInt32[Array, 2], chain: StateInParts) -> tuple[StateInParts, Array]:
            noise_key, batch_key = jax.random.split(step_key(words, count))
            rows = data
            if batch_size is not None:
                rows = fixed_batch(batch_key, data, n, batch_size, dtype).data
            slope, loss = jax.grad(cost, has_aux=True)(chain.position, rows)
            noise = posterior.split(normals_and_uniforms(noise_key, dim, 0, dtype)[0])
            moved = stochastic.step(
                noise, chain, slope, rule, numbers, count, is_learning, num_learnt
            )
            return moved, loss

        chains, loss = jax.vmap(move)(state.key, chains)
        return chains, count + 1, num_learnt, loss

    def cut(field: Float[Array, "chains dim"] | None) -> Any:
        return None if field is None else jax.vmap(posterior.split)(field)

    def joined(parts: list[Array] | None) -> Any:
        if parts is None:
            return None
        return jnp.concatenate([part.reshape(num_chains, -1) for part in parts], axis=1)

    unknown = jnp.full((num_chains,), jnp.nan, dtype)
    begin = StateInParts(*map(cut, state.chains)), state.num_steps, state.num_learnt, unknown
    end, count, num_learnt, loss = jax.lax.fori_loop(0, num_steps, one, begin)
    chains = StochasticState(*map(joined, end))
    return MinibatchState(chains, state.key, count, num_learnt), loss


def _keep_of(
    posterior: GibbsPosterior,
    keep: Callable[[Any], Any] | None,
    positions: Float[Array, "chains dim"],
) -> PyTree:
    def one(u: Float[Array, " dim"]) -> PyTree:
        theta = posterior.constrain(u)
        return theta if keep is None else keep(theta)

    return jax.vmap(one)(positions)


def _begin_of(
    posterior: GibbsPosterior, num_chains: int, key: PRNGKeyArray, init: PyTree | None
) -> tuple[Float[Array, "chains dim"], UInt32[Array, "chains 2"], Bool[Array, ""]]:
    """Return where chains begin, their keys, and whether the prior's support holds these places."""
    start_key, key = jax.random.split(key)
    words = jax.random.bits(key, (num_chains, 2), jnp.uint32)
    if init is None:
        positions = jax.vmap(posterior.initial)(jax.random.split(start_key, num_chains))
        return positions, words, jnp.asarray(True)
    positions = jax.vmap(posterior.unconstrain)(init)
    is_inside = jax.vmap(posterior.prior.contains)(init).all() & jnp.isfinite(positions).all()
    return positions, words, is_inside


def _draws_of(
    posterior: GibbsPosterior,
    rule: Rule,
    batch_size: int | None,
    keep: Callable[[Any], Any] | None,
    data: PyTree,
    state: MinibatchState,
    gamma: Float[Array, ""],
    numbers: Numbers,
    gaps: Int[Array, " draws"],
    num_draws: Int[Array, ""],
    learn_until: Int[Array, ""],
) -> tuple[MinibatchState, PyTree, Float[Array, "draws chains"]]:
    """Make ``num_draws`` draws, ``gaps`` steps apart; what they keep has an axis of draws first."""

    def one(i: Array, carry: tuple[MinibatchState, PyTree, Array]) -> Any:
        now, kept, losses = carry
        now, loss = _walk_of(
            posterior, rule, batch_size, data, now, gamma, numbers, gaps[i], learn_until
        )
        found = _keep_of(posterior, keep, now.chains.position)
        kept = jax.tree.map(lambda into, leaf: into.at[i].set(leaf), kept, found)
        return now, kept, losses.at[i].set(loss)

    position = state.chains.position
    shapes = jax.eval_shape(lambda u: _keep_of(posterior, keep, u), position)
    kept = jax.tree.map(lambda s: jnp.zeros((len(gaps), *s.shape), s.dtype), shapes)
    losses = jnp.zeros((len(gaps), position.shape[0]), position.dtype)
    return jax.lax.fori_loop(0, num_draws, one, (state, kept, losses))


_draws = on_default_backend(_draws_of, "posterior", "rule", "batch_size", "keep")
_walk = on_default_backend(_walk_of, "posterior", "rule", "batch_size")
_keep = on_default_backend(_keep_of, "posterior", "keep")
_begin = on_default_backend(_begin_of, "posterior", "num_chains", is_quick=True)
# Of networks this large XLA's CPU loops are a fifth faster in their older form; of others slower.
_draws_of_many = on_default_backend(
    _draws_of, "posterior", "rule", "batch_size", "keep", is_quick=True
)
MANY_WEIGHTS = 2**18


# The run.

DEFAULT_WARMUP, DEFAULT_CHAINS = 1000, 2
# Parts of the warmup, for the bar.
NUM_PARTS = 20
# Draws of one call, which has its price on a GPU: so many more while a call is quick, while what
# they keep stays small.
MOST_DRAWS, QUICK_SECONDS, MOST_BYTES = 16, 0.1, 2**24


class _Run(NamedTuple):
    """What all calls of a run have in common."""

    posterior: GibbsPosterior
    rule: Rule
    keep: Callable[[Any], Any] | None
    gamma: Float[Array, ""]
    numbers: Numbers
    learn_until: Int[Array, ""]
    most_draws: int


@names_keywords
@warns(lambda _: DrawsWarning, told)
def sample_minibatches(
    posterior: GibbsPosterior,
    data: Any,
    gamma: float = 1.0,
    key: int | PRNGKeyArray = 0,
    *,
    kernel: StochasticLangevin,
    batch_size: int = 256,
    num_chains: int | None = None,
    num_warmup: int | None = None,
    num_samples: int = 500,
    thinning: int = 20,
    init: PyTree | None = None,
    keep: Callable[[Any], Any] | None = None,
    num_halved: int = 0,
    num_rows: int | None = None,
    continue_from: MinibatchDraws | MinibatchState | str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> MinibatchDraws:
    """Run chains on minibatches, for networks and tables of many rows: SGLD, SGHMC, in cycles.

    There is no search for a mode, no pass over all rows and no acceptance step. In memory are
    chains times parameters, and what ``keep`` returns. Draws are biased by the step and by the
    minibatch: ``num_halved=`` tells by how much. No privacy guarantee applies to them.

    Parameters
    ----------
    posterior
        Loss of an example, and prior. Chains move in its unconstrained coordinates.
    data
        Arrays, a pytree whose leaves have leading axis ``n``: every step of each chain draws a
        minibatch of its own, with replacement. Or batches of equal size, each a pytree of arrays:
        an iterator (``iter(batches)`` for a list, which would be taken for one pytree), or an
        iterable that begins anew at its end, as data loaders do. Each batch is one step of all
        chains; every row must be as likely to be in it.
    gamma
        Inverse temperature, finite and >= 0; multiplies the total loss, and never the prior.
    key
        Integer seed or JAX key. Chains that are continued have their own.
    kernel
        Step size, friction, preconditioner: `gibbs_dp.StochasticLangevin`.
    batch_size
        Rows of a minibatch; where there are no more rows, every step sees all of them. Of batches
        their own size counts.
    num_chains
        None: 2, or those that are continued.
    num_warmup
        Steps before the first draw. None: 1,000, or none for chains that are continued.
    num_samples
        Draws kept of each chain, at least 4. Fewer than 100 effective ones are warned of.
    thinning
        Steps from one kept draw to the next. With `gibbs_dp.Cyclical`, of every so many steps those
        that lie in the part of a cycle that samples are kept.
    init
        A parameter, where all chains start; or one for each, with a leading axis of chains. None:
        draws of the prior.
    keep
        ``keep(theta)``, a pytree of arrays: what is kept of a draw, such as predictions. None: the
        parameter itself. It is compiled once: define it outside of loops, as a new function is
        compiled anew.
    num_halved
        Draws of each chain that are made after the others with half the step, twice as many steps
        apart, half as many again being passed over first. The table tells from them by how much
        the step and the minibatch, whose noise works through it, put off means and standard
        deviations of what is kept: see `MinibatchDraws.step_bias`. 0: none.
    num_rows
        Of batches: ``n``, the rows of the whole dataset.
    continue_from
        Draws, their ``state`` or a file, whose chains go on. With arrays for data and everything
        else the same, the draws are bit for bit those of a run that was not interrupted.
    progress
        Show a bar in terminals and notebooks; elsewhere nothing is printed.

    Returns
    -------
    MinibatchDraws
        With ``warnings`` where kept numbers disagree between chains, are not finite, or are biased
        by the step.

    Raises
    ------
    ValueError
        For arguments that make no sense or do not fit together, batches that run out, and where
        all chains diverge in warmup.

    Examples
    --------
    >>> import jax.numpy as jnp, numpyro.distributions as dist, gibbs_dp as gdp
    >>> posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance,
    ...                                dist.Normal(jnp.zeros(3), 1.0))
    >>> kernel = gdp.StochasticLangevin(step_size=1e-3, friction=0.1)
    >>> draws = gdp.sample_minibatches(posterior, jnp.ones((99, 3)), kernel=kernel, batch_size=32,
    ...                                num_samples=500, keep=lambda theta: theta.sum())
    >>> draws.kept.shape                                             # exactly N(2.97, 0.03)
    (2, 500)
    >>> abs(float(draws.kept.mean()) - 2.97) < 0.1
    True
    """
    check_posterior(posterior)
    gamma = check_gamma(gamma)
    _check_kernel(kernel)
    if posterior.structured:
        raise ValueError(
            "posterior: minibatches need losses of single examples, but a total_loss has none; "
            "give a per-example loss."
        )
    batch_size = positive_count("batch_size", batch_size)
    num_samples = positive_count("num_samples", num_samples, least=4)
    thinning = positive_count("thinning", thinning)
    num_halved = positive_count("num_halved", num_halved, least=0)
    if 0 < num_halved < 4:
        raise ValueError(f"num_halved: must be at least 4, or 0, got {num_halved}.")
    if num_halved and callable(kernel.step_size):
        raise ValueError(
            "num_halved: a schedule has no one step to halve; give a number for step_size, that of "
            "the schedule's end, say."
        )
    cycle = kernel.step_size if isinstance(kernel.step_size, Cyclical) else None
    if cycle is not None and thinning > cycle.length - cycle.num_explored:
        raise ValueError(
            f"thinning: of every {thinning} steps none may lie in the "
            f"{cycle.length - cycle.num_explored} of a cycle that are sampled; give fewer."
        )
    rule, old = kernel.rule, _state_of(continue_from)
    if old is not None:
        _check_state(old, posterior, rule, num_chains, init)
    if num_warmup is None:
        num_warmup = DEFAULT_WARMUP if old is None else 0
    num_warmup = positive_count("num_warmup", num_warmup, least=0)
    if rule.is_scaled and num_warmup == 0 and (old is None or not int(old.num_learnt)):
        raise ValueError(
            "num_warmup: the preconditioner is learnt in warmup; give at least some hundred steps."
        )
    make_room()
    source = _source(posterior, data, batch_size, num_rows)
    numbers = kernel.numbers(source.num_rows)
    if old is None:
        wanted = DEFAULT_CHAINS if num_chains is None else num_chains
        count = positive_count("num_chains", wanted)
        old = _fresh_state(posterior, rule, as_key(key), count, init)
    shapes = _shapes_of_kept(posterior, keep, old)
    learn_until = jnp.asarray(np.int32(int(old.num_steps) + num_warmup))
    temperature = jnp.asarray(gamma, old.chains.position.dtype)
    bytes_a_draw = sum(math.prod(s.shape) * s.dtype.itemsize for s in jax.tree.leaves(shapes))
    most_draws = min(MOST_DRAWS, max(1, MOST_BYTES // bytes_a_draw))
    run = _Run(posterior, rule, keep, temperature, numbers, learn_until, most_draws)

    gaps = _gaps(cycle, int(old.num_steps) + num_warmup, thinning, num_samples)
    num_passed = -(-num_halved // 2)
    gaps_of_halved = [2 * thinning] * (num_passed + num_halved)
    state, halved = old, None
    with _bar(num_warmup + sum(gaps) + sum(gaps_of_halved), progress) as bar:
        loss = np.zeros((1, old.chains.position.shape[0]))
        for part in _parts(num_warmup, thinning):
            state, _, loss = source.draws(run, state, [part])
            bar.update(part)
        if not np.isfinite(loss).any():
            raise ValueError(
                f"kernel: all chains diverged within {num_warmup} steps of warmup; give it a "
                "smaller step_size, or another init."
            )
        state, kept, losses = _made(run, source, state, gaps, shapes, bar)
        if num_halved:
            half = numbers._replace(step_size=numbers.step_size / 2)
            run = run._replace(numbers=half)
            _, found, _ = _made(run, source, state, gaps_of_halved, shapes, bar)
            halved = jax.tree.map(lambda leaf: leaf[:, num_passed:], found)
    settings = {
        "kernel": repr(kernel),
        "keep": None if keep is None else getattr(keep, "__name__", type(keep).__name__),
        "batch_size": source.rows_a_step,
        "num_rows": source.num_rows,
        "num_warmup": num_warmup,
        "thinning": thinning,
    }
    return MinibatchDraws(kept, losses, state, gamma, settings, halved)


def _made(
    run: _Run,
    source: _Arrays | _Batches,
    state: MinibatchState,
    gaps: list[int],
    shapes: PyTree,
    bar: Any,
) -> tuple[MinibatchState, PyTree, Float[np.ndarray, "chains draws"]]:
    """Make draws, more of them a call while calls are quick."""
    lead = state.chains.position.shape[0], len(gaps)
    kept = jax.tree.map(lambda s: np.empty((*lead, *s.shape[1:]), s.dtype), shapes)
    losses = np.empty(lead, run.gamma.dtype)
    first, count = 0, 1
    while first < len(gaps):
        next_gaps, begin = gaps[first : first + count], time.monotonic()
        state, found, loss = source.draws(run, state, next_gaps)
        made = slice(first, first + len(next_gaps))
        losses[:, made] = loss.T
        for into, leaf in zip(jax.tree.leaves(kept), jax.tree.leaves(found), strict=True):
            into[:, made] = np.moveaxis(leaf, 0, 1)
        bar.update(sum(next_gaps))
        first = made.stop
        if time.monotonic() - begin < QUICK_SECONDS:
            count = min(2 * count, run.most_draws)
    return state, kept, losses


def _check_kernel(kernel: Any) -> None:
    if not isinstance(kernel, StochasticLangevin):
        raise ValueError(
            f"kernel: got {type(kernel).__name__}; give gibbs_dp.StochasticLangevin(step_size=...)."
        )


def _gaps(cycle: Cyclical | None, count: int, thinning: int, num_samples: int) -> list[int]:
    """Count steps before each kept draw, the first of them after ``count`` steps."""
    if cycle is None:
        return [thinning] * num_samples
    found: list[int] = []
    last = count
    while len(found) < num_samples:
        count += thinning
        if cycle.is_sampling(count - 1):
            found.append(count - last)
            last = count
    return found


def _parts(num_steps: int, thinning: int) -> list[int]:
    size = max(thinning, -(-num_steps // NUM_PARTS))
    return [min(size, num_steps - first) for first in range(0, num_steps, size)]


def _bar(num_steps: int, is_shown: bool) -> Any:
    from tqdm import TqdmWarning

    with warnings.catch_warnings():
        # A notebook without ipywidgets gets the bar of terminals.
        warnings.simplefilter("ignore", TqdmWarning)
        from tqdm.auto import tqdm
    # None: not in a pipe, nor in the log of a batch job.
    return tqdm(total=num_steps, disable=None if is_shown else True, leave=False, unit="step")


# Where chains begin, and go on.


def _fresh_state(
    posterior: GibbsPosterior, rule: Rule, key: PRNGKeyArray, num_chains: int, init: PyTree | None
) -> MinibatchState:
    if init is not None:
        init = _for_each_chain(posterior, num_chains, init)
    positions, words, is_inside = _begin(posterior, num_chains, key, init)
    if not bool(is_inside):
        raise ValueError("init: it is not inside the prior's support; give a point that is.")
    zero = jnp.asarray(np.int32(0))
    return MinibatchState(stochastic.init(positions, rule), words, zero, zero)


def _for_each_chain(posterior: GibbsPosterior, num_chains: int, init: PyTree) -> PyTree:
    """Give a point, or one for each chain, a leading axis of chains."""
    refuse_masked("init", init)
    prior = posterior.prior
    wanted = [s.shape for s in prior.supports]
    try:
        dtype = jnp.zeros(()).dtype
        leaves = [np.asarray(leaf, dtype) for leaf in prior.treedef.flatten_up_to(init)]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"init: its structure differs from the prior's ({prior.treedef}); give every part of "
            "the prior an array."
        ) from error
    shapes = [leaf.shape for leaf in leaves]
    init = prior.treedef.unflatten(leaves)
    if shapes == wanted:
        init = jax.tree.map(lambda a: np.broadcast_to(a, (num_chains, *a.shape)), init)
    elif shapes != [(num_chains, *shape) for shape in wanted]:
        raise ValueError(
            f"init: got arrays of shapes {shapes}; give the prior's, {wanted}, or those with a "
            f"leading axis of {num_chains} chains."
        )
    return init


def _state_of(given: Any) -> MinibatchState | None:
    if given is None or isinstance(given, MinibatchState):
        return given
    if isinstance(given, MinibatchDraws):
        return given.state
    if isinstance(given, (str, os.PathLike)):
        return load_minibatch_draws(given).state
    raise ValueError(
        f"continue_from: got {type(given).__name__}; give draws of sample_minibatches, their "
        "state, or a file that they were saved to."
    )


def _check_state(
    state: MinibatchState,
    posterior: GibbsPosterior,
    rule: Rule,
    num_chains: int | None,
    init: PyTree | None,
) -> None:
    """Refuse chains of something else."""
    if init is not None:
        raise ValueError("init: chains that are continued have a place; leave one of both out.")
    chains, dim = state.chains.position.shape
    if num_chains not in (None, chains):
        raise ValueError(
            f"num_chains: {chains} chains are continued, not {num_chains}; leave it out."
        )
    if dim != posterior.dim:
        raise ValueError(
            f"continue_from: its chains have {dim} coordinates and the posterior {posterior.dim}; "
            "give draws of this posterior."
        )
    dtype = jnp.zeros(()).dtype
    if state.chains.position.dtype != dtype:
        raise ValueError(
            f"continue_from: its chains are {state.chains.position.dtype} and JAX computes in "
            f"{dtype}; set jax_enable_x64 as it was."
        )
    has = Rule(None, state.chains.momentum is not None, state.chains.square is not None)
    if has[1:] != rule[1:]:
        raise ValueError(
            "continue_from: its kernel had momentum or a preconditioner that this one has not, or "
            "the other way round; give a kernel of the same kind."
        )


def _shapes_of_kept(
    posterior: GibbsPosterior, keep: Callable[[Any], Any] | None, state: MinibatchState
) -> PyTree:
    try:
        found = jax.eval_shape(lambda u: _keep_of(posterior, keep, u), state.chains.position)
    except (TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
        raise ValueError(
            f"keep: it cannot be evaluated at the prior's parameter, or returns no arrays "
            f"({str(error).splitlines()[0]}); write keep(theta) -> arrays, in jax.numpy."
        ) from error
    if not jax.tree.leaves(found):
        raise ValueError("keep: it returns no arrays; return what is to be kept of a draw.")
    return found


# Rows, drawn inside the program or given in batches.


@dataclass(frozen=True)
class _Arrays:
    """All rows, from which the program draws."""

    data: PyTree
    num_rows: int
    rows_a_step: int

    def draws(
        self, run: _Run, state: MinibatchState, gaps: list[int]
    ) -> tuple[MinibatchState, PyTree, Float[np.ndarray, "draws chains"]]:
        """Make draws so many steps apart, in one call."""
        padded = np.zeros(run.most_draws, np.int32)
        padded[: len(gaps)] = gaps
        dim = state.chains.position.shape[1]
        program = _draws if dim < MANY_WEIGHTS else _draws_of_many
        state, kept, losses = program(
            run.posterior,
            run.rule,
            None if self.rows_a_step == self.num_rows else self.rows_a_step,
            run.keep,
            self.data,
            state,
            run.gamma,
            run.numbers,
            jnp.asarray(padded),
            jnp.asarray(np.int32(len(gaps))),
            run.learn_until,
        )
        kept, losses = jax.tree.map(lambda leaf: np.asarray(leaf)[: len(gaps)], (kept, losses))
        return state, kept, losses


class _Batches:
    """Batches of equal size, one a step."""

    def __init__(self, posterior: GibbsPosterior, batches: Iterable[PyTree], num_rows: int) -> None:
        self._batches, self._iterator = batches, iter(batches)
        self._posterior, self.num_rows, self._taken = posterior, num_rows, 0
        self._first: PyTree | None = self._next()
        check_dataset(posterior, self._first, needs_gradient=True)
        self._shapes = _shapes(self._first)
        self.rows_a_step = num_examples(self._first)
        if self.rows_a_step > num_rows:
            raise ValueError(
                f"num_rows: a batch has {self.rows_a_step} rows, more than {num_rows}; give the "
                "number of rows of the whole dataset."
            )

    def _next(self) -> PyTree:
        found = next(self._iterator, None)
        if found is None and self._batches is not self._iterator:  # another epoch
            self._iterator = iter(self._batches)
            found = next(self._iterator, None)
        if found is None:
            raise ValueError(
                f"data: the batches ran out after {self._taken} steps; give an iterator that goes "
                "on, or what can be iterated over again."
            )
        self._taken += 1
        return as_examples(found)

    def _checked(self) -> PyTree:
        batch = self._next() if self._first is None else self._first
        self._first = None
        if _shapes(batch) != self._shapes:
            raise ValueError(
                f"data: batch {self._taken} has arrays of shapes {_shapes(batch)[1]} and the "
                f"first {self._shapes[1]}; make them equal, and drop a last one that is short."
            )
        check_examples(self._posterior, batch)
        return batch

    def draws(
        self, run: _Run, state: MinibatchState, gaps: list[int]
    ) -> tuple[MinibatchState, PyTree, Float[np.ndarray, "draws chains"]]:
        """Make draws so many steps apart, a call for each step."""
        found: list[PyTree] = []
        for gap in gaps:
            loss: Any = None
            for _ in range(gap):
                state, loss = _walk(
                    run.posterior,
                    run.rule,
                    None,
                    self._checked(),
                    state,
                    run.gamma,
                    run.numbers,
                    jnp.asarray(np.int32(1)),
                    run.learn_until,
                )
            found.append((_keep(run.posterior, run.keep, state.chains.position), loss))
        kept, losses = jax.tree.map(lambda *leaves: np.stack(leaves), *found)
        return state, kept, losses


def _shapes(tree: PyTree) -> tuple[Any, list[Any]]:
    leaves, structure = jax.tree.flatten(tree)
    return structure, [leaf.shape for leaf in leaves]


def _source(
    posterior: GibbsPosterior, data: Any, batch_size: int, num_rows: int | None
) -> _Arrays | _Batches:
    is_array = any(hasattr(data, name) for name in ("shape", "__array__"))
    if isinstance(data, Iterable) and not (is_array or isinstance(data, (Mapping, Sequence))):
        if num_rows is None:
            raise ValueError(
                "num_rows: batches do not say how many rows there are; give the number of rows of "
                "the whole dataset."
            )
        return _Batches(posterior, data, positive_count("num_rows", num_rows))
    if num_rows is not None:
        raise ValueError("num_rows: arrays have their rows; leave it out, or give batches.")
    examples = as_examples(data)
    check_dataset(posterior, examples, needs_gradient=True)
    n = num_examples(examples)
    return _Arrays(examples, n, min(batch_size, n))
