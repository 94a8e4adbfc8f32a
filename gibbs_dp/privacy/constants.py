"""What a posterior and a declared domain promise: every constant that a guarantee can rest on."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from gibbs_dp.information import checks
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.losses import LinearLoss, Loss
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.kernels.gradients import prior_gradient


class PosteriorConstants(NamedTuple):
    """Constants of a posterior for one adjacency; infinite where nothing finite is known."""

    # What they hold for.
    adjacency: Adjacency
    n: int
    # ``R``: between neighbours, ``L(theta, Z) - L(theta, Z')`` has at most this range over theta.
    loss_range: float
    # Largest ``|L(theta, Z) - L(theta, Z')|`` where the normalizer is free of the data (location
    # families), else ``inf``.
    loss_shift: float
    lipschitz: float  # ``G``: that difference is ``G``-Lipschitz in theta
    # Extreme eigenvalues of the Hessian of one example's loss.
    example_convexity: float
    example_smoothness: float
    # The same of ``-log prior``.
    prior_convexity: float
    prior_smoothness: float
    diameter: float  # of the prior's support
    reasons: dict[str, str]  # why each missing constant is missing, and how to declare it

    def strong_convexity(self, gamma: float) -> float:
        """``m`` of the potentials of all neighbours; at most 0 where there is none.

        Under add/remove the number of examples is itself private, so only the prior counts.
        """
        if not self.example_convexity >= 0:
            return -math.inf
        examples = self.n if self.adjacency == "replace-one" else 0
        return gamma * examples * self.example_convexity + self.prior_convexity

    def smoothness(self, gamma: float) -> float:
        """``M`` of the potentials of up to ``n`` examples."""
        total = gamma * self.n * self.example_smoothness if gamma > 0 else 0.0
        return total + self.prior_smoothness


def derive_constants(
    posterior: GibbsPosterior, *, n: int, adjacency: Adjacency, domain: Domain | None
) -> PosteriorConstants:
    """Derive what holds for all neighbouring datasets on the domain.

    Examples
    --------
    >>> import gibbs_dp as gdp
    >>> p = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.box(-2.0, 2.0, 1)))
    >>> domain = gdp.Domain(x_bound=1.0, y_range=(-2.0, 2.0))
    >>> derive_constants(p, n=100, adjacency="replace-one", domain=domain).loss_range
    32.0
    """
    checks.count("n", n)
    checks.adjacency(adjacency)
    convexity, smoothness = posterior.prior.curvature()
    diameter = posterior.prior.diameter()
    if posterior.structured:
        return _structured(posterior, n, adjacency, convexity, smoothness)
    if domain is None or not isinstance(posterior.loss, Loss):
        reason = (
            "no Domain is declared; pass domain=gibbs_dp.Domain(x_bound=..., y_range=...)"
            if domain is None
            else "the loss is a plain function; declare its constants with "
            "gibbs_dp.losses.Declared(loss, oscillation=..., lipschitz=..., strong_convexity=...); "
            "method=gibbs_dp.privacy.ChainDraw() releases without, as for networks"
        )
        reasons = dict.fromkeys(("range", "lipschitz", "convexity", "smoothness"), reason)
        inf = math.inf
        return PosteriorConstants(
            adjacency, n, inf, inf, inf, -inf, inf, convexity, smoothness, diameter, reasons
        )
    domain = on_support(posterior, domain)
    found = posterior.loss.constants(domain)
    replaced = adjacency == "replace-one"
    constants = PosteriorConstants(
        adjacency=adjacency,
        n=n,
        loss_range=found.exchange_range if replaced else found.oscillation,
        loss_shift=math.inf,
        lipschitz=found.exchange_lipschitz if replaced else found.lipschitz,
        example_convexity=found.strong_convexity,
        example_smoothness=found.smoothness,
        prior_convexity=convexity,
        prior_smoothness=smoothness,
        diameter=diameter,
        reasons={},
    )
    reasons = _reasons(constants, posterior.loss, domain)
    if not posterior.prior.is_on_convex_set and constants.example_convexity >= 0:
        reasons["convexity"] = (
            "the prior's support is not known to be convex; use a box, ball, simplex, cone or all "
            "of space"
        )
    return constants._replace(reasons=reasons)


def on_support(posterior: GibbsPosterior, domain: Domain) -> Domain:
    """Take the parameter's norm from the prior's support where the domain leaves it open."""
    bound = posterior.prior.l2_bound()
    domain = replace(domain, num_parameters=posterior.dim)
    if domain.theta_bound is None:
        return replace(domain, theta_bound=bound)
    if domain.theta_bound < bound * (1 - 1e-6):
        raise ValueError(
            f"domain: theta_bound={domain.theta_bound:g} is below the prior's support "
            f"(norm up to {bound:g}); bound the support, for example with gibbs_dp.supports.box."
        )
    return domain


def gradients_at_zero(posterior: GibbsPosterior, domain: Domain) -> tuple[float, float]:
    """Bound the gradients at zero: of one example's loss on the domain, and of ``-log prior``."""
    assert isinstance(posterior.loss, Loss)
    at_zero = replace(on_support(posterior, domain), theta_bound=0.0)
    pull = np.asarray(prior_gradient(posterior, jnp.zeros(posterior.dim)), np.float64)
    return posterior.loss.constants(at_zero).lipschitz, float(np.linalg.norm(pull))


