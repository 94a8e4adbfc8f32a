"""The built-in problems by name, with what the command line says of them; nothing is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gibbs_dp._options import Option, options_of, parameters
from gibbs_dp._source import losses_of

# Kinds of labels that a table's column can be made into.
LABELS = ("two classes", "classes", "numbers", "counts")
# Help of options, where the docstring's is too long for a terminal or for Python only.
_SCALE = "standard deviation of the Gaussian prior; inf for a flat one"
_HELP: dict[str, str | dict[str, str]] = {
    "prior_scale": _SCALE,
    "theta_bound": {"help": "restrict theta to [-B, B]", "metavar": "B"},
    "split": "training rows and ghosts are disjoint rows of the table",
}


@dataclass(frozen=True)
class Entry:
    """A built-in problem: the function that makes it, and its module, with help for options."""

    module: str
    function: str
    summary: str
    help: Mapping[str, str | Mapping[str, Any]] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """Module and name of the function."""
        return f"gibbs_dp.problems.{self.module}:{self.function}"

    @property
    def options(self) -> tuple[Option, ...]:
        """The function's parameters."""
        help = {name: self.help.get(name, _HELP.get(name)) for name in parameters(self.where)}
        return options_of(self.where, **help)


PROBLEMS: dict[str, Entry] = {
    "private-mean": Entry("location", "private_mean", "Laplace mechanism on a mean"),
    "linear-regression": Entry(
        "regression", "linear_regression", "one weight, uniform noise, squared loss"
    ),
    "gaussian-mean": Entry(
        "location",
        "gaussian_mean",
        "mean of a Gaussian; everything has a closed form",
        {"prior_scale": {"help": _SCALE, "shown": "inf"}},
    ),
    "logistic-regression": Entry(
        "regression", "logistic_regression", "simulated features and labels"
    ),
    "poisson-regression": Entry(
        "regression", "poisson_regression", "simulated features and counts"
    ),
    "random-features": Entry(
        "regression",
        "random_features",
        "ridge regression on random features, below and above n",
        {"activation": "of a feature", "prior_scale": "standard deviation of the prior"},
    ),
    "private-median": Entry("location", "private_median", "exponential mechanism on a median"),
    "k-means": Entry("clusters", "k_means", "centers of clusters in a square"),
    "mixture": Entry(
        "clusters",
        "mixture",
        "means of a Gaussian mixture",
        {"prior_scale": "standard deviation of the Gaussian prior, finite"},
    ),
    "diabetes": Entry("datasets", "diabetes", "scikit-learn's table, squared loss"),
    "breast-cancer": Entry("datasets", "breast_cancer", "scikit-learn's table, logistic loss"),
    "neural-network": Entry(
        "datasets", "neural_network", "simulated classes that no linear rule separates"
    ),
    "digits": Entry("datasets", "digits", "scikit-learn's images, a network with 5,260 weights"),
    "table": Entry(
        "table",
        "table",
        "your own CSV or Parquet file",
        {
            "data": {"help": "CSV or Parquet file", "metavar": "FILE"},
            "target": {"help": "column to predict", "metavar": "COLUMN"},
            "loss": {
                "help": "what to minimize",
                "choices": tuple(losses_of(*LABELS)),
                "shown": "by the target",
            },
            "features": {
                "help": "columns to predict from (default: all others)",
                "metavar": "COLUMN",
            },
            "missing": "rows with missing values",
            "categorical": {
                "help": "features whose values are names of levels",
                "metavar": "COLUMN",
            },
            "weights": {"help": "column of row weights (not with --split)", "metavar": "COLUMN"},
            "group": {
                "help": "column of groups that stay on one side (with --split)",
                "metavar": "COLUMN",
            },
            "sep": {
                "help": "separator of a CSV file's cells, tab for tabs",
                "metavar": "MARK",
                "shown": ", or by --decimal and .tsv",
            },
            "decimal": {"help": "decimal mark of numbers in text, . or ,", "metavar": "MARK"},
            "encoding": {"help": "of a CSV file, such as latin-1 or cp1252", "metavar": "NAME"},
            "na_values": {
                "help": "texts that mean a missing value, beside NA, NaN and the empty one",
                "metavar": "TEXT",
            },
            "date": {
                "help": "use a column of dates as days since a day; may be repeated",
                "metavar": ("COLUMN", "DAY"),
                "is_list": False,
                "is_repeatable": True,
            },
            "date_format": {"help": "how dates are spelled, as DD/MM/YYYY", "metavar": "FORMAT"},
            "thousands": {
                "help": "what stands between groups of three digits: , . _ ' or space",
                "metavar": "MARK",
                "shown": "nothing",
            },
            "units": {
                "help": "texts beside numbers that are dropped, such as $ EUR % kg",
                "metavar": "TEXT",
            },
            "numbers": {
                "help": "columns that hold numbers, zeros in front of them or not",
                "metavar": "COLUMN",
            },
        },
    ),
}
