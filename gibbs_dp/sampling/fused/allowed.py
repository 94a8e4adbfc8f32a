"""What the fused kernel can sample, and where."""

from __future__ import annotations

from typing import Literal

import jax

from gibbs_dp._jaxlib.precision import is_double
from gibbs_dp.model.losses.base import LinearLoss
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.fused.row_prior import KINDS, row_prior

# Coordinates are written out one by one, some six registers each: beyond, they spill to memory.
MAX_DIM = 32
# Rows times (coordinates + 3), 4 bytes each: what the first cache of a processor of an A100 or H100
# holds (192 and 256 kB).
MAX_NUMBERS = 48_000

Fused = bool | Literal["interpret"]


def check(posterior: GibbsPosterior, fused: Fused) -> None:
    """Raise a ValueError where ``HMC(fused=...)`` cannot run.

    Raises
    ------
    ValueError
        Unless the loss is one of a linear prediction, the prior's coordinates are independent on
        the whole line, there are at most ``MAX_DIM`` of them, and JAX runs on a GPU in
        single precision or ``fused`` is "interpret".
    """
    refusal = _refusal(posterior)
    if refusal is not None:
        raise ValueError(f"HMC(fused={fused!r}): {refusal}; leave `fused` out.")
    if fused is True and is_double():
        raise ValueError(
            "HMC(fused=True): on GPUs it computes in single precision, and JAX is set to double; "
            "leave `fused` out, or take fused='interpret', which is slow."
        )
    if fused is True and jax.default_backend() != "gpu":
        raise ValueError(
            f"HMC(fused=True): it is compiled for GPUs and JAX runs on {jax.default_backend()}; "
            "leave `fused` out, or take fused='interpret', which gives the same numbers slowly."
        )


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
            f"HMC(fused): a dataset of {num_rows} rows (the prior's among them) and {dim} "
            f"coordinates is {numbers} numbers and at most {MAX_NUMBERS} stay on the chip; leave "
            "`fused` out."
        )
