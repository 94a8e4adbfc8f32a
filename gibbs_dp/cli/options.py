"""Options that commands share."""

from __future__ import annotations

import argparse
import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gibbs_dp._options import Option, options_of
from gibbs_dp.cli.output import UsageError

JSON = Option("json", "flag", "one JSON object per line on stdout and nothing else there")
OUT = Option("out", "str", "folder for the files (made if missing)", metavar="DIR")
ALL = Option("all", "flag", "print every column of a report, one a line")
QUIET = Option("quiet", "flag", "no log on stderr")
DEBUG = Option("debug", "flag", "show the traceback of an error")
FLOAT64 = Option("float64", "flag", "compute in double precision")

OUTPUT = (
    JSON,
    OUT,
    Option("seed", "int", "random seed", 0),
    Option("quiet", "flag", "no progress bar and no log on stderr"),
    DEBUG,
)
# Of commands that take no seed.
CHECK_OUTPUT = (JSON, OUT, QUIET, DEBUG)

# Titles of groups that what is of one's own joins.
LEARN, SAMPLE, RELEASE = "what to learn", "how to sample", "release"

# How a table's numbers and texts are spelled, of commands that read what a release reads.
SPELLINGS: dict[str, Any] = {
    "decimal": {"help": "decimal mark of its numbers, . or ,", "metavar": "MARK"},
    "sep": {"help": "separator of its cells, tab for tabs", "metavar": "MARK"},
    "encoding": {"help": "utf-8, or one with a byte a character, as latin-1", "metavar": "NAME"},
    "na_values": {
        "help": "texts that mean a missing value: their records become zeros",
        "metavar": "TEXT",
    },
    "thousands": {
        "help": "what stands between groups of three digits: , . _ ' or space",
        "metavar": "MARK",
        "shown": "nothing",
    },
    "units": {"help": "texts beside numbers that are dropped, such as $ EUR %", "metavar": "TEXT"},
}

(ADJACENCY,) = options_of("gibbs_dp:calibrate", adjacency="which datasets are neighbours")
CHAINS = {
    "num_chains": "chains per dataset",
    "num_warmup": "steps discarded per chain",
    "num_samples": "draws kept per chain",
}


def with_dashes(name: str) -> str:
    """Spell a name of Python as command lines do.

    >>> with_dashes("RandomWalk"), with_dashes("my_problem"), with_dashes("MALA2")
    ('random-walk', 'my-problem', 'mala2')
    """
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name)
    return parts.replace("_", "-").lower()


# Options of privacy targets and of declared bounds, shared by commands.


if TYPE_CHECKING:
    from gibbs_dp.model import Domain, GibbsPosterior
    from gibbs_dp.problems import Problem

TARGETS = options_of(
    "gibbs_dp:calibrate",
    pure_epsilon="target: pure DP",
    epsilon="target: (epsilon, delta)-DP, with --delta",
    delta="of --epsilon",
    zcdp="target: rho of zero-concentrated DP",
    gdp="target: mu of Gaussian DP",
)
(NUM_DRAWS,) = options_of("gibbs_dp:calibrate", num_draws="draws released together")
BOUNDS = (
    Option("x_bound", "float", "declared largest norm of a feature vector, intercept included"),
    Option("y_range", "float", "declared smallest and largest label", metavar=("LOW", "HIGH")),
    Option(
        "theta_ball", "float", "flat prior on a ball of this radius instead of the problem's prior"
    ),
)
DOMAIN = (ADJACENCY, *BOUNDS, NUM_DRAWS)


def declared(parsed: argparse.Namespace, problem: Problem) -> tuple[GibbsPosterior, Domain | None]:
    """Put the bounds of the command line in place of a problem's own."""
    from gibbs_dp.model import Domain, Flat, GibbsPosterior
    from gibbs_dp.model.supports import l2_ball

    posterior, domain = problem.posterior, problem.domain
    # Absent from the request of a store that is older than they are.
    bounds = {option.keyword: getattr(parsed, option.keyword, None) for option in BOUNDS}
    if bounds["x_bound"] is not None:
        domain = replace(domain or Domain(), x_bound=bounds["x_bound"])
    if bounds["y_range"] is not None:
        domain = replace(domain or Domain(), y_range=tuple(bounds["y_range"]))
    radius = bounds["theta_ball"]
    if radius is not None:
        shapes = [support.shape for support in posterior.prior.supports]
        if posterior.structured or not posterior.prior.is_euclidean or len(shapes) != 1:
            raise UsageError("--theta-ball: it is for losses per example and unbounded priors.")
        if len(shapes[0]) != 1:
            raise UsageError(
                f"--theta-ball: it is for one vector of parameters, and these are {shapes[0]}."
            )
        if not (radius > 0 and math.isfinite(radius)):
            raise UsageError(f"--theta-ball: must be positive, got {radius:g}.")
        posterior = GibbsPosterior(posterior.loss, Flat(l2_ball(posterior.dim, radius)))
    return posterior, domain


def with_bounds(parsed: argparse.Namespace, problem: Problem) -> Problem:
    """Put the bounds of the command line in place of a problem's own, and clip a table to them."""
    from gibbs_dp.model.populations import Table
    from gibbs_dp.privacy.table import clip_data

    if all(getattr(parsed, option.keyword, None) is None for option in BOUNDS):
        return problem
    posterior, domain = declared(parsed, problem)
    changed = replace(problem, posterior=posterior, domain=domain)
    population = problem.population
    if not isinstance(population, Table) or domain is None or domain == problem.domain:
        return changed
    try:
        num_outside = int(domain.is_outside(population.data).sum())
    except ValueError:  # examples that the bounds do not describe; the audit refuses what it must
        return changed
    moved = population.with_data(clip_data(posterior, population.data, domain))
    notes = [MOVED.format(count=num_outside, total=population.num_rows), STANDARDIZED]
    return replace(changed, population=moved, notes=(*problem.notes, *notes))


MOVED = (
    "{count} of {total} rows were outside the declared bounds and are moved into them, as a "
    "release would move them."
)
STANDARDIZED = (
    "the bounds are of the rows as they are fitted (features in standard deviations from the mean "
    "or indicators, with the intercept's 1; labels as the note on the target says): dp_epsilon "
    "takes means, spreads and levels for known, and 'gibbs-dp release' does not."
)


def require_adjacency(parsed: argparse.Namespace) -> None:
    """Raise a UsageError unless the adjacency was given: there is no default."""
    if parsed.adjacency is None:
        raise UsageError("--adjacency: give replace-one or add-remove; there is no default.")
