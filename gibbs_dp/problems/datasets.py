"""Problems on the tables that come with scikit-learn, and the small network for its digits."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.model import GibbsPosterior, losses, populations
from gibbs_dp.model.losses.classification import cross_entropy
from gibbs_dp.problems.base import Problem, scikit_learn_data
from gibbs_dp.problems.columns import standardize
from gibbs_dp.problems.table import table_problem
from gibbs_dp.random import bernoulli, normal

Weights = dict[str, Float[Array, "..."]]
Examples = tuple[Float[Array, "n inputs"], Int[Array, " n"]]

FLIP = 0.1


@dataclass(frozen=True)
class NetworkLoss:
    """Cross-entropy of ``softmax(tanh(x V + a) W + b)`` at the label, in nats."""

    def __call__(
        self, theta: Weights, z: tuple[Float[Array, " inputs"], Int[Array, ""]]
    ) -> Float[Array, ""]:
        """Loss of one example ``(x [inputs], y)``."""
        x, y = z
        return self.batch(theta, (x[None], y[None]))[0]

    def batch(self, theta: Weights, data: Examples) -> Float[Array, " n"]:
        """Losses of ``(x [n, inputs], y [n])``."""
        x, y = data
        hidden = jnp.tanh(matmul(x, theta["hidden_weight"]) + theta["hidden_bias"])
        return cross_entropy(matmul(hidden, theta["output_weight"]) + theta["output_bias"], y)


def network_prior(
    num_inputs: int, num_hidden: int, num_classes: int, scale: float | None
) -> dict[str, dist.Distribution]:
    """Independent normals; a weight's standard deviation is ``scale / sqrt(fan-in)``."""
    if num_hidden < 1 or num_inputs < 1:
        raise ValueError(f"num_hidden, dim: must be at least 1, got {num_hidden} and {num_inputs}.")
    if scale is None or not (scale > 0 and isfinite(scale)):
        raise ValueError(
            f"prior_scale: must be positive and finite, got {scale}; a flat prior on a network is "
            "improper."
        )
    shapes = {
        "hidden_weight": ((num_inputs, num_hidden), num_inputs),
        "hidden_bias": ((num_hidden,), 1),
        "output_weight": ((num_hidden, num_classes), num_hidden),
        "output_bias": ((num_classes,), 1),
    }
    return {
        name: dist.Normal(jnp.zeros(shape), scale / fan_in**0.5)
        for name, (shape, fan_in) in shapes.items()
    }


@dataclass(frozen=True)
class Quadrants:
    """Standard normal inputs; the label says whether the first two agree in sign, 10% flipped."""

    dim: int

    def __call__(self, key: PRNGKeyArray, n: int) -> Examples:
        """Return ``(x [n, dim], y [n])``."""
        x_key, flip_key = jax.random.split(key)
        x = normal(x_key, (n, self.dim))
        flipped = bernoulli(flip_key, FLIP, (n,))
        return x, ((x[:, 0] * x[:, 1] > 0) ^ flipped).astype(jnp.int32)


def neural_network(dim: int = 2, num_hidden: int = 8, prior_scale: float | None = 2.0) -> Problem:
    """Two classes by a two-layer network with a Gaussian prior; ``gamma = 1`` is Bayesian.

    Permuting hidden units or flipping their signs does not change the loss: the posterior has
    ``num_hidden! 2^num_hidden`` equal modes, at least, and single weights have no meaning.
    Losses have one: on-average KL, generalization error, and empirical, population and excess risk
    are the same in all of these modes.

    Parameters
    ----------
    dim
        Number of inputs, of which two matter.
    num_hidden
        Hidden units.
    prior_scale
        Standard deviation of the biases, and of the weights times the root of their fan-in.

    Returns
    -------
    Problem
        Ready for ``gibbs_dp.audit``.
    """
    if dim < 2:
        raise ValueError(f"dim: the labels depend on two inputs; give at least 2, got {dim}.")
    return Problem(
        name="neural-network",
        posterior=GibbsPosterior(NetworkLoss(), network_prior(dim, num_hidden, 2, prior_scale)),
        population=Quadrants(dim),
        n=100,
        gammas=(0.1, 1.0),
        num_datasets=256,
        description="Do two inputs agree in sign? A two-layer network, cross-entropy.",
    )


