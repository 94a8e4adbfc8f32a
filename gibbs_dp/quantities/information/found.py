"""What the comparison of datasets shows beside their mutual information."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from gibbs_dp.engine.plan import Asked
from gibbs_dp.engine.quantity import Quantity
from gibbs_dp.engine.view import Explored, Result, View
from gibbs_dp.estimators.alpha_information import alpha_information_lower, alpha_information_upper
from gibbs_dp.estimators.average import Average
from gibbs_dp.estimators.group_sums import GroupSums
from gibbs_dp.estimators.jensen_shannon import mean_jensen_shannon, of_pairs
from gibbs_dp.estimators.membership import Membership, MembershipScores
from gibbs_dp.estimators.t_information import t_information_lower, t_information_upper
from gibbs_dp.estimators.table_sums import Swaps
from gibbs_dp.quantities.information.columns import JENSEN_SHANNON, ORDERS
from gibbs_dp.quantities.mutual_information.comparison import Block, Comparison, Shared
from gibbs_dp.quantities.mutual_information.information import MIN_INFORMATION, usable
from gibbs_dp.quantities.mutual_information.kept import Kept


class Further(NamedTuple):
    """Information of one gamma, in the order of the names; None for what was not asked for.

    Attributes
    ----------
    alpha_2_lower, alpha_2_upper, alpha_8_lower, alpha_8_upper
        Bounds of Sibson's information; an upper one is None where datasets are too few for it.
    leakage_lower
        Bound of maximal leakage.
    t_lower, t_upper
        Bounds of the T-information.
    membership
        Attack from one draw; None where examples are dependent, or no sum.
    """

    alpha_2_lower: Average | None = None
    alpha_2_upper: Average | None = None
    alpha_8_lower: Average | None = None
    alpha_8_upper: Average | None = None
    leakage_lower: Average | None = None
    t_lower: Average | None = None
    t_upper: Average | None = None
    membership: Membership | None = None


class _Rows(NamedTuple):
    """Draws of a block, by the numbers of the datasets that did not fail."""

    log_density: Float[np.ndarray, "rows datasets"]
    log_likelihood: Float[np.ndarray, "rows datasets"] | None  # of first examples
    owner: Int[np.ndarray, " rows"]


def find_further(sweep: Explored, count: int, names: Sequence[str]) -> list[Further | None]:
    """Compare the datasets of every gamma; None where draws are missing or too few.

    Parameters
    ----------
    sweep
        What was sampled.
    count
        Datasets to compare with each other.
    names
        Kinds of information.

    Returns
    -------
    list[Further | None]
        For every gamma.

    Raises
    ------
    AuditIncomplete
        If those of other processes are missing.
    """
    settings, results = sweep.settings, sweep.results
    draws = [None if r.kept is None else r.kept.mutual_information for r in results]
    present = [d for d in draws if d is not None and d.u.shape[0] == count]
    if len(present) < len(results) or count < MIN_INFORMATION:
        return [None] * len(results)
    good = [usable(r, d) for r, d in zip(results, present, strict=True)]
    shared = Shared(settings, jnp.asarray(results[0].tuned.inputs.anchor), count)
    return sweep.find(
        Further,
        f"further-information-{'-'.join(names)}-{count}",
        [bool(g.sum() >= MIN_INFORMATION) for g in good],
        lambda i: _further(Comparison(settings, results[i], present[i], good[i], shared), names),
    )


def has_members(settings: Asked) -> bool:
    """Whether membership of one example makes sense: they are independent, the loss is a sum."""
    population = settings.population
    is_iid = not (population.is_dependent or population.is_conditional)
    return is_iid and not settings.posterior.structured


def is_precise(result: Result) -> bool:
    """Whether draws of a posterior tell what swapping an example does to its normalizer."""
    return result.settings.is_exact or result.tuned.estimator == "one-sided"


def _further(comparison: Comparison, names: Sequence[str]) -> Further:
    powers = [*(map(float, ORDERS) if "alpha" in names else ())]
    powers += [np.inf] if "leakage" in names else []
    count = int(comparison.good.sum())
    sums = GroupSums(count, tuple(powers))
    has_examples = has_members(comparison.settings) and bool(
        {"membership", "conditional"} & set(names)
    )
    blocks = list(comparison.blocks())
    swaps = [comparison.swaps(block) for block in blocks] if has_examples else None
    scores = None if swaps is None else MembershipScores(_gain(comparison, blocks, swaps))
    for rows in _rows(comparison, blocks, swaps):
        sums.add(rows.log_density, rows.owner)
        if scores is not None and rows.log_likelihood is not None:
            scores.add(rows.log_density, rows.log_likelihood, rows.owner)
    grouped, out = sums.result(), Further()
    if "alpha" in names:
        pairs = [
            (alpha_information_lower(grouped, a), alpha_information_upper(grouped, a))
            for a in map(float, ORDERS)
        ]
        out = out._replace(
            alpha_2_lower=pairs[0][0],
            alpha_2_upper=pairs[0][1],
            alpha_8_lower=pairs[1][0],
            alpha_8_upper=pairs[1][1],
        )
    if "leakage" in names:
        out = out._replace(leakage_lower=alpha_information_lower(grouped, np.inf))
    if "tv" in names:
        out = out._replace(
            t_lower=t_information_lower(grouped), t_upper=t_information_upper(grouped)
        )
    return out if scores is None else out._replace(membership=scores.result())


def _rows(
    comparison: Comparison, blocks: list[Block], swaps: list[Swaps] | None
) -> Iterator[_Rows]:
    """Every block's draws under all datasets that did not fail, in double precision."""
    kept: Kept = comparison.kept
    level = np.asarray(kept.log_normalizer, np.float64) + comparison.consistent(blocks)[0]
    gamma, position = comparison.result.gamma, comparison.layout.position
    number = np.cumsum(comparison.good) - 1
    for b, block in enumerate(blocks):
        losses = np.asarray(comparison.table(block, level).losses, np.float64)
        each = None
        if swaps is not None:
            of_first = np.asarray(swaps[b].losses, np.float64)
            each = -gamma * of_first[block.is_used][:, position]
        owner = number[block.owner[block.is_used]]
        density = -gamma * losses[block.is_used][:, position] - level[comparison.good]
        yield _Rows(density, each, owner)


