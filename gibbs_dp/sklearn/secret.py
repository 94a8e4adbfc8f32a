"""Random numbers from the operating system's cryptographic source, in NumPy's words."""

from __future__ import annotations

import math
import os
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

Shape = int | tuple[int, ...]


@runtime_checkable
class Noise(Protocol):
    """What mechanisms draw from: `SecretNoise`, or in tests a seeded `numpy.random.Generator`."""

    def random(self, size: Shape) -> Float[np.ndarray, ...]:
        """Draw uniform numbers in ``[0, 1)``."""

    def standard_normal(self, size: Shape) -> Float[np.ndarray, ...]:
        """Draw standard normal numbers."""


class SecretNoise:
    """Uniform and normal numbers made of ``os.urandom``; there is no state and no seed.

    Examples
    --------
    >>> SecretNoise().standard_normal((2, 3)).shape
    (2, 3)
    """

    def random(self, size: Shape) -> Float[np.ndarray, ...]:
        """Draw uniform numbers strictly between 0 and 1, of 53 random bits."""
        shape = (size,) if isinstance(size, int) else size
        count = math.prod(shape)
        words = np.frombuffer(os.urandom(8 * count), dtype=np.uint64) >> np.uint64(11)
        return ((words + 0.5) * 2.0**-53).reshape(shape)

    def standard_normal(self, size: Shape) -> Float[np.ndarray, ...]:
        """Draw standard normal numbers, by inversion."""
        return np.asarray(ndtri(self.random(size)))


def gamma_length(dim: int, noise: Noise) -> float:
    """Draw from ``Gamma(dim)``: a sum of ``dim`` exponentials.

    >>> gamma_length(3, np.random.default_rng(0)) > 0
    True
    """
    return float(-np.log1p(-noise.random(dim)).sum())


def direction(dim: int, noise: Noise) -> Float[np.ndarray, " dim"]:
    """Draw a unit vector uniformly.

    >>> round(float(np.linalg.norm(direction(5, np.random.default_rng(0)))), 12)
    1.0
    """
    normal = noise.standard_normal(dim)
    return np.asarray(normal / np.linalg.norm(normal))
