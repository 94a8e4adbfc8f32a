"""The Wisconsin breast-cancer table that comes with scikit-learn."""

from __future__ import annotations

import numpy as np

from gibbs_dp.model import GibbsPosterior, losses, populations
from gibbs_dp.problems.base import Problem, scikit_learn_data
from gibbs_dp.problems.columns import standardize
from gibbs_dp.problems.neural_network import NetworkLoss, network_prior
from gibbs_dp.problems.table import table_problem


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

    Raises
    ------
    ValueError
        If scikit-learn is missing or the scale is not positive.
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

    Raises
    ------
    ValueError
        If scikit-learn is missing or the scale is not positive.
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

    Raises
    ------
    ValueError
        If scikit-learn is missing or a size or the scale is not positive.
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
