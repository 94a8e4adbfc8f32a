"""Estimators of on-average KL: their contract, the three of them, control variates, the choice."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from gibbs_dp import estimators
from gibbs_dp._jaxlib.linalg import cholesky, solve_lower
from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.engine.plan import MOST_PAIRS
from gibbs_dp.engine.view import PairView, View
from gibbs_dp.estimators.average import fitted_share
from gibbs_dp.estimators.on_average_kl import in_groups
from gibbs_dp.model.losses.base import Loss, RankOne
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.results.table import Column, Style
from gibbs_dp.sampling.laplace import MAX_LAPLACE_DIM
from gibbs_dp.sampling.target import Target

# Fewer say nothing about a coefficient.
LEAST_DATASETS = 8


def control_coefficient(
    values: Float[np.ndarray, " datasets"], control: Float[np.ndarray, " datasets"]
) -> float:
    """Coefficient in [0, 1] with which subtracting a control variate leaves least variance.

    Fitted on the datasets that it is used on, which biases an average by ``O(1 / datasets)`` of
    its spread (Glasserman 2003, *Monte Carlo Methods in Financial Engineering*, section 4.1).
    """
    if control.size < LEAST_DATASETS or not np.ptp(control) > 0:
        return 1.0
    return fitted_share(values, control)


def fitted_gap(
    value: Float[Any, " datasets"],
    control: Float[Any, " datasets"],
    is_kept: Bool[np.ndarray, " datasets"],
) -> Float[np.ndarray, " datasets"]:
    """Give back what of the control variate does not reduce noise.

    A block subtracts the gap of the reference's losses whole. That is best where posteriors are
    close to the reference; where they follow their own datasets instead (a KL of some nats) it is
    mostly noise.
    """
    gap, part = np.asarray(value, np.float64), np.asarray(control, np.float64)
    chosen = np.isfinite(gap) & np.isfinite(part) & is_kept
    surplus = 1.0 - control_coefficient((gap + part)[chosen], part[chosen])
    if surplus == 0.0:
        return np.asarray(value)
    return np.asarray(gap + surplus * part, np.asarray(value).dtype)


# Half a variance may fall short of a KL of many nats, and by so much a coefficient is believed.
LARGEST_SHARE = 2.0


def shares_of_others(
    values: Float[np.ndarray, " datasets"], control: Float[np.ndarray, " datasets"]
) -> Float[np.ndarray, " datasets"]:
    """Each dataset's coefficient of a control variate, fitted by least squares on all others.

    A coefficient that has not seen the dataset leaves its mean alone, however skewed the control
    variate is: no bias at all, where one fit for all has ``O(1 / datasets)``. Zero for few
    datasets; kept in [0, 2].
    """
    count = control.size
    if count < LEAST_DATASETS or not np.ptp(control) > 0:
        return np.zeros(count)
    # A sum over the others of products about their own means: about all's, less the dataset's.
    c, v = control - control.mean(), values - values.mean()
    less = count / (count - 1)
    square, product = np.sum(c * c) - less * c * c, np.sum(c * v) - less * c * v
    tiny = np.finfo(np.float64).tiny
    return np.clip(product / np.maximum(square, tiny), 0.0, LARGEST_SHARE)


class Estimator:
    """One way to estimate the on-average KL of a dataset; its methods are those of quantities."""

    name: ClassVar[str]  # what users call it
    Values: ClassVar[type]  # named tuple of arrays that a dataset leaves behind
    # Of its mean, where reports always show it; None: only where it is chosen.
    column: ClassVar[Column | None] = None
    note: ClassVar[str | None] = None  # what a reader of rows that use it must know; None: nothing

    @property
    def field(self) -> str:
        """Name as an identifier."""
        return self.name.replace("-", "_")

    def of_pair(self, pair: PairView) -> Float[Array, ""] | None:
        """Compare a dataset with one of its replaced versions, which are then sampled too."""

    def per_dataset(self, view: View) -> Any:
        """Reduce the draws of one dataset to ``Values``."""
        raise NotImplementedError

    def fitted(self, values: Any, is_kept: Bool[np.ndarray, " datasets"]) -> Any:
        """``Values`` of many datasets after what is fitted over them."""
        del is_kept
        return values

    def value_of(self, values: Any) -> Float[np.ndarray, " datasets"]:
        """Every dataset's estimate, nats."""
        raise NotImplementedError


