"""Losses of draws: on training examples, on fresh ones, and the gap between the two."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from gibbs_dp import estimators
from gibbs_dp._cautions import Caution, Warned
from gibbs_dp.engine.plan import AuditSpec
from gibbs_dp.engine.quantity import Quantity, Row
from gibbs_dp.engine.view import GammaResult, View
from gibbs_dp.quantities.kl_estimators import fitted_gap
from gibbs_dp.results.table import Column, Style

# A single dataset that carries this share of a sum makes its standard error meaningless.
DOMINANT_SHARE = 0.4
MIN_DATASETS_TO_JUDGE = 256

DOMINANT_DATASET = Caution(
    "dominant-dataset",
    "one dataset carries {share:.0%} of the generalization error's variance: its standard error "
    "cannot be trusted; the gap may have infinite variance here.",
    "A single dataset among hundreds decides the average: further datasets may change it by much "
    "more than the standard error says.",
    "Heavy-tailed data or an unbounded loss do this: bound the loss (gdp.losses.huber), clip the "
    "data, give a prior that keeps parameters in reach, or report on_average_kl, which need not "
    "share the problem.",
)


BELOW_BEST = Caution(
    "below-best",
    "excess_risk is {z:.2g} standard errors below zero: draws do better than the best parameter "
    "that was found; read population_risk instead.",
    "The population's best parameter is searched for by its loss's slope, from the pilots and from "
    "the best of 64 draws of the prior. A loss with many valleys, or steps, may have a better one.",
    "Compare gammas by population_risk, from which excess_risk differs by one number.",
)
# Standard errors, and share of the risk, from where on it is neither noise nor rounding, nor due
# to the sample that was searched on.
SURE_Z, LEAST_BELOW = 4.0, 1e-3


def below_best(row: Row) -> list[Warned]:
    """Say where draws have less risk than what excess risk is measured from."""
    excess, se = row.get("excess_risk", math.nan), row.get("excess_risk_se", math.nan)
    if excess < -max(SURE_Z * se, LEAST_BELOW * abs(row["population_risk"])):
        return [BELOW_BEST(z=-excess / max(se, np.finfo(float).tiny))]
    return []


class RiskValues(NamedTuple):
    """Of each dataset: the gap less its control variate, that of mean zero, and mean losses."""

    generalization: Float[Any, "*b"]
    control: Float[Any, "*b"]
    empirical: Float[Any, "*b"]
    population: Float[Any, "*b"]
    excess: Float[Any, "*b"]


@dataclass(frozen=True)
class Risks(Quantity):
    """Generalization error and risks of a draw, in units of the loss."""

    name = "risks"
    Values = RiskValues
    needs_optimum = True
    columns = (
        Column(
            "generalization_error",
            "Mean loss of a draw on a fresh example minus that on a training example.",
            "loss",
            "gen. error",
            Style("generalization error", "#009E73", "-", "o", "generalization"),
        ),
        Column(
            "empirical_risk",
            "Mean loss of a draw on its training examples (structured loss: on the dataset).",
            "loss",
            "emp. risk",
            Style(
                "risk on training examples", "#CC79A7", "--", "v", "risk", instead_of="excess_risk"
            ),
        ),
        Column(
            "population_risk",
            "Mean loss of a draw on fresh examples (structured loss: on a fresh dataset).",
            "loss",
            style=Style(
                "risk on fresh examples", "#009E73", "-", "^", "risk", instead_of="excess_risk"
            ),
        ),
        Column(
            "excess_risk",
            "Population risk minus that of the best parameter of the population.",
            "loss",
            "excess risk",
            Style("excess risk", "#009E73", "-", "^", "risk"),
        ),
    )

    def per_dataset(self, view: View) -> RiskValues:
        """Average the losses of one dataset's draws."""
        losses, weight = view.losses, view.draws.weight
        control = estimators.reference_gap(*losses.reference)
        of_mean = losses.mean[..., None]
        population = estimators.risk(losses.population, weight)
        return RiskValues(
            generalization=estimators.gap(of_mean, losses.ghost, weight) - control,
            control=control,
            empirical=estimators.risk(of_mean, weight),
            population=population,
            excess=population - jnp.mean(losses.optimum),
        )

    def fitted(self, values: RiskValues, is_kept: Bool[np.ndarray, " datasets"]) -> RiskValues:
        """Give back what of the control variate does not reduce noise."""
        gap = fitted_gap(values.generalization, values.control, is_kept)
        return values._replace(generalization=gap)

    def means(self, result: GammaResult) -> dict[str, Float[np.ndarray, " datasets"]]:
        """All four."""
        values: RiskValues = result.summary.values.risks
        return {
            "generalization_error": values.generalization,
            "empirical_risk": values.empirical,
            "population_risk": values.population,
            "excess_risk": values.excess,
        }

    def finish(self, result: GammaResult, row: Row) -> tuple[Row, list[Warned]]:
        """Say where one dataset carries the gap's variance, and where the best was not found."""
        share = _dominant_share(result.good.values.risks.generalization)
        told = [DOMINANT_DATASET(share=share)] if share > DOMINANT_SHARE else []
        return {}, told + below_best(row)

    def notes(self, settings: AuditSpec, rows: Sequence[Row]) -> list[str]:
        """Say why a risk is absent."""
        if all("excess_risk" in row for row in rows):
            return []
        return ["excess_risk is absent: no best parameter of the population was found."]


