"""What an attacker learns from one draw who knows everything but which example was in the data."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from gibbs_dp._cautions import REFUSE, Caution, Warned
from gibbs_dp.engine.plan import AuditSpec
from gibbs_dp.engine.quantity import Curves, Quantity, Row
from gibbs_dp.engine.view import (
    GammaResult,
    PairView,
    View,
    per_example_losses,
    structured_losses,
)
from gibbs_dp.estimators import average, mean_interval, students
from gibbs_dp.estimators.average import LIMIT_Z
from gibbs_dp.estimators.on_average_kl import group_sums
from gibbs_dp.estimators.privacy_loss import (
    EPSILONS,
    MOST_LOSSES,
    ORDERS,
    LossTails,
    one_sided_loss,
    two_sided_loss,
)
from gibbs_dp.estimators.roc import Roc, linearized
from gibbs_dp.model.check import positive_count
from gibbs_dp.quantities.kl_estimators import (
    OneSided,
    is_small,
    jackknife_shift,
    shift_limit,
)
from gibbs_dp.results.table import Column, Style
from gibbs_dp.sampling.kernels.base import Traits

# Columns of the attacker, and where they cannot be believed.

FPRS = {"attack_tpr_1pct": 0.01, "attack_tpr_01pct": 0.001}
"""False positive rates that true positive rates have columns for."""

RENYI = ("on_average_renyi_2", "on_average_renyi_8")

COLUMNS = (
    Column(
        "on_average_tv",
        "Advantage (true positive minus false positive rate) of the best attacker who knows every "
        "example but one, sees one draw, and guesses which of two examples was in the data: total "
        "variation of the two posteriors, averaged over datasets and replaced examples. Nobody "
        "does better on average; for any one person it may be more.",
        "",
        "advantage",
        Style("attacker's advantage", "#0072B2", "-", "o", "attack"),
    ),
    Column(
        "attack_auc",
        "Area under this attacker's ROC, with one threshold on the privacy loss for all datasets "
        "and replaced examples (pooled): the chance to order a draw with and one without the "
        "example rightly.",
    ),
    Column(
        "attack_auc_per_pair",
        "The same with a ROC for each dataset and replaced example, averaged.",
    ),
    Column(
        "attack_tpr_1pct",
        "True positive rate of the pooled attack where 1% of its alarms on draws without the "
        "example are false.",
        style=Style("true positives at 1% false ones", "#D55E00", "--", "s", "attack"),
    ),
    Column(
        "attack_tpr_01pct",
        "The same at 0.1% false positives.",
    ),
    Column(
        "on_average_renyi_2",
        "Rényi divergence of order 2 of the two posteriors, averaged; no Rényi DP.",
        "nats",
    ),
    Column("on_average_renyi_8", "The same of order 8.", "nats"),
    Column(
        "renyi_tail_flag",
        "Orders whose divergence rests on so few draws or datasets, or on the last points of a "
        "sum, that it is likely to be too small, or may be infinite: none, 8, or 2 and 8. The "
        "number is a lower bound then, and its standard error NaN.",
    ),
    Column(
        "attack_estimator",
        "Where these columns come from: one-sided (draws of the posterior), two-sided (draws of "
        "replaced posteriors too), or an exact sum.",
    ),
    Column(
        "attack_advantage_limit",
        "Largest advantage that dp_epsilon allows against anybody, whatever the data: "
        "tanh(epsilon / 2).",
        style=Style("largest advantage under DP epsilon", "0.4", "-.", "x", "attack"),
    ),
)

ATTACK_TOO_WEAK = Caution(
    "attack-too-weak",
    "at an on-average KL of {kl:.2g} nats draws of one posterior do not tell how well an attacker "
    "does: on_average_tv and the columns beside it are too small; use the two-sided estimator.",
    "The attacker's numbers need the density of the posterior with another example, and draws of "
    "the posterior itself do not reach where that one is.",
    "Leave the estimator 'auto', or learn gdp.OnAverageKL('two-sided'), which samples the other "
    "posteriors too; or look at smaller gammas.",
    verdict=REFUSE,
)
RENYI_LOWER_BOUND = Caution(
    "renyi-lower-bound",
    "on_average_renyi_2 and on_average_renyi_8 are lower bounds and may be infinite: the privacy "
    "losses of some pair fall by a factor of e every {tail:.1f} nats only; use on_average_kl, "
    "on_average_tv or the privacy profile.",
    "A Rényi divergence of order a is a mean of exp((a - 1) loss), which does not exist where "
    "losses have a tail that falls more slowly than that rises. One replaced example that does so "
    "makes the mean infinite, and any number of draws gives a finite one.",
    "Rely on the columns that always exist; look at smaller gammas; or use a loss or a domain with "
    "bounds, which bound every loss of privacy.",
)


# The on-average privacy profile: what the best attacker makes of a draw, on average over pairs.

# Which of the attacker's Rényi divergences hang on few draws, or few datasets.

# Mean share of one draw in the mean of e^((a-1) L) above which that mean is too small: measured on
# Gaussians, where the divergence is then 2% off or more.
HEAVY_SHARE = 0.1
# And share of it where sums end; of Gaussian means the divergence is then 0.2% off or more.
AT_ENDS = 0.05
# How much farther an interval for the mean over datasets reaches up than down, above which the
# pairs that most of the mean comes from may be missing. Of 512 audits of 128 datasets of lognormal
# numbers, at a KL of 0.02, no draw is too heavy in 267; 35 of these are below it, and 8% too small.
LOPSIDED = 1.15
# Largest (a - 1) tail of a pair, above which the moment of order a may not exist. It does not from
# 1; ten draws beyond the point know a tail to a third, of thousands of pairs the worst to a half.
LARGEST_TAIL = 1.5
# And from where that is said: the worst of thousands of pairs whose moments all exist is below.
ENDLESS_TAIL = 2.5


def doubtful_orders(
    loss: LossTails, is_good: Bool[np.ndarray, " datasets"], traits: Traits
) -> list[str]:
    """Orders whose mean is likely to be too small, such as ``["8"]``."""
    # The points of a finite class are all that there are.
    most = HEAVY_SHARE if not traits.is_exact else AT_ENDS if traits.is_discretized else math.inf
    heavy, endless = heaviest(loss, is_good) > most, endless_orders(loss, is_good)
    orders = [name.rpartition("_")[2] for name in RENYI]
    found = [
        order
        for order, is_heavy, values in zip(orders, heavy, loss.renyi.T, strict=True)
        if is_heavy or order in endless or is_lopsided(values[is_good])
    ]
    # They rise with the order, and one is infinite from some order on.
    return orders[orders.index(found[0]) :] if found else found


def endless_orders(
    loss: LossTails, is_good: Bool[np.ndarray, " datasets"], largest: float = LARGEST_TAIL
) -> list[str]:
    """Orders whose divergence may be infinite: some pair's losses have so slow a tail.

    One such pair, however rare, makes the mean infinite, of which draws are silent.
    """
    tail = loss.tail[is_good]
    worst = float(np.max(tail[np.isfinite(tail)], initial=0.0))
    return [f"{order:g}" for order in ORDERS if (order - 1.0) * worst > largest]


def heaviest(
    loss: LossTails, is_good: Bool[np.ndarray, " datasets"]
) -> Float[np.ndarray, " orders"]:
    """Share of one draw in what Rényi divergences are made of; datasets count by theirs."""
    share, renyi = loss.weight[is_good], loss.renyi[is_good]
    is_known = np.isfinite(share) & np.isfinite(renyi)
    part = np.where(is_known, np.maximum(renyi, np.finfo(np.float64).tiny), 0.0)
    total = np.maximum(part.sum(axis=0), np.finfo(np.float64).tiny)
    found: Float[np.ndarray, " orders"] = (part / total * np.where(is_known, share, 0.0)).sum(
        axis=0
    )
    return found


def is_lopsided(values: Float[np.ndarray, " datasets"]) -> bool:
    """Whether datasets are so skewed that a mean over them is likely to be too small."""
    values = values[np.isfinite(values)]
    if values.size < 2:
        return False
    found, mean = mean_interval(values), values.mean()
    return bool(found.high - mean > LOPSIDED * (mean - found.low))


PROFILE = "privacy_profile"
# Groups of datasets that are left out, one at a time.
MOST_LEFT_OUT = 32


class AttackerValues(NamedTuple):
    """Of each dataset: the privacy loss by both routes; NaN where no pair was sampled."""

    one_sided: LossTails
    two_sided: LossTails


class _Pair(NamedTuple):
    """``log p/p'`` up to a constant at draws of both posteriors, and the weights of the latter."""

    here: Float[Array, "chains draws"]
    there: Float[Array, "chains draws"]
    weight_there: Float[Array, "chains draws"]


