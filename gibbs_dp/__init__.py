"""Privacy and generalization of Gibbs posteriors, by sampling and exactly."""

from gibbs_dp import _threads as _threads  # before JAX starts
from gibbs_dp import adaptive as adaptive
from gibbs_dp import capacity as capacity
from gibbs_dp import exact as exact
from gibbs_dp import information as information
from gibbs_dp import privacy as privacy
from gibbs_dp._version import __version__ as __version__
from gibbs_dp.adaptive.thresholdout import Thresholdout as Thresholdout
from gibbs_dp.audit import AuditInterrupted as AuditInterrupted
from gibbs_dp.audit import Report as Report
from gibbs_dp.audit import audit as audit
from gibbs_dp.audit import load_report as load_report
from gibbs_dp.audit.calibrate import calibrate as calibrate
from gibbs_dp.model import Domain as Domain
from gibbs_dp.model import Flat as Flat
from gibbs_dp.model import GibbsPosterior as GibbsPosterior
from gibbs_dp.model import losses as losses
from gibbs_dp.model import populations as populations
from gibbs_dp.model import supports as supports
from gibbs_dp.privacy import Guarantee as Guarantee
from gibbs_dp.privacy import Ledger as Ledger
from gibbs_dp.privacy import release as release
from gibbs_dp.sampling.draws import Draws as Draws
from gibbs_dp.sampling.draws import load_draws as load_draws
from gibbs_dp.sampling.errors import ImproperPosteriorError as ImproperPosteriorError
from gibbs_dp.sampling.grid import Grid as Grid
from gibbs_dp.sampling.kernels import HMC as HMC
from gibbs_dp.sampling.kernels import MALA as MALA
from gibbs_dp.sampling.kernels import SGLD as SGLD
from gibbs_dp.sampling.kernels import ULA as ULA
from gibbs_dp.sampling.sample import sample as sample
