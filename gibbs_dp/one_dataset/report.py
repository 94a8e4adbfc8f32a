"""The result of the audit of one posterior: columns, averages with errors, a row an example."""

from __future__ import annotations

import inspect
import json
import os
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from gibbs_dp import io
from gibbs_dp._cautions import Caution
from gibbs_dp._version import __version__
from gibbs_dp.io.netcdf import MAX_TEXTS
from gibbs_dp.results import page
from gibbs_dp.results.base import Remarks, ResultWithPage, damage_named, sentences
from gibbs_dp.results.table import Column, Heading, TextTable, counted, plain, warnings_below

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AVERAGES = {
    column.name: column
    for column in (
        Column(
            "on_average_kl",
            "Replace-one KL on average: n - 1 of the examples, and another of them in the place "
            "of one; the mean over all such pairs of datasets, exact up to the draws.",
            "nats",
            "on-average KL (replace one)",
        ),
        Column(
            "generalization_error",
            "On-average KL over gamma: expected negative log-likelihood of a fresh example minus "
            "that of a training example, under draws.",
            "nats per example",
            "generalization error",
        ),
        Column(
            "on_average_kl_shortcut",
            "The same for n examples to second order in gamma: gamma^2 times the sum over "
            "examples of the variance over draws of the log-likelihood less the mean of all "
            "examples, over n - 1.",
            "nats",
            "  by variances, n examples",
        ),
        Column(
            "remove_one_kl",
            "Mean over examples of the KL of the posterior to the one without the example.",
            "nats",
            "KL to the posterior without one",
        ),
        Column(
            "add_one_kl",
            "Mean over examples of the KL of the posterior without the example to the one with it.",
            "nats",
            "KL from the posterior without one",
        ),
        Column(
            "advantage",
            "Largest true positive minus false positive rate of whoever guesses from one draw "
            "which of two examples was in the data, knowing the others: total variation, a mean "
            "over pairs.",
            "",
            "attacker's advantage (replace one)",
        ),
        Column(
            "remove_one_advantage",
            "The same for whether an example was in the data at all; a mean over examples.",
            "",
            "attacker's advantage (remove one)",
        ),
        Column(
            "elpd_loo",
            "Expected log predictive density, leaving one out. Its standard error is that of "
            "ArviZ 1.x and of the R package loo.",
            "nats",
            "elpd_loo",
        ),
        Column("p_loo", "Effective number of parameters by leaving one out.", "", "p_loo"),
        Column(
            "p_waic",
            "Sum over examples of the variance of their log-likelihood over draws.",
            "",
            "p_waic",
        ),
        Column("k_hat_max", "Largest tail shape of the weights.", "", "largest k_hat"),
        Column("num_high_k_hat", "Examples whose k_hat is above the limit."),
    )
}
"""Numbers of all examples together; those with a title are in the printed table."""

EXAMPLES = {
    column.name: column
    for column in (
        Column(
            "exposure",
            "Mean KL to the posterior with another example in its place; its mean over examples "
            "is on_average_kl.",
            "nats",
        ),
        Column("remove_one_kl", "KL of the posterior to the one without the example.", "nats"),
        Column("add_one_kl", "KL of the posterior without the example to the one with it.", "nats"),
        Column("advantage", "Total variation to the posterior with another one in its place."),
        Column("remove_one_advantage", "Total variation to the posterior without the example."),
        Column("exposure_first_half", "The exposure by half of the draws: for ranking.", "nats"),
        Column("exposure_second_half", "The exposure by the other half: for reporting.", "nats"),
        Column("elpd_loo", "Log predictive density of the example by the others.", "nats"),
        Column("p_loo", "Log predictive density with it less that without it."),
        Column("p_waic", "Variance of its log-likelihood over draws."),
        Column("k_hat", "Tail shape of the weights that remove it."),
    )
}
"""A number an example."""

