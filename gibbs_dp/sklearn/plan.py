"""What a fit is to do, settled before it looks at a value: mechanism, guarantee, how to draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.calibrate import Calibration, Target, calibrate_gamma
from gibbs_dp.privacy.guarantee import FINITE_PRECISION, Guarantee
from gibbs_dp.privacy.noise import Noise

Mechanism = Literal["gaussian", "direction", "posterior", "chain", "rejection"]
Draw = Callable[[np.ndarray, np.ndarray, Noise], "Float[np.ndarray, 'draws dim'] | None"]

SECRET = "the noise is made of the operating system's cryptographic random numbers."
EXACT = (
    "exact noise: each row is rounded to a lattice by itself, and what is added has its law "
    "exactly, on whole numbers (Canonne, Kamath & Steinke 2020; Karney 2016); only the result is "
    "rounded after that."
)
UNPROTECTED = (
    "running time, and whether a fit fails, are functions of the data that are not protected."
)


@dataclass(frozen=True)
class Facts:
    """What is public about a fit, and all that its plan may depend on.

    Parameters
    ----------
    n
        Number of rows; under add/remove a public upper bound.
    num_features
        Numbers of a row that the model weighs, the intercept included.
    num_outputs
        Columns of parameters: 1, or the number of classes where there are more than two.
    epsilon, delta
        The target; pure DP where ``delta`` is 0.
    adjacency
        Which tables count as neighbours.
    num_draws
        Draws released together.
    needs_proof
        Whether draws of a Markov chain may not pass for exact ones.
    """

    n: int
    num_features: int
    epsilon: float
    delta: float
    num_outputs: int = 1
    adjacency: Adjacency = "replace-one"
    num_draws: int = 1
    needs_proof: bool = False

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return self.num_features * self.num_outputs

    @property
    def target(self) -> Target:
        """The target, as calibration wants it."""
        if self.delta == 0:
            return Target(pure_epsilon=self.epsilon)
        return Target(epsilon=self.epsilon, delta=self.delta)

    def calibrate(self, posterior: GibbsPosterior, domain: Domain | None) -> Calibration:
        """Find the gamma that meets the target with exact draws."""
        return calibrate_gamma(
            posterior,
            self.target,
            n=self.n,
            adjacency=self.adjacency,
            domain=domain,
            num_draws=self.num_draws,
        )


@dataclass(frozen=True, eq=False)
class Plan:
    """A mechanism with its settings, its guarantee, and the function that draws.

    Parameters
    ----------
    mechanism
        Its name.
    told
        What it is, in words, with its settings.
    posterior, domain
        The Gibbs posterior that it draws from, and bounds that rows are clipped to.
    guarantee
        Of all draws together.
    draw
        From clipped features ``[rows, features]`` and labels to parameters ``[draws, dim]``; None
        where a chain fails.
    noise_square
        Mean square of the noise on a draw that is a noisy sum; 0 for other draws.
    """

    mechanism: Mechanism
    told: str
    posterior: GibbsPosterior
    domain: Domain
    guarantee: Guarantee
    draw: Draw = field(repr=False)
    noise_square: float = 0.0


def direct(guarantee: Guarantee) -> Guarantee:
    """Say that draws are made from the law itself, with secret noise and no idealized arithmetic.

    >>> direct(Guarantee("replace-one", "exact draw", 1, 1.0, 1.0, 0.0)).mechanism
    'direct draw'
    """
    caveats = tuple(text for text in guarantee.caveats if text != FINITE_PRECISION)
    return replace(
        guarantee,
        mechanism="direct draw",
        assumptions=(*guarantee.assumptions, EXACT),
        caveats=(*caveats, SECRET),
    )


def repeated(one: Callable[..., Any], num_draws: int) -> Callable[..., Any]:
    """Draw independently as often as asked.

    >>> repeated(lambda x: [x], 2)(3)
    array([[3],
           [3]])
    """
    return lambda *args: np.stack([one(*args) for _ in range(num_draws)])
