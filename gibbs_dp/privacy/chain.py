"""Guarantees of the Langevin chain that is actually run: no convergence is assumed."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

from gibbs_dp._extras import require
from gibbs_dp.information import checks
from gibbs_dp.information.bounds import (
    langevin_last_iterate_gdp,
    langevin_trajectory_gdp,
    projected_langevin_gdp,
)
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.losses import Loss
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.constants import derive_constants, on_support
from gibbs_dp.privacy.guarantee import FINITE_PRECISION, Guarantee
from gibbs_dp.privacy.routes import GaussianDP, epsilon_at
from gibbs_dp.sampling.kernels import SGLD, ULA
from gibbs_dp.sampling.kernels.gradients import ClipBy
from gibbs_dp.sampling.kernels.langevin import PlainForm
from gibbs_dp.sampling.unadjusted import require_langevin

# The Gaussian mechanism on Poisson samples, many times: dp-accounting's distribution.

# Of mean privacy loss: what is more takes minutes and gigabytes to say nothing.
MOST_NATS = 1000.0


def subsampled_epsilon(
    noise_multiplier: float,
    sampling_rate: float,
    *,
    num_steps: int,
    delta: float,
    adjacency: Adjacency = "add-remove",
) -> float:
    """``epsilon`` of Gaussian mechanisms on Poisson samples of vectors of norm 1, pessimistic.

    Replaced by its opposite, a vector costs up to over twice what it costs to remove it (Lebeda,
    Regehr, Kamath & Steinke 2024); no other replacement costs more (the page of theory).
    """
    checks.positive("noise_multiplier", noise_multiplier)
    checks.count("num_steps", num_steps)
    checks.unit_interval("delta", delta, open_left=True)
    reach = 2.0 if adjacency == "replace-one" else 1.0
    gap = (reach / max(noise_multiplier, 1e-3)) ** 2
    mean = min(sampling_rate * gap / 2, sampling_rate**2 * math.expm1(min(gap, 700.0)))
    if max(gap / 2, num_steps * mean) > MOST_NATS:
        raise ValueError(
            f"kernel: noise of {noise_multiplier:.3g} clips in each of {num_steps:,} steps costs "
            "an epsilon of hundreds, which promises nothing; lower gamma or num_steps."
        )
    require("dp_accounting.pld.privacy_loss_distribution")
    given = float(noise_multiplier), float(sampling_rate), int(num_steps), float(delta), adjacency
    return _composed_epsilon(*given, width=max(1e-4, 1e-6 * (gap / 2 + 10 * math.sqrt(gap))))


# A search for the noise, its guarantee and every release of it ask for the same numbers.
@lru_cache(maxsize=1024)
def _composed_epsilon(
    noise_multiplier: float,
    sampling_rate: float,
    num_steps: int,
    delta: float,
    adjacency: Adjacency,
    width: float,
) -> float:
    """Convolve one step's privacy loss with itself: lists of events cost one for every step."""
    pld = require("dp_accounting.pld.privacy_loss_distribution")
    replaced, removed = pld.NeighborRel.REPLACE_ONE, pld.NeighborRel.ADD_OR_REMOVE_ONE
    step = pld.from_gaussian_mechanism(
        noise_multiplier,
        sampling_prob=sampling_rate,
        value_discretization_interval=width,
        neighboring_relation=replaced if adjacency == "replace-one" else removed,
    )
    return float(step.self_compose(num_steps).get_epsilon_for_delta(delta))


DATA_FREE = "start, step size, number of steps, gamma and clip are free of the data"


class ChainConstants(NamedTuple):
    """What a Langevin chain's guarantee rests on, clipping included."""

    # ``S``: the most that one example can move the sum of (clipped) gradients.
    gradient_sensitivity: float
    # ``m`` (``-inf`` where unknown) and ``M`` of the potential whose gradient is followed.
    strong_convexity: float
    smoothness: float


def chain_constants(
    posterior: GibbsPosterior,
    *,
    gamma: float,
    clip: float | None,
    n: int,
    adjacency: Adjacency,
    domain: Domain | None,
    clip_by: ClipBy = "example",
) -> ChainConstants:
    """Derive the constants of a chain whose per-example gradients are clipped.

    A clip that no gradient on the domain reaches changes nothing. One that may act keeps
    convexity and smoothness for losses of a linear prediction and for half squared distances, but
    no strong convexity of the examples; for other losses, and by array, no convexity is known.

    Parameters are those of `chain_guarantee`.
    """
    found = derive_constants(posterior, n=n, adjacency=adjacency, domain=domain)
    sensitivity, convexity = found.lipschitz, found.strong_convexity(gamma)
    if clip is not None:
        sensitivity = min(sensitivity, clip * (2 if adjacency == "replace-one" else 1))
        parts = len(posterior.prior.supports) if clip_by == "array" else 1
        reach = math.inf
        is_convex = False
        if isinstance(posterior.loss, Loss) and domain is not None:
            reach = posterior.loss.constants(on_support(posterior, domain)).lipschitz
            is_convex = posterior.loss.is_convex_when_clipped and found.example_convexity >= 0
        clip /= math.sqrt(parts)
        if not reach <= clip:
            is_convex = is_convex and parts == 1
            convexity = found.prior_convexity if is_convex else -math.inf
    return ChainConstants(sensitivity, convexity, found.smoothness(gamma))


