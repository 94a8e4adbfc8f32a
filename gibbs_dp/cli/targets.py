"""Options of privacy targets and of declared bounds, shared by commands."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

from gibbs_dp.cli.errors import UsageError
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.prior import Flat
from gibbs_dp.model.supports import l2_ball
from gibbs_dp.problems.base import Problem
from gibbs_dp.problems.registry import Option

ADJACENCY = Option(
    "adjacency", "str", "which datasets are neighbours", choices=("replace-one", "add-remove")
)
TARGETS = (
    Option("pure_epsilon", "float", "target: pure DP"),
    Option("epsilon", "float", "target: (epsilon, delta)-DP, with --delta"),
    Option("delta", "float", "of --epsilon"),
    Option("zcdp", "float", "target: rho of zero-concentrated DP"),
    Option("gdp", "float", "target: mu of Gaussian DP"),
)
DOMAIN = (
    ADJACENCY,
    Option("x_bound", "float", "declared largest norm of a feature vector, intercept included"),
    Option("y_range", "float", "declared smallest and largest label", is_list=True, metavar="Y"),
    Option(
        "theta_ball", "float", "flat prior on a ball of this radius instead of the problem's prior"
    ),
    Option("num_draws", "int", "draws released together (default 1)", 1),
)
KEYWORDS = ("pure_epsilon", "epsilon", "delta", "zcdp", "gdp")


def targets(parsed: argparse.Namespace) -> dict[str, Any]:
    """Targets that were given, by keyword."""
    return {k: v for k in KEYWORDS if (v := getattr(parsed, k)) is not None}


def declared(parsed: argparse.Namespace, problem: Problem) -> tuple[GibbsPosterior, Domain | None]:
    """Posterior and domain of a problem with the bounds of the command line over its own.

    Raises
    ------
    UsageError
        If a bound does not fit the problem.
    """
    posterior, domain = problem.posterior, problem.domain
    if parsed.y_range is not None and len(parsed.y_range) != 2:
        raise UsageError("--y-range: give two numbers, the smallest and the largest label.")
    if parsed.x_bound is not None or parsed.y_range is not None:
        changes: dict[str, Any] = {}
        if parsed.x_bound is not None:
            changes["x_bound"] = parsed.x_bound
        if parsed.y_range is not None:
            changes["y_range"] = tuple(parsed.y_range)
        domain = replace(domain or Domain(), **changes)
    if parsed.theta_ball is not None:
        if posterior.structured or not posterior.prior.is_euclidean:
            raise UsageError("--theta-ball: it is for losses per example and unbounded priors.")
        if not (parsed.theta_ball > 0 and np.isfinite(parsed.theta_ball)):
            raise UsageError(f"--theta-ball: must be positive, got {parsed.theta_ball:g}.")
        posterior = GibbsPosterior(posterior.loss, Flat(l2_ball(posterior.dim, parsed.theta_ball)))
    return posterior, domain


def require_adjacency(parsed: argparse.Namespace) -> None:
    """Raise a UsageError unless the adjacency was given: there is no default."""
    if parsed.adjacency is None:
        raise UsageError("--adjacency: give replace-one or add-remove; there is no default.")