HIGH_K_HAT = Caution(
    "high-k-hat",
    "k_hat is above {limit:.2f} for {count} of {total} ({which}): the posterior without one of "
    "them is too far away to be reached by weights; their figures are too small, as a rule.",
    "The draws hardly go where the posterior without such an example is, so weights cannot tell "
    "what removing it does. Averages contain these examples.",
    "Draw more, fit the model again without the examples named, or take gibbs_dp.audit, which "
    "samples every dataset.",
)
CHAINS_DISAGREE = Caution(
    "likelihood-r-hat",
    "R-hat of the log-likelihoods reaches {worst:.3f}: the chains disagree (several modes, or too "
    "short), and so may all numbers below.",
    "Chains of one posterior have not mixed with each other. Above 1.01 ArviZ and Stan warn too.",
    "Draw longer chains with more warmup. Where R-hat stays above 1.1, chains sit in different "
    "modes.",
)
FEW_EFFECTIVE = Caution(
    "likelihood-few-effective-draws",
    "the log-likelihoods have only {fewest:.0f} effective draws of {total:,}; draw more.",
    "Everything here is a mean over draws, and as noisy as with so few independent ones. The "
    "jackknife's errors are rough then.",
    "Draw longer chains.",
)
ROUTES_DISAGREE = Caution(
    "shortcut-disagrees",
    "on-average KL is {weights:.4g} by weights and {shortcut:.4g} by variances, which agree where "
    "KL is so small: single examples dominate, or the draws are not of this posterior.",
    "For a small KL both routes estimate one number, the second up to terms of third order in "
    "gamma.",
    "Look at the largest k_hat and at the most exposed examples; check gamma, and that each "
    "example's log-likelihood has no prior or other example's term in it.",
)
CAUTIONS = (HIGH_K_HAT, CHAINS_DISAGREE, FEW_EFFECTIVE, ROUTES_DISAGREE)


def describe(name: str, meanings: Mapping[str, Column]) -> dict[str, str]:
    """Return attributes of a variable in a file: what it is, and its unit.

    >>> describe("advantage_mcse", AVERAGES)["description"][:26]
    'Monte Carlo error of: Larg'
    """
    for ending, words in ENDINGS.items():
        if name not in meanings and name.endswith(ending):
            column = meanings[name.removesuffix(ending)]
            return _attributes(column.unit, f"{words} of: {column.meaning}")
    return _attributes(meanings[name].unit, meanings[name].meaning)


ENDINGS = {
    "_mcse": "Monte Carlo error",
    "_se": "Standard error over examples and draws",
    "_low": "Lower end of a 95% interval",
    "_high": "Upper end of a 95% interval",
}


def _attributes(unit: str, text: str) -> dict[str, str]:
    return {"description": text} | ({"units": unit} if unit else {})


KIND = "report of one dataset"
TITLE = "What one example changes in a posterior"
HEADINGS = (Heading("", is_text=True), Heading("value"), Heading("se"), Heading("mcse"))
# Most exposed examples that are printed, and on a page; letters of each.
PRINTED, LISTED, WIDTH = 3, 10, 40
EXPOSED = (
    "most exposed (nats; ranked by half of the draws, estimated from the other; sensitive): "
    "{listed}."
)
NO_PROMISE = (
    "The averages are over the examples of this dataset: they are no guarantee for any one of "
    "them, and the most exposed one loses far more than the average.",
    "There is no worst case here, and no differential privacy: that is a statement about all "
    "datasets of a declared domain.",
    "All of it is about one draw of the posterior. Several draws give away more.",
    "The numbers are computed from the data without noise, and name examples: this page is as "
    "confidential as the data.",
)
MEAN = "mean_"
# What a report cannot be shown without, and of what type it is.
SETTINGS = {
    "gamma": float,
    "n": int,
    "unit": str,
    "num_chains": int,
    "num_samples": int,
    "k_hat_limit": float,
}