def breast_cancer(prior_scale: float | None = 1.0, split: bool = False) -> Problem:
    """Logistic regression on 569 tumours with 30 measurements; label 1 is benign.

    Parameters
    ----------
    prior_scale
        Standard deviation of the prior on each weight (None or infinity: flat, improper here).
    split
        Make training rows and ghosts disjoint rows of the table, instead of drawing them with
        replacement.

    Returns
    -------
    Problem
        Ready for ``gibbs_dp.audit``.
    """
    measurements, labels = scikit_learn_data("breast-cancer", "load_breast_cancer")
    return table_problem(
        name="breast-cancer",
        x=standardize(measurements),
        y=labels.astype(float),
        loss=losses.logistic,
        prior_scale=prior_scale,
        split=split,
        description="Wisconsin breast cancer (scikit-learn): 30 standardized measurements.",
    )


# The diabetes table of Efron, Hastie, Johnstone & Tibshirani (2004), with scikit-learn.


def diabetes(prior_scale: float | None = 1.0, split: bool = False) -> Problem:
    """Squared loss on 442 patients with 10 measurements; the target is disease progression.

    Parameters
    ----------
    prior_scale
        Standard deviation of the prior on each weight; None or infinity for a flat one.
    split
        Make training rows and ghosts disjoint rows of the table, instead of drawing them with
        replacement.

    Returns
    -------
    Problem
        Ready for ``gibbs_dp.audit``.
    """
    measurements, progression = scikit_learn_data("diabetes", "load_diabetes")
    return table_problem(
        name="diabetes",
        x=standardize(measurements),
        y=standardize(progression),
        loss=losses.squared,
        prior_scale=prior_scale,
        split=split,
        description="Diabetes progression (scikit-learn): 10 standardized measurements.",
        notes=("the target is standardized: risks are in variances of it.",),
    )


# Handwritten digits of scikit-learn by a two-layer network with thousands of weights.


def digits(num_hidden: int = 70, prior_scale: float | None = 1.0, split: bool = False) -> Problem:
    """Ten classes of 8 x 8 images; with 70 hidden units theta has 5,260 coordinates.

    These are too many for a Laplace fit: HMC adapts a scale per coordinate, and mutual information
    is left out. Every posterior takes seconds, so few datasets are the default; the one-sided
    estimator avoids sampling replaced posteriors, nine times as many.

    Parameters
    ----------
    num_hidden
        Hidden units; theta has ``75 num_hidden + 10`` coordinates.
    prior_scale
        Standard deviation of the biases, and of the weights times the root of their fan-in.
    split
        Make training rows and ghosts disjoint rows of the table, instead of drawing them with
        replacement.

    Returns
    -------
    Problem
        Ready for ``gibbs_dp.audit``.
    """
    images, labels = scikit_learn_data("digits", "load_digits")
    pixels = (images - images.mean()) / images.std()
    return Problem(
        name="digits",
        posterior=GibbsPosterior(NetworkLoss(), network_prior(64, num_hidden, 10, prior_scale)),
        population=populations.Table(
            (pixels.astype(np.float32), labels.astype(np.int32)), replace=not split
        ),
        n=100,
        gammas=(0.1, 1.0),
        num_datasets=32,
        notes=(
            "every posterior takes seconds: estimator 'one-sided' samples a tenth as many as "
            "'two-sided', which 'auto' may choose above about 0.1 nats.",
        ),
        description="Digits (scikit-learn): 1,797 images of 64 pixels, a two-layer network.",
    )
