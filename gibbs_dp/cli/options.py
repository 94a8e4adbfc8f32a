"""Options that commands share."""

from __future__ import annotations

from gibbs_dp.problems.registry import Option

JSON = Option("json", "flag", "one JSON object per line on stdout and nothing else there")
OUT = Option("out", "str", "folder for the files (made if missing)", metavar="DIR")
DEBUG = Option("debug", "flag", "show the traceback of an error")

OUTPUT = (
    JSON,
    OUT,
    Option("seed", "int", "random seed (default 0)", 0),
    Option("quiet", "flag", "no progress bar and no log on stderr"),
    DEBUG,
)
# Of commands that check the library: their seeds are fixed.
CHECK_OUTPUT = (JSON, OUT, Option("quiet", "flag", "no log on stderr"), DEBUG)

PROBLEM = Option(
    "problem", "str", "your own problem, importable from here", metavar="MODULE:OBJECT"
)

NUM_CHAINS = Option("num_chains", "int", "chains per dataset")
NUM_WARMUP = Option("num_warmup", "int", "steps discarded per chain")
NUM_SAMPLES = Option("num_samples", "int", "draws kept per chain")

KERNEL = (
    Option("kernel", "str", "Markov kernel (default hmc)", "hmc", ("hmc", "mala", "ula", "sgld")),
    Option(
        "step_size",
        "float",
        "step in posterior standard deviations (default: tuned); of ula and sgld: h itself",
    ),
    Option("num_leapfrog", "int", "gradients per HMC step (default: 3, more in high dimension)"),
    Option(
        "integrator",
        "str",
        "hmc: split (exact on the Gaussian fit) or leapfrog (default split)",
        None,
        ("split", "leapfrog"),
    ),
    Option("relative_step", "float", "ula, sgld: h times the largest curvature (default 0.03)"),
    Option("num_steps", "int", "ula, sgld: steps per recorded draw (default 20)"),
    Option(
        "preconditioner",
        "str",
        "ula, sgld: coordinates they run in (default none)",
        None,
        ("none", "diagonal", "laplace"),
    ),
    Option("batch_size", "int", "sgld: examples per step, drawn with replacement (default 32)"),
    Option("control_variate", "flag", "sgld: gradients relative to those at the mode"),
    Option("float64", "flag", "compute in double precision"),
)
