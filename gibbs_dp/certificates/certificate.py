"""PAC-Bayes bounds on the risk of one posterior, a row a gamma."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gibbs_dp import io
from gibbs_dp.certificates import shown
from gibbs_dp.results.table import MOST_LINES, Heading, TextTable, block, plain, remarks, visible

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Certificate:
    """Upper bounds on the population risk of one Gibbs posterior, from its own data.

    Made by :func:`gibbs_dp.certify`. The risk is the mean loss on a fresh example of a parameter
    drawn from the posterior. Each bound is one statement, which holds with probability
    ``1 - delta`` over the data (and over the particles, where ``is_exact`` is False), at all
    gammas of the table at once: ``best`` may be chosen after the data. Which of the four bounds is
    the certificate has to be chosen before: ``settings["bound"]``. No number of it is private.

    Parameters
    ----------
    rows
        One dict a gamma. ``empirical_risk`` is the mean loss on the data (units of the loss),
        ``kl`` the divergence of the posterior from the prior and ``log_normalizer`` the log of the
        prior mean of ``exp(-gamma L)`` (nats), each with its Monte Carlo error ``_se``, which is 0
        where ``is_exact``; ``catoni``, ``linear``, ``maurer`` and ``mcallester`` are the bounds
        (units of the loss; `gibbs_dp.information.bounds`).
    settings
        What was asked for: ``n``, ``delta``, ``bound``, ``loss_range``, ``kernel``, ``of``.
    is_exact
        Whether normalizers are sums over a finite class. Where they are not they are unbiased
        estimates, with which all bounds still hold, `assumptions` says of what.
    warnings
        One sentence for everything that makes the certificate less than it seems.
    """

    rows: tuple[dict[str, float], ...]
    settings: dict[str, Any]
    is_exact: bool
    warnings: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def best(self) -> dict[str, float]:
        """The row of the least certificate; the smallest such gamma."""
        return min(self.rows, key=lambda row: row[self.settings["bound"]])

    @property
    def gamma(self) -> float:
        """Gamma of the least certificate."""
        return self.best["gamma"]

    @property
    def bound(self) -> float:
        """The least certificate: the risk at ``gamma`` is at most this (units of the loss)."""
        return self.best[self.settings["bound"]]

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the certificate rests on, a sentence each."""
        return shown.assumptions(self.settings, self.is_exact, len(self))

    # -- views ----------------------------------------------------------------------------

    def to_dataframe(self) -> pd.DataFrame:
        """All columns, indexed by gamma."""
        import pandas as pd  # slow to import

        return pd.DataFrame(list(self.rows)).set_index("gamma")

    def to_json(self) -> str:
        """One JSON object of the best row, the settings and the warnings."""
        row: dict[str, Any] = dict(self.best) | {"certificate": self.bound, **self.settings}
        row |= {"is_exact": self.is_exact, "warnings": list(self.warnings)}
        return json.dumps(io.json_row(row))

    def summary(self) -> str:
        """Return the bounds at every gamma, warnings and assumptions."""
        import pandas as pd

        table = pd.DataFrame(shown.cells(self.rows), columns=list(shown.HEADINGS.values()))
        marks = [f"WARNING  {plain(w)}" for w in self.warnings]
        marks += [f"assumed  {plain(a)}" for a in self.assumptions]
        return "\n".join([self._head(), visible(table.to_string(index=False)), *marks])

    def _head(self) -> str:
        return shown.one_line(self.best, self.settings, self.warnings)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"Certificate({self._head()})"

    def _repr_html_(self) -> str:
        headings = [Heading(text, shown.MEANINGS[k]) for k, text in shown.HEADINGS.items()]
        rows = shown.cells(self.rows[:MOST_LINES])
        marks = [("WARNING", text) for text in self.warnings]
        marks += [("assumed", text) for text in self.assumptions]
        table = TextTable(headings, rows, len(self) - MOST_LINES, "gammas")
        return block(repr(self), table, remarks(marks))

    def plot(self, title: str | None = None) -> Figure:
        """Draw the bounds and the empirical risk over gamma.

        Parameters
        ----------
        title
            Of the figure.

        Returns
        -------
        Figure
            The figure; it needs no pyplot, and notebooks show it.
        """
        from gibbs_dp.certificates.plot import plot_certificate

        return plot_certificate(self.rows, self.settings, title)