def _dominant_share(values: Float[np.ndarray, " datasets"]) -> float:
    """Largest share of one dataset in the variance of the gap, once datasets are many."""
    gap = np.asarray(values, np.float64)
    gap = gap[np.isfinite(gap)]
    if gap.shape[0] < MIN_DATASETS_TO_JUDGE:
        return 0.0
    squares = (gap - gap.mean()) ** 2
    return float(squares.max() / max(squares.sum(), 1e-300))


class AbsoluteValues(NamedTuple):
    """Of each dataset, what lies below and above the draws' mean absolute gap."""

    lower: Float[Any, "*b"]
    upper: Float[Any, "*b"]


@dataclass(frozen=True)
class AbsoluteGap(Quantity):
    r"""How far a draw's training loss is from its risk, in either direction: from both sides.

    ``generalization_error`` is the mean of ``R - R_hat``, whose signs cancel, and the one that
    on-average KL equals (Wang, Lei & Fienberg 2016, Theorem 4). The standard notion is the mean of
    ``|R - R_hat|``, which is never smaller. The risk ``R`` of a draw is known from fresh examples
    alone, ``OnAverageKL(num_ghosts=)`` of them. With all of them the mean absolute gap is too
    large, as absolute values are convex. With the sign of the gap to one half and the size of the
    gap to the other it is too small, as a sign that is independent of the noise gives
    ``s (R - R_hat) <= |R - R_hat|``. Both hold for any law. With 16 times as many fresh examples
    as training examples they are some 10% apart, with as many a factor of 2.

    Raises
    ------
    ValueError
        By an audit, for a structured loss or examples that depend on each other.

    Examples
    --------
    >>> import jax, gibbs_dp as gdp
    >>> posterior = gdp.GibbsPosterior(
    ...     gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.real(1)))
    >>> report = gdp.audit(
    ...     posterior, lambda key, n: jax.random.normal(key, (n, 1)), 20, 1.0, num_datasets=256,
    ...     learn=[gdp.OnAverageKL(num_ghosts=320), gdp.Risks(), gdp.AbsoluteGap()],
    ...     progress=False)
    >>> row = report.rows[0]
    >>> row["generalization_error"] < row["absolute_gap_lower"] < row["absolute_gap_upper"]
    True
    """

    name = "absolute_gap"
    Values = AbsoluteValues
    columns = (
        Column(
            "absolute_gap_lower",
            "Not above the mean distance between a draw's loss on training examples and its risk "
            "(gibbs_dp.AbsoluteGap): by the sign from half of the fresh examples, the size from "
            "the others.",
            "loss",
        ),
        Column(
            "absolute_gap_upper",
            "Not below that distance: to the loss on fresh examples, whose noise adds to it.",
            "loss",
        ),
    )

    def resolved(self, spec: AuditSpec, learnt: Mapping[str, Quantity]) -> Sequence[Quantity]:
        """Refuse losses and examples of which halves are not independent."""
        del learnt
        if spec.posterior.structured:
            raise ValueError(
                "total_loss: AbsoluteGap needs losses of single examples, of which one half tells "
                "nothing of the other; give loss=, or leave AbsoluteGap out."
            )
        if spec.population.is_dependent:
            raise ValueError(
                "population: AbsoluteGap needs fresh examples that are independent; leave it out."
            )
        return (self,)

    def per_dataset(self, view: View) -> AbsoluteValues:
        """Look at both halves of the fresh examples."""
        mean, ghost, weight = view.losses.mean, view.losses.ghost, view.draws.weight
        half = ghost.shape[-1] // 2
        halves = ghost[..., :half], ghost[..., half : 2 * half]
        first, second = (jnp.mean(part, axis=-1) - mean for part in halves)
        signed = 0.5 * (jnp.sign(first) * second + jnp.sign(second) * first)
        whole = jnp.abs(jnp.mean(ghost, axis=-1) - mean)
        found = (estimators.risk(x[..., None], weight) for x in (signed, whole))
        return AbsoluteValues(*found)

    def means(self, result: GammaResult) -> dict[str, Float[np.ndarray, " datasets"]]:
        """Both."""
        values: AbsoluteValues = result.summary.values.absolute_gap
        return {"absolute_gap_lower": values.lower, "absolute_gap_upper": values.upper}
