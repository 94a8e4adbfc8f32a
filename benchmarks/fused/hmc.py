"""HMC on one GPU: a dataset stays on the chip from a chain's first step to its last.

``FusedHMC`` is a `gibbs_dp.HMC` whose last round is one Pallas kernel, a program for each chain of
each dataset. The plain path launches dozens of kernels a step, and every one reads its dataset from
the device's memory. Here a chain's program reads it once, after which it lies in the cache of the
processor that the program runs on, and writes nothing but draws. A program is one warp: sums over
examples are shuffles between its threads, and no thread waits for another.

It compiles for GPUs, and gives the plain path's draws to rounding where it is interpreted; no GPU
has run it yet. ``gibbs-dp audit PROBLEM --with benchmarks/fused/hmc.py --sampler fused-hmc``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.experimental import pallas as pl
from jaxtyping import Array, Float, Int, Shaped, UInt32

import gibbs_dp as gdp
from gibbs_dp._jaxlib.precision import is_double
from gibbs_dp.model.losses.base import LinearLoss
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.prior import Flat, Prior
from gibbs_dp.random import normal_quantile, threefry, uniform_of_words, words_per_number
from gibbs_dp.sampling.chains import LastRound, Walk
from gibbs_dp.sampling.kernels.base import Schedule, StepInfo, Tuning, metropolis
from gibbs_dp.sampling.laplace import Location
from gibbs_dp.sampling.noise import ROUNDS, in_shell, interpolate, radius_table
from gibbs_dp.sampling.target import Target, Whitening

# Coordinates are written out one by one, some six registers each: beyond, they spill to memory.
MAX_DIM = 32
# Rows times (coordinates + 3), 4 bytes each: what the first cache of a processor of an A100 or H100
# holds (192 and 256 kB).
MAX_NUMBERS = 48_000


# Priors of independent coordinates, as rows of the design matrix.

_WRAPPERS = (dist.Independent, dist.ExpandedDistribution)


def _normal(z: Array) -> Array:
    return 0.5 * z * z


def _cauchy(z: Array) -> Array:
    return jnp.log1p(z * z)


# Minus the log density of a standardized coordinate, but for constants: the potential is relative,
# and what a GPU kernel may hold is arithmetic, exponentials and logarithms.
KINDS: dict[Any, Callable[[Array], Array]] = {
    dist.Normal: _normal,
    dist.Laplace: jnp.abs,
    dist.Cauchy: _cauchy,
}


@dataclass(frozen=True)
class RowPrior:
    """A law of independent coordinates.

    Attributes
    ----------
    kind
        One of ``KINDS``; None: flat.
    shared
        ``loc`` and ``rate``, one over the scale, where all coordinates have them in common.
    own
        Those of each coordinate where they do not, ``[dim]``.
    """

    kind: Any
    shared: dict[str, float]
    own: dict[str, Float[np.ndarray, " dim"]]

    def energy(
        self, u: Float[Array, " rows"], own: dict[str, Float[Array, " rows"]]
    ) -> Float[Array, " rows"]:
        """Minus the log density of each coordinate ``u``, given the parameters of its own."""
        if self.kind is None:
            return jnp.zeros_like(u)
        of: dict[str, Any] = {**self.shared, **own}
        return KINDS[self.kind]((u - of["loc"]) * of["rate"])


def row_prior(prior: Prior) -> RowPrior | None:
    """Return the prior as rows; None where its coordinates are not independent laws on the line."""
    (law, *others), (support, *_) = prior.leaves, prior.supports
    is_vector = prior.tree is law and not others and len(support.shape) == 1
    if prior.is_hierarchical or not is_vector or not support.is_real:
        return None
    if isinstance(law, Flat):
        return RowPrior(None, {}, {})
    while isinstance(law, _WRAPPERS):
        law = law.base_dist
    if type(law) not in KINDS:
        return None
    shared, own = {}, {}
    for name, given in (("loc", law.loc), ("rate", 1.0 / np.asarray(law.scale, np.float64))):
        values = np.broadcast_to(np.asarray(given, np.float64), support.shape)
        if (values == values[0]).all():
            shared[name] = float(values[0])
        else:
            own[name] = values
    return RowPrior(type(law), shared, own)


# The potential and its gradient, coordinate by coordinate, from a dataset on the chip.

Number = Float[Array, ""]
Coordinates = tuple[Number, ...]
Lanes = Float[Array, " lanes"]
# a * b + c.
MultiplyAdd = Callable[[Lanes, Lanes, Lanes], Lanes]


class State(NamedTuple):
    """Where a chain is."""

    position: Coordinates
    potential: Number
    gradient: Coordinates


@dataclass(frozen=True)
class Energy:
    """Potential relative to the reference, in whitened coordinates, and its gradient.

    Elementwise operations on some rows at a time, a loop over rows, and one sum at its end: what a
    GPU kernel can hold, in code that does not grow with the dataset. The slope of the loss is JAX's
    derivative of ``loss.value``.

    Attributes
    ----------
    loss, prior, gamma
        The posterior.
    refs
        References to the dataset as `Rows`.
    num_examples
        How many rows are examples.
    lanes
        Rows at a time.
    multiply_add
        How to multiply and add.
    """

    loss: LinearLoss
    prior: RowPrior
    gamma: Number
    refs: Any
    num_examples: int
    lanes: int
    multiply_add: MultiplyAdd

    def at(self, position: Coordinates) -> State:
        """Evaluate both."""
        blank = jnp.zeros((self.lanes,), position[0].dtype)

        def one(index: Array, carry: tuple[Lanes, tuple[Lanes, ...]]) -> Any:
            energies, pull = jax.vjp(*self._of_rows(index, position))
            return carry[0] + energies, self._pulled(index, carry[1], pull)

        value, sums = self._over_rows(one, (blank, (blank,) * len(position)))
        return State(position, jnp.sum(value), tuple(jnp.sum(a) for a in sums))

    def gradient(self, position: Coordinates) -> Coordinates:
        """Transposed product of the design with the rows' slopes."""
        blank = jnp.zeros((self.lanes,), position[0].dtype)

        def one(index: Array, sums: tuple[Lanes, ...]) -> tuple[Lanes, ...]:
            return self._pulled(index, sums, jax.vjp(*self._of_rows(index, position))[1])

        sums = self._over_rows(one, (blank,) * len(position))
        return tuple(jnp.sum(a) for a in sums)

    def _over_rows(self, body: Callable[[Any, Any], Any], begin: Any) -> Any:
        num = self.refs.offset.shape[0] // self.lanes
        return jax.lax.fori_loop(0, num, body, begin)

    def _here(self, index: Int[Array, ""]) -> Any:
        return pl.ds(index * self.lanes, self.lanes)

    def _pulled(self, index: Array, sums: tuple[Lanes, ...], pull: Any) -> tuple[Lanes, ...]:
        (slope,), here = pull(jnp.ones_like(sums[0])), self._here(index)
        return tuple(
            self.multiply_add(self.refs.design[j, here], slope, a) for j, a in enumerate(sums)
        )

    def _of_rows(
        self, index: Array, position: Coordinates
    ) -> tuple[Callable[[Lanes], Lanes], Lanes]:
        """Energies of some rows as a function of what they see, and what they see."""
        here, refs = self._here(index), self.refs
        place = index * self.lanes + jax.lax.broadcasted_iota(jnp.int32, (self.lanes,), 0)
        is_example = place < self.num_examples
        is_prior = ~is_example & (place < self.num_examples + len(position))
        seen, label, reference = refs.offset[here], refs.label[here], refs.reference[here]
        for j, coordinate in enumerate(position):
            spread = jnp.broadcast_to(coordinate, seen.shape)
            seen = self.multiply_add(refs.design[j, here], spread, seen)
        own = {name: ref[here] for name, ref in refs.own.items()}

        def energies(seen: Lanes) -> Lanes:
            losses = self.gamma * (self.loss.value(seen, label) - reference)
            others = jnp.zeros_like(seen)
            if self.prior.kind is not None:
                prior = self.prior.energy(seen, own) - reference
                others = jnp.where(is_prior, prior, others)
            return jnp.where(is_example, losses, others)

        return energies, seen


