"""A capacity-bounded privacy parameter, with the class and the divergence it belongs to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from gibbs_dp.information import checks
from gibbs_dp.papers.capacity.adversaries import Adversary
from gibbs_dp.papers.capacity.closed_forms import above_one

Divergence = Literal["kl", "renyi", "alpha", "ipm"]
Status = Literal["exact", "bound", "estimate", "printed"]
# From certain to uncertain.
STATUSES: tuple[Status, ...] = ("exact", "bound", "estimate", "printed")


@dataclass(frozen=True)
class CapacityBound:
    """``(H, Gamma)``-capacity-bounded privacy: ``Gamma^H(A(Z), A(Z')) <= value``, Z, Z' adjacent.

    Parameters
    ----------
    value
        The bound, in nats (of the metric for "ipm"); possibly infinite.
    divergence
        "kl", "renyi", "alpha" (divergences of order ``alpha``) or "ipm".
    adversary
        The class ``H``.
    alpha
        Order, for "renyi" and "alpha" alone.
    adjacency
        "replace-one" or "add-remove", as the sensitivity was computed for.
    status
        "exact" and "bound" hold; an "estimate" comes from draws, and "printed" is a published
        bound that fails somewhere. Neither of these is a guarantee.
    source
        Where the number comes from.

    Raises
    ------
    ValueError
        If a number is out of range or a name unknown.

    References
    ----------
    Chaudhuri, Imola & Machanavajjhala (2019), Definition 3.

    Examples
    --------
    >>> from gibbs_dp.papers.capacity import Polynomial, laplace_linear_kl
    >>> bound = CapacityBound(laplace_linear_kl(1.0), "kl", Polynomial(1))
    >>> bound.is_guarantee
    True
    """

    value: float
    divergence: Divergence
    adversary: Adversary
    alpha: float | None = None
    adjacency: checks.Adjacency = "replace-one"
    status: Status = "exact"
    source: str = ""

    def __post_init__(self) -> None:
        if self.divergence not in ("kl", "renyi", "alpha", "ipm"):
            raise ValueError(
                f"divergence must be 'kl', 'renyi', 'alpha' or 'ipm', got {self.divergence!r}."
            )
        if self.status not in STATUSES:
            raise ValueError(f"status must be one of {STATUSES}, got {self.status!r}.")
        if math.isnan(self.value):
            raise ValueError("value must be a number, got nan; check where it comes from.")
        if self.divergence in ("renyi", "alpha"):
            if self.alpha is None:
                raise ValueError(f"alpha must be given for {self.divergence!r}; pass the order.")
            above_one(self.alpha)
        elif self.alpha is not None:
            raise ValueError(f"alpha has no meaning for {self.divergence!r}; leave it out.")
        checks.adjacency(self.adjacency)

    @property
    def is_guarantee(self) -> bool:
        """Whether the number holds: not an estimate, and not a bound that fails somewhere."""
        return self.status in ("exact", "bound")
