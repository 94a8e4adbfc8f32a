"""Privacy and generalization of Gibbs posteriors, by sampling and exactly."""

from gibbs_dp._version import __version__ as __version__