@dataclass(frozen=True)
class Attacker(Quantity):
    """What whoever knows all but one example makes of a draw, on average.

    Parameters
    ----------
    num_releases
        Independent draws of one posterior that the attacker sees together; at most as many as
        chains.
    num_datasets
        These columns are means over so many of the datasets, the first ones, or over all if there
        are fewer, or for None. Over all they take as long as all others together, or longer, and
        their errors are rarely what one waits for: of 64 datasets and a small KL about 1% for the
        advantage.

    Notes
    -----
    The best test is one of the privacy loss ``L = log p(theta | Z) - log p(theta | Z')`` (Neyman &
    Pearson 1933). Its mean over pairs is Wang, Lei & Fienberg's on-average KL (2016, Definition 2);
    what is reported here are its tails. Averages over pairs are no bound for any one of them.
    """

    num_releases: int = 1
    num_datasets: int | None = 64

    name = "attacker"
    Kept = AttackerValues
    columns = COLUMNS

    def resolved(self, spec: AuditSpec, learnt: Mapping[str, Quantity]) -> Sequence[Quantity]:
        """Check that there are as many independent draws."""
        releases = check_releases(self.num_releases, spec.num_chains, spec.is_exact)
        count = self.num_datasets
        if count is not None:
            count = positive_count("num_datasets", count, least=2)
        return (Attacker(releases, count),)

    # -- of one dataset -------------------------------------------------------------------

    @property
    def needs_independent_chains(self) -> bool:  # type: ignore[override]
        """Whether several draws are seen together, one of a chain."""
        return self.num_releases > 1

    def traced(self) -> Attacker:
        """How many datasets there are compiles nothing."""
        return Attacker(self.num_releases)

    def of_pair(self, pair: PairView) -> _Pair:
        """Let draws of both posteriors speak; what they say is made of it for few datasets."""
        here, there = (pair.delta(draws.u)[..., 0] for draws in (pair.base, pair.replaced))
        return _Pair(here, there, pair.replaced.weight)

    def keep(self, view: View) -> AttackerValues:
        """Take tails of the privacy loss by both routes."""
        found = one_sided_loss(_deltas(view), view.draws.weight, self.num_releases)
        return AttackerValues(found, self._two_sided(view, like=found))

    def _two_sided(self, view: View, like: LossTails) -> LossTails:
        """Mean over the pairs that were sampled, each counting by its weight; NaN for none."""
        num_pairs = view.inputs.num_pairs
        if view.pairs is None or view.plan.num_pairs == 0:
            return LossTails(*(jnp.full_like(a, jnp.nan) for a in like))
        share = view.chosen.weight / jnp.maximum(num_pairs, 1)

        def add(index: Array, so_far: LossTails) -> LossTails:
            pair = _Pair(*(a[index] for a in view.pairs))
            weights = view.draws.weight, pair.weight_there
            found = two_sided_loss(pair.here, pair.there, *weights, self.num_releases)
            return LossTails(*(s + share[index] * f for s, f in zip(so_far, found, strict=True)))

        nought = LossTails(*(jnp.zeros_like(a) for a in like))
        total = jax.lax.fori_loop(0, num_pairs, add, nought)
        return LossTails(*(jnp.where(num_pairs > 0, a, jnp.nan) for a in total))

    @property
    def num_kept(self) -> int:
        """The first datasets."""
        return sys.maxsize if self.num_datasets is None else self.num_datasets

    # -- of all datasets ------------------------------------------------------------------

    def means(self, result: GammaResult) -> dict[str, Float[np.ndarray, " datasets"]]:
        """Advantage, ROC and divergences; of pooled numbers, linearized over datasets."""
        loss, is_good = _chosen(result)
        found: dict[str, Any] = {
            "on_average_tv": loss.excess[:, 0],
            "attack_auc": _pooled(loss, is_good, Roc.auc),
            "attack_auc_per_pair": loss.auc,
        }
        found |= zip(FPRS, _at_rates(loss, is_good, np.array(list(FPRS.values()))), strict=True)
        return found | {name: loss.renyi[:, k] for k, name in enumerate(RENYI)}

    def curves(self, result: GammaResult) -> Curves:
        """Return the profile at the thresholds, and what its ROC is made of."""
        loss, is_good = _chosen(result)
        above, excess = loss.above[is_good], loss.excess[is_good]
        profile = excess - np.expm1(EPSILONS) * (above - excess)
        errors = [average(column).se for column in profile.T]
        return {
            PROFILE: {
                "epsilon": EPSILONS,
                "delta": profile.mean(axis=0),
                "delta_se": np.array(errors),
                "above": above.mean(axis=0),
                "excess": excess.mean(axis=0),
            }
        }

    def finish(self, result: GammaResult, row: Row) -> tuple[Row, list[Warned]]:
        """Where the numbers come from, and what they cannot be."""
        is_exact = result.settings.is_exact
        both = _uses_pairs(result)
        loss = _of(result, both)
        is_good = _is_good(result, loss)
        orders = doubtful_orders(loss, is_good, result.settings.sampler.traits)
        more: Row = {"renyi_tail_flag": " and ".join(orders) or "none"}
        more |= {f"on_average_renyi_{order}_se": math.nan for order in orders}  # of no lower bound
        more["attack_estimator"] = "exact sum" if is_exact else "two-sided" if both else "one-sided"
        epsilon = row.get("dp_epsilon")
        if epsilon is not None:
            more["attack_advantage_limit"] = math.tanh(0.5 * self.num_releases * epsilon)
        is_weak = not is_exact and not both and not _is_one_sided_right(result)
        told = [ATTACK_TOO_WEAK(kl=row["on_average_kl"])] if is_weak else []
        if "2" in endless_orders(loss, is_good, ENDLESS_TAIL):
            told.append(RENYI_LOWER_BOUND(tail=float(np.nanmax(loss.tail[is_good]))))
        return more, told

    # -- what was asked for -----------------------------------------------------------------

    def least_pairs(self, choice: str) -> int:
        """One where the KL is large, and only draws of both posteriors will do."""
        return int(choice != OneSided.name)

    def identity(self) -> int:
        """How many draws are seen together."""
        return self.num_releases

    def request(self, settings: AuditSpec) -> list[Any]:
        """And over how many datasets the means are."""
        del settings
        return [self.num_releases, self.num_datasets]

    def settings(self) -> dict[str, Any]:
        """Return the same."""
        datasets = "all" if self.num_datasets is None else self.num_datasets
        return {"num_releases": self.num_releases, "num_attacked": datasets}

    def notes(self, settings: AuditSpec, rows: Sequence[Row]) -> list[str]:
        """Say how many draws the attacker sees, and how many datasets, where that is not all."""
        del settings
        found = []
        if self.num_releases > 1:
            found.append(
                f"the attacker's columns are for {self.num_releases} independent draws seen "
                "together; on_average_kl is that of one, and theirs is so many times as large."
            )
        if any(row["num_datasets"] + row.get("failed_datasets", 0) > self.num_kept for row in rows):
            found.append(
                f"the attacker's columns are of the first {self.num_datasets} datasets "
                "(gibbs_dp.Attacker(num_datasets=...))."
            )
        return found


