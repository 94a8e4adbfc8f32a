"""The result of the audit of one posterior: averages with errors, and a row an example."""

from __future__ import annotations

import inspect
import json
import os
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from gibbs_dp import io
from gibbs_dp._version import __version__
from gibbs_dp.io.netcdf import MAX_TEXTS
from gibbs_dp.one_dataset import shown
from gibbs_dp.one_dataset.columns import AVERAGES, EXAMPLES, describe
from gibbs_dp.results.table import Heading, TextTable, block, plain, remarks, visible

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

KIND = "report of one dataset"


@dataclass(frozen=True, eq=False)
class OneDatasetReport:
    """What one example changes in one posterior: on average, and for each example.

    Made by :func:`gibbs_dp.audit_log_likelihood` and :func:`gibbs_dp.audit_inference_data`. It
    tells of the data themselves, its figures of single examples above all: it is as confidential
    as they are.

    Parameters
    ----------
    averages
        Numbers by name. ``_mcse`` is a Monte Carlo error, ``_se`` a standard error of the
        examples' spread and Monte Carlo together, as if examples were independent draws of a
        population; ``_low`` and ``_high`` end a 95% interval of that kind.
    examples
        Arrays by name, a number an example.
    names
        Of the examples: whole numbers, or texts.
    settings
        What was given, and how the draws mix.
    warnings
        One sentence for everything that makes a number less than it seems.
    """

    averages: dict[str, float]
    examples: dict[str, Float[np.ndarray, " examples"]] = field(repr=False)
    names: np.ndarray = field(repr=False)
    settings: dict[str, Any]
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return int(self.names.size)

    def __getitem__(self, name: str) -> float:
        """Return an average, or its error, by name.

        Raises
        ------
        KeyError
            If there is none of that name.
        """
        if name not in self.averages:
            raise KeyError(f"{name!r} is not in the report; it has {', '.join(self.averages)}")
        return self.averages[name]

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the numbers rest on, a sentence each."""
        return shown.assumptions(self.settings)

    def most_exposed(self, count: int = 10) -> pd.DataFrame:
        """Return the examples of which a draw tells most.

        They are ranked by one half of the draws, and their exposure is estimated from the other:
        of many estimates the largest overstates itself. The list is sensitive: it names those whom
        the data would betray.

        Parameters
        ----------
        count
            Length of the list.

        Returns
        -------
        DataFrame
            ``exposure`` (nats, by the second half), ``ranked_by`` (nats, by the first half) and
            ``k_hat``, by the examples' names.

        Raises
        ------
        ValueError
            If the count is not a positive whole number.
        """
        import pandas as pd  # slow to import

        if not isinstance(count, (int, np.integer)) or count < 1:
            raise ValueError(f"count: must be a positive whole number, got {count!r}.")
        ranked = self.examples["exposure_first_half"]
        first = np.argsort(-ranked, kind="stable")[:count]
        columns = {
            "exposure": self.examples["exposure_second_half"][first],
            "ranked_by": ranked[first],
            "k_hat": self.examples["k_hat"][first],
        }
        return pd.DataFrame(columns, pd.Index(self.names[first], name=self.settings["unit"]))

    # -- views ----------------------------------------------------------------------------

    def to_dataframe(self) -> pd.DataFrame:
        """All columns, a row an example."""
        import pandas as pd

        return pd.DataFrame(self.examples, pd.Index(self.names, name=self.settings["unit"]))

    def to_xarray(self) -> xr.Dataset:
        """Averages as numbers, columns over the dimension ``example``, the rest as attributes."""
        import xarray as xr  # slow to import

        variables: dict[str, Any] = {
            f"mean_{name}": ((), value, describe(name, AVERAGES))
            for name, value in self.averages.items()
        }
        for name, values in self.examples.items():
            variables[name] = ("example", values, describe(name, EXAMPLES))
        attributes = {
            "gibbs_dp_kind": KIND,
            "gibbs_dp_version": __version__,
            "settings": json.dumps(self.settings),
            "warnings": json.dumps(self.warnings),
            "assumptions": json.dumps(self.assumptions),
        }
        return xr.Dataset(variables, {"example": self.names}, attributes)

    def to_json(self) -> str:
        """One JSON object of the averages, the settings and the warnings."""
        row = self.averages | {k: v for k, v in self.settings.items() if k not in self.averages}
        return json.dumps(io.json_row(row | {"warnings": list(self.warnings)}))

    def summary(self) -> str:
        """Return the averages with errors, the most exposed examples, warnings and assumptions."""
        import pandas as pd

        lines = pd.DataFrame(shown.rows(self.averages), columns=list(shown.HEADINGS))
        marks = [f"WARNING  {plain(w)}" for w in self.warnings]
        marks += [f"note     {plain(n)}" for n in self._notes()]
        marks += [f"assumed  {plain(a)}" for a in self.assumptions]
        table = visible(lines.to_string(index=False, header=True))
        return "\n".join([self._head(), table, *marks])

    def _head(self) -> str:
        return shown.one_line(self.settings, self.warnings)

    def _notes(self) -> list[str]:
        found = self.most_exposed(shown.LISTED)
        values = zip(found.index, found["exposure"], strict=True)
        exposed = ", ".join(f"{plain(str(k), shown.WIDTH)} ({x:.3g})" for k, x in values)
        return [*shown.notes(self.averages, self.settings), shown.EXPOSED.format(listed=exposed)]

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"OneDatasetReport({self._head()})"

    def _repr_html_(self) -> str:
        headings = [Heading(text, is_text=k == 0) for k, text in enumerate(shown.HEADINGS)]
        marks = [("WARNING", text) for text in self.warnings]
        marks += [("note", text) for text in self._notes()]
        marks += [("assumed", text) for text in self.assumptions]
        table = TextTable(headings, shown.rows(self.averages))
        return block(repr(self), table, remarks(marks))

    def plot(self, title: str | None = None) -> Figure:
        """Draw the examples' exposures and the shapes of their weights, in a panel each.

        Parameters
        ----------
        title
            Of the figure.

        Returns
        -------
        Figure
            The figure; it needs no pyplot, and notebooks show it.
        """
        from gibbs_dp.one_dataset.plot import plot_report

        return plot_report(self.averages, self.examples, self.settings, title)

    # -- files ----------------------------------------------------------------------------

    def to_html(
        self,
        path: str | os.PathLike[str],
        title: str | None = None,
        about: Iterable[str] = (),
    ) -> None:
        """Write a page for a browser in one file, whole or not at all; it loads nothing else.

        Parameters
        ----------
        path
            The file, which ends in ``.html``.
        title
            Its heading.
        about
            Sentences on what was audited, to be shown with it.

        Raises
        ------
        ValueError
            If the name does not end so.
        OSError
            If the folder cannot be written.
        """
        from gibbs_dp.one_dataset.paged import LISTED, one_dataset_page

        exposed = self.most_exposed(LISTED)
        rows = zip(exposed.index, exposed["exposure"], exposed["k_hat"], strict=True)
        one_dataset_page(
            self.averages, self.examples, self.settings, self.warnings, rows, title, about
        ).save(path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to NetCDF, whole or not at all; :func:`gibbs_dp.load_one_dataset_report` reads it.

        Raises
        ------
        OSError
            If the folder cannot be written.
        ValueError
            If more than 100,000 examples have texts for names.
        """
        if self.names.dtype.kind == "U" and len(self) > MAX_TEXTS:
            raise ValueError(
                f"names: files have at most {MAX_TEXTS:,} names, got {len(self):,}; leave them out."
            )
        io.save_netcdf(self.to_xarray(), path)


def _columns_section() -> str:
    """Write all names as sections of a docstring."""
    wrap = textwrap.TextWrapper(96, initial_indent="    ", subsequent_indent="    ")
    lines = []
    for title, meanings in (("Averages", AVERAGES), ("Columns of examples", EXAMPLES)):
        lines += [title, "-" * len(title)]
        for name, (unit, text, _) in meanings.items():
            lines += [f"{name} ({unit})" if unit else name, wrap.fill(text)]
        lines.append("")
    return "\n".join(lines)


# Python 3.13 takes the indentation away, older ones do not.
OneDatasetReport.__doc__ = (
    f"{inspect.cleandoc(OneDatasetReport.__doc__ or '')}\n\n{_columns_section()}"
)
