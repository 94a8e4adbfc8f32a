"""Options of privacy targets and of declared bounds, shared by commands."""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from gibbs_dp._options import Option, options_of
from gibbs_dp.cli.errors import UsageError
from gibbs_dp.cli.options import ADJACENCY

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
DOMAIN = (
    ADJACENCY,
    Option("x_bound", "float", "declared largest norm of a feature vector, intercept included"),
    Option("y_range", "float", "declared smallest and largest label", metavar=("LOW", "HIGH")),
    Option(
        "theta_ball", "float", "flat prior on a ball of this radius instead of the problem's prior"
    ),
    NUM_DRAWS,
)


def declared(parsed: argparse.Namespace, problem: Problem) -> tuple[GibbsPosterior, Domain | None]:
    """Put the bounds of the command line in place of a problem's own.

    Returns
    -------
    tuple
        The posterior, and the domain if there is one.

    Raises
    ------
    UsageError
        If a bound does not fit the problem.
    """
    from gibbs_dp.model import Domain, Flat, GibbsPosterior
    from gibbs_dp.model.supports import l2_ball

    posterior, domain = problem.posterior, problem.domain
    if parsed.x_bound is not None:
        domain = replace(domain or Domain(), x_bound=parsed.x_bound)
    if parsed.y_range is not None:
        domain = replace(domain or Domain(), y_range=tuple(parsed.y_range))
    if parsed.theta_ball is not None:
        if posterior.structured or not posterior.prior.is_euclidean:
            raise UsageError("--theta-ball: it is for losses per example and unbounded priors.")
        if not (parsed.theta_ball > 0 and math.isfinite(parsed.theta_ball)):
            raise UsageError(f"--theta-ball: must be positive, got {parsed.theta_ball:g}.")
        posterior = GibbsPosterior(posterior.loss, Flat(l2_ball(posterior.dim, parsed.theta_ball)))
    return posterior, domain


def require_adjacency(parsed: argparse.Namespace) -> None:
    """Raise a UsageError unless the adjacency was given: there is no default."""
    if parsed.adjacency is None:
        raise UsageError("--adjacency: give replace-one or add-remove; there is no default.")
