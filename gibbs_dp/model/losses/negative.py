"""Minus a log-likelihood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Array, Float, PyTree


@dataclass(frozen=True)
class NegativeLogLikelihood:
    """The loss ``-log_likelihood(theta, z)``, in nats."""

    log_likelihood: Callable[[Any, Any], Any]

    @property
    def __name__(self) -> str:
        name = getattr(self.log_likelihood, "__name__", type(self.log_likelihood).__name__)
        return f"-{name}"

    def __call__(self, theta: PyTree, z: PyTree) -> Float[Array, ""]:
        """Loss of one example, or of a dataset where the log-likelihood is that of one."""
        return -self.log_likelihood(theta, z)