# On-average KL as gamma times the generalization error, with a control variate.


class GhostValues(NamedTuple):
    """Of each dataset: gamma times its gap less the control variate, and that of mean zero."""

    value: Float[Any, "*b"]
    control: Float[Any, "*b"]


class Ghost(Estimator):
    """Gamma times the gap between losses of ghosts and of training examples (Theorem 4)."""

    name = "ghost"
    Values = GhostValues
    column = Column(
        "on_average_kl_ghost",
        "Gamma times the generalization error of a whole group, which is the on-average KL of "
        "exact draws (Wang, Lei & Fienberg 2016, Theorem 4): a second route to the same number.",
        "nats",
        "gamma*gen",
        Style("gamma × generalization error", "#E69F00", marker="D", is_points=True),
    )
    note = (
        "ghost rows: on_average_kl is gamma times the generalization error, which it equals "
        "for exact draws (Theorem 4); no second route checks it there."
    )

    def per_dataset(self, view: View) -> GhostValues:
        """Estimate from the losses of one dataset's draws."""
        losses, scale = view.losses, view.gap_scale
        control = estimators.reference_gap(*losses.reference)
        gap = estimators.gap(losses.mean[..., None], losses.ghost, view.draws.weight) - control
        return GhostValues(scale * gap, scale * control)

    def fitted(self, values: GhostValues, is_kept: Bool[np.ndarray, " datasets"]) -> GhostValues:
        """Give back what of the control variate does not reduce noise."""
        return values._replace(value=fitted_gap(values.value, values.control, is_kept))

    def value_of(self, values: GhostValues) -> Float[np.ndarray, " datasets"]:
        """Every dataset's estimate, nats."""
        return np.asarray(values.value)


# On-average KL from normalizer ratios, with the posterior's own draws.


class OneSidedValues(NamedTuple):
    """Of each dataset: the estimate, and two signs of how wrong it is (see ``DirectKL``)."""

    value: Float[Array, "*b"]
    tail: Float[Array, "*b"]
    lost: Float[Array, "*b"]


class OneSided(Estimator):
    """``E_p[delta] + log E_p[exp(-delta)]`` over all pairs of an example and a ghost."""

    name = "one-sided"
    Values = OneSidedValues

    def per_dataset(self, view: View) -> OneSidedValues:
        """Estimate from the losses of one dataset's draws."""
        losses, inputs, weight = view.losses, view.inputs, view.draws.weight
        if view.posterior.structured:
            delta = inputs.gamma * (losses.ghost - losses.train)
            found = estimators.direct_kl_of_pairs(delta, weight)
        else:
            found = estimators.direct_kl(
                losses.train, losses.ghost, weight, inputs.gamma, view.plan.group_size
            )
        return OneSidedValues(found.value, found.tail, found.lost)

    def value_of(self, values: OneSidedValues) -> Float[np.ndarray, " datasets"]:
        """Every dataset's estimate, nats."""
        return np.asarray(values.value)


# On-average KL of Gaussian posteriors, which needs no draws.

# A change whose logarithm is taken as a sum of powers: its difference has no digits left.
_SMALL_CHANGE = 0.1


def has_closed_form(posterior: GibbsPosterior, group_size: int) -> bool:
    """Whether on-average KL is a function of the examples."""
    return posterior.is_gaussian and group_size == 1 and posterior.dim <= MAX_LAPLACE_DIM


