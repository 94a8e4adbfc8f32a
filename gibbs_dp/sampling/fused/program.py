"""The last round of HMC as one GPU kernel: a program for each chain of each dataset.

The plain path launches dozens of kernels a step, and every one reads its dataset from the device's
memory. Here a chain's program reads it once, after which it lies in the cache of the processor that
the program runs on, and writes nothing but draws. A program is one warp: sums over examples are
shuffles between its threads, and no thread waits for another.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jaxtyping import Array, Float, UInt32

from gibbs_dp.model.losses.base import LinearLoss
from gibbs_dp.sampling.evolve import LastRound, Walk
from gibbs_dp.sampling.fused import noise
from gibbs_dp.sampling.fused.allowed import check_size
from gibbs_dp.sampling.fused.energy import Energy, Lanes, State, rows_at_a_time
from gibbs_dp.sampling.fused.moves import INTEGRATORS, transition
from gibbs_dp.sampling.fused.row_prior import row_prior
from gibbs_dp.sampling.fused.rows import make_rows, num_rows
from gibbs_dp.sampling.kernels.base import Tuning
from gibbs_dp.sampling.kernels.hmc import HMC
from gibbs_dp.sampling.locate import Location
from gibbs_dp.sampling.schedule import Schedule
from gibbs_dp.sampling.shells import radius_table
from gibbs_dp.sampling.target import Target
from gibbs_dp.sampling.whitening import Whitening


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