def chain_guarantee(
    posterior: GibbsPosterior,
    kernel: ULA | SGLD,
    *,
    gamma: float,
    n: int,
    adjacency: Adjacency,
    domain: Domain | None,
    delta: float,
    num_draws: int = 1,
    thinning: int | None = None,
) -> Guarantee:
    """Guarantee of ``num_draws`` draws, as `gibbs_dp.privacy.ChainDraw` makes them.

    ULA: the last iterate on a strongly convex and smooth potential with ``h < 2/M``, or on a
    convex and smooth one on a box or a ball (where each step is projected, and ``h <= 2/M``), has
    the Gaussian DP of Bok, Su & Altschuler (2024); any loss with bounded gradient differences (clip
    to get one) has that of its whole trajectory, by composition. The smaller is taken. SGLD: the
    Poisson-subsampled Gaussian mechanism, whole trajectory, add/remove.

    With ``thinning`` several draws cost one run: a whole trajectory covers every state on it, and
    where the last iterate of ``k`` steps is ``mu_k``-GDP from any start, ``m`` states ``k`` steps
    apart, the first after ``j``, are ``sqrt(mu_j^2 + (m - 1) mu_k^2)``-GDP: each is a last iterate
    from the one before, which is released. Exact where that of the last iterate is.

    Parameters
    ----------
    posterior
        A per-example loss and a prior on all of Euclidean space, a box or a ball.
    kernel
        `gibbs_dp.ULA` or `gibbs_dp.SGLD`.
    gamma
        Inverse temperature.
    n
        Number of examples; under add/remove, the most that a dataset may have.
    adjacency
        Which datasets count as neighbours.
    domain
        Bounds that the data are clipped to; not needed where gradients are clipped and nothing is
        claimed from convexity.
    delta
        At which ``epsilon`` is reported, in ``(0, 1)``.
    num_draws
        Draws that are released together.
    thinning
        Steps between them, the last states of one chain. None: each is that of a chain of its own.

    Returns
    -------
    Guarantee
        Of all draws together.

    Raises
    ------
    ValueError
        If no theorem covers the run; the sentence says which constant is missing.

    Examples
    --------
    >>> import jax.numpy as jnp, numpyro.distributions as dist, gibbs_dp as gdp
    >>> p = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(jnp.zeros(2), 1.0))
    >>> g = chain_guarantee(p, gdp.ULA(0.05, 200), gamma=0.5, n=50, adjacency="replace-one",
    ...                     domain=gdp.Domain(x_bound=1.0), delta=1e-6)
    >>> g.mechanism, round(g.gdp, 4)
    ('chain', 0.9874)
    """
    require_langevin(posterior)
    form = _form(kernel)
    checks.positive("gamma", gamma)
    checks.inverse_temperature(gamma)
    checks.unit_interval("delta", delta, open_left=True)
    checks.count("num_draws", num_draws)
    num_chains, states = num_draws, None
    if thinning is not None:
        num_chains, states = 1, _states(num_draws, thinning, form.num_steps)
    if isinstance(kernel, SGLD):
        return _of_sgld(form, gamma, adjacency, delta, num_draws, num_chains, states)
    found = chain_constants(
        posterior,
        gamma=gamma,
        clip=form.clip,
        n=n,
        adjacency=adjacency,
        domain=domain,
        clip_by=form.clip_by,
    )
    if math.isinf(found.gradient_sensitivity):
        raise ValueError(
            "clip: the gradients of the loss are not known to be bounded on the domain, so the "
            "chain has no guarantee; set ULA(clip=...), or declare Domain(x_bound=..., "
            "y_range=...) for a loss that is Lipschitz there."
        )
    mu, how = _best_mu(form, found, gamma, set_of(posterior), states)
    total = GaussianDP(mu).gdp(num_chains)
    return Guarantee(
        adjacency=adjacency,
        mechanism="chain",
        num_draws=num_draws,
        gamma=gamma,
        epsilon=epsilon_at(GaussianDP(total), delta, 1),
        delta=delta,
        zcdp=total**2 / 2,
        gdp=total,
        assumptions=(how, DATA_FREE),
        caveats=(FINITE_PRECISION,),
    )