def closed_form_kl(view: View) -> Float[Array, ""] | None:
    """KL of a Gaussian posterior from those with an example replaced, mean over pairs.

    None where there is no closed form, and where draws are no chains'.
    """
    posterior, draws, gamma = view.posterior, view.draws, view.inputs.gamma
    whitening, is_of_chains = draws.whitening, draws.log_normalizer is None
    has_form = has_closed_form(posterior, view.plan.group_size)
    if whitening is None or not (is_of_chains and has_form):
        return None
    target = Target(posterior, view.train, gamma)
    potential = whitening.pull_back(target.around(draws.mode, draws.reference, whitening))
    # Its slope and Hessian anywhere say all, in whatever coordinates draws were made.
    zero = jnp.zeros_like(draws.mode)
    hessian, slope = jax.hessian(potential)(zero), jax.grad(potential)(zero)
    to_standard = solve_lower(cholesky(hessian), jnp.eye(zero.size, dtype=zero.dtype))
    mean = posterior.constrain(whitening.color(-matmul(to_standard.T, matmul(to_standard, slope))))

    loss = posterior.loss
    assert isinstance(loss, Loss)

    def moves(data: PyTree) -> RankOne:
        """Find what examples do to the potential where the posterior is a standard normal."""
        found, scale = loss.rank_one(mean, data), whitening.scale
        assert found is not None
        flat = found.direction
        whitened = flat * scale if scale.ndim == 1 else matmul(flat, scale)
        return RankOne(
            matmul(whitened, to_standard.T), gamma * found.slope, gamma * found.curvature
        )

    return gaussian_kl(moves(view.train), moves(view.ghosts))


def gaussian_kl(train: RankOne, ghost: RankOne) -> Float[Array, ""]:
    """``KL(N(0, I) || p')``, mean over pairs of an example that leaves and a ghost that comes.

    ``p'`` has the precision ``P' = I + c_g g g^T - c_a a a^T`` and the mean ``-P'^-1 b``, ``b =
    s_g g - s_a a`` (slopes and curvatures along the two directions), so that ``2 KL = tr(P' - I) -
    log det P' + b^T P'^-1 b``. All three are functions of the directions' products.
    """
    # A row for each number of an example.
    old, new = (
        jnp.concatenate([m.direction.T, m.slope[None], m.curvature[None]]) for m in (train, ghost)
    )
    old, new = in_groups(old[None], new[None])
    a, s_a, c_a = old[:-2], old[-2, :, :, None], old[-1, :, :, None]
    g, s_g, c_g = new[:-2], new[-2, :, None], new[-1, :, None]
    aa, gg = jnp.sum(a**2, axis=0)[:, :, None], jnp.sum(g**2, axis=0)[:, None]
    ag = jnp.einsum("dki,dkj->kij", a, g, precision="highest")
    area = jnp.maximum(aa * gg - ag**2, 0.0)
    change = c_g * gg - c_a * aa - c_a * c_g * area  # of the determinant
    moved = s_g**2 * gg + s_a**2 * aa - 2.0 * s_a * s_g * ag + area * (c_g * s_a**2 - c_a * s_g**2)
    twice = _beyond_logarithm(change) + c_a * c_g * area + moved / (1.0 + change)
    return 0.5 * jnp.mean(jnp.where(change > -1.0, twice, jnp.inf))


def _beyond_logarithm(x: Float[Array, "*pairs"]) -> Float[Array, "*pairs"]:
    """``x - log(1 + x)``, to all digits."""
    small = jnp.clip(x, -_SMALL_CHANGE, _SMALL_CHANGE)
    powers = jnp.zeros_like(x)
    for k in range(9, 1, -1):
        powers = 1.0 / k - small * powers
    series = small**2 * powers
    return jnp.where(jnp.abs(x) < _SMALL_CHANGE, series, x - jnp.log1p(jnp.maximum(x, -1.0)))


# On-average KL from draws of the posterior and of replaced ones.


class TwoSidedValues(NamedTuple):
    """What a dataset's pairs add up to."""

    # Of the pairs' two-sided estimates, each counting by its weight; NaN where none were sampled.
    mean: Float[Any, "*b"]
    # Mean of half the variance of their log ratios, less that of all pairs: of mean zero.
    control: Float[Any, "*b"]
    # Between the pairs: variance of the estimates, their covariance with the half variances, and
    # these' variance.
    spread: Float[Any, "*b 3"]


