"""The last round of HMC as one GPU kernel: a program for each chain of each dataset.

The plain path launches dozens of kernels a step, and every one reads its dataset from the device's
memory. Here a chain's program reads it once, after which it lies in the cache of the processor that
the program runs on, and writes nothing but draws. A program is one warp: sums over examples are
shuffles between its threads, and no thread waits for another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jaxtyping import Array, Float, Shaped, UInt32

from gibbs_dp.model.losses.base import LinearLoss
from gibbs_dp.sampling.evolve import LastRound, Walk
from gibbs_dp.sampling.fused import noise
from gibbs_dp.sampling.fused.allowed import check_size
from gibbs_dp.sampling.fused.energy import (
    Coordinates,
    Energy,
    Lanes,
    Number,
    State,
    rows_at_a_time,
    squared_norm,
)
from gibbs_dp.sampling.fused.row_prior import RowPrior, row_prior
from gibbs_dp.sampling.kernels.base import Schedule, StepInfo, Tuning, metropolis
from gibbs_dp.sampling.kernels.hmc import HMC
from gibbs_dp.sampling.laplace import Location
from gibbs_dp.sampling.rejection import radius_table
from gibbs_dp.sampling.target import Target, Whitening

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


def last_round(kernel: HMC, target: Target, found: Location) -> LastRound:
    """Return what runs the last round of :func:`gibbs_dp.sampling.evolve.evolve` in one kernel.

    Parameters
    ----------
    kernel
        Its settings.
    target
        A posterior that :func:`gibbs_dp.sampling.fused.allowed.check` accepts, data and gamma.
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
        multiply_add = _plain if kernel.fused == "interpret" else _in_one_instruction
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
                pair = noise.step_words(own, step)
                momentum, uniforms = noise.normals_and_uniforms(pair, dim, num, dtype)
                if is_joint:
                    pair = noise.step_words(leader, step)
                    turn = noise.one_uniform(pair, dim + 3, dim + 4, dtype)
                    momentum = noise.in_its_shell(
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


def _how(kernel: HMC) -> dict[str, Any]:
    """Return how Pallas is to run: compiled for a GPU, or interpreted."""
    if kernel.fused == "interpret":
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