class States(NamedTuple):
    """States before the last one of a chain that are released, too."""

    num: int
    thinning: int

    def told(self, how: str = "") -> str:
        """Name them."""
        return (
            f"released are its last state and {self.num} before it, {self.thinning} steps "
            f"apart{how}"
        )


def _states(num_draws: int, thinning: int, num_steps: int) -> States | None:
    """Check which states of one chain are released; None: the last one alone."""
    checks.count("thinning", thinning)
    if not (num_draws - 1) * thinning < num_steps:
        raise ValueError(
            f"thinning: {num_draws} draws {thinning} steps apart need more than the {num_steps} "
            "steps of the chain; lower thinning or num_draws, or raise num_steps."
        )
    return States(num_draws - 1, thinning) if num_draws > 1 else None


def _form(kernel: Any) -> PlainForm:
    if not isinstance(kernel, (ULA, SGLD)):
        raise ValueError(
            f"kernel: {checks.shown(kernel)} is not one that a chain's guarantee covers; give "
            "gibbs_dp.ULA(step_size, num_steps) or gibbs_dp.SGLD(...)."
        )
    return kernel.plain_form()


def set_of(posterior: GibbsPosterior) -> float | None:
    """Diameter of the set that steps are projected onto; None where they are not.

    >>> import gibbs_dp as gdp
    >>> set_of(gdp.GibbsPosterior(gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball(2, 1.5))))
    3.0
    """
    return None if posterior.prior.is_euclidean else posterior.prior.diameter()


def last_iterate_gdp(
    found: ChainConstants, num_steps: int, step_size: float, gamma: float, diameter: float | None
) -> float:
    """``mu`` of the last iterate; infinite where no theorem covers it."""
    is_covered = found.strong_convexity > 0 and step_size * found.smoothness < 2
    if diameter is not None:
        is_covered = found.strong_convexity >= 0 and step_size * found.smoothness <= 2
    if not is_covered:
        return math.inf
    settings = {
        "gradient_sensitivity": found.gradient_sensitivity,
        "gamma": gamma,
        "strong_convexity": found.strong_convexity,
        "smoothness": found.smoothness,
    }
    if diameter is None:
        return langevin_last_iterate_gdp(num_steps, step_size, **settings)
    return projected_langevin_gdp(num_steps, step_size, diameter=diameter, **settings)


def _best_mu(
    form: PlainForm,
    found: ChainConstants,
    gamma: float,
    diameter: float | None,
    states: States | None,
) -> tuple[float, str]:
    h, sensitivity = form.step_size, found.gradient_sensitivity
    trajectory = langevin_trajectory_gdp(
        form.num_steps, h, gradient_sensitivity=sensitivity, gamma=gamma
    )
    shown = f"S = {sensitivity:.6g}"
    composed = f"composition of {form.num_steps} Gaussian mechanisms with {shown}"

    def mu_after(num_steps: int) -> float:
        return last_iterate_gdp(found, num_steps, h, gamma, diameter)

    if states is None:
        last, released = mu_after(form.num_steps), "only the last iterate is released"
    else:
        composed += f"; {states.told()}"
        first = mu_after(form.num_steps - states.num * states.thinning)
        last = math.sqrt(first**2 + states.num * mu_after(states.thinning) ** 2)
        released = states.told(", each the last iterate of a run from the one before")
    if last <= trajectory:
        where = "" if diameter is None else f" on a convex set of diameter {diameter:.6g}"
        return last, (
            f"{released}; the potential is {found.strong_convexity:.6g}"
            f"-strongly convex and {found.smoothness:.6g}-smooth{where}, {shown} (Bok, Su & "
            "Altschuler 2024)"
        )
    return trajectory, composed


def _of_sgld(
    form: PlainForm,
    gamma: float,
    adjacency: Adjacency,
    delta: float,
    num_draws: int,
    num_chains: int,
    states: States | None,
) -> Guarantee:
    assert form.clip is not None
    assert form.sampling_rate is not None
    noise = math.sqrt(2 / form.step_size) * form.sampling_rate / (gamma * form.clip)
    epsilon = subsampled_epsilon(
        noise,
        form.sampling_rate,
        num_steps=form.num_steps * num_chains,
        delta=delta,
        adjacency=adjacency,
    )
    return Guarantee(
        adjacency=adjacency,
        mechanism="chain",
        num_draws=num_draws,
        gamma=gamma,
        epsilon=epsilon,
        delta=delta,
        assumptions=(
            f"composition of {form.num_steps} Gaussian mechanisms of noise multiplier "
            f"{noise:.6g} on Poisson samples of rate {form.sampling_rate:g}"
            + (f"; {states.told()}" if states else ""),
            DATA_FREE,
        ),
        caveats=(FINITE_PRECISION,),
    )
