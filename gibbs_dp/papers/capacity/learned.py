"""Adversaries that are made for an output: features that the user gives, and balls of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Array, Float

from gibbs_dp.information import checks
from gibbs_dp.papers.capacity.adversaries import Adversary, Map


@dataclass(frozen=True)
class LinearFeatures:
    """Linear functions of features ``phi(output)``, and constants.

    Parameters
    ----------
    phi
        Maps one output, a vector ``[dim]``, to features ``[k]`` by JAX operations; of a posterior
        the output is theta, flattened in the order of ``jax.flatten_util.ravel_pytree``. A function
        at module level compiles once; a fresh lambda compiles anew.
    name
        Shown in tables.

    Examples
    --------
    >>> LinearFeatures(lambda theta: theta**2, "squares").name
    'squares'
    """

    phi: Callable[[Float[Array, " dim"]], Float[Array, " k"]]
    name: str = "features"
    is_convex = True
    is_translation_invariant = True
    is_negation_closed = True
    is_unit_range = False

    def before(self, mapping: Map) -> Adversary:
        """Refuse: the features are functions of the unmapped output."""
        raise ValueError(
            "mapping: features of a mapped output are not known to be combinations of the features "
            "of the output; bound the class on the mapped output instead."
        )


@dataclass(frozen=True)
class KernelBall:
    """Functions of norm at most ``norm`` in the space of a Gaussian kernel, and constants.

    ``k(x, y) = exp(-|x - y|^2 / (2 bandwidth^2))`` of the output as it is, not standardized: the
    class does not depend on draws. Its functions lie in ``[-norm, norm]``, so that up to a norm of
    1 Theorem 7 applies. Trained critics are combinations of the kernel at ``num_landmarks`` of the
    draws they are trained on (Williams & Seeger 2001), with their norm in the space of the kernel
    itself: what they attain on fresh draws is, in expectation, a lower bound for the whole ball.

    Parameters
    ----------
    norm
        Radius of the ball.
    bandwidth
        Of the kernel, in the unit of the output.
    num_landmarks
        Of critics; the class does not depend on it.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> KernelBall(1.0).is_unit_range, KernelBall(2.0).is_unit_range
    (True, False)
    """

    norm: float = 1.0
    bandwidth: float = 1.0
    num_landmarks: int = 64
    is_convex = True
    is_translation_invariant = True
    is_negation_closed = True

    def __post_init__(self) -> None:
        checks.positive("norm", self.norm)
        checks.positive("bandwidth", self.bandwidth)
        checks.count("num_landmarks", self.num_landmarks)

    @property
    def is_unit_range(self) -> bool:
        """Whether values lie in ``[-1, 1]``: ``|f(x)| <= |f| sqrt(k(x, x)) = |f|``."""
        return self.norm <= 1

    def before(self, mapping: Map) -> Adversary:
        """Refuse: distances after a map are others."""
        raise ValueError(
            "mapping: a kernel of a mapped output is another kernel of the output; bound the class "
            "on the mapped output instead."
        )
