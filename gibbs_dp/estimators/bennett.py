"""The ratio of two posteriors' normalizers from draws of both."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gibbs_dp.information.checks import whole_arrays

# Newton's steps are kept inside a bracket that shrinks, so that these are more than enough.
NUM_STEPS = 32


@whole_arrays
def log_normalizer_ratio(
    delta: Float[Array, " draws"],
    delta_replaced: Float[Array, " others"],
    share: Float[Array, " draws"] | None = None,
    share_replaced: Float[Array, " others"] | None = None,
) -> Float[Array, ""]:
    """Log of ``C' / C`` by Bennett's acceptance ratio, nats.

    ``p = e^{-U} / C`` and ``p' = e^{-U'} / C'`` with ``delta = U' - U``, so that ``log p / p' =
    delta + log(C' / C)``. It solves ``mean_p sigmoid(-L) = mean_p' sigmoid(L)`` for the ratio in
    ``L``, both sides of which estimate the integral of ``p p' / (p + p')``: the asymptotically
    best bridge for equally many draws of both (Bennett 1976; Meng & Wong 1996, section 3). Its
    variance is finite whichever tail is heavier, unlike that of ``mean_p e^{-delta}``.

    Parameters
    ----------
    delta
        At draws of ``p``, nats.
    delta_replaced
        At draws of ``p'``, nats.
    share, share_replaced
        Weights of the draws, summing to one; None: equal ones.

    Returns
    -------
    Array
        A number.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> round(float(log_normalizer_ratio(jnp.full(8, 1.5), jnp.full(4, 1.5))), 4)  # the same law
    -1.5
    """
    own = jnp.full_like(delta, 1.0 / delta.size) if share is None else share
    other = share_replaced
    if other is None:
        other = jnp.full_like(delta_replaced, 1.0 / delta_replaced.size)
    smallest = jnp.minimum(delta.min(), delta_replaced.min())
    largest = jnp.maximum(delta.max(), delta_replaced.max())

    def newton(_: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        low, high, ratio = state
        forward = jax.nn.sigmoid(-(delta + ratio))
        backward = jax.nn.sigmoid(delta_replaced + ratio)
        excess = jnp.sum(own * forward) - jnp.sum(other * backward)  # falls with the ratio
        slope = jnp.sum(own * forward * (1.0 - forward)) + jnp.sum(
            other * backward * (1.0 - backward)
        )
        low, high = jnp.where(excess > 0, ratio, low), jnp.where(excess > 0, high, ratio)
        step = ratio + excess / jnp.maximum(slope, jnp.finfo(slope.dtype).tiny)
        inside = (step >= low) & (step <= high)
        return low, high, jnp.where(inside, step, 0.5 * (low + high))

    middle = -0.5 * (jnp.sum(own * delta) + jnp.sum(other * delta_replaced))
    start = -largest, -smallest, middle
    return jax.lax.fori_loop(0, NUM_STEPS, newton, start)[2]
