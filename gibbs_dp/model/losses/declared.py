"""A user's own loss, with constants that its author vouches for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gibbs_dp._jaxlib.per_example import over_examples
from gibbs_dp.model.domain import Domain, LossConstants
from gibbs_dp.model.losses.base import Loss


@dataclass(frozen=True)
class Declared(Loss):
    """Any ``loss(theta, z) -> scalar`` with declared constants.

    The constants are promises for all parameters of the prior's support and all examples of the
    domain that is used with the loss; nothing checks them. A guarantee
    that needs an undeclared constant says so.

    Parameters
    ----------
    function
        The loss of one example.
    oscillation
        ``sup_z (sup_theta - inf_theta) loss(theta, z)``, in units of the loss.
    lipschitz
        Largest Euclidean norm of the gradient in theta.
    smoothness
        Largest eigenvalue of the Hessian in theta.
    strong_convexity
        Smallest eigenvalue of the Hessian in theta for every example; 0 for a convex loss.

    Raises
    ------
    ValueError
        If a constant is negative, NaN, or contradicts another.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> bounded = Declared(lambda theta, z: jnp.tanh((theta - z) ** 2), oscillation=1.0)
    >>> bounded.constants(Domain()).exchange_range
    2.0
    """

    function: Callable[[Any, Any], Any]
    oscillation: float = np.inf
    lipschitz: float = np.inf
    smoothness: float = np.inf
    strong_convexity: float = -np.inf

    def __post_init__(self) -> None:
        for name in ("oscillation", "lipschitz", "smoothness"):
            if not getattr(self, name) >= 0:
                raise ValueError(
                    f"Declared({name}) must be at least 0, got {getattr(self, name)}; leave it out "
                    "where it is not known."
                )
        if not self.strong_convexity <= self.smoothness:
            raise ValueError(
                f"Declared(strong_convexity) must be at most smoothness={self.smoothness:g}, got "
                f"{self.strong_convexity}; it is the smallest eigenvalue of the Hessian."
            )

    def __call__(self, theta: Any, z: Any) -> Float[Array, ""]:
        """Loss of one example."""
        return jnp.asarray(self.function(theta, z))

    def batch(self, theta: Any, data: Any) -> Float[Array, " n"]:
        """Losses of ``n`` examples: one by one, unless the function has a ``batch`` of its own."""
        batch = getattr(self.function, "batch", None)
        return over_examples(self, theta, data) if batch is None else batch(theta, data)

    def constants(self, domain: Domain) -> LossConstants:
        """Return the declared constants, whatever the domain."""
        del domain
        return LossConstants.of(
            range=(-np.inf, np.inf),
            oscillation=self.oscillation,
            lipschitz=self.lipschitz,
            smoothness=self.smoothness,
            strong_convexity=self.strong_convexity,
        )
