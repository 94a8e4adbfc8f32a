"""A posterior as rows: each example, and each coordinate of the prior, a function of one number."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from gibbs_dp.sampling.fused.row_prior import RowPrior
from gibbs_dp.sampling.locate import Location
from gibbs_dp.sampling.target import Target
from gibbs_dp.sampling.whitening import Whitening


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