def _structured(
    posterior: GibbsPosterior, n: int, adjacency: Adjacency, convexity: float, smoothness: float
) -> PosteriorConstants:
    inf = math.inf
    unknown = "a total_loss declares a sensitivity only, no {} constant; use a per-example loss"
    reasons = {
        "lipschitz": unknown.format("Lipschitz"),
        "convexity": unknown.format("convexity"),
        "smoothness": unknown.format("smoothness"),
    }
    loss_range = shift = inf
    if posterior.sensitivity is None:
        reasons["range"] = (
            "the total_loss has no sensitivity; pass GibbsPosterior(sensitivity=n -> "
            "sup |L(theta, Z) - L(theta, Z')|)"
        )
    elif adjacency != "replace-one":
        raise ValueError(
            "adjacency: a declared sensitivity is for replace-one neighbours; use 'replace-one'."
        )
    else:
        largest = posterior.sensitivity(n)
        checks.nonnegative("sensitivity", largest, allow_infinite=True)
        loss_range = 2 * largest
        shift = largest if posterior.location_family else inf
    return PosteriorConstants(
        adjacency, n, loss_range, shift, inf, -inf, inf, convexity, smoothness, inf, reasons
    )


def _reasons(constants: PosteriorConstants, loss: Loss, domain: Domain) -> dict[str, str]:
    """Say which declaration would supply each missing constant."""
    found = {}
    open_ends = []
    if math.isinf(domain.x_bound):
        open_ends.append("the features (declare Domain(x_bound=...))")
    if math.isinf(domain.y_bound) and isinstance(loss, LinearLoss):
        open_ends.append("the labels (declare Domain(y_range=...))")
    if domain.theta_bound is not None and math.isinf(domain.theta_bound):
        open_ends.append(
            "theta (give the prior a bounded support, such as Flat(supports.box(-2.0, 2.0, d)))"
        )
    declare = "declare it with gibbs_dp.losses.Declared"
    unbounded = f"unbounded: {', '.join(open_ends)}" if open_ends else declare
    if math.isinf(constants.loss_range):
        found["range"] = f"the range of the loss is infinite; {unbounded}"
    if math.isinf(constants.lipschitz):
        found["lipschitz"] = f"the Lipschitz constant of the loss is infinite; {unbounded}"
    if not constants.example_convexity >= 0:
        found["convexity"] = f"the loss is not known to be convex; {declare}(strong_convexity=...)"
    elif math.isinf(constants.prior_convexity):
        found["convexity"] = (
            "the curvature of the prior is not known; use a flat, uniform, Gaussian or truncated "
            "Gaussian prior"
        )
    elif constants.strong_convexity(1.0) <= 0 and math.isinf(constants.diameter):
        found["convexity"] = (
            "the potential is convex but not strongly convex; use a Gaussian prior (its precision "
            "is the constant) or a bounded support"
        )
    if math.isinf(constants.example_smoothness):
        found["smoothness"] = f"the loss has no finite smoothness constant; {unbounded}"
    elif math.isinf(constants.prior_smoothness):
        found["smoothness"] = "the curvature of the prior is not known; use a flat or Gaussian one"
    return found


def declared_range(posterior: GibbsPosterior, domain: Domain | None) -> tuple[float, float] | None:
    """Smallest and largest loss of one example on the domain; None where nothing was declared."""
    if domain is None or not isinstance(posterior.loss, Loss):
        return None
    return posterior.loss.constants(on_support(posterior, domain)).range
