"""What reports say of the average attacker: the profile over epsilon, and the pooled ROC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gibbs_dp.auditing.plotted import Plotted
from gibbs_dp.estimators.roc import Roc
from gibbs_dp.quantities.attacker import PROFILE

if TYPE_CHECKING:
    import pandas as pd

Curve = dict[str, Float[np.ndarray, " points"]]


def profiles(report: Plotted) -> list[tuple[float, Curve]]:
    """Gammas and their profiles, as an audit left them.

    Raises
    ------
    ValueError
        If the report has none.
    """
    curves = getattr(report, "curves", ())
    found = [
        (float(row["gamma"]), curve[PROFILE])
        for row, curve in zip(report.rows, curves, strict=False)
        if PROFILE in curve
    ]
    if not found:
        raise ValueError(
            "report: it has no privacy profile (older versions made none); learn gdp.Attacker()."
        )
    return found


def roc_of(curve: Curve) -> Roc:
    """Pooled ROC of a profile."""
    return Roc(curve["epsilon"], curve["above"], curve["excess"])


def profile_table(report: Plotted, epsilon: ArrayLike | float | Sequence[float]) -> pd.DataFrame:
    """Tabulate average hockey-stick divergences; see ``Report.privacy_profile``."""
    import pandas as pd  # slow to import

    asked = np.atleast_1d(np.asarray(epsilon, np.float64))
    if asked.ndim != 1 or not asked.size or not (np.isfinite(asked) & (asked >= 0)).all():
        raise ValueError(
            f"epsilon: must be one or more finite numbers >= 0, nats, got {epsilon!r}; at negative "
            "ones, d(-e) = 1 - exp(-e) + exp(-e) d(e)."
        )
    rows: list[dict[str, Any]] = []
    for gamma, curve in profiles(report):
        roc = roc_of(curve)
        for e, value in zip(asked, np.asarray(roc.profile(asked)), strict=True):
            se = float(np.interp(e, curve["epsilon"], curve["delta_se"], right=0.0))
            # Nothing was seen so far out: how much there is, the draws do not say.
            seen = {"delta": float(value), "delta_se": se if se > 0 else np.nan}
            rows.append({"gamma": gamma, "epsilon": float(e), **seen})
    return pd.DataFrame(rows).set_index(["gamma", "epsilon"])


def attack_table(report: Plotted, fpr: ArrayLike | float | Sequence[float]) -> pd.DataFrame:
    """Tabulate the pooled ROC; see ``Report.attack_roc``."""
    import pandas as pd  # slow to import

    asked = np.atleast_1d(np.asarray(fpr, np.float64))
    if asked.ndim != 1 or not asked.size or not ((asked >= 0) & (asked <= 1)).all():
        raise ValueError(f"fpr: must be one or more rates between 0 and 1, got {fpr!r}.")
    rows: list[dict[str, Any]] = []
    for gamma, curve in profiles(report):
        for rate, (tpr, se) in zip(asked, curve_with_errors(curve, asked), strict=True):
            rows.append({"gamma": gamma, "fpr": float(rate), "tpr": tpr, "tpr_se": se})
    return pd.DataFrame(rows).set_index(["gamma", "fpr"])


def curve_with_errors(curve: Curve, fpr: Sequence[float] | np.ndarray) -> list[tuple[float, float]]:
    """Read true positive rates at false ones, with standard errors.

    The curve is the least ``c fpr + E H_c`` over ``c``, so that its error is that of the profile at
    the best ``c``, whatever that one's own error (the envelope theorem).
    """
    roc = roc_of(curve)
    rates = np.asarray(fpr, np.float64)
    values, best = roc.curve(rates), roc.best(rates)[1]
    # Over the mirror line the same thresholds serve, turned.
    errors = np.interp(np.abs(best), curve["epsilon"], curve["delta_se"])
    errors *= np.exp(np.minimum(best, 0.0))
    errors = np.where(np.isnan(values), np.nan, errors)
    return [(float(v), float(e)) for v, e in zip(values, errors, strict=True)]
