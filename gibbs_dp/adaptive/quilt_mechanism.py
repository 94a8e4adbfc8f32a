"""The Markov quilt mechanism (Song, Wang & Chaudhuri 2017) for queries of correlated rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.adaptive.bdp import REACH, quilt_profile
from gibbs_dp.adaptive.chain_influence import Form
from gibbs_dp.adaptive.row_law import RowLaw
from gibbs_dp.information import checks
from gibbs_dp.privacy.noise import laplace_release


@dataclass(frozen=True, eq=False)
class MarkovQuiltMechanism:
    """Laplace noise of scale ``L max_i min_quilts (|N| + 1)/(epsilon - influence)``.

    ``epsilon``-Pufferfish: for an adversary who knows the model and nothing else, no pair of
    values of one row is told apart by more than ``epsilon``. One who knows other rows is another
    matter (`bdp_epsilon`), and releases do not compose as DP's do (only with one fixed choice of
    quilts, as the paper shows).

    Parameters
    ----------
    model
        A `MarkovChain`, a `BayesianNetwork` or a `MarkovNetwork`.
    epsilon
        Nats.
    lipschitz
        ``L``: how far changing one row moves the query (L1, for vectors).
    form
        How influences are found, as in `bdp_epsilon`.
    reach
        Largest distance of a quilt in chains and large networks; a larger one can only need less
        noise.

    Raises
    ------
    ValueError
        If an argument is out of range, or the form is not for this model.

    Examples
    --------
    >>> from gibbs_dp.adaptive.markov_chain import MarkovChain
    >>> chain = MarkovChain([[0.7, 0.3], [0.3, 0.7]], 100)
    >>> exact = MarkovQuiltMechanism(chain, 1.0)
    >>> spectral = MarkovQuiltMechanism(chain, 1.0, form="spectral")
    >>> round(exact.scale, 4), round(spectral.scale, 4), 100.0  # the last: all rows as one
    (6.7236, 14.081, 100.0)
    """

    model: RowLaw
    epsilon: float
    lipschitz: float = 1.0
    form: Form | None = None
    reach: int = REACH

    def __post_init__(self) -> None:
        checks.positive("epsilon", self.epsilon)
        checks.positive("lipschitz", self.lipschitz)
        if not math.isfinite(self.scale):
            raise ValueError("epsilon: no quilt needs finite noise; raise epsilon.")

    @cached_property
    def scale(self) -> float:
        """Scale of the noise, in the unit of the query."""
        profile = quilt_profile(self.model, form=self.form, reach=self.reach, knows_others=False)
        return self.lipschitz * profile.noise_scale(self.epsilon)

    def simulate(self, key: PRNGKeyArray, values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Add noise of JAX's generator: the law of a release, for vmapped simulation only."""
        return values + self.scale * jax.random.laplace(key, values.shape, values.dtype)

    def release(self, values: Float[np.ndarray, " values"]) -> Float[np.ndarray, " values"]:
        """Add secret noise, drawn exactly (`gibbs_dp.privacy.noise`)."""
        return laplace_release(values, self.scale)
