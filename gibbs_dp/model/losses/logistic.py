"""Logistic loss of a linear prediction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped
from scipy.special import expit

from gibbs_dp._jaxlib.elementary import log1p_of_share
from gibbs_dp.model.domain import Domain, LossConstants, product
from gibbs_dp.model.losses.exchange import largest_gap
from gibbs_dp.model.losses.labels import TwoClassLoss


@jax.custom_jvp
def softplus(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """``log(1 + e^x)`` with a sigmoid as derivative, so that gradients compute no logarithm.

    >>> zero = jnp.zeros(())
    >>> float(jax.grad(softplus)(zero)), float(jax.hessian(softplus)(zero))
    (0.5, 0.25)
    """
    return jnp.maximum(x, 0.0) + log1p_of_share(jnp.exp(-jnp.abs(x)))


@softplus.defjvp
def _softplus_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Array, Array]:
    return softplus(primals[0]), jax.nn.sigmoid(primals[0]) * tangents[0]


@dataclass(frozen=True)
class Logistic(TwoClassLoss):
    """``log(1 + exp(x·theta)) - y x·theta`` for labels ``y`` in {0, 1}: a negative log-likelihood.

    >>> import jax.numpy as jnp
    >>> round(float(Logistic()(jnp.array([0.0]), (jnp.array([1.0]), jnp.array(1.0)))), 6)
    0.693147
    """

    def pointwise(
        self, prediction: Float[Array, "*n"], y: Shaped[Array, "*n"]
    ) -> Float[Array, "*n"]:
        """``softplus(prediction) - y prediction``."""
        return softplus(prediction) - y * prediction

    def constants(self, domain: Domain) -> LossConstants:
        """Constants with ``|x·theta| <= P``; ``softplus(P) - softplus(-P) = P``."""
        p = domain.prediction_bound
        sigmoid = 1.0 / (1.0 + np.exp(-p))
        return LossConstants.of(
            range=(float(np.logaddexp(0.0, -p)), float(np.logaddexp(0.0, p))),
            oscillation=p,
            lipschitz=product(sigmoid, domain.x_bound),
            smoothness=domain.x_bound**2 / 4,
            exchange_lipschitz=product(_largest_gap(p), domain.x_bound),
        )


@lru_cache(maxsize=256)
def _largest_gap(prediction_bound: float) -> float:
    return largest_gap(expit, prediction_bound)