# Pairs that are looked at for those whose losses are taken, where examples have losses of their
# own: of a mean over pairs half the error's square is gone for a fifth more time.
CANDIDATES = 128


def _deltas(view: View) -> Float[Array, "pairs chains draws"]:
    """``log p/p'`` up to a constant, of pairs of a training group and a ghost group."""
    posterior, plan, size = view.posterior, view.plan, view.plan.group_size
    # Of the examples that are looked at, and no others.
    most = (MOST_LOSSES if posterior.structured else CANDIDATES) * size
    few = plan._replace(n=min(plan.n, most), num_ghosts=min(plan.num_ghosts, most))
    u, inputs, data = view.draws.u, view.inputs, (view.train, view.ghosts)
    if posterior.structured:
        losses = structured_losses(posterior, u, *data, inputs, few._replace(n=plan.n))
        delta = losses.ghost - losses.train
    else:
        train, ghosts = (jax.tree.map(lambda leaf: leaf[:most], part) for part in data)
        losses = per_example_losses(posterior, u, train, ghosts, inputs, few)
        old, new = (group_sums(part, size) for part in (losses.train, losses.ghost))
        a, b = plan.n // size, plan.num_ghosts // size
        pair = np.arange(min(CANDIDATES, a * b))
        # Different ones of both as long as there are any.
        other = (pair + pair // math.lcm(a, b)) % b
        delta = new[..., other] - old[..., pair % a]
    delta = jnp.moveaxis(inputs.gamma * delta, -1, 0)
    key = jax.random.fold_in(view.key, 2)
    return jax.lax.optimization_barrier(of_all_sizes(delta, view.draws.weight, key))


def of_all_sizes(
    delta: Float[Array, "candidates chains draws"],
    weight: Float[Array, "chains draws"],
    key: PRNGKeyArray,
) -> Float[Array, "pairs chains draws"]:
    """Take each with the same chance, from small to large (systematic sampling).

    ``MOST_LOSSES`` of them, which differ in size as all do: what is far from the middle, and most
    of a mean's error, is neither missed nor met twice. So do the first 2, 4, 8 of those taken.
    """
    count = delta.shape[0]
    num = min(count, MOST_LOSSES)
    share = weight / jnp.sum(weight)
    centred = delta - jnp.sum(delta * share, axis=(1, 2), keepdims=True)
    size = jnp.sum(share * centred**2, axis=(1, 2))
    size = jnp.where(jnp.isnan(size), jnp.inf, size)
    start, turn = jax.random.uniform(key, (2,))
    place = ((jnp.arange(num) + start) * (count / num)).astype(jnp.int32)
    # Numbers with their bits reversed, from a random one on: halves of halves.
    reversed_bits = sorted(range(num), key=lambda i: f"{i:0{num.bit_length()}b}"[::-1])
    first = (turn * num).astype(jnp.int32)
    taken = jnp.minimum(place[(np.array(reversed_bits) + first) % num], count - 1)
    # How many are smaller: for so few a sort takes ten times as long, and longer to compile.
    is_before = np.arange(count) < np.arange(count)[:, None]
    rank = jnp.sum((size < size[:, None]) | ((size == size[:, None]) & is_before), axis=1)
    chosen = jnp.sum(jnp.where(rank == taken[:, None], np.arange(count), 0), axis=1)
    return delta[chosen]


def _is_one_sided_right(result: GammaResult) -> bool:
    """Whether the jackknife copes: the law of the one-sided on-average KL."""
    settings, values = result.settings, result.good.values.on_average_kl.one_sided
    if settings.is_exact:
        return True
    if settings.sampler.traits.is_path:  # its weights are uneven in any case
        return is_small(values)
    limit = shift_limit(settings.num_draws)
    return is_small(values) and jackknife_shift(values, settings.num_draws) <= limit


def _uses_pairs(result: GammaResult) -> bool:
    return int(result.tuned.inputs.num_pairs) > 0 and not _is_one_sided_right(result)


def _is_good(result: GammaResult, loss: LossTails) -> Bool[np.ndarray, " first"]:
    """Which of the datasets that were attacked count."""
    return result.is_good[: loss.auc.shape[0]]


def _of(result: GammaResult, both: bool) -> LossTails:
    values: AttackerValues = result.kept_of("attacker")
    chosen = values.two_sided if both else values.one_sided
    return LossTails(*(np.asarray(a, np.float64) for a in chosen))


def _chosen(result: GammaResult) -> tuple[LossTails, Bool[np.ndarray, " datasets"]]:
    """Every dataset's values by the route that is right, and which of them count."""
    loss = _of(result, _uses_pairs(result))
    finite = [np.isfinite(a.reshape(a.shape[0], -1)).all(axis=1) for a in (loss.above, loss.excess)]
    return loss, _is_good(result, loss) & finite[0] & finite[1]


def _pooled(
    loss: LossTails, is_good: Bool[np.ndarray, " datasets"], function: Any
) -> Float[np.ndarray, " datasets"]:
    """Numbers whose mean is a function of the pooled ROC; NaN for datasets that do not count."""
    found = np.full(is_good.size, np.nan)
    if is_good.sum() < 2:
        return found
    size = EPSILONS.size
    tails = np.concatenate([loss.above, loss.excess], axis=1)[is_good]
    found[is_good] = linearized(
        lambda means: function(Roc(EPSILONS, means[:, :size], means[:, size:])), tails
    )
    return found


def _at_rates(
    loss: LossTails, is_good: Bool[np.ndarray, " datasets"], rates: Float[np.ndarray, " rates"]
) -> Float[np.ndarray, "rates datasets"]:
    """Numbers whose means are pooled true positive rates; NaN for datasets that do not count.

    A rate is the least ``c fpr + E H_c``, and varies as ``H_c`` of the best ``c`` does: to first
    order, which says little where losses end and the best ``c`` is at their end. How far the
    numbers are apart is therefore what leaving groups of datasets out says of the rate itself, or
    the first order where that is more: each alone is far too small where losses end.
    """
    found = np.full((rates.size, is_good.size), np.nan)
    count = int(is_good.sum())
    if count < 2:
        return found
    above, excess = loss.above[is_good], loss.excess[is_good]
    own = (excess - np.expm1(EPSILONS) * (above - excess)).T
    group = np.arange(count) % min(count, MOST_LEFT_OUT)
    kept = group != np.arange(group.max() + 1)[:, None]
    shares = kept / kept.sum(axis=1, keepdims=True)
    without = Roc(EPSILONS, shares @ above, shares @ excess).curve(rates)
    # As few groups as these need Student's quantile.
    longer = students(LIMIT_Z, len(without)) / LIMIT_Z
    errors = longer * without.std(axis=0) * np.sqrt(len(without) - 1)
    whole = Roc(EPSILONS, above.mean(axis=0), excess.mean(axis=0))
    for row, value, best, se in zip(found, *whole.best(rates), errors, strict=True):
        place = np.interp(max(float(best), 0.0), EPSILONS, np.arange(EPSILONS.size))
        left = min(int(place), EPSILONS.size - 2)
        there = own[left] + (place - left) * (own[left + 1] - own[left])
        own_se = there.std(ddof=1) / np.sqrt(count)
        scale = max(se / own_se, 1.0) if own_se > 0 else 0.0
        row[is_good] = value + scale * (there - there.mean())
    return found


def check_releases(value: int, num_chains: int, is_exact: bool) -> int:
    """Return how many draws the attacker sees together."""
    value = positive_count("num_releases", value)
    if value > 1 and is_exact:
        raise ValueError(
            f"num_releases: exact sums know the attacker of one draw only, got {value}; use chains."
        )
    if value > num_chains:
        raise ValueError(
            f"num_releases: must be at most num_chains ({num_chains}), as draws of one chain are "
            f"not independent, got {value}; raise num_chains."
        )
    return value