class TwoSided(Estimator):
    """Half the symmetrized KL of a few pairs, unbiased however large it is."""

    name = "two-sided"
    Values = TwoSidedValues
    note = (
        "two-sided rows: on_average_kl and gamma times gen rest on the same symmetry, so their "
        "agreement is no independent check there."
    )

    def of_pair(self, pair: PairView) -> Float[Array, ""]:
        """Half the symmetrized KL of one pair, nats."""
        parts = pair.parts(pair.base.u), pair.parts(pair.replaced.u)
        weights = pair.base.weight, pair.replaced.weight
        here, there = (p[..., 1:] - p[..., :1] for p in parts)
        found = estimators.two_sided_kl(here, there, *weights)
        if pair.posterior.structured:
            return found
        train, ghost = sum(map(_variance, parts, weights), jnp.zeros(2))
        size = pair.plan.group_size
        counts = [jax.tree.leaves(data)[0].shape[0] // size for data in (pair.train, pair.ghosts)]
        return found * _seen_alike(found, train, ghost, *counts)

    def per_dataset(self, view: View) -> TwoSidedValues:
        """Reduce the pairs that were sampled."""
        losses, inputs, weight, chosen = view.losses, view.inputs, view.draws.weight, view.chosen
        if view.posterior.structured:
            delta = inputs.gamma * (losses.ghost - losses.train)
            variance = estimators.pair_variance_of_pairs(delta, weight, chosen.new)
        else:
            size, groups = view.plan.group_size, (chosen.old, chosen.new)
            variance = estimators.pair_variance(
                losses.train, losses.ghost, weight, inputs.gamma, size, *groups
            )
        proxy, num_pairs = chosen.weight * variance.chosen, inputs.num_pairs
        value = jnp.zeros_like(proxy) if view.pairs is None else chosen.weight * view.pairs
        is_used, used = jnp.arange(MOST_PAIRS) < num_pairs, jnp.maximum(num_pairs, 1)

        def mean(values: Float[Array, " pairs"]) -> Float[Array, ""]:
            return jnp.sum(jnp.where(is_used, values, 0.0)) / used

        a, b = value - mean(value), proxy - mean(proxy)
        spread = jnp.stack([mean(a * a), mean(a * b), mean(b * b)])
        return TwoSidedValues(
            mean=jnp.where(num_pairs > 0, mean(value), jnp.nan),
            control=jnp.where(num_pairs > 0, mean(proxy) - variance.mean, 0.0),
            spread=spread * used / jnp.maximum(used - 1, 1),
        )

    def fitted(
        self, values: TwoSidedValues, is_kept: Bool[np.ndarray, " datasets"]
    ) -> TwoSidedValues:
        """Take from the estimate what is only due to which pairs were sampled.

        How much half the variance of a pair's log ratio differs from that of all pairs costs no
        further posterior, and says most of how much the pair's KL differs.
        """
        value, control = (np.asarray(a, np.float64) for a in (values.mean, values.control))
        chosen = np.isfinite(value) & np.isfinite(control) & is_kept
        if not chosen.any():
            return values
        found = value.copy()
        found[chosen] -= shares_of_others(value[chosen], control[chosen]) * control[chosen]
        return values._replace(mean=found.astype(values.mean.dtype))

    def value_of(self, values: TwoSidedValues) -> Float[np.ndarray, " datasets"]:
        """Every dataset's estimate, nats."""
        return np.asarray(values.mean)


# Nats of a pair from about where one of its two examples has most of the KL.
_HEAVY = 10.0


def _variance(
    parts: Float[Array, "chains draws 2"], weight: Float[Array, "chains draws"]
) -> Float[Array, " 2"]:
    share = weight / jnp.sum(weight)
    centred = parts - jnp.einsum("cd,cdk->k", share, parts, precision="highest")
    return jnp.einsum("cd,cdk->k", share, centred**2, precision="highest")


def _seen_alike(
    kl: Float[Array, ""],
    train: Float[Array, ""],
    ghost: Float[Array, ""],
    num_train: int,
    num_ghosts: int,
) -> Float[Array, ""]:
    """Factor of mean one, weighted by the KL, that lets rare examples count where most are drawn.

    An example that weighs much is as likely a training example as a ghost, but counts for 1 / n as
    the one and 1 / ghosts as the other. Both datasets of a pair have one law: what is the
    example's that has part ``f`` of the variance of the log ratio, ``f = train / (train +
    ghost)`` over draws of both posteriors, has the same mean on either side. So sides count by the
    numbers of examples that were drawn, and an error is that of all of them together.
    """
    is_heavy = kl**2 / (kl**2 + _HEAVY**2)
    both = train + ghost
    apart = (train - ghost) / jnp.where(both > 0, both, 1.0)
    return 1.0 + is_heavy * apart * (num_train - num_ghosts) / (num_train + num_ghosts)


# Which estimate of on-average KL is reported: chosen by what pilot datasets show of each.

# The jackknife's correction as a share of the KL (beyond that of independent draws, root mean
# square over pairs), up to which it leaves 0.5% of bias with 64 draws a dataset. More draws reach
# the same share at a larger KL only, where it leaves more: the limit shrinks with them. Measured
# against closed forms of linear regressions with 1 to 30 coefficients.
ONE_SIDED_LIMIT, LIMIT_DRAWS = 0.05, 64
# Nats below which ratios stay near one: at 0.02 lognormal examples of shape 1 leave 0.8% already.
SMALL_KL = 0.01
# Nats above which one posterior's draws do not say what the replaced one's normalizer is.
LARGE_KL = 2.0
# Share of the KL that one side's draws are expected to miss, in rare pairs of many nats.
LOST_LIMIT = 0.005
# Relative variance between datasets of gamma times the generalization error, below which it beats
# the two-sided estimate, whose own is a tenth or less and which costs three to nine times as much.
GHOST_LIMIT = 0.5
# And that of what one side misses: beyond it few datasets hold what counts, most of them among
# their ghosts, which the generalization error does not see.
RARE_LIMIT = 10.0


def jackknife_shift(values: OneSidedValues, num_draws: int) -> float:
    """Jackknife's correction of the one-sided KL as a share of it, root mean square over pairs.

    Less ``1 / draws``, what independent draws need at any KL and the jackknife removes. 0 where
    the KL is below ``SMALL_KL`` nats: ``exp(-delta)`` then stays near one and has no heavy tails.
    """
    value, tail = float(np.mean(values.value)), float(np.mean(values.tail))
    if not (np.isfinite(value) and np.isfinite(tail)):
        return math.inf
    if not value > SMALL_KL:
        return 0.0
    return max(0.0, math.sqrt(tail / value) - 1.0 / num_draws)


def lost_share(values: OneSidedValues) -> float:
    """Share of the KL that one side's draws are expected to miss, over all pairs.

    One pair of hundreds of nats among thousands is enough to make a mean wrong, and hardly moves
    the jackknife's.
    """
    value, lost = float(np.mean(values.value)), float(np.mean(values.lost))
    if not (np.isfinite(value) and np.isfinite(lost)):
        return math.inf
    return lost / (max(value, 0.0) + lost) if lost > 0 else 0.0


def num_holding(values: OneSidedValues) -> float:
    """About how many datasets hold what one side's draws miss (Kish's effective number)."""
    lost = np.asarray(values.lost, np.float64)
    lost = lost[np.isfinite(lost)]
    square = float(np.sum(lost**2))
    return float(np.sum(lost)) ** 2 / square if square > 0 else 0.0


def is_within_reach(values: OneSidedValues, num_draws: int) -> bool:
    """Whether draws of one posterior tell the KL: of pairs on the whole, and of the worst."""
    return (
        is_small(values)
        and jackknife_shift(values, num_draws) <= shift_limit(num_draws)
        and lost_share(values) <= LOST_LIMIT
    )


def shift_limit(num_draws: int) -> float:
    """Largest :func:`jackknife_shift` with which a one-sided estimate is taken."""
    return ONE_SIDED_LIMIT * (LIMIT_DRAWS / num_draws) ** 0.25


def is_small(values: OneSidedValues) -> bool:
    """Whether one posterior's draws may say what the other's normalizer is: not at many nats.

    Nor where they say so many less than none.
    """
    return not abs(float(np.mean(values.value))) > LARGE_KL


def choose_estimator(values: Any, num_draws: int) -> str:
    """One side while its draws can tell the KL; else ghosts where steady, or both sides.

    ``values`` are those of :class:`~gibbs_dp.OnAverageKL`.
    """
    if not values.one_sided.value.shape[0]:
        return "one-sided"
    if is_within_reach(values.one_sided, num_draws):
        return "one-sided"
    ghost = np.asarray(values.ghost.value, np.float64)
    is_steady = ghost.mean() > 0 and ghost.var() < GHOST_LIMIT * ghost.mean() ** 2
    lost, holding = lost_share(values.one_sided), num_holding(values.one_sided)
    is_rare = lost > LOST_LIMIT and holding * (1.0 + RARE_LIMIT) < ghost.size
    return "ghost" if is_steady and not is_rare else "two-sided"
