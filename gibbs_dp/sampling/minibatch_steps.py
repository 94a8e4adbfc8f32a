"""Steps of chains on minibatches: their programs, and the rows that these are called with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, UInt32

from gibbs_dp._jaxlib.compile import Program, on_default_backend, program
from gibbs_dp._jaxlib.devices import is_accelerator, on_device, platform
from gibbs_dp._jaxlib.precision import total
from gibbs_dp.model.check import check_dataset, check_examples, positive_count
from gibbs_dp.model.examples import as_examples, num_examples
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.kernels import stochastic
from gibbs_dp.sampling.kernels.gradients import fixed_batch
from gibbs_dp.sampling.kernels.stochastic import Numbers, Rule, StateInParts, StochasticState
from gibbs_dp.sampling.minibatch_store import MinibatchState
from gibbs_dp.sampling.noise import normals_and_uniforms, step_key

# The programs: many steps of all chains, and what is kept of where they are.


# Steps of a loop of known length: at most so many.
MOST_AT_ONCE = 256


def steps_at_once(thinning: int) -> int | None:
    """Count the steps that accelerators make without asking the host whether to go on.

    None on CPUs, where loops need no known length.
    """
    if not is_accelerator(platform()):
        return None
    return -(-thinning // -(-thinning // MOST_AT_ONCE))


class Walk(NamedTuple):
    """Chains on their way: in parts, and estimates of their total loss before the last step."""

    chains: StateInParts
    loss: Float[Array, " chains"]


def _step_of(
    posterior: GibbsPosterior,
    rule: Rule,
    batch_size: int | None,
    data: PyTree,
    state: MinibatchState,
    gamma: Float[Array, ""],
    numbers: Numbers,
    learn_until: Int[Array, ""],
) -> Callable[[Array, Walk], Walk]:
    """Return what makes the step after so many from ``state``.

    ``batch_size``: None takes all rows at each.
    """
    n = num_examples(data)
    dim, dtype = state.chains.position.shape[1], state.chains.position.dtype
    share = numbers.num_rows / (n if batch_size is None else batch_size)

    def cost(parts: list[Array], rows: PyTree) -> tuple[Array, Array]:
        loss = total(posterior.losses(posterior.constrain(parts), rows))
        return loss, loss

    def step(i: Array, walk: Walk) -> Walk:
        count = state.num_steps + i
        is_learning = count < learn_until

        def move(words: UInt32[Array, 2], chain: StateInParts) -> Walk:
            key, rows = step_key(words, count), data
            if batch_size is not None:
                rows = fixed_batch(key, data, n, batch_size, dtype).data
            at = chain.position
            slope, loss = jax.grad(cost, has_aux=True)(at, rows)
            pull = jax.grad(posterior.log_prior_unconstrained)(at)
            # Weighted after the backward pass: where the prior's part can enter its products, GPUs
            # compute it beforehand, a launch for every array.
            slope = [gamma * share * a - b for a, b in zip(slope, pull, strict=True)]
            noise = posterior.split(normals_and_uniforms(key, dim, 0, dtype)[0])
            num_learnt = _learnt(state, i + 1, learn_until)
            moved = stochastic.step(
                noise, chain, slope, rule, numbers, count, is_learning, num_learnt
            )
            return Walk(moved, share * loss)

        return jax.vmap(move)(state.key, walk.chains)

    return step


def _learnt(
    state: MinibatchState, num_made: Int[Array, ""], learn_until: Int[Array, ""]
) -> Int[Array, ""]:
    return state.num_learnt + jnp.clip(learn_until - state.num_steps, 0, num_made)


def _cut(posterior: GibbsPosterior, state: MinibatchState) -> Walk:
    num_chains, dtype = state.chains.position.shape[0], state.chains.position.dtype

    def cut(field: Float[Array, "chains dim"] | None) -> Any:
        return None if field is None else jax.vmap(posterior.split)(field)

    return Walk(StateInParts(*map(cut, state.chains)), jnp.full((num_chains,), jnp.nan, dtype))


def _joined(
    state: MinibatchState, walk: Walk, num_made: Int[Array, ""], learn_until: Int[Array, ""]
) -> MinibatchState:
    num_chains = state.chains.position.shape[0]

    def joined(parts: list[Array] | None) -> Any:
        if parts is None:
            return None
        return jnp.concatenate([part.reshape(num_chains, -1) for part in parts], axis=1)

    chains = StochasticState(*map(joined, walk.chains))
    num_learnt = _learnt(state, num_made, learn_until)
    return MinibatchState(chains, state.key, state.num_steps + num_made, num_learnt)


def _one_step_of(
    posterior: GibbsPosterior,
    rule: Rule,
    data: PyTree,
    state: MinibatchState,
    gamma: Float[Array, ""],
    numbers: Numbers,
    learn_until: Int[Array, ""],
) -> tuple[MinibatchState, Float[Array, " chains"]]:
    """Make one step on all of ``data``; return estimates of the total loss before it."""
    step = _step_of(posterior, rule, None, data, state, gamma, numbers, learn_until)
    walk = step(jnp.asarray(0), _cut(posterior, state))
    return _joined(state, walk, jnp.asarray(1), learn_until), walk.loss


def _keep_of(
    posterior: GibbsPosterior,
    keep: Callable[[Any], Any] | None,
    positions: Float[Array, "chains dim"] | list[Array],
) -> PyTree:
    def one(u: Float[Array, " dim"] | list[Array]) -> PyTree:
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
    at_once: int | None,
    keep: Callable[[Any], Any] | None,
    data: PyTree,
    state: MinibatchState,
    gamma: Float[Array, ""],
    numbers: Numbers,
    gaps: Int[Array, " draws"],
    learn_until: Int[Array, ""],
) -> tuple[MinibatchState, PyTree, Float[Array, "draws chains"]]:
    """Make draws ``gaps`` steps apart, those of 0 at the end left out.

    What they keep has an axis of draws first.
    """
    step = _step_of(posterior, rule, batch_size, data, state, gamma, numbers, learn_until)
    ends = jnp.cumsum(gaps)
    last = ends[-1]

    def some(carry: tuple[Walk, PyTree, Array, Array]) -> tuple[Walk, PyTree, Array, Array]:
        """Go on to the next draw, or as far as a loop of known length goes."""
        walk, kept, losses, done = carry
        draw = jnp.sum(ends <= done)
        left = ends[draw] - done
        if at_once is None:
            walk = jax.lax.fori_loop(done, done + left, step, walk)
        else:
            left = jnp.minimum(left, at_once)

            def wanted(i: Array, walk: Walk) -> Walk:
                new = step(done + i, walk)
                return jax.tree.map(lambda to, at: jnp.where(i < left, to, at), new, walk)

            walk = jax.lax.fori_loop(0, at_once, wanted, walk)
        found = _keep_of(posterior, keep, walk.chains.position)
        # A row is written again until its draw is there.
        kept = jax.tree.map(lambda rows, row: rows.at[draw].set(row), kept, found)
        return walk, kept, losses.at[draw].set(walk.loss), done + left

    begin = _cut(posterior, state)
    shapes = jax.eval_shape(lambda u: _keep_of(posterior, keep, u), begin.chains.position)
    kept = jax.tree.map(lambda s: jnp.zeros((len(gaps), *s.shape), s.dtype), shapes)
    losses = jnp.zeros((len(gaps), *begin.loss.shape), begin.loss.dtype)
    carry = begin, kept, losses, jnp.zeros_like(last)
    walk, kept, losses, _ = jax.lax.while_loop(lambda now: now[-1] < last, some, carry)
    return _joined(state, walk, last, learn_until), kept, losses


_one_step = on_default_backend(_one_step_of, "posterior", "rule")
_keep = on_default_backend(_keep_of, "posterior", "keep")
_kept = jax.jit(_keep_of, static_argnames=("posterior", "keep"))  # for its shapes
begin = on_default_backend(_begin_of, "posterior", "num_chains", is_quick=True)

STATIC = ("posterior", "rule", "batch_size", "at_once", "keep")
# Of networks this large XLA's CPU loops are a fifth faster in their older form; of others slower.
MANY_WEIGHTS = 2**18
# A GPU makes a seventh to three fifths more steps a second where its compiler may try what each
# product is best computed by, for ten seconds or more: that pays from so many steps on (365,000 to
# 1,300,000 of three networks on an H200).
MANY_STEPS = 400_000


def draws_program(dim: int, is_long: bool) -> Program:
    """Return the program of draws, compiled for a network and a run of this size."""
    name = platform()
    is_long = is_long and is_accelerator(name)
    return program(_draws_of, STATIC, name, dim >= MANY_WEIGHTS, is_long)


def shapes_of_kept(
    posterior: GibbsPosterior, keep: Callable[[Any], Any] | None, state: MinibatchState
) -> PyTree:
    """Shapes and types of what ``keep`` returns of all chains; refuse what returns no arrays."""
    try:
        found = _kept.eval_shape(posterior, keep, state.chains.position)
    except (TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
        raise ValueError(
            f"keep: it cannot be evaluated at the prior's parameter, or returns no arrays "
            f"({str(error).splitlines()[0]}); write keep(theta) -> arrays, in jax.numpy."
        ) from error
    if not any(leaf.size for leaf in jax.tree.leaves(found)):
        raise ValueError("keep: it returns no numbers; return what is to be kept of a draw.")
    return found


# Rows, drawn inside the program or given in batches.

# Draws of one call, which has its price on a GPU: so many more while a call is quick, while what
# they keep stays small.
MOST_DRAWS, QUICK_SECONDS, MOST_BYTES = 64, 0.1, 2**24


class Run(NamedTuple):
    """What all calls of a run have in common."""

    posterior: GibbsPosterior
    rule: Rule
    keep: Callable[[Any], Any] | None
    gamma: Float[Array, ""]
    numbers: Numbers
    learn_until: Int[Array, ""]
    most_draws: int
    at_once: int | None  # steps of a loop of known length
    is_long: bool


@dataclass(frozen=True)
class Arrays:
    """All rows, from which the program draws."""

    data: PyTree
    num_rows: int
    rows_a_step: int

    def draws(
        self, run: Run, state: MinibatchState, gaps: list[int]
    ) -> tuple[MinibatchState, PyTree, Float[np.ndarray, "draws chains"]]:
        """Make draws so many steps apart, in one call."""
        padded = np.zeros(run.most_draws, np.int32)
        padded[: len(gaps)] = gaps
        draws = draws_program(state.chains.position.shape[1], run.is_long)
        state, kept, losses = draws(
            run.posterior,
            run.rule,
            None if self.rows_a_step == self.num_rows else self.rows_a_step,
            run.at_once,
            run.keep,
            self.data,
            state,
            run.gamma,
            run.numbers,
            on_device(padded),
            run.learn_until,
        )
        kept, losses = jax.tree.map(lambda leaf: np.asarray(leaf)[: len(gaps)], (kept, losses))
        return state, kept, losses


class Batches:
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
        self, run: Run, state: MinibatchState, gaps: list[int]
    ) -> tuple[MinibatchState, PyTree, Float[np.ndarray, "draws chains"]]:
        """Make draws so many steps apart, a call for each step."""
        found: list[PyTree] = []
        for gap in gaps:
            loss: Any = None
            for _ in range(gap):
                state, loss = _one_step(
                    run.posterior,
                    run.rule,
                    self._checked(),
                    state,
                    run.gamma,
                    run.numbers,
                    run.learn_until,
                )
            found.append((_keep(run.posterior, run.keep, state.chains.position), loss))
        kept, losses = jax.tree.map(lambda *leaves: np.stack(leaves), *found)
        return state, kept, losses


def _shapes(tree: PyTree) -> tuple[Any, list[Any]]:
    leaves, structure = jax.tree.flatten(tree)
    return structure, [leaf.shape for leaf in leaves]


def source_of(
    posterior: GibbsPosterior, data: Any, batch_size: int, num_rows: int | None
) -> Arrays | Batches:
    """Tell arrays and batches apart, and check them."""
    is_array = any(hasattr(data, name) for name in ("shape", "__array__"))
    if isinstance(data, Iterable) and not (is_array or isinstance(data, (Mapping, Sequence))):
        if num_rows is None:
            raise ValueError(
                "num_rows: batches do not say how many rows there are; give the number of rows of "
                "the whole dataset."
            )
        return Batches(posterior, data, positive_count("num_rows", num_rows))
    if num_rows is not None:
        raise ValueError(
            "num_rows: data is taken for arrays, which have their rows; leave it out, or give "
            "batches that can be iterated over (iter(batches) for a list)."
        )
    examples = as_examples(data)
    check_dataset(posterior, examples, needs_gradient=True)
    n = num_examples(examples)
    return Arrays(examples, n, min(batch_size, n))
