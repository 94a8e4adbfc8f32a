"""The built-in problems by name, and users' own by ``module:object``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gibbs_dp._options import Option, options_of, parameters
from gibbs_dp.problems.base import Problem

# Endings of files that hold tables.
SUFFIXES = (".csv", ".tsv", ".parquet", ".pq")
# Help of options, where the docstring's is too long for a terminal or for Python only.
_SCALE = "standard deviation of the Gaussian prior; inf for a flat one"
_HELP: dict[str, str | dict[str, str]] = {
    "prior_scale": _SCALE,
    "theta_bound": {"help": "restrict theta to [-B, B]", "metavar": "B"},
    "split": "training rows and ghosts are disjoint rows of the table",
}


@dataclass(frozen=True)
class Entry:
    """A built-in problem: a module and its function of the same name, with help for options."""

    module: str
    summary: str
    help: Mapping[str, str | Mapping[str, Any]] = field(default_factory=dict)

    @property
    def options(self) -> tuple[Option, ...]:
        """The function's parameters."""
        where = f"gibbs_dp.problems.{self.module}:{self.module}"
        return options_of(where, **{k: self.help.get(k, _HELP.get(k)) for k in parameters(where)})


PROBLEMS: dict[str, Entry] = {
    "private-mean": Entry("private_mean", "Laplace mechanism on a mean"),
    "linear-regression": Entry("linear_regression", "one weight, uniform noise, squared loss"),
    "gaussian-mean": Entry(
        "gaussian_mean",
        "mean of a Gaussian; everything has a closed form",
        {"prior_scale": {"help": _SCALE, "shown": "inf"}},
    ),
    "logistic-regression": Entry("logistic_regression", "simulated features and labels"),
    "poisson-regression": Entry("poisson_regression", "simulated features and counts"),
    "random-features": Entry(
        "random_features",
        "ridge regression on random features, below and above n",
        {"activation": "of a feature", "prior_scale": "standard deviation of the prior"},
    ),
    "private-median": Entry("private_median", "exponential mechanism on a median"),
    "k-means": Entry("k_means", "centers of clusters in a square"),
    "diabetes": Entry("diabetes", "scikit-learn's table, squared loss"),
    "breast-cancer": Entry("breast_cancer", "scikit-learn's table, logistic loss"),
    "neural-network": Entry("neural_network", "simulated classes that no linear rule separates"),
    "digits": Entry("digits", "scikit-learn's images, a network with 5,260 weights"),
    "table": Entry(
        "table",
        "your own CSV or Parquet file",
        {
            "data": {"help": "CSV or Parquet file", "metavar": "FILE"},
            "target": {"help": "column to predict", "metavar": "COLUMN"},
            "loss": "what to minimize",
            "features": {
                "help": "columns to predict from (default: all others)",
                "metavar": "COLUMN",
            },
            "missing": "rows with missing values",
            "categorical": {
                "help": "features whose numbers are names of levels",
                "metavar": "COLUMN",
            },
            "weights": {"help": "column of row weights (not with --split)", "metavar": "COLUMN"},
            "group": {
                "help": "column of groups that stay on one side (with --split)",
                "metavar": "COLUMN",
            },
        },
    ),
}


def build_problem(name: str, **options: Any) -> Problem:
    """Build a built-in problem.

    Parameters
    ----------
    name
        One of `PROBLEMS`.
    options
        Arguments of the problem's function in ``gibbs_dp.problems``.

    Returns
    -------
    Problem
        Ready for `gibbs_dp.audit`.

    Raises
    ------
    ValueError
        If there is no such problem or option, or an option has a wrong value.

    Examples
    --------
    >>> build_problem("gaussian-mean", dim=3).posterior.dim
    3
    """
    if name not in PROBLEMS:
        raise ValueError(f"problem: there is no {name!r}; choose one of {', '.join(PROBLEMS)}.")
    entry = PROBLEMS[name]
    known = {option.keyword for option in entry.options}
    for keyword in options:
        if keyword not in known:
            has = ", ".join(sorted(known)) or "none"
            raise ValueError(f"{keyword}: {name} has no such option; it has {has}.")
    for option in entry.options:
        if option.is_required and options.get(option.keyword) is None:
            raise ValueError(f"{option.keyword}: {name} needs it ({option.help}).")
    module = importlib.import_module(f"gibbs_dp.problems.{entry.module}")
    return getattr(module, entry.module)(**options)


def load_problem(spec: str) -> Problem:
    """Load a user's problem.

    Parameters
    ----------
    spec
        ``module:object``, where the module may lie in the current directory. The object is a
        :class:`Problem` or a callable without arguments that returns one.

    Returns
    -------
    Problem
        The object, or what it returned.

    Raises
    ------
    ValueError
        If the module cannot be imported or the object is neither.
    """
    module_name, colon, path = spec.partition(":")
    if not (colon and module_name and path) or module_name.endswith(".py"):
        raise ValueError(
            f"problem: {spec!r} is not module:object (for example my_problems:regression, for "
            "the name `regression` in my_problems.py)."
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise ValueError(
            f"problem: importing {module_name!r} failed ({type(error).__name__}: {error})."
        ) from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise ValueError(f"problem: {module_name!r} has no {path!r}.")
        found = getattr(found, part)
    if callable(found) and not isinstance(found, Problem):
        try:
            found = found()
        except Exception as error:
            raise ValueError(
                f"problem: calling {spec} without arguments failed ({type(error).__name__}: "
                f"{error}); it must take none and return a gibbs_dp.problems.Problem."
            ) from error
    if not isinstance(found, Problem):
        raise ValueError(
            f"problem: {spec} is a {type(found).__name__}; it must be a "
            "gibbs_dp.problems.Problem or a function that returns one."
        )
    return found
