"""Pure differential privacy of one exact draw, from a declared domain."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from gibbs_dp.model.domain import Domain, LossConstants
from gibbs_dp.model.losses import Loss
from gibbs_dp.model.posterior import GibbsPosterior

Adjacency = Literal["replace-one", "add-remove"]


def pure_dp_epsilon(
    posterior: GibbsPosterior,
    gamma: float,
    n: int,
    domain: Domain | None = None,
    adjacency: Adjacency = "replace-one",
) -> float | None:
    """Pure-DP epsilon (nats) of one **exact** draw, or None where nothing was declared.

    Per-example losses: the log ratio of neighbouring Gibbs posteriors has range at most
    ``gamma R`` with ``R = 2 oscillation`` (replace-one) or ``oscillation`` (add/remove) on the
    domain, and normalizing keeps it within ``[-gamma R, gamma R]``: ``gamma R``-DP
    (McSherry & Talwar 2007, the exponential mechanism). ``inf`` when the loss is unbounded there.

    Structured losses: ``gamma sensitivity(n)`` when the normalizer is free of the data (Dwork et
    al. 2006, the Laplace mechanism), twice that otherwise; replace-one only.

    Parameters
    ----------
    posterior
        The posterior. A bounded prior support supplies the parameter's norm where the domain
        leaves it open.
    gamma
        Inverse temperature.
    n
        Dataset size.
    domain
        Declared bounds on examples.
    adjacency
        Which datasets count as neighbours.

    Raises
    ------
    ValueError
        For a structured loss under add/remove, whose declared sensitivity is replace-one, and
        when the domain bounds theta more tightly than the prior's support does.

    Examples
    --------
    >>> import gibbs_dp as gdp
    >>> p = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.box(-2.0, 2.0, 1)))
    >>> pure_dp_epsilon(p, 0.5, 100, gdp.Domain(x_bound=1.0, y_range=(-2.0, 2.0)))
    16.0
    """
    if posterior.structured:
        if posterior.sensitivity is None:
            return None
        if adjacency != "replace-one":
            raise ValueError("adjacency: a declared sensitivity is for replace-one neighbours.")
        factor = 1.0 if posterior.location_family else 2.0
        return factor * gamma * posterior.sensitivity(n)
    constants = declared_constants(posterior, domain)
    if constants is None:
        return None
    oscillation = constants.oscillation
    if gamma == 0.0:
        return 0.0
    if not math.isfinite(oscillation):
        return math.inf
    return gamma * oscillation * (2.0 if adjacency == "replace-one" else 1.0)


def declared_constants(posterior: GibbsPosterior, domain: Domain | None) -> LossConstants | None:
    """Constants of a built-in loss on a domain; None where nothing was declared.

    A bounded prior support supplies the parameter's norm where the domain leaves it open.

    Raises
    ------
    ValueError
        When the domain bounds theta more tightly than the prior's support does.
    """
    if domain is None or not isinstance(posterior.loss, Loss):
        return None
    bound = posterior.prior.l2_bound()
    if domain.theta_bound is None:
        domain = replace(domain, theta_bound=bound)
    elif domain.theta_bound < bound * (1 - 1e-6):
        raise ValueError(
            f"domain: theta_bound={domain.theta_bound:g} is below the prior's support "
            f"(norm up to {bound:g}); bound the support, for example with gibbs_dp.supports.box."
        )
    return posterior.loss.constants(domain)


def declared_range(posterior: GibbsPosterior, domain: Domain | None) -> tuple[float, float] | None:
    """Smallest and largest loss of one example on the domain; None where nothing was declared."""
    constants = declared_constants(posterior, domain)
    return None if constants is None else constants.range
