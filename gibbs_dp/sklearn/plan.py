"""A fit settled before it looks at a value: mechanism, guarantee, draw, and what is not covered.

The rule picks mechanism and settings from public facts. With ``D`` parameters, what counts is how
far the rows' signal stands out of the noise: ``r = n epsilon / D`` under pure DP, and ``t = n mu /
sqrt D`` under ``(epsilon, delta)``, ``mu`` being the Gaussian DP that is worth as much.

- Few rows for their privacy want a linear loss, whose posterior is drawn exactly and is the most
  forgiving.
- Otherwise Huber's loss needs the least noise, on labels -1 and 1 for two classes: its gradients
  are short, and its curvature is that of the squared loss near the fit.
- Where there are few parameters, noise of uniform direction is less than Gaussian noise, and pure
  DP serves ``(epsilon, delta)`` as well.
- Rows are shortened to a norm that grows when there are more of them.

Numbers were chosen on some public tables and confirmed on others
(`benchmarks/private_accuracy.py`). They are in units of standardized features and of half the
labels' declared range.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.calibrate import Calibration, Target, calibrate_gamma
from gibbs_dp.privacy.guarantee import FINITE_PRECISION, Guarantee
from gibbs_dp.privacy.noise import Noise
from gibbs_dp.privacy.routes import gdp_at

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
    """Counts the fits of one estimator and of its clones, in this process, and what they spent."""

    def __init__(self) -> None:
        self.num_fits, self.spent = 0, 0.0

    def fitted(self, epsilon: float) -> Family:
        """Count one more fit."""
        self.num_fits, self.spent = self.num_fits + 1, self.spent + epsilon
        return self

    def __deepcopy__(self, memo: Any) -> Family:
        return self


def warn_again(family: Family, epsilon: float, has_ledger: bool) -> None:
    """Say what fits beyond the first cost, unless a ledger counts them."""
    if family.num_fits < 2 or has_ledger:
        return
    warnings.warn(
        f"this is fit {family.num_fits} of one estimator and its clones: if all saw the same rows, "
        f"they spent {family.spent:.6g} in epsilon together, not {epsilon:.6g} (cross-validation "
        "and grid searches fit many times). Choose settings on public data, or give a ledger.",
        RepeatedFitWarning,
        stacklevel=4,
    )


# r and t from which a loss with curvature is worth its noise, and from which noise is small.
ENOUGH_PURE, ENOUGH, PLENTY, ABUNDANT = 25.0, 20.0, 200.0, 2000.0
# Where the logistic loss is asked for: the same, largest log-odds, and their standard deviations.
ENOUGH_LOGISTIC, MOST_LOG_ODDS, DEVIATIONS = 60.0, 8.0, 3.0


class Choice(NamedTuple):
    """A mechanism; the norm rows are shortened to; radius and scale of its prior; Huber's bend."""

    mechanism: Mechanism
    norm: float
    radius: float | None = None
    scale: float | None = None
    bend: float | None = None


class _Signal(NamedTuple):
    """``r`` and ``t`` of a fit, and whether pure DP needs less noise than Gaussian noise does."""

    ratio: float
    is_pure: bool
    root: float


def _evidence(facts: Facts) -> float:
    """``r`` under pure DP, else ``t``."""
    if facts.delta == 0:
        return facts.n * facts.epsilon / facts.dim
    return facts.n * _mu(facts) / math.sqrt(facts.dim)


def _mu(facts: Facts) -> float:
    """Gaussian DP of one draw of those that the target pays for."""
    return gdp_at(facts.epsilon, facts.delta) / math.sqrt(facts.num_draws)


def _signal(facts: Facts, share: float) -> _Signal:
    """Measure a fit; ``share`` is how much fewer parameters pure DP must have to be taken."""
    root = math.sqrt(max(1, facts.num_features - 1))
    can_be_pure = facts.delta > 0 and facts.adjacency == "replace-one" and facts.num_draws == 1
    if can_be_pure and facts.dim < share * (facts.epsilon / _mu(facts)) ** 2:
        facts = replace(facts, delta=0.0)
    return _Signal(_evidence(facts), facts.delta == 0, root)


def choose_for_classes(facts: Facts, is_free: bool = True) -> Choice:
    """Pick for classification.

    >>> choose_for_classes(Facts(100, 10, 0.3, 0.0))
    Choice(mechanism='direction', norm=1.5, radius=None, scale=None, bend=None)
    >>> choose_for_classes(Facts(500, 10, 1.0, 1e-5)).scale
    0.15
    """
    sums = _signal(facts, 1.0)
    short = max(1.5, 0.5 * sums.root)
    can_add = is_free or facts.needs_proof
    is_logistic = not is_free or facts.num_outputs > 1
    enough = ENOUGH_PURE if facts.delta == 0 else ENOUGH
    if is_logistic and facts.delta == 0:
        enough = ENOUGH_LOGISTIC
    little = facts.needs_proof or (can_add and _evidence(facts) < enough)
    if little and sums.is_pure and facts.adjacency == "replace-one":
        return Choice("direction", short)
    if little and facts.delta > 0:
        return Choice("gaussian", short)
    found = _signal(facts, 0.25)
    is_wide = found.ratio >= PLENTY
    norm = max(2.0, found.root * (1.0 if is_wide else 0.5))
    if is_logistic and found.is_pure:
        radius = min(MOST_LOG_ODDS, max(1.0, found.ratio ** (1 / 3)))
        return Choice("posterior", norm, radius)
    if is_logistic:
        radius = min(found.ratio / 15, found.ratio ** (1 / 3), MOST_LOG_ODDS)
        return Choice("posterior", norm, radius, radius / DEVIATIONS / math.sqrt(facts.dim))
    if found.is_pure:
        return Choice("posterior", norm, found.ratio**0.25 if is_wide else 2.0, bend=1.0)
    # A smaller bend needs less noise yet, but leaves rare classes to the common one.
    return Choice("posterior", norm, None, min(max(0.15, found.ratio / 400), 0.5), bend=1.0)


def choose_for_numbers(facts: Facts, is_free: bool = True, needs_ball: bool = False) -> Choice:
    """Pick for regression; the labels run from -1 to 1, and span about six standard deviations.

    Never a noisy sum, whose slopes are poor where features correlate.

    >>> choose_for_numbers(Facts(1000, 11, 1.0, 1e-5)).radius is None
    True
    """
    found = _signal(facts, 0.25)
    # What is cut off biases slopes, so that where noise is small, nothing is; on a ball, whose
    # radius is for the longest rows, more would be lost to it.
    reach = 1.5 if found.ratio >= PLENTY else 1.0
    if found.ratio >= ABUNDANT and not found.is_pure:
        reach = 2.5
    norm = max(2.0, reach * found.root)
    bend = 1 / 12 if is_free else None
    if found.is_pure:
        return Choice("posterior", norm, max(found.ratio, 1e-3) ** 0.25 / 3, bend=bend)
    if needs_ball:
        radius = 2 / 3 if found.ratio < 100 else 4 / 3
        return Choice("posterior", norm, radius, radius / 2 / math.sqrt(facts.dim))
    return Choice("posterior", norm, None, 1 / 6, bend)
