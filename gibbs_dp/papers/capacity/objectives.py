"""Objectives of critics: what training maximizes, and the verdict on fresh draws.

Each objective is invariant to the critic's constant or scale. The verdict fixes the constant on
training draws and then averages ``E_P h - E_Q f*(h)`` over fresh ones: unbiased for that critic, so
in expectation no more than the restricted divergence.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float

# Largest share of one draw in a mean, so that at least fifty draws carry it.
_LARGEST_SHARE = 0.02


class Verdict(NamedTuple):
    """An estimate in nats (of the metric for IPMs), and its standard error over draws."""

    value: Float[Array, ""]
    se: Float[Array, ""]


@runtime_checkable
class Objective(Protocol):
    """A restricted divergence, for critics ``f`` given by their values at draws of P and Q."""

    def training(self, p: Float[Array, " draws"], q: Float[Array, " draws"]) -> Float[Array, ""]:
        """Plug-in value, which training maximizes."""
        ...

    def is_stable(self, q: Float[Array, " draws"]) -> Bool[Array, ""]:
        """Whether a mean over fresh draws of Q will be near its expectation."""
        ...

    def verdict(self, train: tuple[Array, Array], fresh: tuple[Array, Array]) -> Verdict:
        """Estimate on fresh draws."""
        ...


def _mean_of_exp(log_values: Float[Array, " draws"]) -> Float[Array, ""]:
    return logsumexp(log_values) - jnp.log(log_values.shape[0])


def _difference(p: Float[Array, " draws"], q: Float[Array, " others"]) -> Verdict:
    """Mean of ``p`` minus mean of ``q``, independent draws."""
    variance = jnp.var(p, ddof=1) / p.shape[0] + jnp.var(q, ddof=1) / q.shape[0]
    return Verdict(jnp.mean(p) - jnp.mean(q), jnp.sqrt(variance))


class KL(NamedTuple):
    """Restricted KL: trained in the Donsker-Varadhan form, judged by ``E_P h - E_Q e^{h-1}``."""

    def training(self, p: Float[Array, " draws"], q: Float[Array, " draws"]) -> Float[Array, ""]:
        """``E_P f - log E_Q e^f``."""
        return jnp.mean(p) - _mean_of_exp(q)

    def is_stable(self, q: Float[Array, " draws"]) -> Bool[Array, ""]:
        """Whether no draw carries more than a fiftieth of the mean of ``e^f``."""
        return jnp.exp(jnp.max(q) - logsumexp(q)) <= _LARGEST_SHARE

    def verdict(self, train: tuple[Array, Array], fresh: tuple[Array, Array]) -> Verdict:
        """Shift by the constant that suits the training draws: ``h = f + 1 - log E_Q e^f``."""
        shift = _mean_of_exp(train[1])
        # E_P h - E_Q e^{h-1}, without the ones in both, which cancel.
        return _difference(fresh[0] - shift, jnp.expm1(fresh[1] - shift))


class Alpha(NamedTuple):
    """Restricted alpha-divergence of ``g = 1 + f`` times the best factor."""

    alpha: float

    def training(self, p: Float[Array, " draws"], q: Float[Array, " draws"]) -> Float[Array, ""]:
        """``log E_P g / |g|_{L^q(Q)}``: scale free."""
        conjugate = self.alpha / (self.alpha - 1)
        mean = jnp.maximum(jnp.mean(1 + p), 1e-6)
        size = jnp.mean((jnp.abs(1 + q) + 1e-9) ** conjugate)
        return jnp.log(mean) - jnp.log(size) / conjugate

    def is_stable(self, q: Float[Array, " draws"]) -> Bool[Array, ""]:
        """Whether no draw carries more than a fiftieth of the mean of ``|g|^q``."""
        conjugate = self.alpha / (self.alpha - 1)
        size = conjugate * jnp.log(jnp.abs(1 + q) + 1e-9)
        return jnp.exp(jnp.max(size) - logsumexp(size)) <= _LARGEST_SHARE

    def verdict(self, train: tuple[Array, Array], fresh: tuple[Array, Array]) -> Verdict:
        """``E_P h - E_Q f*(h)``, ``h = c g / (alpha - 1)``, ``c`` from the training draws."""
        a, conjugate = self.alpha, self.alpha / (self.alpha - 1)
        size = jnp.mean(jnp.abs(1 + train[1]) ** conjugate)
        c = jnp.maximum(jnp.mean(1 + train[0]) / size, 0.0) ** (a - 1)
        p = c * (1 + fresh[0]) / (a - 1)
        q = (c * jnp.abs(1 + fresh[1])) ** conjugate / a + 1 / (a * (a - 1))
        return _difference(p, q)


class IPM(NamedTuple):
    """Integral probability metric, of critics that are bounded by construction."""

    def training(self, p: Float[Array, " draws"], q: Float[Array, " draws"]) -> Float[Array, ""]:
        """``E_P f - E_Q f``."""
        return jnp.mean(p) - jnp.mean(q)

    def is_stable(self, q: Float[Array, " draws"]) -> Bool[Array, ""]:
        """Whether a mean is reliable: of bounded critics, always."""
        return jnp.asarray(True)

    def verdict(self, train: tuple[Array, Array], fresh: tuple[Array, Array]) -> Verdict:
        """Evaluate the same on fresh draws."""
        return _difference(*fresh)
