"""The built-in problems by name, and users' own by ``module:object``."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gibbs_dp.problems.base import Problem

# Endings of files that hold tables.
SUFFIXES = (".csv", ".tsv", ".parquet", ".pq")
Kind = Literal["int", "float", "str", "flag"]


@dataclass(frozen=True)
class Option:
    """One setting of a problem or command, in Python (``keyword``) and on the command line.

    Parameters
    ----------
    keyword
        Name of the argument in Python; ``theta_bound`` is ``--theta-bound`` on the command line.
    kind
        Type of its value.
    help
        One line of help.
    default
        Default value; None leaves it to the function that takes it.
    choices
        Allowed values, if only a few.
    is_list
        Whether it takes several values.
    is_required
        Whether it must be given.
    metavar
        Name of its value in the help; by default the keyword in capitals. Several names stand for
        as many values (with ``is_list`` for two, the second of which may be repeated).
    is_repeatable
        Whether it may be given several times; its value is then a list.
    """

    keyword: str
    kind: Kind
    help: str
    default: Any = None
    choices: tuple[str, ...] = ()
    is_list: bool = False
    is_required: bool = False
    metavar: str | tuple[str, ...] | None = None
    is_repeatable: bool = False

    @property
    def flag(self) -> str:
        """Spelling on the command line."""
        return "--" + self.keyword.replace("_", "-")


@dataclass(frozen=True)
class Entry:
    """A built-in problem: the factory in module ``module``, and its options."""

    module: str
    summary: str
    options: tuple[Option, ...] = ()


def _prior_scale(default: float | None) -> Option:
    shown = "inf" if default is None else f"{default:g}"
    text = f"standard deviation of the Gaussian prior; inf for a flat one (default {shown})"
    return Option("prior_scale", "float", text, default)


def _num_hidden(default: int) -> Option:
    return Option("num_hidden", "int", f"hidden units (default {default})", default)


_THETA_BOUND = Option("theta_bound", "float", "restrict theta to [-B, B] (default: no bound)")
_SPLIT = Option("split", "flag", "training rows and ghosts are disjoint rows of the table")

PROBLEMS: dict[str, Entry] = {
    "private-mean": Entry("private_mean", "Laplace mechanism on a mean", (_THETA_BOUND,)),
    "linear-regression": Entry(
        "linear_regression", "one weight, uniform noise, squared loss", (_THETA_BOUND,)
    ),
    "gaussian-mean": Entry(
        "gaussian_mean",
        "mean of a Gaussian; everything has a closed form",
        (
            Option("dim", "int", "dimension (default 1)", 1),
            _prior_scale(None),
            Option("data_scale", "float", "standard deviation of the examples (default 1)", 1.0),
        ),
    ),
    "logistic-regression": Entry(
        "logistic_regression",
        "simulated features and labels",
        (Option("dim", "int", "number of features (default 10)", 10), _prior_scale(1.0)),
    ),
    "poisson-regression": Entry(
        "poisson_regression",
        "simulated features and counts",
        (Option("dim", "int", "number of features (default 5)", 5), _prior_scale(1.0)),
    ),
    "random-features": Entry(
        "random_features",
        "ridge regression on random features, below and above n",
        (
            Option("num_features", "int", "number of features (default 10)", 10),
            Option("activation", "str", "of a feature (default tanh)", "tanh", ("tanh", "relu")),
            Option("prior_scale", "float", "standard deviation of the prior (default 2)", 2.0),
            Option("noise", "float", "standard deviation of the noise (default 1)", 1.0),
        ),
    ),
    "private-median": Entry(
        "private_median",
        "exponential mechanism on a median",
        (Option("theta_bound", "float", "theta lies in [-B, B] (default 2)", 2.0),),
    ),
    "k-means": Entry(
        "k_means",
        "centers of clusters in a square",
        (
            Option("num_clusters", "int", "clusters and centers (default 2)", 2),
            Option("spread", "float", "standard deviation of a cluster (default 0.15)", 0.15),
        ),
    ),
    "diabetes": Entry(
        "diabetes", "scikit-learn's table, squared loss", (_prior_scale(1.0), _SPLIT)
    ),
    "breast-cancer": Entry(
        "breast_cancer", "scikit-learn's table, logistic loss", (_prior_scale(1.0), _SPLIT)
    ),
    "neural-network": Entry(
        "neural_network",
        "simulated classes that no linear rule separates",
        (
            Option("dim", "int", "number of inputs (default 2)", 2),
            _num_hidden(8),
            _prior_scale(2.0),
        ),
    ),
    "digits": Entry(
        "digits",
        "scikit-learn's images by a network, 5,260 weights",
        (_num_hidden(70), _prior_scale(1.0), _SPLIT),
    ),
    "table": Entry(
        "table",
        "your own CSV or Parquet file",
        (
            Option("data", "str", "CSV or Parquet file", is_required=True, metavar="FILE"),
            Option("target", "str", "column to predict", is_required=True, metavar="COLUMN"),
            Option(
                "loss",
                "str",
                "what to minimize (default logistic)",
                "logistic",
                ("logistic", "hinge", "softmax", "squared", "absolute", "huber", "poisson"),
            ),
            Option(
                "features",
                "str",
                "columns to predict from (default: all others)",
                is_list=True,
                metavar="COLUMN",
            ),
            _prior_scale(1.0),
            _SPLIT,
            Option(
                "missing",
                "str",
                "rows with missing values (default refuse)",
                "refuse",
                ("refuse", "drop"),
            ),
            Option(
                "categorical",
                "str",
                "features whose numbers are names of levels",
                is_list=True,
                metavar="COLUMN",
            ),
            Option("weights", "str", "column of row weights (not with --split)", metavar="COLUMN"),
            Option(
                "group",
                "str",
                "column of groups that stay on one side (with --split)",
                metavar="COLUMN",
            ),
        ),
    ),
}


def build_problem(name: str, **options: Any) -> Problem:
    """Build a built-in problem.

    Returns
    -------
    Problem
        As its factory makes it.

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
    """Load a user's problem from ``module:object``, also from the current directory.

    The object is a :class:`Problem` or a callable without arguments that returns one.

    Returns
    -------
    Problem
        The object itself, or what it returns.

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
