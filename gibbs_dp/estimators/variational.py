"""Variational upper bounds of mutual information: any fixed density in place of the marginal."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import linalg

from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.estimators.halves import fold_of

Points = Float[np.ndarray, "points dim"]

MIXTURE_STEPS = 200
# Draws that a mixture is fitted to: more take time and change it little.
MAX_FITTED = 4096
MAX_COMPONENTS = 8


class Gaussian(NamedTuple):
    """Mean and lower Cholesky factor of a Gaussian fitted to draws."""

    mean: Float[np.ndarray, " dim"]
    factor: Float[np.ndarray, "dim dim"]

    def whiten(self, points: Points) -> Points:
        """Map to coordinates in which the Gaussian is standard."""
        # One small solution and a product: a third of the time of a solution for every point.
        inverse = linalg.solve_triangular(self.factor, np.eye(self.mean.size), lower=True)
        return (points - self.mean) @ inverse.T

    @property
    def log_volume(self) -> float:
        """Logarithm of the factor's determinant."""
        return float(np.log(np.diag(self.factor)).sum())

    def log_density(self, points: Points) -> Float[np.ndarray, " points"]:
        """Log density at points."""
        white = self.whiten(points)
        squares = np.einsum("pd,pd->p", white, white)
        dim = points.shape[1]
        return -0.5 * squares - self.log_volume - 0.5 * dim * np.log(2 * np.pi)


def fit_gaussian(points: Points) -> Gaussian:
    """Match mean and covariance: the closest Gaussian in KL from the points' law."""
    centred = points - points.mean(axis=0)
    covariance = centred.T @ centred / (points.shape[0] - 1)
    # A relative 1e-9, so that a coordinate that hardly varies does not stop the factorization.
    jitter = 1e-9 * np.diag(np.diag(covariance)) + np.finfo(float).tiny * np.eye(points.shape[1])
    return Gaussian(points.mean(axis=0), np.linalg.cholesky(covariance + jitter))


def cross_fitted_gaussian(
    points: Float[np.ndarray, "datasets draws dim"],
) -> Float[np.ndarray, "datasets draws"]:
    """Log density of every draw under the Gaussian fitted to the *other* fold's draws.

    The mean of ``log p(theta | Z) - log r(theta)`` is at least the mutual information for any
    fixed density ``r`` (Barber & Agakov 2003; Poole et al. 2019, section 2.1). Fitted on other
    datasets, ``r`` is fixed with respect to a dataset's own draws.
    """
    fold = fold_of(points.shape[0])
    out = np.empty(points.shape[:2])
    for f in (0, 1):
        fitted = fit_gaussian(points[fold != f].reshape(-1, points.shape[2]))
        mine = points[fold == f]
        out[fold == f] = fitted.log_density(mine.reshape(-1, points.shape[2])).reshape(
            mine.shape[:2]
        )
    return out


class _Mixture(NamedTuple):
    logits: Float[Array, " components"]
    means: Float[Array, "components dim"]
    log_scales: Float[Array, "components dim"]


def _mixture_log_density(
    mixture: _Mixture, points: Float[Array, "points dim"]
) -> Float[Array, " points"]:
    scaled = (points[:, None] - mixture.means) * jnp.exp(-mixture.log_scales)
    parts = -0.5 * jnp.sum(scaled**2, axis=-1) - jnp.sum(mixture.log_scales, axis=-1)
    dim = points.shape[1]
    weights = jax.nn.log_softmax(mixture.logits)
    return jax.scipy.special.logsumexp(parts + weights, axis=1) - 0.5 * dim * jnp.log(2 * jnp.pi)


@on_default_backend
def _fit_mixture(points: Float[Array, "points dim"], start: _Mixture) -> _Mixture:
    import optax  # slow to import

    optimizer = optax.adam(0.05)

    def loss(mixture: _Mixture) -> Float[Array, ""]:
        return -jnp.mean(_mixture_log_density(mixture, points))

    def update(_: Array, carry: tuple[_Mixture, Any]) -> tuple[_Mixture, Any]:
        mixture, state = carry
        change, state = optimizer.update(jax.grad(loss)(mixture), state)
        return optax.apply_updates(mixture, change), state

    fitted, _ = jax.lax.fori_loop(0, MIXTURE_STEPS, update, (start, optimizer.init(start)))
    return fitted


def cross_fitted_mixture(
    points: Float[np.ndarray, "datasets draws dim"], seed: int = 0
) -> Float[np.ndarray, "datasets draws"]:
    """Log density of every draw under a mixture of Gaussians fitted to the other fold's draws.

    Components are axis-parallel in the coordinates that whiten the pooled draws, start at random
    draws and are fitted by Adam on the likelihood.

    Parameters
    ----------
    points
        Draws of every dataset.
    seed
        Chooses the draws at which components start, and those they are fitted to.

    Returns
    -------
    array
        One row per dataset, in nats.
    """
    fold, dim = fold_of(points.shape[0]), points.shape[2]
    out = np.empty(points.shape[:2])
    rng = np.random.default_rng(seed)
    for f in (0, 1):
        train = points[fold != f].reshape(-1, dim)
        whitening = fit_gaussian(train)
        white = whitening.whiten(train)
        centers = white[rng.choice(white.shape[0], MAX_COMPONENTS, replace=False)]
        dtype = jnp.zeros(()).dtype
        start = _Mixture(
            jnp.zeros(MAX_COMPONENTS, dtype),
            jnp.asarray(centers, dtype),
            jnp.full((MAX_COMPONENTS, dim), -0.3, dtype),
        )
        chosen = rng.permutation(white.shape[0])[:MAX_FITTED]
        fitted = _fit_mixture(jnp.asarray(white[chosen], dtype), start)
        mine = points[fold == f]
        at = jnp.asarray(whitening.whiten(mine.reshape(-1, dim)), dtype)
        values = np.asarray(_mixture_log_density(fitted, at), np.float64) - whitening.log_volume
        out[fold == f] = values.reshape(mine.shape[:2])
    return out
