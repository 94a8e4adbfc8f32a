"""What trained critics see of a replaced example: a quantity of the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from gibbs_dp import estimators
from gibbs_dp.capacity.adversaries import Adversary
from gibbs_dp.capacity.objectives import KL
from gibbs_dp.capacity.training import Training, train_and_judge
from gibbs_dp.engine.asked import Asked
from gibbs_dp.engine.quantity import LeadingQuantity
from gibbs_dp.engine.view import PairView, View


class SeenValues(NamedTuple):
    """Of each dataset and one of its replaced versions.

    Attributes
    ----------
    critics
        What each class's trained critic attains, nats.
    full
        Half the symmetrized KL of the pair from the same draws: unbiased for the on-average KL.
    """

    critics: Float[Any, "*b classes"]
    full: Float[Any, "*b"]


@dataclass(frozen=True)
class SeenByCritics(LeadingQuantity):
    """On-average KL that restricted adversaries see; steered by what an unrestricted one would.

    Parameters
    ----------
    adversaries
        Classes that can be trained.
    training
        How.
    """

    adversaries: tuple[Adversary, ...]
    training: Training

    name = "seen"
    Values = SeenValues
    needs_independent_chains = True  # half of them train the critics that the others judge

    @property
    def is_of_losses(self) -> bool:
        """Critics look at parameters."""
        return False

    def of_pair(self, pair: PairView) -> dict[str, Array]:
        """Train a critic of each class on a pair of posteriors."""
        # Both posteriors' chains share random numbers: what a critic gains is then hardly noisy,
        # and for a given critic the means, and so the lower bound, are the same.
        p, q = (_outputs(pair, u) for u in (pair.base.u, pair.replaced.u))
        found = [
            train_and_judge(pair.key, p, q, adversary, KL(), self.training).value
            for adversary in self.adversaries
        ]
        at_base, at_replaced = pair.delta(pair.base.u), pair.delta(pair.replaced.u)
        full = estimators.two_sided_kl(at_base, at_replaced, pair.base.weight)
        return {"critics": jnp.stack(found), "full": full}

    def per_dataset(self, view: View) -> SeenValues:
        """Take those of the first pair, the only one."""
        return SeenValues(view.pairs["critics"][0], view.pairs["full"][0])

    def choose(self, pilots: Any, settings: Asked) -> str:
        """Name the only estimator."""
        return "two-sided"

    def reconsider(self, values: Any, choice: str, settings: Asked) -> None:
        """Return None: there is no other."""

    def num_pairs(self, choice: str, settings: Asked, pilots: Callable[[int], Any]) -> int:
        """One pair a dataset."""
        return 1

    def values_of(self, values: SeenValues, choice: str) -> Float[np.ndarray, " datasets"]:
        """KL of every dataset's pair, nats; NaN where a critic failed."""
        is_finite = np.isfinite(values.critics).all(axis=1)
        return np.where(is_finite, np.asarray(values.full, np.float64), np.nan)


def _outputs(pair: PairView, u: Float[Array, "chains draws dim"]) -> Float[Array, "all dim"]:
    """Draws of theta, ordered by chain: two halves of them share none."""
    points = u.reshape(-1, u.shape[-1])
    return jax.vmap(lambda point: ravel_pytree(pair.posterior.constrain(point))[0])(points)
