"""Options that commands share."""

from __future__ import annotations

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
LEARN, SAMPLE = "what to learn", "how to sample"

(ADJACENCY,) = options_of("gibbs_dp:calibrate", adjacency="which datasets are neighbours")
CHAINS = {
    "num_chains": "chains per dataset",
    "num_warmup": "steps discarded per chain",
    "num_samples": "draws kept per chain",
}
