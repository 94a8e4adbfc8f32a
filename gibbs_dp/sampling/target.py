"""One dataset's posterior in coordinates that suit chains, with energies that survive float32.

Coordinates are flat, whitened (like a standard Gaussian) or stretched: where a density falls as a
power of the distance, gradients vanish far out, chains come there seldom and stay long, and while
none has been there, R-hat and effective draws have nothing against them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PyTree
from numpyro.diagnostics import effective_sample_size

from gibbs_dp._jaxlib.linalg import cholesky, solve_lower
from gibbs_dp._jaxlib.precision import matmul, total
from gibbs_dp.model.posterior import GibbsPosterior

# A dense scale of more coordinates, fitted to draws, costs more than it saves.
MAX_DENSE_DIM = 128

Potential = Callable[[Float[Array, " dim"]], Float[Array, ""]]


class Whitening(NamedTuple):
    """Affine map from whitened coordinates ``v`` to flat ones: ``u = center + scale v``."""

    center: Float[Array, " dim"]
    scale: Float[Array, "*shape"]

    def color(self, v: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Whitened to flat."""
        return self.center + (self.scale * v if self.scale.ndim == 1 else matmul(self.scale, v))

    @property
    def log_volume(self) -> Float[Array, ""]:
        """Log determinant of ``scale``: what a density gains on the way to whitened coordinates."""
        diagonal = self.scale if self.scale.ndim == 1 else jnp.diagonal(self.scale)
        return jnp.sum(jnp.log(jnp.abs(diagonal)))

    def whiten(self, u: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Flat to whitened."""
        if self.scale.ndim == 1:
            return (u - self.center) / self.scale
        return solve_lower(self.scale, u - self.center)

    @property
    def inverse(self) -> Float[Array, "dim dim"]:
        """Matrix that takes differences of flat coordinates to those of whitened ones."""
        if self.scale.ndim == 1:
            return jnp.diag(1.0 / self.scale)
        return solve_lower(self.scale, jnp.eye(self.scale.shape[0], dtype=self.scale.dtype))

    def pull_back(self, potential: Potential) -> Potential:
        """Express the potential as a function of whitened coordinates."""
        return lambda v: potential(self.color(v))


def fit_whitening(draws: Float[Array, "draws dim"], like: Whitening) -> Whitening:
    """Whitening of pooled draws, as rich as ``like``; ``like`` itself where the fit fails."""
    count, dim = draws.shape
    center = jnp.mean(draws, axis=0)
    centered = draws - center
    tiny = jnp.finfo(draws.dtype).tiny * 1e6
    deviation = jnp.sqrt(jnp.sum(centered**2, axis=0) / (count - 1) + tiny)
    if like.scale.ndim == 1:
        scale = deviation
    else:
        standard = centered / deviation
        correlation = count / (count + 3.0 * dim) * matmul(standard.T, standard) / (count - 1)
        correlation = correlation.at[jnp.diag_indices(dim)].set(1.0)
        scale = deviation[:, None] * cholesky(correlation)
    usable = jnp.all(jnp.isfinite(scale)) & jnp.all(jnp.isfinite(center))
    return Whitening(jnp.where(usable, center, like.center), jnp.where(usable, scale, like.scale))


class ImproperPosteriorError(ValueError):
    """A posterior that cannot be normalized: it does not decay along some direction."""


class NoHessianError(ValueError):
    """A loss that a sampler differentiates twice, or forwards, and JAX only once and backwards."""


@contextmanager
def derivatives_named(remedy: str) -> Iterator[None]:
    """Turn what JAX says of derivatives that a function does not have into a sentence."""
    try:
        yield
    except (NotImplementedError, TypeError) as error:
        is_backwards = "custom_vjp" in str(error)
        if isinstance(error, TypeError) and not is_backwards:
            raise
        why = (
            "its jax.custom_vjp has derivatives backwards only, and they are taken forwards too; "
            "leave that out, or write jax.custom_jvp"
            if is_backwards
            else f"it cannot be differentiated twice ({error}), as this sampler does; {remedy}"
        )
        raise NoHessianError(f"loss: {why}.") from error


# One dataset's posterior on flat coordinates, with energies that survive float32.


class Terms(NamedTuple):
    """The additive parts of a potential energy at one point."""

    losses: Float[Array, " terms"]  # per example, or one entry for a structured loss
    log_prior: Float[Array, ""]


class Target(NamedTuple):
    """``U(u) = gamma L(theta(u), Z) - log prior(u)`` for one dataset and one gamma."""

    posterior: GibbsPosterior
    data: PyTree
    gamma: Float[Array, ""]

    def terms(self, u: Float[Array, " dim"]) -> Terms:
        """Losses and log prior at ``u``."""
        theta = self.posterior.constrain(u)
        if self.posterior.structured:
            losses = self.posterior.empirical_loss(theta, self.data)[None]
        else:
            losses = self.posterior.losses(theta, self.data)
        return Terms(losses, self.posterior.log_prior_unconstrained(u))

    def relative_to(self, reference: Terms) -> Potential:
        """Potential minus its value at a reference point, subtracted term by term.

        ``U`` itself grows with ``n gamma``; at 1e8 a float32 cannot resolve the energy
        differences that an acceptance step decides on. Differences per example keep them exact.
        """

        def potential(u: Float[Array, " dim"]) -> Float[Array, ""]:
            here = self.terms(u)
            change = total(here.losses - reference.losses)
            return self.gamma * change - (here.log_prior - reference.log_prior)

        return potential

    def _has_statistics(self, size: int) -> bool:
        """Return True if ``d^2`` numbers say what the examples say, and are fewer."""
        num_examples = jax.tree.leaves(self.data)[0].shape[0]
        return self.posterior.is_quadratic and size <= num_examples

    def rounding(self, u: Float[Array, " dim"], reference: Terms) -> Float[Array, ""]:
        """Nats by which the potential of :meth:`around` jumps at random: its losses are rounded."""
        losses = reference.losses
        if self._has_statistics(ravel_pytree(self.posterior.constrain(u))[0].size):
            return jnp.zeros((), losses.dtype)
        eps = jnp.finfo(losses.dtype).eps
        is_whole = (losses == jnp.round(losses)) & (jnp.abs(losses) < 0.25 / eps)
        share = self.gamma * eps * jnp.where(is_whole, 0.0, losses)
        return 0.3 * jnp.linalg.norm(share)  # 1/sqrt(12) of an even law

    def around(self, u: Float[Array, " dim"], reference: Terms, whitening: Whitening) -> Potential:
        """Potential relative to ``reference``, the terms at ``u``, in the cheapest exact form.

        A quadratic loss is known from its gradient and Hessian at ``u``: with more examples than
        parameters these say in ``d^2`` operations what takes ``n d`` over the examples. The
        Hessian is taken in coordinates whitened by the scale of ``whitening``, its centre aside:
        in others a float32 has lost the smallest of two curvatures once they are 1e7 apart.
        """
        theta, unravel = ravel_pytree(self.posterior.constrain(u))
        if not self._has_statistics(theta.size):
            return self.relative_to(reference)

        def whole(flat: Float[Array, " size"]) -> Float[Array, ""]:
            return self.posterior.empirical_loss(unravel(flat), self.data)

        slope = jax.grad(whole)(theta)
        # Any coordinates would do for parameters that have more numbers than the posterior has
        # dimensions, or whose chart is bent: these are right where it matters, on real lines.
        own = whitening if theta.size == u.size else Whitening(theta, jnp.ones_like(theta))
        own = own._replace(center=theta)
        curvature = jax.hessian(lambda v: whole(own.color(v)))(jnp.zeros_like(theta))
        whiten = own.inverse
        # Of the two factors of a product one is whitened, the other its gradient: one product.
        both = jnp.concatenate([whiten, matmul(curvature, whiten)])

        def potential(u: Float[Array, " dim"]) -> Float[Array, ""]:
            shift = ravel_pytree(self.posterior.constrain(u))[0] - theta
            v, bend = jnp.split(jnp.einsum("d,ed->e", shift, both, precision="highest"), 2)
            change = jnp.sum(shift * slope) + 0.5 * jnp.sum(v * bend)
            log_prior = self.posterior.log_prior_unconstrained(u)
            return self.gamma * change - (log_prior - reference.log_prior)

        return potential


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
    """How far the heaviest tail of any coordinate reaches at least, in quartile distances."""
    return float(reaches(u).max(initial=0.0))


def reaches(
    u: Float[np.ndarray, "chain draw dim"], least: float = HEAVY
) -> Float[np.ndarray, " dim"]:
    """How far each coordinate's heavier tail reaches at least; 0 where below ``least``."""
    u = np.asarray(u)
    chains, draws, dim = u.shape
    found = np.zeros(dim)
    if chains * draws < FEWEST or not np.isfinite(u).all():
        return found
    for at in np.flatnonzero(_reaches(u.reshape(-1, dim), OUTER, 0.25) > least):
        ess = float(effective_sample_size(np.asarray(u[..., at], np.float64)))
        error = TAIL_Z / np.sqrt(max(ess, 1.0)) if ess == ess else 1.0
        outer = OUTER + error * np.sqrt(OUTER * (1.0 - OUTER))
        inner = 0.25 - error * np.sqrt(0.25 * 0.75)
        if outer < inner:
            found[at] = _reaches(u[..., [at]].reshape(-1, 1), outer, inner)[0]
    return found


def _reaches(
    u: Float[np.ndarray, "draw dim"], outer: float, inner: float
) -> Float[np.ndarray, " dim"]:
    shares = np.asarray([outer, inner, 0.5, 1.0 - inner, 1.0 - outer])
    # np.quantile, whose partial sorts take seven times as long.
    rows = np.sort(np.ascontiguousarray(u.T), axis=1)
    last = rows.shape[1] - 1
    index = np.floor(shares * last).astype(int)
    rest = shares * last - index
    at, beside = rows[:, index], rows[:, np.minimum(index + 1, last)]
    low, first, middle, third, high = (at * (1.0 - rest) + beside * rest).T
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
