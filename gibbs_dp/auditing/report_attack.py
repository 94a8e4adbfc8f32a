"""The average attacker in reports: its profile over epsilon, its pooled ROC, and their picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gibbs_dp.auditing.report_data import ReportData
from gibbs_dp.estimators.roc import Roc
from gibbs_dp.quantities.attacker import PROFILE

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Curve = dict[str, Float[np.ndarray, " points"]]

SIZE = (8.6, 4.6)
# Curves that one picture tells apart.
MOST_CURVES = 5
LEAST_FPR = 1e-3
POINTS = 65
# Above it the exponential is no float; everything is allowed long before.
LARGEST_EPSILON = 700.0


class WithAttacker(ReportData):
    """What reports tell of the average attacker, over epsilon and over false alarms."""

    def privacy_profile(self, epsilon: ArrayLike | float | Sequence[float]) -> pd.DataFrame:
        """Average privacy profile ``d(epsilon) = E H``, the hockey-stick divergence of a pair.

        For a mean over datasets and replaced examples what ``delta`` is for the worst case: an
        average ``(epsilon, delta)`` curve, no guarantee for any one person. At 0 it is
        ``on_average_tv``; ``int d(e) (1 + exp(-e)) de`` over all ``e > 0`` is ``on_average_kl``.

        Parameters
        ----------
        epsilon
            Nats, at least 0: one number or several.

        Returns
        -------
        pandas.DataFrame
            ``delta`` and ``delta_se``, indexed by gamma and epsilon. Where no draw's privacy loss
            reached epsilon, delta is 0 and its error NaN: it is too small to be seen. Both are NaN
            above 23.7 nats where losses go beyond them: how far, was not kept.

        Raises
        ------
        ValueError
            For epsilons that are negative or not finite, and reports without a profile.
        """
        import pandas as pd  # slow to import

        asked = np.atleast_1d(np.asarray(epsilon, np.float64))
        if asked.ndim != 1 or not asked.size or not (np.isfinite(asked) & (asked >= 0)).all():
            raise ValueError(
                f"epsilon: must be one or more finite numbers >= 0, nats, got {epsilon!r}; at "
                "negative ones, d(-e) = 1 - exp(-e) + exp(-e) d(e)."
            )
        rows: list[dict[str, Any]] = []
        for gamma, curve in profiles(self):
            roc = roc_of(curve)
            for e, value in zip(asked, np.asarray(roc.profile(asked)), strict=True):
                se = float(np.interp(e, curve["epsilon"], curve["delta_se"], right=0.0))
                # Nothing was seen so far out: how much there is, the draws do not say.
                seen = {"delta": float(value), "delta_se": se if se > 0 else np.nan}
                rows.append({"gamma": gamma, "epsilon": float(e), **seen})
        return pd.DataFrame(rows).set_index(["gamma", "epsilon"])

    def attack_roc(self, fpr: ArrayLike | float | Sequence[float]) -> pd.DataFrame:
        """Tabulate the average attacker's ROC, pooled over datasets and replaced examples.

        Parameters
        ----------
        fpr
            False positive rates, on average: one or several in [0, 1].

        Returns
        -------
        pandas.DataFrame
            ``tpr`` and ``tpr_se``, indexed by gamma and fpr; NaN at rates that need thresholds
            above 23.7 nats, which were not kept.

        Raises
        ------
        ValueError
            For rates that are none, and reports without a profile.
        """
        import pandas as pd  # slow to import

        asked = np.atleast_1d(np.asarray(fpr, np.float64))
        if asked.ndim != 1 or not asked.size or not ((asked >= 0) & (asked <= 1)).all():
            raise ValueError(f"fpr: must be one or more rates between 0 and 1, got {fpr!r}.")
        rows: list[dict[str, Any]] = []
        for gamma, curve in profiles(self):
            for rate, (tpr, se) in zip(asked, curve_with_errors(curve, asked), strict=True):
                rows.append({"gamma": gamma, "fpr": float(rate), "tpr": tpr, "tpr_se": se})
        return pd.DataFrame(rows).set_index(["gamma", "fpr"])

    def plot_attack(
        self, gammas: Sequence[float] | None = None, title: str | None = None
    ) -> Figure:
        """Draw the average attacker's ROC with 95% bands, and what DP epsilon allows over it.

        Parameters
        ----------
        gammas
            Some of the report's; by default up to five of them.
        title
            Of the figure.

        Returns
        -------
        Figure
            Two panels: all rates, and few false alarms on logarithmic axes.

        Raises
        ------
        ValueError
            For gammas that the report has not, and reports without a profile.
        """
        from gibbs_dp.results.plotting import COLORS, legend_below, literal, panels, styled

        known = dict(profiles(self))
        chosen = _chosen(list(known), gammas, len(COLORS))
        with styled():
            figure, grid = panels(SIZE, columns=2)
            left, right = grid[0]
            epsilons = {row["gamma"]: row.get("dp_epsilon") for row in self.rows}
            releases = int(self.settings.get("num_releases", 1))
            low = np.concatenate([[0.0], np.geomspace(LEAST_FPR / 10, 1.0, POINTS)])
            for axes, fpr in (
                (left, np.unique(np.append(low, np.linspace(0, 1, POINTS)))),
                (right, low[1:]),
            ):
                for color, gamma in zip(COLORS, chosen, strict=False):
                    found = np.array(curve_with_errors(known[gamma], fpr))
                    value, half = found[:, 0], 1.96 * found[:, 1]
                    axes.plot(fpr, value, color=color, label=f"gamma = {gamma:g}")
                    axes.fill_between(
                        fpr,
                        np.maximum(value - half, fpr),
                        value + half,
                        color=color,
                        alpha=0.2,
                        lw=0,
                    )
                    epsilon = epsilons.get(gamma)
                    if epsilon is not None and math.isfinite(epsilon):
                        axes.plot(
                            fpr, _allowed(fpr, releases * epsilon), color=color, ls="--", lw=1
                        )
                axes.plot(fpr, fpr, color="0.6", lw=1, ls=":", label="guessing")
                axes.set(xlabel="false positive rate", ylabel="true positive rate")
            if any(e is not None and math.isfinite(e) for e in map(epsilons.get, chosen)):
                left.plot([], [], color="0.3", ls="--", lw=1, label="most that DP epsilon allows")
            left.set(xlim=(0, 1), ylim=(0, 1))
            right.set(xscale="log", yscale="log", xlim=(LEAST_FPR, 1), ylim=(LEAST_FPR, 1.1))
            left.set_title("one draw, everyone else known")
            right.set_title("few false alarms")
            legend_below(left)
            size = f", n = {self.settings['n']}" if "n" in self.settings else ""
            default = f"what an attacker sees: {self.settings.get('loss', 'Gibbs posterior')}{size}"
            figure.suptitle(title or literal(default))
        return figure


def profiles(report: ReportData) -> list[tuple[float, Curve]]:
    """Gammas and their profiles, as an audit left them."""
    found = [
        (float(row["gamma"]), curve[PROFILE])
        for row, curve in zip(report.rows, report.curves, strict=False)
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


def _allowed(fpr: np.ndarray, epsilon: float) -> np.ndarray:
    """Largest true positive rate under pure DP (Kairouz, Oh & Viswanath 2015, Theorem 2.1)."""
    factor = np.exp(min(epsilon, LARGEST_EPSILON))
    return np.asarray(np.minimum(1.0, np.minimum(factor * fpr, 1 - (1 - fpr) / factor)))


def _chosen(known: list[float], asked: Sequence[float] | None, most: int) -> list[float]:
    if asked is None:
        places = np.unique(np.linspace(0, len(known) - 1, min(len(known), MOST_CURVES)).round())
        return [known[int(i)] for i in places]
    found = [next((g for g in known if math.isclose(g, a, rel_tol=1e-6)), None) for a in asked]
    if not found or any(g is None for g in found):
        told = ", ".join(f"{g:g}" for g in known)
        raise ValueError(f"gammas: choose some of the report's, {told}, got {list(asked)!r}.")
    if len(found) > most:
        raise ValueError(f"gammas: at most {most} are told apart, got {len(found)}.")
    return [g for g in found if g is not None]
