"""On-average KL with an interval that holds for finitely many datasets, from declared bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from gibbs_dp import estimators
from gibbs_dp._cautions import Caution, Warned
from gibbs_dp.engine.plan import AuditSpec
from gibbs_dp.engine.quantity import Quantity, Row
from gibbs_dp.engine.view import GammaResult, View, is_believed
from gibbs_dp.information import bounds
from gibbs_dp.model.losses import Loss
from gibbs_dp.privacy.constants import on_support
from gibbs_dp.results.table import Column

# Largest share of the stake that a bet may lose.
MOST_LOST = 0.75


def empirical_bernstein(
    values: Float[np.ndarray, " datasets"], low: float, high: float, error: float
) -> tuple[float, float]:
    """Interval of the mean of independent numbers in ``[low, high]`` (Maurer & Pontil 2009).

    Their mean is farther than ``sqrt(2 V L / n) + 7 (high - low) L / (3 (n - 1))`` from the
    sample's with a probability of at most ``error``, ``V`` being the sample variance and ``L =
    log(4/error)`` for both sides. The number of values must not depend on them.
    """
    count = values.size
    mean, variance = float(values.mean()), float(values.var(ddof=1))
    log_term = math.log(4 / error)
    reach = math.sqrt(2 * variance * log_term / count)
    reach += 7 * (high - low) * log_term / (3 * (count - 1))
    return max(low, mean - reach), min(high, mean + reach)


def betting_interval(
    values: Float[np.ndarray, " datasets"], low: float, high: float, error: float, planned: int
) -> tuple[float, float]:
    """Interval of the mean of numbers in ``[low, high]``, by bets (Waudby-Smith & Ramdas 2024).

    Whoever bets that the mean is above ``m``, a share of the stake that is known before each
    number, has a stake that is a nonnegative martingale if ``m`` is the mean, and multiplies
    it by ``2/error`` at any time with a probability of at most ``error/2`` (Ville's inequality).
    Means that would have made either bettor so rich are left out, whenever that was: the interval
    holds for any number of values, also where they decided when to stop. Values need only have
    this mean given those before them. Bets are made for the number that was planned, with a
    variance estimated from the values before.
    """
    x = (values - low) / (high - low)
    count = np.arange(1, x.size + 1)
    mean = (0.5 + np.cumsum(x)) / (count + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2)) / (count + 1)
    before = np.concatenate([[0.25], variance[:-1]])  # known before each number
    bets = np.sqrt(2 * math.log(2 / error) / (before * planned))
    goal = math.log(2 / error)

    def excess(stake: Float[np.ndarray, " datasets"], m: float) -> float:
        """Most that a stake on means above ``m`` came to, over what leaves ``m`` out."""
        share = np.minimum(bets, MOST_LOST / max(m, 1e-300))
        return float(np.max(np.cumsum(np.log1p(share * (stake - m))))) - goal

    from scipy.optimize import brentq  # slow to import

    def least(stake: Float[np.ndarray, " datasets"]) -> float:
        """Smallest mean that is not left out: stakes fall with ``m``."""
        if excess(stake, 0.0) <= 0:
            return 0.0
        return float(brentq(lambda m: excess(stake, m), 0.0, 1.0, xtol=1e-12)) - 1e-12

    width = high - low
    return low + width * max(0.0, least(x)), high - width * max(0.0, least(1 - x))


METHODS = ("betting", "bernstein")
# Beyond declared bounds by more than single precision errs.
SLACK = 1e-4

BEYOND_BOUNDS = Caution(
    "beyond-bounds",
    "{count} of {total} datasets have numbers outside [{low:.4g}, {high:.4g}], the range that "
    "declared bounds give: certified_kl_low and certified_kl_high do not hold.",
    "The interval is for numbers in a range that follows from the domain and the loss. These are "
    "not in it: examples lie outside the domain, or constants of a loss are wrong.",
    "Declare a domain that holds every example, or clip the examples to it.",
)


class CertifiedValues(NamedTuple):
    """Of each dataset: gamma times its whole gap, nats."""

    gap: Float[Any, "*b"]


@dataclass(frozen=True)
class CertifiedKL(Quantity):
    """A confidence interval of on-average KL that holds for finitely many datasets.

    ``on_average_kl_se`` and its interval rest on the central limit theorem. This interval rests on
    a range that the datasets' numbers cannot leave, which declared bounds give, and on nothing
    else of their law:

    - on a `gibbs_dp.Grid`, where posteriors are sums, a dataset's number is the mean KL of its
      pairs, in ``[0, kappa(eta)]``, ``eta`` being the declared range of log ratios (``dp_epsilon``;
      Dong, Durfee & Rogers 2020). Datasets are all that is random.
    - with chains it is gamma times the gap between losses on fresh and on training examples,
      whose mean is the on-average KL of exact draws (Wang, Lei & Fienberg 2016, Theorem 4), within
      gamma times the range of the loss either way. It is much wider, and takes draws of chains for
      exact ones; how many there are does not matter.

    Control variates play no part in it. Datasets that failed count as the worst that they may have
    been, for either end. Each gamma's interval holds by itself.

    Parameters
    ----------
    method
        "betting" (Waudby-Smith & Ramdas 2024), which holds where ``rel_error`` decides when to
        stop, too; "bernstein", the empirical Bernstein bound (Maurer & Pontil 2009), which is
        wider, and for a number of datasets that is fixed.
    confidence
        Probability with which it holds.

    Raises
    ------
    ValueError
        If there is no such method, or the confidence is not in ``[0.5, 1)``; by an audit, if the
        loss has no finite range on a declared domain, or "bernstein" is given with ``rel_error``.
    """

    method: str = "betting"
    confidence: float = 0.95

    name = "certified_kl"
    Values = CertifiedValues
    columns = (
        Column(
            "certified_kl_low",
            "Lower end of an interval of on-average KL that holds for finitely many datasets, by "
            "declared bounds on losses (gibbs_dp.CertifiedKL); never below 0.",
            "nats",
        ),
        Column("certified_kl_high", "Upper end of that interval.", "nats"),
    )

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method: {self.method!r} is not 'betting' or 'bernstein'; use one.")
        if not 0.5 <= self.confidence < 1:
            raise ValueError(
                f"confidence: must be in [0.5, 1), such as 0.95, got {self.confidence:g}."
            )

    def resolved(self, spec: AuditSpec, learnt: Mapping[str, Quantity]) -> Sequence[Quantity]:
        """Check that there is a range."""
        del learnt
        if self.method == "bernstein" and spec.rel_error is not None:
            raise ValueError(
                "method: 'bernstein' is for a number of datasets that they do not decide, and "
                "rel_error does; use 'betting'."
            )
        if not math.isfinite(_range(spec, 1.0)[1]):
            raise ValueError(
                "domain: CertifiedKL needs a finite range of the loss: declare a domain that "
                "bounds features and labels, and bound the prior's support, for a built-in loss "
                "or one with constants."
            )
        return (self,)

    def traced(self) -> CertifiedKL:
        """Leave out what is done with the numbers, which compiles nothing."""
        return CertifiedKL()

    def per_dataset(self, view: View) -> CertifiedValues:
        """Take gamma times the gap, with nothing subtracted."""
        losses = view.losses
        gap: Array = estimators.gap(losses.mean[..., None], losses.ghost, view.draws.weight)
        return CertifiedValues(view.gap_scale * gap)

    def finish(self, result: GammaResult, row: Row) -> tuple[Row, list[Warned]]:
        """Bound the mean."""
        del row
        spec, values = result.settings, result.summary.values
        low, high = _range(spec, result.gamma)
        found = np.asarray(
            values.on_average_kl.one_sided.value if spec.is_exact else values.certified_kl.gap,
            np.float64,
        )
        is_known = is_believed(result.summary) & np.isfinite(found)
        slack = SLACK * (high - low)
        is_outside = is_known & ((found < low - slack) | (found > high + slack))
        if is_outside.any() or found.size < 2:
            count = int(is_outside.sum())
            told = BEYOND_BOUNDS(count=count, total=found.size, low=low, high=high)
            return {}, [told] if count else []
        inside = np.clip(found, low, high)
        ends = [
            self._interval(np.where(is_known, inside, worst), low, high, spec)
            for worst in (low, high)
        ]
        return {
            "certified_kl_low": max(0.0, ends[0][0]),
            "certified_kl_high": max(0.0, ends[1][1]),
        }, []

    def _interval(
        self, values: Float[np.ndarray, " datasets"], low: float, high: float, spec: AuditSpec
    ) -> tuple[float, float]:
        if not high > low:
            return low, high
        error = 1.0 - self.confidence
        if self.method == "bernstein":
            return empirical_bernstein(values, low, high, error)
        return betting_interval(values, low, high, error, planned=spec.num_datasets)

    def request(self, settings: AuditSpec) -> list[Any]:
        """Return what the columns depend on, the range included."""
        return [self.method, self.confidence, list(_range(settings, 1.0))]

    def settings(self) -> dict[str, Any]:
        """Show method and confidence."""
        return {"certified_by": self.method, "certified_confidence": self.confidence}

    def notes(self, settings: AuditSpec, rows: Sequence[Row]) -> list[str]:
        """Say what the interval takes for granted."""
        if not any("certified_kl_low" in row for row in rows):
            return []
        of = "sums over the lattice" if settings.is_exact else "chains' draws, taken for exact ones"
        return [
            f"certified_kl: an interval of {self.confidence:.0%} for each gamma by itself, from "
            f"declared bounds and {of}; no central limit theorem."
        ]


def _range(spec: AuditSpec, gamma: float) -> tuple[float, float]:
    """Range of a dataset's number; infinite where none is declared."""
    loss = spec.posterior.loss
    if spec.domain is None or not isinstance(loss, Loss):
        return -math.inf, math.inf
    found = loss.constants(on_support(spec.posterior, spec.domain))
    weight = spec.group_size * gamma
    if spec.is_exact:
        is_finite = math.isfinite(found.exchange_range)
        return 0.0, bounds.kl_from_range(weight * found.exchange_range) if is_finite else math.inf
    reach = weight * (found.range[1] - found.range[0])
    return (-reach, reach) if math.isfinite(reach) else (-math.inf, math.inf)
