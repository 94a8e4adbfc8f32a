"""A fit settled before it looks at a value: mechanism, guarantee, draw, and what is not covered."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.calibrate import Calibration, Target, calibrate_gamma
from gibbs_dp.privacy.guarantee import FINITE_PRECISION, Guarantee
from gibbs_dp.privacy.noise import Noise

Mechanism = Literal["gaussian", "direction", "posterior", "chain", "rejection"]
Draw = Callable[[np.ndarray, np.ndarray, Noise], "Float[np.ndarray, 'draws dim'] | None"]

SECRET = "the noise is made of the operating system's cryptographic random numbers."
EXACT = (
    "exact noise: each row is rounded to a lattice by itself, and what is added has its law "
    "exactly, on whole numbers (Canonne, Kamath & Steinke 2020; Karney 2016); only the result is "
    "rounded after that."
)
UNPROTECTED = (
    "running time, and whether a fit fails, are functions of the data that are not protected."
)


@dataclass(frozen=True)
class Facts:
    """Public facts of a fit, on which alone its plan may depend.

    ``n`` is a public upper bound under add-remove; ``num_features`` counts the intercept;
    ``num_outputs`` is 1, or the number of classes where there are more than two. Draws must be
    proven where "exact-draw" is not accepted, their rounding where "float-arithmetic" is not.
    """

    n: int
    num_features: int
    epsilon: float
    delta: float
    num_outputs: int = 1
    adjacency: Adjacency = "replace-one"
    num_draws: int = 1
    needs_proof: bool = False
    needs_rounding: bool = True

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return self.num_features * self.num_outputs

    @property
    def target(self) -> Target:
        """The target, as calibration wants it."""
        if self.delta == 0:
            return Target(pure_epsilon=self.epsilon)
        return Target(epsilon=self.epsilon, delta=self.delta)

    def calibrate(self, posterior: GibbsPosterior, domain: Domain | None) -> Calibration:
        """Find the gamma that meets the target with exact draws."""
        return calibrate_gamma(
            posterior,
            self.target,
            n=self.n,
            adjacency=self.adjacency,
            domain=domain,
            num_draws=self.num_draws,
        )


@dataclass(frozen=True, eq=False)
class Plan:
    """A mechanism with its settings, its guarantee, and the function that draws."""

    mechanism: Mechanism
    told: str
    posterior: GibbsPosterior
    domain: Domain
    guarantee: Guarantee
    draw: Draw = field(repr=False)
    noise_square: float = 0.0


def direct(guarantee: Guarantee) -> Guarantee:
    """Say that draws are made from the law itself, with secret noise and no idealized arithmetic.

    >>> direct(Guarantee("replace-one", "exact draw", 1, 1.0, 1.0, 0.0)).mechanism
    'direct draw'
    """
    caveats = tuple(text for text in guarantee.caveats if text != FINITE_PRECISION)
    return replace(
        guarantee,
        mechanism="direct draw",
        assumptions=(*guarantee.assumptions, EXACT),
        caveats=(*caveats, SECRET),
    )


def repeated(one: Callable[..., Any], num_draws: int) -> Callable[..., Any]:
    """Draw independently as often as asked.

    >>> repeated(lambda x: [x], 2)(3)
    array([[3],
           [3]])
    """
    return lambda *args: np.stack([one(*args) for _ in range(num_draws)])


# Warnings of what a guarantee does not cover; importable without scikit-learn.


class PrivacyLeakWarning(UserWarning):
    """Something was taken from the data that the guarantee takes for public."""


class RepeatedFitWarning(UserWarning):
    """An estimator or its clones are fitted again: each fit on the same rows spends its target."""


def leak(sentence: str, leaks: list[str]) -> None:
    """Warn, and keep the sentence for the guarantee.

    >>> leaks = []
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     leak("bounds: taken from the data.", leaks)
    >>> leaks
    ['bounds: taken from the data.']
    """
    leaks.append(sentence)
    warnings.warn(sentence, PrivacyLeakWarning, stacklevel=5)


class Family:
    """Counts the fits of one estimator and of its clones, in this process."""

    def __init__(self) -> None:
        self.num_fits = 0

    def fitted(self) -> int:
        """Count one more fit."""
        self.num_fits += 1
        return self.num_fits

    def __deepcopy__(self, memo: Any) -> Family:
        return self


def warn_again(num_fits: int, epsilon: float, has_ledger: bool) -> None:
    """Say what fits beyond the first cost, unless a ledger counts them."""
    if num_fits < 2 or has_ledger:
        return
    warnings.warn(
        f"this is fit {num_fits} of one estimator and its clones: if all saw the same rows, they "
        f"spent {num_fits * epsilon:.6g} in epsilon together, not {epsilon:.6g} (cross-validation "
        "and grid searches fit many times). Choose settings on public data, or give a ledger.",
        RepeatedFitWarning,
        stacklevel=4,
    )
