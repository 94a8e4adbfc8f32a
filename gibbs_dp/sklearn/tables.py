"""A private model of a declared table: what `gibbs-dp release` makes where no prior is given."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from jaxtyping import Float

from gibbs_dp.information.checks import Adjacency
from gibbs_dp.privacy.columns import Column, Levels, Number, Positive
from gibbs_dp.privacy.ledger import Ledger
from gibbs_dp.privacy.released_model import Shortening
from gibbs_dp.privacy.releases.release import Release
from gibbs_dp.privacy.schema import Schema
from gibbs_dp.sklearn.classifier import GibbsClassifier
from gibbs_dp.sklearn.features import HALF_RANGE
from gibbs_dp.sklearn.regressor import GibbsRegressor


def release_by_rule(
    data: tuple[Float[np.ndarray, "rows features"], Float[np.ndarray, " rows"]],
    *,
    schema: Schema,
    ledger: Ledger,
    adjacency: Adjacency,
    epsilon: float,
    delta: float = 0.0,
    loss: str = "logistic",
    num_draws: int = 1,
    n: int | None = None,
    accept: Collection[str] = (),
    purpose: str = "gibbs_dp release",
) -> tuple[Release, str, Shortening, bool]:
    """Release a linear model of a table whose mechanism and prior follow from public facts.

    Also how it came about in words, what it does to features, and whether scores are log-odds.
    """
    if not schema.intercept:
        raise ValueError("schema: the rule needs an intercept; leave intercept=True.")
    x, y = data
    settings: dict[str, Any] = {
        **_bounds(schema),
        "ledger": ledger,
        "adjacency": adjacency,
        "num_draws": num_draws,
        "n": n,
        "accept": tuple(accept),
    }
    model: GibbsClassifier | GibbsRegressor
    is_read, columns = x[:, 0] != 0, x[:, 1:]
    if loss == "logistic":
        model = GibbsClassifier(epsilon, delta, classes=[0, 1], **settings)
        model.purpose = purpose
        model.fit_classes(columns, y, np.array([0, 1]), [], is_read)
        low, half = 0.0, 1.0
    else:
        ends = schema.domain.y_range
        model = GibbsRegressor(epsilon, delta, loss=loss, y_bounds=ends, **settings)
        model.purpose = purpose
        model.fit_numbers(columns, y, ends, [], is_read)
        low, half = (ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2
    draws = []
    for theta in model.draws_:
        coef, base = model.scaling_.coefficients(theta)
        draws.append(np.concatenate([[low + half * base[0]], half * coef[0]]))
    assert model.charge_ is not None
    told = f"{model.told_}; {model.scaling_.rule} first"
    found = Release(np.stack(draws), model.guarantee_, model.charge_)
    return found, told, model.scaling_, getattr(model, "has_log_odds_", False)


def _bounds(schema: Schema) -> dict[str, Any]:
    """Declare columns by their ranges, or all of them by the norm where one has none."""
    ends = [_ends(column) for name, column in schema.features.items() for _ in column.names(name)]
    low, high = (np.array(side, np.float64) for side in zip(*ends, strict=True))
    if schema.x_bound is None or (np.isfinite(low).all() and np.isfinite(high).all()):
        high = np.where(high > low, high, low + 1.0)
        return {"bounds": (low, high)}
    bound = schema.domain.x_bound
    if bound <= 1:
        raise ValueError(
            f"x_bound: {schema.x_bound:g} leaves nothing for the features beside the intercept's "
            "1; declare a larger one."
        )
    return {"x_bound": float(np.sqrt(bound - 1) * np.sqrt(bound + 1))}


def _ends(column: Column) -> tuple[float, float]:
    """Range of a feature; indicators, half of them 1, vary by half of theirs and not by a fifth."""
    if isinstance(column, Levels | Positive):
        return 0.5 - 0.5 * HALF_RANGE, 0.5 + 0.5 * HALF_RANGE
    return column.label_range if isinstance(column, Number) else (0.0, 1.0)