@dataclass(frozen=True, eq=False, repr=False)
class OneDatasetReport(ResultWithPage):
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
    examples: dict[str, Float[np.ndarray, " examples"]]
    names: np.ndarray
    settings: dict[str, Any]
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return int(self.names.size)

    def __getitem__(self, name: str) -> float:
        """Return an average, or its error, by name."""
        if name not in self.averages:
            raise KeyError(f"{name!r} is not in the report; it has {', '.join(self.averages)}")
        return self.averages[name]

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the numbers rest on, a sentence each."""
        return _assumptions(self.settings)

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

    def _head(self) -> str:
        settings, warnings = self.settings, self.warnings
        chains = counted(int(settings["num_chains"]), "chain")
        parts = [
            counted(int(settings["n"]), str(settings["unit"])),
            f"gamma {settings['gamma']:g}",
            f"{chains} of {counted(int(settings['num_samples']), 'draw')}",
        ]
        parts += [counted(len(warnings), "warning")] if warnings else []
        return ", ".join(parts)

    def _table(self, most: int | None = None) -> TextTable:
        named = ((name, column.title) for name, column in AVERAGES.items() if column.title)
        lines = [
            [title, *(_number(self.averages.get(name + kind)) for kind in ("", "_se", "_mcse"))]
            for name, title in named
        ]
        return TextTable(HEADINGS, lines[:most])

    def _remarks(self) -> Remarks:
        found = self.most_exposed(PRINTED)
        values = zip(found.index, found["exposure"], strict=True)
        listed = ", ".join(f"{plain(str(k), WIDTH)} ({x:.3g})" for k, x in values)
        return [
            *(("WARNING", text) for text in self.warnings),
            *(("note", text) for text in self._notes()),
            ("note", EXPOSED.format(listed=listed)),
            *(("assumed", text) for text in self.assumptions),
        ]

    def _notes(self) -> list[str]:
        """Say how on-average KL is related to scores that people know."""
        n, gamma = self.settings["n"], self.settings["gamma"]
        power = "" if gamma == 1 else "gamma^2 "
        by_waic = gamma**2 * self.averages["p_waic"] / n
        return [
            f"{power}p_waic / n is {by_waic:.4g}: on-average KL to second order without the "
            "covariances between examples, which may be wrong by a third; the line 'by "
            "variances' has them.",
            f"95% interval of on-average KL for a population that the {self.settings['unit']}s are "
            f"independent draws of: {self.averages['on_average_kl_low']:.4g} to "
            f"{self.averages['on_average_kl_high']:.4g} nats.",
        ]

    def plot(
        self, title: str | None = None, axes: Sequence[Axes] | np.ndarray | None = None
    ) -> Figure:
        """Draw the examples' exposures and the shapes of their weights, in a panel each.

        Parameters
        ----------
        title
            Of the figure.
        axes
            Two to draw on, in their style; by default those of a new figure.

        Returns
        -------
        Figure
            The figure. Notebooks show it, and ``plt.show()`` where pyplot was imported before.

        Raises
        ------
        ValueError
            If ``axes`` are not two.
        """
        from gibbs_dp.one_dataset.plot import plot_report

        return plot_report(self.averages, self.examples, self.settings, title, axes)

    # -- files ----------------------------------------------------------------------------

    def _page(self, title: str | None, about: Iterable[str]) -> page.Page:
        unit, exposed = str(self.settings["unit"]), self.most_exposed(LISTED)
        listed = [
            [plain(str(name), WIDTH), f"{exposure:.4g}", f"{k_hat:.3g}"]
            for name, exposure, k_hat in zip(
                exposed.index, exposed["exposure"], exposed["k_hat"], strict=True
            )
        ]
        headings = [Heading(unit, is_text=True), Heading("exposure (nats)"), Heading("k_hat")]
        half = (
            "Ranked by half of the draws, estimated from the other: the largest of many estimates "
            "overstates itself."
        )
        return page.Page(
            title or TITLE,
            self._head(),
            _conclusion(self.averages, unit, self.warnings),
            (
                page.warned(self.warnings, CAUTIONS),
                page.section("What was audited", page.bullets(about)),
                page.section("Results", self._table()),
                page.section(
                    f"The most exposed {unit}s (sensitive)",
                    page.paragraphs([half]),
                    TextTable(headings, listed),
                ),
                page.section("Pictures", page.pictures(self._pictures())),
                page.section("What the numbers rest on", page.bullets(self.assumptions)),
                page.section("Notes", page.bullets(self._notes())),
                page.section("What it does not promise", page.bullets(NO_PROMISE)),
                page.section("What the numbers are", page.meanings(_meanings(self.averages))),
                page.settings(self.settings),
            ),
            is_warned=bool(self.warnings),
        )

    def _pictures(self) -> list[tuple[str, str]]:
        from gibbs_dp.one_dataset.plot import plot_panels

        captions = {
            "exposure": "KL to the posterior with another example in its place.",
            "k_hat": "Shape of the tail of the weights that remove an example.",
        }
        drawn = plot_panels(self.averages, self.examples, self.settings)
        return [
            (page.inline_svg(drawn[k], f"{k} of every example", f"{k}-"), text)
            for k, text in captions.items()
        ]

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
        for column in meanings.values():
            lines += [column.name_and_unit, wrap.fill(column.meaning)]
        lines.append("")
    return "\n".join(lines)


# Python 3.13 takes the indentation away, older ones do not.
OneDatasetReport.__doc__ = (
    f"{inspect.cleandoc(OneDatasetReport.__doc__ or '')}\n\n{_columns_section()}"
)


def _conclusion(averages: Mapping[str, float], unit: str, warnings: Sequence[str] = ()) -> str:
    """Say in one sentence what a draw gives away of these data."""
    value, error = averages["on_average_kl"], averages.get("on_average_kl_mcse", float("nan"))
    mark = warnings_below(warnings)
    if not np.isfinite(value):
        return f"What a draw gives away could not be estimated{mark}."
    close = f" ± {error:.2g} nats (Monte Carlo error)" if np.isfinite(error) else " nats"
    name = plain(unit, WIDTH)
    article = "an" if name[:1].lower() in "aeiou" else "a"
    return (
        f"One draw of this posterior gives away {value:.4g}{close} about {article} {name} of this "
        f"dataset on average; the most exposed lose more, and no worst case is bounded{mark}."
    )


def _assumptions(settings: Mapping[str, Any]) -> tuple[str, ...]:
    unit, gamma = settings["unit"], settings["gamma"]
    power = "" if gamma == 1 else f" to the power gamma = {gamma:g}"
    found = [
        f"the draws are of the posterior proportional to the prior times the likelihood{power}, "
        "and chains have seen all of it.",
        f"the likelihood is a product over {unit}s, none of which is in the prior or in another's "
        "factor.",
        f"what is released is one draw; the figure is of this dataset with one {unit} left out and "
        "another replaced by it, an average and no worst-case guarantee.",
        f"weights reach the posterior without one {unit}: k_hat is below "
        f"{settings['k_hat_limit']:.2f}.",
    ]
    if len(variables := settings.get("variables", [])) > 1:
        listed = ", ".join(map(str, variables))
        found.append(
            f"each {unit} is of one variable only of {listed}."
            if settings.get("examples") == "separate"
            else f"{listed} have factors of the same {unit}s, which were added."
        )
    if gamma != 1:
        found.append(
            "elpd_loo and p_loo are of the tempered posterior's predictions, p_waic of its draws; "
            "the log-likelihoods that they add are not tempered."
        )
    return tuple(found)


def _meanings(averages: Mapping[str, float]) -> list[tuple[str, str]]:
    columns = [AVERAGES[name] for name in averages if name in AVERAGES]
    return [
        (c.title.strip() + f" ({c.unit})" * bool(c.unit), c.meaning) for c in columns if c.title
    ]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if np.isfinite(value) else str(value)


def load_one_dataset_report(path: str | os.PathLike[str]) -> OneDatasetReport:
    """Read a report that :meth:`OneDatasetReport.save` wrote; runs no code from the file.

    Only what the file itself holds is read, and no more bytes than it has: links to other files,
    virtual and compressed arrays are refused.

    Raises
    ------
    ValueError
        If the file is missing or no such report; :class:`gibbs_dp.io.DamagedFileError`, one of
        them, if it is damaged or not as :meth:`OneDatasetReport.save` writes it.
    """
    contents = io.load_netcdf(path, KIND)
    with damage_named(path, "is a damaged report"):
        settings = io.parse_json(contents.attributes["settings"], dict)
        warnings = sentences(contents.attributes["warnings"])
        names = _names(contents.coordinates["example"])
        averages, examples = _numbers(contents.variables, names.size)
        _check_settings(settings, names.size)
    return OneDatasetReport(averages, examples, names, settings, warnings)


def _names(found: np.ndarray) -> np.ndarray:
    if found.ndim != 1 or not found.size or found.dtype.kind not in "iO":
        raise ValueError("its examples have no names")
    return found.astype(str) if found.dtype.kind == "O" else found.astype(np.int64)


def _numbers(
    variables: dict[str, np.ndarray], size: int
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    averages, examples = {}, {}
    for name, values in variables.items():
        if values.dtype.kind != "f":
            raise ValueError(f"{name!r} holds no numbers")
        if name.startswith(MEAN) and values.shape == ():
            averages[name.removeprefix(MEAN)] = float(values)
        elif values.shape == (size,):
            examples[name] = values
        else:
            raise ValueError(f"{name!r} has not one number for every example")
    missing = {*AVERAGES, "on_average_kl_low", "on_average_kl_high"} - averages.keys()
    missing |= {*EXAMPLES, "exposure_mcse"} - examples.keys()
    if missing:
        raise ValueError(f"{min(missing)!r} is missing")
    return averages, examples


def _check_settings(settings: dict[str, Any], size: int) -> None:
    for name, kind in SETTINGS.items():
        value = settings[name]
        allowed = (int, float) if kind is float else (kind,)
        if not isinstance(value, allowed) or isinstance(value, bool):
            raise ValueError(f"its setting {name!r} is no {kind.__name__}")
    variables = settings.get("variables", [])
    if not isinstance(variables, list):
        raise ValueError("its setting 'variables' is no list")
    if settings["n"] != size or not settings["gamma"] > 0:
        raise ValueError("its settings and its numbers do not belong together")
