"""Options that commands share."""

from __future__ import annotations

import re

from gibbs_dp._options import Option, options_of

JSON = Option("json", "flag", "one JSON object per line on stdout and nothing else there")
OUT = Option("out", "str", "folder for the files (made if missing)", metavar="DIR")
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

PROBLEM = Option(
    "problem", "str", "your own problem, importable from here", metavar="MODULE:OBJECT"
)

# Titles of groups that what is of one's own joins.
LEARN, SAMPLE, RELEASE = "what to learn", "how to sample", "release"

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
