"""Heavy tails: how far they reach in draws, and coordinates in which they are light.

Where a density falls as a power of the distance, gradients vanish far out. Chains come there seldom
and stay long, and while none has been there, R-hat and effective draws have nothing against them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpyro.diagnostics import effective_sample_size

from gibbs_dp._jaxlib.linalg import cholesky, solve_lower
from gibbs_dp._jaxlib.precision import matmul

# Of a tail, the distance of its outermost hundredth from the median over that of its quartile: a
# Gaussian's is 3.4, an exponential's 5.6, that of Student's t 5.9, 8.5 and 32 with 3, 2 and 1
# degrees of freedom.
HEAVY, OUTER = 6.5, 0.01
# Standard errors of the shares beyond two quantiles, two of their quotient; draws in all, of which
# fewer show no tail.
TAIL_Z, FEWEST = 1.5, 400
# Of quartile distances from the median, beyond which a draw is no part of the middle.
MIDDLE = 5.0


def reach(u: Float[np.ndarray, "chain draw dim"]) -> float:
    """How far the heaviest tail of any coordinate reaches at least, in quartile distances.

    Quantiles are moved towards each other by standard errors of the shares beyond them: few
    effective draws show no tail.
    """
    u = np.asarray(u, np.float64)
    chains, draws, dim = u.shape
    if chains * draws < FEWEST or not np.isfinite(u).all():
        return 0.0
    largest = 0.0
    for at in np.flatnonzero(_reaches(u.reshape(-1, dim), OUTER, 0.25) > HEAVY):
        ess = float(effective_sample_size(u[..., at]))
        error = TAIL_Z / np.sqrt(max(ess, 1.0)) if ess == ess else 1.0
        outer = OUTER + error * np.sqrt(OUTER * (1.0 - OUTER))
        inner = 0.25 - error * np.sqrt(0.25 * 0.75)
        if outer < inner:
            largest = max(largest, float(_reaches(u[..., [at]].reshape(-1, 1), outer, inner)[0]))
    return largest


def _reaches(
    u: Float[np.ndarray, "draw dim"], outer: float, inner: float
) -> Float[np.ndarray, " dim"]:
    shares = [outer, inner, 0.5, 1.0 - inner, 1.0 - outer]
    low, first, middle, third, high = np.quantile(u, shares, axis=0)
    tiny = np.finfo(float).tiny
    below = (middle - low) / np.maximum(middle - first, tiny)
    return np.maximum(below, (high - middle) / np.maximum(third - middle, tiny))


class Stretch(NamedTuple):
    """Coordinates ``y`` in which heavy tails are light (Johnson & Geyer 2012).

    ``w = center + factor v``, where ``v`` is ``sinh(y)`` in heavy coordinates and ``y`` in others:
    a density that falls as a power of ``v`` falls exponentially in ``y``. Any such map is a
    bijection: draws are draws of the same posterior.
    """

    center: Float[Array, " dim"]
    factor: Float[Array, "*shape"]  # a lower triangle, or a diagonal
    is_heavy: Bool[Array, " dim"]

    @classmethod
    def none(cls, dim: int, is_dense: bool, dtype: jnp.dtype) -> Stretch:
        """Return coordinates that are ``w`` itself."""
        factor = jnp.eye(dim, dtype=dtype) if is_dense else jnp.ones((dim,), dtype)
        return cls(jnp.zeros((dim,), dtype), factor, jnp.zeros((dim,), bool))

    def stretched(self, y: Float[Array, " dim"]) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """``w``, and the log determinant of the way to it, but for a constant."""
        far = jnp.where(self.is_heavy, y, 0.0)  # others may be large: no sinh of them
        v = jnp.where(self.is_heavy, jnp.sinh(far), y)
        log_cosh = jnp.logaddexp(far, -far) - jnp.log(jnp.asarray(2.0, y.dtype))
        moved = self.factor * v if self.factor.ndim == 1 else matmul(self.factor, v)
        return self.center + moved, jnp.sum(log_cosh)

    def unstretched(self, w: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Invert :meth:`stretched`."""
        away = w - self.center
        v = away / self.factor if self.factor.ndim == 1 else solve_lower(self.factor, away)
        return jnp.where(self.is_heavy, jnp.arcsinh(v), v)


def fitted_stretch(
    w: Float[Array, "draws dim"], weight: Float[Array, " draws"], is_dense: bool
) -> Stretch:
    """Whiten the middle of weighted draws, and find the directions with heavy tails."""
    is_seen = (weight > 0)[:, None] & jnp.all(jnp.isfinite(w), axis=1)[:, None]

    def quantiles(x: Float[Array, "draws dim"], *shares: float) -> Float[Array, "shares dim"]:
        return jnp.nanquantile(jnp.where(is_seen, x, jnp.nan), jnp.asarray(shares, x.dtype), axis=0)

    tiny = jnp.finfo(w.dtype).tiny
    first, middle, third = quantiles(w, 0.25, 0.5, 0.75)
    is_middle = jnp.all(jnp.abs(w - middle) <= MIDDLE * (third - first), axis=1)
    factor = fitted(w, weight * is_middle, is_dense)
    away = w - middle
    v = away / factor if factor.ndim == 1 else solve_lower(factor, away.T).T
    low, first, center, third, high = quantiles(v, OUTER, 0.25, 0.5, 0.75, 1.0 - OUTER)
    below = (center - low) / jnp.maximum(center - first, tiny)
    above = (high - center) / jnp.maximum(third - center, tiny)
    is_heavy = jnp.maximum(below, above) > HEAVY
    # A light coordinate's centre and scale are of no matter: adaptation finds them as ever.
    center = jnp.where(is_heavy, center, 0.0)
    width = jnp.where(is_heavy, jnp.maximum(0.5 * (third - first), tiny), 1.0)
    if factor.ndim == 1:
        return Stretch(middle + factor * center, factor * width, is_heavy)
    return Stretch(middle + matmul(factor, center), factor * width, is_heavy)


def fitted(
    w: Float[Array, "draws dim"], weight: Float[Array, " draws"], is_dense: bool
) -> Float[Array, "*shape"]:
    """Scale of weighted draws, its correlations shrunk where they are few."""
    dim = w.shape[1]
    is_finite = jnp.all(jnp.isfinite(w), axis=1)
    weight, w = weight * is_finite, jnp.where(is_finite[:, None], w, 0.0)
    count = jnp.maximum(jnp.sum(weight), 2.0)
    centered = w - matmul(weight, w) / count
    deviation = jnp.sqrt(matmul(weight, centered**2) / (count - 1.0) + 1e-10)
    if not is_dense:
        return deviation
    standard = centered / deviation
    share = count / (count + 5.0 + dim)
    correlation = share * matmul(standard.T, standard * weight[:, None]) / (count - 1.0)
    correlation = correlation.at[jnp.diag_indices(dim)].set(1.0)
    factor = cholesky(correlation)
    factor = jnp.where(jnp.all(jnp.isfinite(factor)), factor, jnp.eye(dim, dtype=w.dtype))
    return deviation[:, None] * factor
