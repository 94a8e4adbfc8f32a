"""What reports tell of the average attacker: methods of ``gibbs_dp.Report``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from numpy.typing import ArrayLike

from gibbs_dp.auditing.attack import attack_table, profile_table
from gibbs_dp.auditing.plotted import Plotted

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class WithAttacker:
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
        return profile_table(cast("Plotted", self), epsilon)

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
        return attack_table(cast("Plotted", self), fpr)

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
        from gibbs_dp.auditing.plot_attack import plot_attack

        return plot_attack(cast("Plotted", self), gammas, title)
