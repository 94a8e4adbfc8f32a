"""Privacy and generalization of Gibbs posteriors, by sampling and exactly."""

import gibbs_dp._jaxlib.threads
import gibbs_dp.io.bar  # noqa: F401  (before NumPyro imports tqdm, whose remark it silences)
from gibbs_dp import adaptive, capacity, exact, information, privacy, problems, random
from gibbs_dp._version import __version__
from gibbs_dp.adaptive.thresholdout import Thresholdout
from gibbs_dp.auditing import (
    AuditIncomplete,
    AuditInterrupted,
    Report,
    Store,
    StoreError,
    audit,
    load_report,
)
from gibbs_dp.auditing.calibrate import calibrate
from gibbs_dp.auditing.compare import Comparison, compare
from gibbs_dp.model import Domain, Flat, GibbsPosterior, losses, populations, supports
from gibbs_dp.privacy import Guarantee, Ledger, release
from gibbs_dp.sampling.draws import Draws
from gibbs_dp.sampling.errors import ImproperPosteriorError
from gibbs_dp.sampling.grid import Grid
from gibbs_dp.sampling.kernels import HMC, MALA, SGLD, ULA, Kernel, UnderdampedLangevin
from gibbs_dp.sampling.load import load_draws
from gibbs_dp.sampling.sample import sample
from gibbs_dp.sampling.sharded import shard_examples

# What `gibbs_dp.<TAB>` shows; rooms that only serve others are left out.
__all__ = [
    "HMC",
    "MALA",
    "SGLD",
    "ULA",
    "AuditIncomplete",
    "AuditInterrupted",
    "Comparison",
    "Domain",
    "Draws",
    "Flat",
    "GibbsPosterior",
    "Grid",
    "Guarantee",
    "ImproperPosteriorError",
    "Kernel",
    "Ledger",
    "Report",
    "Store",
    "StoreError",
    "Thresholdout",
    "UnderdampedLangevin",
    "__version__",
    "adaptive",
    "audit",
    "calibrate",
    "capacity",
    "compare",
    "exact",
    "information",
    "load_draws",
    "load_report",
    "losses",
    "populations",
    "privacy",
    "problems",
    "random",
    "release",
    "sample",
    "shard_examples",
    "supports",
]


def __dir__() -> list[str]:
    return sorted(__all__)
