"""Releases of draws whose distance from the posterior is proven rather than assumed.

Two samplers. The proximal one (`gibbs_dp.privacy.proximal`) is for convex losses of a linear
prediction and half squared distances, with a Gaussian prior, a flat one on a ball or a box, or a
Gaussian one truncated to these; its rounding is part of what is proven. Rejection
(`gibbs_dp.privacy.releases.rejection`) is for any other strongly convex and smooth potential of
few parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float, PyTree

from gibbs_dp.information import checks
from gibbs_dp.model.charts import BallChart, BoxChart, NormalInBall, chart_of
from gibbs_dp.model.losses import HalfSquaredDistance, LinearLoss, SoftmaxCrossEntropy
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.prior import Flat, Prior
from gibbs_dp.privacy.calibrate import Calibration
from gibbs_dp.privacy.constants import on_support
from gibbs_dp.privacy.guarantee import FINITE_PRECISION, Guarantee
from gibbs_dp.privacy.noise import SECRET, Noise
from gibbs_dp.privacy.proximal import ProximalPlan, QuadraticPrior, plan_proximal
from gibbs_dp.privacy.proximal_acceptance import TotalLoss
from gibbs_dp.privacy.proximal_sampler import ProximalSampler
from gibbs_dp.privacy.releases.arguments import check_fits
from gibbs_dp.privacy.releases.method import (
    FLOAT_ARITHMETIC,
    IDEALIZATIONS,
    ReleaseMethod,
    ReleasePlan,
    ReleaseRequest,
)
from gibbs_dp.privacy.releases.rejection import draw_by_rejection, plan_by_rejection
from gibbs_dp.privacy.routes import meaningful_epsilon
from gibbs_dp.sampling.unadjusted import require_langevin

# Shares of delta that distance from the posterior and rounding may take: the first that suffices.
SHARES = (0.02, 0.1, 0.5)
# Share of a pure epsilon that the distance may take.
PURE_SHARE = 1e-6
# Work of a round: rows and parameters, each with what they are to be added for the rest.
MORE_ROWS, MORE_PARAMETERS = 20_000, 30
MAX_WORK = 1e11
# Of one unit of work, about.
NANOSECONDS = 0.8
REAL_NUMBERS = {FLOAT_ARITHMETIC: IDEALIZATIONS[FLOAT_ARITHMETIC]}

SOURCES = "(Lee, Shen & Tian 2021; Chen, Chewi, Salim & Wibisono 2022)"
COMPUTER = (
    "the computer: sums, products, quotients and roots of doubles are rounded correctly "
    "(IEEE 754), NumPy's exponentials and logarithms and SciPy's logistic function are right to "
    "2^-46 and SciPy's inverse normal distribution function to 2^-48 of themselves, Python's "
    "decimal arithmetic is right, and the operating system's random bits are independent, uniform "
    "and secret"
)
PROPOSALS_CAVEAT = (
    "the number of proposals, and with it the running time, depends on the data and on the draw; "
    "do not let an adversary measure it."
)


class _Facts(NamedTuple):
    """What is public of a posterior whose draws can be proven; losses are those of one example."""

    prior: QuadraticPrior
    x_bound: float
    smoothness: float
    steepest: float  # at the prior's centre
    fall: float  # from the prior's centre to the smallest loss there is
    is_mean: bool

    def farthest(self, weight: float) -> float:
        """Norm that the mode does not exceed, with ``gamma n`` as weight.

        From the prior's centre the mode is at most as far as the gradient there over ``m``, and
        ``m/2`` times the square of it at most what the losses fall.
        """
        prior = self.prior
        centre = float(np.linalg.norm(prior.centre)) + self.x_bound * self.is_mean
        if math.isfinite(prior.radius):
            inside = float(np.linalg.norm(prior.middle)) + prior.radius
            return inside + centre * self.is_mean  # of its Gaussian law's centre too
        if self.is_mean:
            return centre
        m = float(prior.precision.min())
        return centre + min(weight * self.steepest / m, math.sqrt(2 * weight * self.fall / m))


@dataclass(frozen=True)
class ProvenDraw(ReleaseMethod):
    """Draws within a proven total variation of the posterior; no convergence is assumed.

    By the proximal sampler where it applies: a convex loss of a linear prediction with bounded
    curvature on the domain (`gibbs_dp.losses.LinearLoss`, with ``precise``: all built-in smooth
    ones), softmax cross-entropy of a parameter in one vector, or
    `gibbs_dp.losses.half_squared_distance`, and a Gaussian prior of independent
    coordinates, a flat one on a ball or a box, or a Gaussian one truncated to these. The number of
    its steps follows from public facts, what rounding does is part of the total variation, and
    nothing has to be accepted: a fiftieth of ``delta`` pays, at most half of it. Where that is too
    little for rounding (a ``delta`` far below 1e-9, or a large ``epsilon``), "float-arithmetic" has
    to be accepted; as for ``pure_epsilon``, which it serves on a ball or a box.

    Else by rejection with a fixed number of tries, for strongly convex and smooth potentials of few
    parameters; a hundredth of ``delta`` pays for the event that none is accepted, and
    "float-arithmetic" has to be accepted.

    Parameters
    ----------
    max_work
        Most rounds of the proximal sampler, all draws together, times ``(n + 20,000) (d + 30)``;
        beyond it the request is refused. The default takes about a minute on one core.

    Examples
    --------
    >>> import tempfile, pathlib, numpyro.distributions as dist, gibbs_dp as gdp
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = gdp.Ledger.create(pathlib.Path(folder.name) / "ledger", epsilon=1.0, delta=1e-5,
    ...                            adjacency="replace-one")
    >>> p = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(jnp.zeros(2), 1.0))
    >>> data = (jnp.ones((30, 2)), jnp.arange(30) % 2)
    >>> out = gdp.release(p, data, domain=gdp.Domain(x_bound=1.0), adjacency="replace-one",
    ...                   ledger=ledger, epsilon=1.0, delta=1e-5, method=ProvenDraw())
    >>> out.guarantee.mechanism, out.guarantee.total_variation < 1e-7, out.theta.shape
    ('proven draw', True, (1, 2))
    >>> folder.cleanup()
    """

    max_work: float = MAX_WORK

    mechanism: ClassVar[str] = "proven draw"
    idealizations: ClassVar[Mapping[str, str]] = {}
    failed: ClassVar[str] = (
        "release: the draws left the floating-point numbers; nothing is released, the charge "
        "stands."
    )

    def plan(self, request: ReleaseRequest) -> ReleasePlan:
        """Calibrate gamma, and the steps or tries that prove the total variation."""
        facts = _facts_of(request)
        is_of_space = request.posterior.prior.is_euclidean
        if isinstance(facts, str) and is_of_space:
            return _plan_rejection(request)
        return self.plan_proximal(request)

    def plan_proximal(self, request: ReleaseRequest) -> ReleasePlan:
        """Plan the proximal sampler alone.

        Parameters
        ----------
        request
            What is asked for.

        Returns
        -------
        ReleasePlan
            Guarantee and draw.

        Raises
        ------
        ValueError
            Where it does not apply.
        """
        checks.positive("max_work", self.max_work)
        facts = _facts_of(request)
        if isinstance(facts, str):
            raise ValueError(f"posterior: {facts}; use another, or gibbs_dp.privacy.ExactDraw.")
        return _plan_proximal(request, facts, self.max_work)


def _facts_of(request: ReleaseRequest) -> _Facts | str:
    """Collect the public facts, or say why there are no proximal draws."""
    posterior, loss = request.posterior, request.posterior.loss
    is_mean = isinstance(loss, HalfSquaredDistance)
    is_linear = isinstance(loss, LinearLoss) and loss.is_precise
    if not (is_mean or is_linear or isinstance(loss, SoftmaxCrossEntropy)):
        return (
            "proven draws are for half squared distances, softmax cross-entropy and losses of a "
            "linear prediction that can be computed to any number of digits"
        )
    prior = quadratic_prior(posterior.prior)
    if prior is None:
        return (
            "proven draws are for one parameter vector whose prior is Gaussian with independent "
            "coordinates, or flat on a ball or a box"
        )
    assert isinstance(loss, (HalfSquaredDistance, LinearLoss, SoftmaxCrossEntropy))
    domain = on_support(posterior, request.domain)
    found = loss.constants(domain)
    is_smooth = math.isfinite(found.smoothness) and found.strong_convexity >= 0
    is_bounded = math.isfinite(prior.radius)
    if not (is_smooth and math.isfinite(domain.x_bound) and domain.x_bound > 0):
        return "proven draws need a convex loss whose curvature is bounded on the domain"
    if not (is_bounded or prior.precision.min() > 0):
        return "proven draws need a Gaussian prior, or a bounded support"
    centre = float(np.linalg.norm(prior.centre))
    there = loss.constants(replace(domain, theta_bound=centre))
    fall = max(0.0, there.range[1] - found.range[0])
    if not (is_bounded or is_mean or math.isfinite(min(there.lipschitz, fall))):
        return "proven draws need a loss with bounded gradients on the domain"
    return _Facts(prior, domain.x_bound, found.smoothness, there.lipschitz, fall, is_mean)


def quadratic_prior(prior: Prior) -> QuadraticPrior | None:
    """Read a prior of one vector as a Gaussian factor on balls; None where it is none.

    >>> import gibbs_dp as gdp
    >>> quadratic_prior(Prior(gdp.Flat(gdp.supports.box(-1.0, 3.0, 2)))).radii
    array([2., 2.])
    """
    if prior.is_hierarchical or not jax.tree_util.treedef_is_leaf(prior.treedef):
        return None
    (leaf,), (support,) = prior.leaves, prior.supports
    if len(support.shape) != 1:
        return None
    while isinstance(leaf, (dist.Independent, dist.ExpandedDistribution)):
        leaf = leaf.base_dist
    dim, radii = support.shape[0], np.full(1, np.inf)
    middle = np.zeros(dim)
    chart = chart_of(support.constraint)
    if isinstance(chart, BallChart):
        radii = np.full(1, chart.radius)
    elif isinstance(chart, BoxChart):
        low, high = (_vector(end, dim) for end in (chart.low, chart.high))
        middle, radii = (low + high) / 2, (high - low) / 2
    elif not support.is_real:
        return None
    if isinstance(leaf, dist.TwoSidedTruncatedDistribution):
        leaf = leaf.base_dist
    centre: Any = 0.0
    precision: Any = 0.0
    if isinstance(leaf, NormalInBall):
        precision = leaf.scale**-2
    elif type(leaf) is dist.Normal:
        centre, precision = leaf.loc, np.asarray(leaf.scale, np.float64) ** -2.0
    elif not isinstance(leaf, (Flat, dist.Uniform)):
        return None
    return QuadraticPrior(_vector(precision, dim), _vector(centre, dim), middle, radii)


def _vector(values: Any, dim: int) -> Float[np.ndarray, " dim"]:
    return np.broadcast_to(np.asarray(values, np.float64), (dim,)).copy()


# The proximal sampler.


def _plan_proximal(request: ReleaseRequest, facts: _Facts, max_work: float) -> ReleasePlan:
    """Calibrate gamma and steps together; nothing here depends on the data."""
    asked = set(request.asked)
    if asked == {"epsilon", "delta"}:
        guarantee, plan, needed = _approximate(request, facts)
    elif asked == {"pure_epsilon"} and math.isfinite(facts.prior.radius):
        guarantee, plan, needed = _pure(request, facts)
    else:
        raise ValueError(
            "target: a proven draw has (epsilon, delta)-DP, and on a ball or a box pure DP; give "
            "epsilon and delta, or pure_epsilon there."
        )
    a_round = (request.n + MORE_ROWS) * (facts.prior.dim + MORE_PARAMETERS)
    work = plan.num_steps * request.num_draws * a_round
    if work > max_work:
        minutes = math.ceil(work * NANOSECONDS * 1e-9 / 60)
        enough = work * 1.01
        raise ValueError(
            f"max_work: proven draws would take {plan.num_steps:.3g} rounds each, about {minutes} "
            f"min on one core, which ProvenDraw(max_work={enough:.3g}) allows; or lower "
            "epsilon or narrow the prior, for fewer rounds, or use gibbs_dp.privacy.ExactDraw."
        )

    def draw(unchecked: GibbsPosterior, examples: PyTree, key: Any) -> PyTree:
        del unchecked  # bits come from the system as they are needed, where no test brings its own
        noise = key if isinstance(key, Noise) else SECRET
        sampler = _sampler(request, facts, guarantee, plan, examples, noise)
        return np.stack([sampler.draw() for _ in range(request.num_draws)])

    def trace(unchecked: GibbsPosterior, examples: PyTree) -> Any:
        return unchecked.losses(unchecked.constrain(jnp.zeros(unchecked.dim)), examples)

    return ReleasePlan(guarantee, draw, trace, needed)


def _sampler(
    request: ReleaseRequest,
    facts: _Facts,
    guarantee: Guarantee,
    plan: ProximalPlan,
    examples: PyTree,
    noise: Noise,
) -> ProximalSampler:
    """Make the sampler of clipped data."""
    prior, loss, gamma = facts.prior, request.posterior.loss, guarantee.gamma
    assert gamma is not None
    if isinstance(loss, (LinearLoss, SoftmaxCrossEntropy)):
        x, y = (np.asarray(part, np.float64) for part in examples)
        return ProximalSampler(prior, TotalLoss(loss, gamma, x, y, facts.x_bound), plan, noise)
    rows = np.asarray(examples, np.float64)
    total = np.array([math.fsum(column) for column in rows.T.tolist()])
    precision = prior.precision + gamma * len(rows)
    centre = (prior.precision * prior.centre + gamma * total) / precision
    return ProximalSampler(prior._replace(precision=precision, centre=centre), None, plan, noise)


def _steps(
    request: ReleaseRequest, facts: _Facts, found: Calibration, **distance: float
) -> ProximalPlan:
    """Choose the steps at the gamma that was found."""
    weight = found.gamma * request.n
    prior, smoothness = facts.prior, weight * facts.smoothness
    if facts.is_mean:
        # It is a Gaussian law, restricted to the set, and drawn in one step; what rounding does
        # grows with its precision.
        prior, smoothness = prior._replace(precision=prior.precision + weight), 0.0
    return plan_proximal(
        prior, smoothness=smoothness, farthest=facts.farthest(weight), rows=request.n, **distance
    )


def _approximate(
    request: ReleaseRequest, facts: _Facts
) -> tuple[Guarantee, ProximalPlan, Mapping[str, str]]:
    """Meet ``(epsilon, delta)`` together with the total variation, which gets a share of delta."""
    target = request.target
    assert target.epsilon is not None
    assert target.delta is not None
    cost = (1 + math.exp(meaningful_epsilon(target.epsilon))) * request.num_draws
    for share in SHARES:
        room = share * target.delta / cost
        found = request.calibrate(replace(target, delta=(1 - share) * target.delta))
        plan = _steps(request, facts, found, total_variation=room / 2)
        if plan.total_variation <= room:
            return _promised(request, found, plan, is_rounded=True), plan, {}
    return _promised(request, found, plan, is_rounded=False), plan, REAL_NUMBERS


def _promised(
    request: ReleaseRequest, found: Calibration, plan: ProximalPlan, is_rounded: bool
) -> Guarantee:
    distance = plan.total_variation if is_rounded else plan.mixing
    inner = found.guarantee.within_total_variation(distance)
    how = "one draw from a Gaussian law restricted to the prior's support"
    if not math.isinf(plan.step):
        how = (
            f"{plan.num_steps} rounds of the proximal sampler with step {plan.step:.6g}, from a "
            f"start within {plan.start:.4g} nats"
        )
    text = (
        f"proven: {how}; {'rounding included' if is_rounded else 'in exact arithmetic'}, the law "
        f"of each draw is within total variation {distance:.3g} of the posterior's, both cut off "
        f"to multiples of {plan.spacing:.3g}, for every dataset of the domain {SOURCES}"
    )
    assumptions, caveats = (*inner.assumptions[:-1], text), (*inner.caveats, PROPOSALS_CAVEAT)
    if is_rounded:
        assumptions = (*assumptions, COMPUTER)
        caveats = tuple(c for c in caveats if c != FINITE_PRECISION)
    return replace(
        inner,
        mechanism=ProvenDraw.mechanism,
        delta=request.asked["delta"],
        assumptions=assumptions,
        caveats=caveats,
    )


def _pure(
    request: ReleaseRequest, facts: _Facts
) -> tuple[Guarantee, ProximalPlan, Mapping[str, str]]:
    """Meet pure DP by the draws' own density, within a factor of the posterior's everywhere.

    With ``|rho / pi - 1| <= r`` the log ratio of neighbours' draws has a range of at most ``2
    log((1 + r)/(1 - r)) <= 5 r`` more than that of exact ones, whence zCDP too (Cesar & Rogers
    2021).
    """
    epsilon = request.target.pure_epsilon
    assert epsilon is not None
    found = request.calibrate(replace(request.target, pure_epsilon=(1 - PURE_SHARE) * epsilon))
    ratio = min(PURE_SHARE * epsilon / (5 * request.num_draws), 1e-3)
    plan = _steps(request, facts, found, log_ratio=ratio)
    assumption = found.guarantee.assumptions[0].removeprefix("exact draws; ")
    how = "one draw from a Gaussian law restricted to the prior's support"
    if not math.isinf(plan.step):
        how = (
            f"{plan.num_steps} rounds of the proximal sampler with step {plan.step:.6g} bring the "
            f"density of a draw within a factor of 1 +- {ratio:.2g} of the posterior's everywhere "
            f"{SOURCES}"
        )
    guarantee = Guarantee(
        request.adjacency,
        ProvenDraw.mechanism,
        request.num_draws,
        found.gamma,
        epsilon,
        0.0,
        pure_epsilon=epsilon,
        zcdp=epsilon**2 / (8 * request.num_draws),
        assumptions=(assumption, f"proven, in exact arithmetic: {how}"),
        caveats=(FINITE_PRECISION, PROPOSALS_CAVEAT),
    )
    return guarantee, plan, REAL_NUMBERS


# Rejection.


def _plan_rejection(request: ReleaseRequest) -> ReleasePlan:
    """Calibrate gamma, and the tries that prove the total variation."""
    posterior = request.posterior
    require_langevin(posterior)
    if set(request.asked) != {"epsilon", "delta"}:
        raise ValueError("target: a proven draw has (epsilon, delta)-DP; give epsilon and delta.")
    guarantee, plan = plan_by_rejection(
        posterior,
        epsilon=request.asked["epsilon"],
        delta=request.asked["delta"],
        n=request.n,
        adjacency=request.adjacency,
        domain=request.domain,
        num_draws=request.num_draws,
    )
    assert guarantee.gamma is not None
    settings = {
        "gamma": guarantee.gamma,
        "convexity": plan.strong_convexity,
        "smoothness": plan.smoothness,
    }
    for name, number in settings.items():
        check_fits(name, number)

    def one(unchecked: GibbsPosterior, examples: PyTree, key: Any) -> Any:
        return draw_by_rejection(
            unchecked,
            examples,
            key=key,
            num_steps=plan.num_steps,
            num_tries=plan.num_tries,
            **{name: jnp.asarray(number) for name, number in settings.items()},
        )

    def draw(unchecked: GibbsPosterior, examples: PyTree, key: Any) -> PyTree:
        examples = jax.tree.map(lambda a: jnp.asarray(a, jnp.result_type(float)), examples)
        keys = jax.random.split(key, request.num_draws)
        found = jnp.stack([one(unchecked, examples, k) for k in keys])
        return jax.vmap(posterior.constrain)(found)

    return ReleasePlan(guarantee, draw, partial(one, key=jax.random.key(0)), REAL_NUMBERS)
