"""The two-sided estimator of on-average KL: draws of the posterior and of the replaced one."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from gibbs_dp.information.checks import whole_arrays


@whole_arrays
def two_sided_kl(
    delta: Float[Array, "chains draws pairs"],
    delta_replaced: Float[Array, "chains draws pairs"],
    weight: Float[Array, "chains draws"],
    weight_replaced: Float[Array, "chains draws"] | None = None,
) -> Float[Array, ""]:
    """Half the symmetrized KL, ``(E_p[delta] - E_p'[delta]) / 2``, averaged over pairs.

    ``delta = log p - log p'`` up to a constant, at draws of ``p`` and at draws of ``p'``. The
    normalizers cancel in ``KL(p || p') + KL(p' || p)``, so nothing has heavy tails and nothing
    is biased, however large the KL. ``(Z, Z')`` and ``(Z', Z)`` have the same law, so both
    directions have the same mean over datasets and half their sum estimates ``eps_KL``
    (Definition 2). One pair's value is a symmetrized KL, not ``KL(p || p')``.

    The same symmetry proves ``eps_KL = gamma gen``: unlike the one-sided estimator, this one is not
    an independent check of that identity, and does not detect draws from a wrong law.

    Drawing ``p`` and ``p'`` with the same random numbers couples the chains and makes the
    difference far less noisy than either mean.
    """
    other = weight if weight_replaced is None else weight_replaced
    difference = jnp.sum(delta * weight[..., None] - delta_replaced * other[..., None], axis=1)
    return 0.5 * jnp.mean(difference)