def _gain(
    comparison: Comparison, blocks: list[Block], swaps: list[Swaps]
) -> Float[np.ndarray, "owners datasets"]:
    """Put together what swapping first examples adds to log normalizers, datasets by datasets."""
    found = np.zeros((comparison.count, comparison.layout.datasets.size))
    for block, swap in zip(blocks, swaps, strict=True):
        found[block.datasets] = np.asarray(swap.gain, np.float64)
    return found[comparison.good][:, comparison.layout.position]


# Jensen-Shannon divergence of replaced examples: conditional mutual information from above.


class SupersampleValues(NamedTuple):
    """Of each dataset: mean Jensen-Shannon divergence over replaced examples, nats."""

    value: Float[Any, "*b"]


@dataclass(frozen=True)
class Supersample(Quantity):
    """``I(theta; U_i | U_-i, supersample) = E JS``, from a posterior's own draws.

    A dataset and a fresh example are a supersample in which all but one coin is known. ``n E JS``
    is at least the conditional mutual information (Steinke & Zakynthinou 2020; chain rule).
    """

    name = "supersample"
    Values = SupersampleValues
    columns = (JENSEN_SHANNON,)

    def per_dataset(self, view: View) -> SupersampleValues:
        """Average over pairs of an example and a ghost."""
        losses, inputs, weight = view.losses, view.inputs, view.draws.weight
        if view.posterior.structured:
            delta = inputs.gamma * (losses.ghost - losses.train)
            return SupersampleValues(of_pairs(delta, weight))
        return SupersampleValues(
            mean_jensen_shannon(losses.train, losses.ghost, weight, inputs.gamma)
        )

    def means(self, result: Result) -> dict[str, Float[np.ndarray, " datasets"]]:
        """Return the divergence."""
        return {JENSEN_SHANNON.name: result.summary.values.supersample.value}

    def identity(self) -> bool:
        """Blocks have its values."""
        return True
