"""PAC-Bayes bounds on the risk of one posterior, a row a gamma."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gibbs_dp import io
from gibbs_dp._cautions import Caution
from gibbs_dp.estimators.average import LIMIT_Z
from gibbs_dp.results.base import Remarks, Result
from gibbs_dp.results.table import Heading, TextTable, counted, plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BOUNDS = ("catoni", "maurer")
HEADINGS = {
    "gamma": Heading("gamma", "Inverse temperature; it multiplies the total loss."),
    "empirical_risk": Heading("emp. risk", "Mean loss on the data, units of the loss."),
    "kl": Heading("KL to prior", "Divergence of the posterior from the prior, nats."),
    "log_normalizer": Heading("log C", "Log of the prior mean of exp(-gamma L), nats."),
    "catoni": Heading("catoni", "Catoni's bound on the risk, units of the loss."),
    "maurer": Heading("maurer", "Maurer's bound, by the KL of Bernoulli laws, units of the loss."),
}
# Letters of a sampler's name.
WIDTH = 60
# Inches of the picture.
SIZE = (6.4, 4.8)

# What a certificate may be warned of.
VACUOUS = Caution(
    "vacuous-certificate",
    "the bound by {bound} is {value:.4g} at its best, {share:.0%} of the way from the smallest to "
    "the largest loss: it says next to nothing.",
    "The certificate holds, and is hardly below the largest loss that there can be. The prior has "
    "too little mass where the loss is small, or the examples are too few.",
    "More examples, a prior that is nearer to good parameters (chosen without these data), a "
    "smaller loss range, or other gammas: n gamma times the range of the loss from 1 to 10 times "
    "the number of parameters is a start.",
)
NOISY_NORMALIZER = Caution(
    "noisy-island-normalizers",
    "at gamma={gamma:g} the log normalizer has a standard error of {error:.2g} nats between "
    "islands: the certificate holds, but may be looser than it had to be, and particles have "
    "missed some of the posterior.",
    "A sampled normalizer is unbiased, and mostly too small where its particles are too few: the "
    "bound then pays for mass that no particle found.",
    "SMC with more particles, or a sum over a class with gibbs_dp.Grid.",
)


@dataclass(frozen=True, eq=False, repr=False)
class Certificate(Result):
    """Upper bounds on the population risk of one Gibbs posterior, from its own data.

    Made by :func:`gibbs_dp.certify`. The risk is the mean loss on a fresh example of a parameter
    drawn from the posterior. Each bound is one statement, which holds with probability
    ``1 - delta`` over the data (and over the particles, where ``is_exact`` is False), at all
    gammas of the table at once: ``best`` may be chosen after the data. Which of the two bounds is
    the certificate has to be chosen before: ``settings["bound"]``. No number of it is private.

    Parameters
    ----------
    rows
        One dict a gamma. ``empirical_risk`` is the mean loss on the data (units of the loss),
        ``kl`` the divergence of the posterior from the prior and ``log_normalizer`` the log of the
        prior mean of ``exp(-gamma L)`` (nats), each with its Monte Carlo error ``_se``, which is 0
        where ``is_exact``; ``catoni`` and ``maurer`` are the bounds (units of the loss).
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
    warnings: tuple[str, ...] = ()

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
        low, high = self.settings["loss_range"]
        found = [
            "examples are independent draws of one law, and a fresh example is one more.",
            f"every loss that this law allows, at every parameter of the prior, is in [{low:g}, "
            f"{high:g}], as declared; the data were checked, the law cannot be.",
            "the prior, the gammas, the loss range, delta, which bound counts and "
            f"{'the points' if self.is_exact else 'the key'} were chosen without these data.",
        ]
        if len(self) > 1:
            paid = "catoni pays" if self.is_exact else "every bound pays"
            free = "; maurer holds for all gammas anyway" if self.is_exact else ""
            found.append(f"{paid} for {len(self)} gammas: delta / {len(self)} each{free}.")
        if self.is_exact:
            found.append(
                f"the posterior is that on {self.settings['of']}, summed in double precision."
            )
            return tuple(found)
        kernel = plain(str(self.settings["kernel"]), WIDTH)
        return (
            *found,
            f"the particles ({kernel}) ran along a path frozen before, so that their normalizer is "
            "unbiased; its error needs no allowance, as the bounds' proofs take its mean, and "
            "1 - delta is the probability over data and particles together.",
            "both bounds hold for a draw from these weighted particles, whose empirical risk has "
            "no error; catoni also holds for the posterior itself, maurer for it only up to the "
            "Monte Carlo errors shown.",
        )

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

    def _head(self) -> str:
        name, low_high = self.settings["bound"], self.settings["loss_range"]
        parts = [
            f"risk at most {self.bound:.4g} at gamma={self.gamma:g} ({name})",
            f"with probability {probability(self.settings['delta'])}",
            f"losses in [{low_high[0]:g}, {low_high[1]:g}]",
            counted(int(self.settings["n"]), "example"),
        ]
        parts += [counted(len(self.warnings), "warning")] if self.warnings else []
        return ", ".join(parts)

    def _table(self, most: int | None = None) -> TextTable:
        cells = [[_cell(row, name) for name in HEADINGS] for row in self.rows[:most]]
        return TextTable(list(HEADINGS.values()), cells, len(self) - len(cells), "gammas")

    def _remarks(self) -> Remarks:
        marks = [("WARNING", text) for text in self.warnings]
        return marks + [("assumed", text) for text in self.assumptions]

    def plot(self, title: str | None = None, ax: Axes | None = None) -> Figure:
        """Draw the bounds and the empirical risk over gamma.

        Parameters
        ----------
        title
            Of the picture.
        ax
            Axes to draw on, in their style; by default those of a new figure.

        Returns
        -------
        Figure
            The figure. Notebooks show it, and ``plt.show()`` where pyplot was imported before.
        """
        from gibbs_dp.results import plotting  # slow to import

        styles = (plotting.VERMILION, "o"), (plotting.BLUE, "s")
        name = self.settings["bound"]
        told = f"probability {probability(self.settings['delta'])}" if title is None else title
        x = np.array([row["gamma"] for row in self.rows])
        with plotting.drawing(ax, SIZE) as (figure, (axes,)):
            axes.set(title=told, xlabel="gamma", ylabel="risk (units of the loss)", xscale="log")
            for bound, (color, marker) in zip(BOUNDS, styles, strict=True):
                label = f"{bound} (the certificate)" if bound == name else bound
                y = [row[bound] for row in self.rows]
                width = 2.4 if bound == name else 1.2
                axes.plot(x, y, color=color, marker=marker, ms=4.0, lw=width, label=label)
            risk = np.array([row["empirical_risk"] for row in self.rows])
            error = LIMIT_Z * np.array([row["empirical_risk_se"] for row in self.rows])
            axes.plot(
                x, risk, color=plotting.BLACK, ls="--", marker="d", ms=4.0, label="empirical risk"
            )
            if (error > 0).any():
                axes.errorbar(x, risk, error, ls="none", color=plotting.BLACK, lw=1.0)
            axes.axvline(
                self.gamma, color=plotting.VERMILION, lw=1.0, ls=":", label="least certificate"
            )
            plotting.tidy_logs(axes)
            plotting.legend_below(axes, columns=2)
        return figure


def probability(delta: float) -> str:
    """Write ``1 - delta``, which is never 1.

    >>> probability(0.05), probability(1e-9)
    ('0.95', '1 - 1e-09')
    """
    return f"{1 - delta:g}" if delta >= 1e-5 else f"1 - {delta:g}"


def _cell(row: Mapping[str, float], name: str) -> str:
    error = row.get(f"{name}_se", 0.0)
    told = f"{row[name]:g}" if name == "gamma" else f"{row[name]:.4g}"
    return f"{told} ± {error:.1g}" if error > 0 else told
