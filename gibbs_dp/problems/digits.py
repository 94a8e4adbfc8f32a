"""Handwritten digits of scikit-learn by a two-layer network with thousands of weights."""

from __future__ import annotations

import numpy as np

from gibbs_dp.model import GibbsPosterior, populations
from gibbs_dp.problems.base import Problem, scikit_learn_data
from gibbs_dp.problems.neural_network import NetworkLoss, network_prior


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