def rows_at_a_time(num_rows: int) -> int:
    """Return how many rows one round of the loop takes: 1 or 2 for each thread of a warp.

    More of them spend fewer loads and counts, and pad more: a row takes about 35 instructions of
    its thread, a round 17.
    """

    def cost(lanes: int) -> int:
        rounds = -(-num_rows // lanes)
        return rounds * (17 + 35 * lanes // 32)

    return min((32, 64), key=cost)


def squared_norm(v: Coordinates) -> Number:
    """Sum of squares."""
    total = v[0] * v[0]
    for x in v[1:]:
        total = total + x * x
    return total


# The noise of one step of one chain: the numbers that the plain path draws.

Word = UInt32[Array, ""]


def step_words(chain: tuple[Word, Word], step: Int[Array, ""]) -> tuple[Word, Word]:
    """Words of :func:`gibbs_dp.sampling.noise.step_key`."""
    return threefry(chain, (step.astype(jnp.uint32), jnp.uint32(0)), ROUNDS)


def normals_and_uniforms(
    pair: tuple[Word, Word], dim: int, num_uniforms: int, dtype: Any
) -> tuple[Coordinates, Coordinates]:
    """:func:`gibbs_dp.sampling.noise.normals_and_uniforms` for one key, one by one."""
    num = dim + num_uniforms
    half = _half(num, dtype)
    lanes = 1 << (half - 1).bit_length()
    place = jax.lax.broadcasted_iota(jnp.uint32, (lanes,), 0)
    first, second = threefry(pair, (place, jnp.zeros_like(place)), ROUNDS)
    if words_per_number(dtype) == 2:
        sides = [uniform_of_words(first, second, dtype)]
    else:
        sides = [uniform_of_words(words, None, dtype) for words in (first, second)]
    normals = [normal_quantile(u) for u in sides]

    def taken(vectors: list[Array], i: int) -> Number:
        # A GPU kernel cannot index a vector; a sum of one number and zeros is that number.
        is_it = place == i % half
        return jnp.sum(jnp.where(is_it, vectors[i // half], 0.0))

    return tuple(taken(normals, i) for i in range(dim)), tuple(
        taken(sides, i) for i in range(dim, num)
    )


def one_uniform(pair: tuple[Word, Word], index: int, num: int, dtype: Any) -> Number:
    """Draw the ``index``-th of the ``num`` uniform numbers that a key gives."""
    half = _half(num, dtype)
    words = threefry(pair, (jnp.uint32(index % half), jnp.uint32(0)), ROUNDS)
    if words_per_number(dtype) == 2:
        return uniform_of_words(words[0], words[1], dtype)
    return uniform_of_words(words[index // half], None, dtype)


def in_its_shell(
    normals: Coordinates,
    chain: Int[Array, ""],
    num_chains: int,
    uniform: Number,
    turn: Number,
    table: Any,
) -> Coordinates:
    """One chain's part of :func:`gibbs_dp.sampling.noise.spread_radii`."""
    u = in_shell(chain.astype(uniform.dtype), uniform, turn, num_chains)
    factor = interpolate(table, u) / jnp.sqrt(squared_norm(normals))
    return tuple(x * factor for x in normals)


def _half(num: int, dtype: Any) -> int:
    """Return how many counts of the generator, two words each, ``num`` numbers take."""
    return (num * words_per_number(dtype) + 1) // 2


# HMC's transition on coordinates held one by one, as a GPU kernel holds them.
#
# The same arithmetic as :mod:`gibbs_dp.sampling.kernels.hmc`, which has vectors: a GPU kernel
# cannot take a coordinate out of one.

Integrator = Callable[[State, Coordinates, Energy, Number, Any], tuple[State, Coordinates]]


def _plus(x: Coordinates, factor: Number, y: Coordinates) -> Coordinates:
    return tuple(a + factor * b for a, b in zip(x, y, strict=True))


def leapfrog(
    state: State, momentum: Coordinates, energy: Energy, size: Number, num_leapfrog: Any
) -> tuple[State, Coordinates]:
    """Kicks by the gradient, and straight drifts between: the end, and the momentum there."""
    begin = state.position, _plus(momentum, -0.5 * size, state.gradient)

    def one(_: Array, carry: tuple[Coordinates, Coordinates]) -> tuple[Coordinates, Coordinates]:
        position = _plus(carry[0], size, carry[1])
        return position, _plus(carry[1], -size, energy.gradient(position))

    position, half = jax.lax.fori_loop(0, num_leapfrog - 1, one, begin)
    end = energy.at(_plus(position, size, half))
    return end, _plus(half, -0.5 * size, end.gradient)


def split(
    state: State, momentum: Coordinates, energy: Energy, angle: Number, num_leapfrog: Any
) -> tuple[State, Coordinates]:
    """Rotations, and kicks by what the gradient has beyond a Gaussian's between."""
    cos, sin = jnp.cos(angle), jnp.sin(angle)

    def kicked(
        momentum: Coordinates, share: Number, gradient: Coordinates, at: Coordinates
    ) -> Coordinates:
        residual = tuple(g - q for g, q in zip(gradient, at, strict=True))
        return _plus(momentum, -share, residual)

    def rotate(q: Coordinates, p: Coordinates) -> tuple[Coordinates, Coordinates]:
        pairs = list(zip(q, p, strict=True))
        return tuple(cos * a + sin * b for a, b in pairs), tuple(
            cos * b - sin * a for a, b in pairs
        )

    def one(_: Array, carry: tuple[Coordinates, Coordinates]) -> tuple[Coordinates, Coordinates]:
        position, momentum = rotate(*carry)
        return position, kicked(momentum, angle, energy.gradient(position), position)

    begin = state.position, kicked(momentum, 0.5 * angle, state.gradient, state.position)
    position, last = rotate(*jax.lax.fori_loop(0, num_leapfrog - 1, one, begin))
    end = energy.at(position)
    return end, kicked(last, 0.5 * angle, end.gradient, position)


INTEGRATORS: dict[str, Integrator] = {"leapfrog": leapfrog, "split": split}


def transition(
    momentum: Coordinates,
    uniforms: tuple[Number, Number],
    state: State,
    energy: Energy,
    tuning: Tuning,
    jitter: float,
    integrator: Integrator,
) -> tuple[State, StepInfo]:
    """One HMC transition with given noise; see :func:`gibbs_dp.sampling.kernels.hmc.transition`."""
    size = tuning.step_size * (1.0 + jitter * (2.0 * uniforms[0] - 1.0))
    proposal, last = integrator(state, momentum, energy, size, tuning.num_inner)
    change = (proposal.potential + 0.5 * squared_norm(last)) - (
        state.potential + 0.5 * squared_norm(momentum)
    )
    return metropolis(uniforms[1], state, proposal, -change)


# A posterior as rows: each example, and each coordinate of the prior, a function of one number.


class Rows(NamedTuple):
    """One dataset, ready for the chip; what is padded counts for nothing.

    In whitened coordinates ``v`` row ``i`` sees ``offset[i] + design[:, i] @ v``: the prediction of
    example ``i``, and below the examples the coordinates ``u`` themselves, which the prior is a
    function of. One product serves both, and whitening costs nothing inside.

    Attributes
    ----------
    design
        Whitened examples, and the whitening's scale.
    offset
        Predictions, and coordinates, at the whitening's center.
    label
        ``y``.
    reference
        Losses, and prior energies, that the potential is relative to.
    own
        Parameters of the prior that differ between coordinates.
    """

    design: Float[Array, "dim rows"]
    offset: Float[Array, " rows"]
    label: Shaped[Array, " rows"]
    reference: Float[Array, " rows"]
    own: dict[str, Float[Array, " rows"]]


def num_rows(num_examples: int, dim: int, prior: RowPrior) -> int:
    """Return the number of rows in use."""
    return num_examples + (0 if prior.kind is None else dim)


def make_rows(
    target: Target, found: Location, whitening: Whitening, prior: RowPrior, lanes: int
) -> Rows:
    """Lay one dataset out, padded to a multiple of ``lanes`` rows.

    ``found`` has the point that the potential is relative to.
    """
    x, y = target.data
    center, scale = whitening
    dtype, dim = center.dtype, center.shape[0]
    scale = jnp.diag(scale) if scale.ndim == 1 else scale
    x = x.astype(dtype)
    design = jnp.einsum("ke,nk->en", scale, x, precision="highest")
    offset = jnp.einsum("k,nk->n", center, x, precision="highest")
    reference = found.reference.losses
    own = {name: jnp.asarray(values, dtype) for name, values in prior.own.items()}
    if prior.kind is not None:
        at_mode = prior.energy(found.whitening.center, own)
        design = jnp.concatenate([design, scale.T], axis=1)
        offset, reference = (
            jnp.concatenate(pair) for pair in ((offset, center), (reference, at_mode))
        )
    num = -(-num_rows(x.shape[0], dim, prior) // lanes) * lanes

    def padded(values: Array, before: int = 0, fill: float = 0.0) -> Array:
        width = (before, num - before - values.shape[-1])
        pads = [(0, 0)] * (values.ndim - 1) + [width]
        return jnp.pad(values, pads, constant_values=fill)

    label = y.astype(jnp.int32) if y.dtype == bool else y
    # Any valid parameter will do on rows that are not the prior's.
    own = {name: padded(values, x.shape[0], 1.0) for name, values in own.items()}
    return Rows(padded(design), padded(offset), padded(label), padded(reference), own)


def last_round(kernel: FusedHMC, target: Target, found: Location) -> LastRound:
    """Return what runs the last round of :func:`gibbs_dp.sampling.chains.evolve` in one kernel.

    Parameters
    ----------
    kernel
        Its settings.
    target
        A posterior that :meth:`FusedHMC.check` accepts, data and gamma.
    found
        The mode, which potentials are relative to.

    Returns
    -------
    LastRound
        What ``evolve`` calls once adaptation is over.

    Raises
    ------
    ValueError
        If the dataset does not fit the chip.
    """
    loss, prior = target.posterior.loss, row_prior(target.posterior.prior)
    assert isinstance(loss, LinearLoss)
    assert prior is not None
    num_examples = target.data[0].shape[0]

    def run(
        streams: UInt32[Array, "chains 2"],
        positions: Float[Array, "chains dim"],
        whitening: Whitening,
        step_size: Float[Array, ""],
        schedule: Schedule,
        first_step: Any,
        num_samples: int,
        is_joint: bool,
    ) -> Walk:
        (num_chains, dim), dtype = positions.shape, positions.dtype
        num = num_rows(num_examples, dim, prior)
        check_size(num, dim)
        lanes = rows_at_a_time(num)
        rows, row_tree = jax.tree.flatten(make_rows(target, found, whitening, prior, lanes))
        multiply_add = _plain if kernel.interpret else _in_one_instruction
        counts: tuple[Any, ...] = schedule.num_burn_in, schedule.tuning.num_inner, first_step
        settings = jnp.stack([step_size, target.gamma]).astype(dtype)
        # Counts that are plain numbers are compiled in; the others are read.
        traced = [jnp.asarray(c, jnp.int32) for c in counts if not isinstance(c, int)]
        table = jnp.asarray(radius_table(dim), dtype)
        starts = jax.vmap(whitening.whiten)(positions)

        def chain(
            setting_ref: Any,
            traced_ref: Any,
            stream_ref: Any,
            start_ref: Any,
            table_ref: Any,
            *others: Any,
        ) -> None:
            row_refs, (v_ref, potential_ref, accept_ref, moved_ref) = others[:-4], others[-4:]
            given = iter(range(len(traced)))
            told: list[Any] = [c if isinstance(c, int) else traced_ref[next(given)] for c in counts]
            burn_in, num_inner, first = told
            refs = jax.tree.unflatten(row_tree, row_refs)
            step_size, gamma = setting_ref[0], setting_ref[1]
            energy = Energy(loss, prior, gamma, refs, num_examples, lanes, multiply_add)
            tuning, index = Tuning(step_size, num_inner), pl.program_id(0)
            own = stream_ref[index, 0], stream_ref[index, 1]
            leader = stream_ref[0, 0], stream_ref[0, 1]

            def draw_noise(step: Array) -> tuple[Any, Any]:
                num = 4 if is_joint else 2
                pair = step_words(own, step)
                momentum, uniforms = normals_and_uniforms(pair, dim, num, dtype)
                if is_joint:
                    pair = step_words(leader, step)
                    turn = one_uniform(pair, dim + 3, dim + 4, dtype)
                    momentum = in_its_shell(
                        momentum, index, num_chains, uniforms[2], turn, table_ref
                    )
                return momentum, uniforms[:2]

            def one_step(t: Array, carry: tuple[State, Array, Array]) -> tuple[State, Array, Array]:
                state, accept, has_moved = carry
                momentum, uniforms = draw_noise(first + t)
                state, info = transition(
                    momentum,
                    uniforms,
                    state,
                    energy,
                    tuning,
                    kernel.jitter,
                    INTEGRATORS[kernel.integrator],
                )
                slot = jnp.maximum(t - burn_in, 0)  # what burn-in leaves is overwritten
                for j, x in enumerate(state.position):
                    v_ref[slot, j] = x
                potential_ref[slot] = state.potential
                accept = accept + jnp.where(t >= burn_in, info.accept_prob, 0.0)
                return state, accept, has_moved | info.is_accepted.astype(jnp.int32)

            begin = energy.at(tuple(start_ref[j] for j in range(dim)))
            zero, still = jnp.zeros((), dtype), jnp.zeros((), jnp.int32)
            _, accept, has_moved = jax.lax.fori_loop(
                0, burn_in + num_samples, one_step, (begin, zero, still)
            )
            accept_ref[0] = accept / num_samples
            moved_ref[0] = has_moved

        shared = [settings, jnp.stack([*traced, jnp.int32(0)]), streams]
        operands = [*shared, starts, table, *rows]
        whole = [pl.BlockSpec(a.shape, lambda _, n=a.ndim: (0,) * n) for a in operands]
        whole[len(shared)] = pl.BlockSpec((None, dim), lambda c: (c, 0))
        v, potential, accept_prob, has_moved = pl.pallas_call(
            chain,
            grid=(num_chains,),
            in_specs=whole,
            out_specs=[
                pl.BlockSpec((None, num_samples, dim), lambda c: (c, 0, 0)),
                pl.BlockSpec((None, num_samples), lambda c: (c, 0)),
                pl.BlockSpec((1,), lambda c: (c,)),
                pl.BlockSpec((1,), lambda c: (c,)),
            ],
            out_shape=[
                jax.ShapeDtypeStruct((num_chains, num_samples, dim), dtype),
                jax.ShapeDtypeStruct((num_chains, num_samples), dtype),
                jax.ShapeDtypeStruct((num_chains,), dtype),
                jax.ShapeDtypeStruct((num_chains,), np.int32),
            ],
            **_how(kernel),
        )(*operands)
        return Walk(v, potential, whitening, accept_prob, has_moved == 0)

    return run


def _how(kernel: FusedHMC) -> dict[str, Any]:
    """Return how Pallas is to run: compiled for a GPU, or interpreted."""
    if kernel.interpret:
        return {"interpret": True}
    from jax.experimental.pallas import triton

    return {
        "name": "hmc_chain",
        "compiler_params": triton.CompilerParams(num_warps=1, num_stages=1),
    }


def _plain(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    return a * b + c


def _in_one_instruction(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Return ``a * b + c`` in single precision; Pallas itself makes two instructions of it."""
    from jax.experimental.pallas import triton

    (result,) = triton.elementwise_inline_asm(
        "fma.rn.f32 $0, $1, $2, $3;",
        args=[a, b, c],
        constraints="=f,f,f,f",
        pack=1,
        result_shape_dtypes=[jax.ShapeDtypeStruct(a.shape, a.dtype)],
    )
    return result


def _refusal(posterior: GibbsPosterior) -> str | None:
    """Return why a posterior cannot be sampled; None: it can be."""
    loss = posterior.loss
    if not isinstance(loss, LinearLoss) or type(loss).batch is not LinearLoss.batch:
        name = "a total_loss" if loss is None else getattr(loss, "__name__", type(loss).__name__)
        return f"the loss must be a function of x @ theta and y (a LinearLoss), got {name}"
    if row_prior(posterior.prior) is None:
        kinds = ", ".join(kind.__name__ for kind in KINDS)
        return (
            "the prior must be one vector of independent coordinates on the whole line (gdp.Flat, "
            f"{kinds}), which this one is not"
        )
    if posterior.dim > MAX_DIM:
        return f"theta has {posterior.dim} coordinates, and at most {MAX_DIM} stay on the chip"
    return None


def check_size(num_rows: int, dim: int) -> None:
    """Raise a ValueError unless a dataset stays on the chip.

    Parameters
    ----------
    num_rows
        Examples and prior rows.
    dim
        Coordinates.

    Raises
    ------
    ValueError
        If it has more numbers than ``MAX_NUMBERS``.
    """
    numbers = num_rows * (dim + 3)
    if numbers > MAX_NUMBERS:
        raise ValueError(
            f"FusedHMC: a dataset of {num_rows} rows (the prior's among them) and {dim} "
            f"coordinates is {numbers} numbers and at most {MAX_NUMBERS} stay on the chip; use "
            "gibbs_dp.HMC."
        )


@dataclass(frozen=True)
class FusedHMC(gdp.HMC):
    """Hamiltonian Monte Carlo with all steps after adaptation in one GPU kernel.

    For losses of a linear prediction whose prior has independent coordinates on the whole line, on
    a GPU in single precision; anything else is refused. Draws differ from those of `gibbs_dp.HMC`
    by rounding, which long chains amplify.

    Parameters
    ----------
    interpret
        Run the same kernel anywhere, slowly, to test it.
    """

    interpret: bool = False

    def check(self, posterior: GibbsPosterior) -> None:
        """Raise a ValueError where it cannot run."""
        refusal = _refusal(posterior)
        if refusal is not None:
            raise ValueError(f"FusedHMC: {refusal}; use gibbs_dp.HMC.")
        if self.interpret:
            return
        if is_double():
            raise ValueError(
                "FusedHMC: on GPUs it computes in single precision, and JAX is set to double; use "
                "gibbs_dp.HMC, or interpret=True, which is slow."
            )
        if jax.default_backend() != "gpu":
            raise ValueError(
                f"FusedHMC: it is compiled for GPUs and JAX runs on {jax.default_backend()}; use "
                "gibbs_dp.HMC, or interpret=True, which gives the same numbers slowly."
            )

    def last_round(self, target: Target, found: Location) -> LastRound:
        """Return what runs all steps after adaptation in one kernel."""
        return last_round(self, target, found)
