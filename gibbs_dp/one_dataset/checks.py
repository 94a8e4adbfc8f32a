"""What is given to the audit of one posterior, checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from gibbs_dp.information.checks import refuse_masked
from gibbs_dp.sampling.as_draws import chains_of
from gibbs_dp.sampling.diagnostics import refuse_copies

# Draws of all chains, and of each, below which nothing is said.
LEAST_DRAWS, LEAST_SAMPLES = 100, 10
# At larger sizes double precision has steps above a hundredth.
LARGEST = 1e14


def checked(given: Any) -> Float[np.ndarray, "chain draw example"]:
    """Return a table of finite numbers."""
    refuse_masked("log_likelihood", given)
    values = chains_of("log_likelihood", given)
    if values.dtype.kind not in "fiu":
        raise ValueError(
            f"log_likelihood: must be an array of numbers [chain, draw, example], got "
            f"{type(given).__name__} of {values.dtype}."
        )
    if values.ndim != 3:
        raise ValueError(
            f"log_likelihood: must have the three axes [chain, draw, example], got shape "
            f"{values.shape}; {_to_three_axes(values.shape)}."
        )
    if values.dtype.kind != "f" or values.dtype.itemsize < 4 or values.dtype.itemsize > 8:
        values = values.astype(np.float64)
    chains, draws, _ = values.shape
    if draws < LEAST_SAMPLES or chains * draws < LEAST_DRAWS:
        raise ValueError(
            f"log_likelihood: {chains} chains of {draws} draws are too few (at least "
            f"{LEAST_SAMPLES} a chain and {LEAST_DRAWS} in all); its axes are [chain, draw, "
            f"example], got shape {values.shape}."
        )
    if not np.isfinite(values.sum(dtype=np.float64)):
        bad = np.argwhere(~np.isfinite(values))
        where = ", ".join(map(str, bad[0].tolist()))
        raise ValueError(
            f"log_likelihood: {len(bad)} numbers are NaN or infinite, the first at [{where}]; "
            "leave examples out that were not observed, and find out which draws gave the others."
        )
    largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
    if largest > LARGEST:
        raise ValueError(
            f"log_likelihood: {largest:.3g} is its largest size, of which no differences are left "
            "in double precision; find out which draws gave it."
        )
    refuse_copies("log_likelihood", values)
    return np.asarray(values)


def _to_three_axes(shape: tuple[int, ...]) -> str:
    """Say what to do about another number of axes."""
    if len(shape) < 3:
        return "add the axis of chains as array[None], and give one column an example"
    if shape[0] == 1 and len(shape) > 3 and shape[1] < shape[2]:
        return "leave out the first axis, of length 1, as array[0]"
    reshaped = f"array.reshape({shape[0]}, {shape[1]}, -1)"
    if math.prod(shape[2:]) == max(shape[2:]):
        return f"its examples have an axis of length 1 too many: {reshaped}"
    return f"give one column an example, as {reshaped}, or add up what belongs to one example"


def checked_gamma(gamma: Any) -> float:
    """Return a positive number."""
    values = np.asarray(gamma)
    if values.shape == () and values.dtype.kind in "fiu" and values == 0:
        raise ValueError("gamma: 0 leaves the prior, which no example changes; give draws of more.")
    if values.shape != () or values.dtype.kind not in "fiu" or not 0 < values < np.inf:
        raise ValueError(f"gamma: must be a positive number, got {gamma!r}.")
    return float(values)


def checked_labels(argument: str, given: Sequence[Any] | np.ndarray, count: int) -> np.ndarray:
    """Return one whole number or one text for each example."""
    refuse_masked(argument, given)
    labels = np.asarray(given)
    if labels.shape != (count,):
        raise ValueError(
            f"{argument}: give one label for each of the {count} examples, got shape "
            f"{labels.shape}."
        )
    return labels.astype(np.int64) if labels.dtype.kind in "iub" else labels.astype(str)


def add_groups(
    values: Float[np.ndarray, "chain draw example"], labels: np.ndarray
) -> tuple[Float[np.ndarray, "chain draw group"], np.ndarray]:
    """Add the log-likelihoods of examples with one label.

    Examples
    --------
    >>> sums, labels = add_groups(np.array([[[1.0, 2.0, 4.0]]]), np.array(["b", "a", "b"]))
    >>> sums.tolist(), labels.tolist()
    ([[[5.0, 2.0]]], ['b', 'a'])
    """
    _, first, group = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    place = rank[group]
    sums = np.zeros((*values.shape[:2], first.size))
    for column, into in enumerate(place):
        sums[:, :, into] += values[:, :, column]
    return sums, labels[np.sort(first)]
