"""Conditional mutual information by supersamples, exactly (Steinke & Zakynthinou 2020).

A supersample ``Zt`` has ``n`` pairs of independent examples; fair bits ``U`` choose the dataset,
one example of each pair. What the output tells about ``U`` is finite for every algorithm, at most
``n log 2``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import logsumexp

from gibbs_dp.exact.types import (
    TypeTable,
    enumerate_types,
    log_type_probabilities,
    num_types,
    ordered_datasets,
    require_cells,
    type_index,
)
from gibbs_dp.information.divergences import batched

MAX_SELECTION_CELLS = 200_000_000
_CHUNK_CELLS = 1 << 20
# Losses that differ by less than this share of their range are the same.
_SAME_LOSS = 1e-12
Rows = Callable[[Int[np.ndarray, "supersamples selections n"]], Int[np.ndarray, "..."]]


class SupersampleInformation(NamedTuple):
    """What an output tells about the choice of the dataset from a supersample, in nats.

    ``conditional_mutual_information`` is ``CMI = I(W; U | Zt)``, at most ``n log 2``;
    ``evaluated`` is ``I(losses of W on Zt; U | Zt)``, never larger, and equal to it for Gibbs
    posteriors with a sum of losses; ``individual`` is the mean over ``i`` of ``I(W; U_i | Zt)``,
    and ``given_others`` that of ``I(W; U_i | U_-i, Zt) = E JS(p, p')`` over replace-one pairs:
    ``n individual <= CMI <= n given_others``.
    """

    conditional_mutual_information: float
    evaluated: float
    individual: float
    given_others: float


def of_types(table: TypeTable, loss: Float[np.ndarray, "outputs values"]) -> SupersampleInformation:
    """Figures of a symmetric algorithm, by types of supersamples.

    >>> table = TypeTable(1, np.array([0.5, 0.5]), np.log([[0.9, 0.1], [0.1, 0.9]]))
    >>> found = of_types(table, np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> round(found.conditional_mutual_information, 6)  # the pair differs half of the time
    0.184032
    """
    pairs, probs = _pairs(table.data_probs)
    require_cells(
        "supersamples x selections x outputs",
        num_types(table.n, probs.size) * 2**table.n * table.log_laws.shape[1],
        MAX_SELECTION_CELLS,
    )
    counts = enumerate_types(table.n, probs.size)
    kinds = np.array([np.repeat(np.arange(probs.size), row) for row in counts])
    size = table.data_probs.size

    def rows(values: Int[np.ndarray, "supersamples selections n"]) -> Int[np.ndarray, ...]:
        chosen = (values[..., None] == np.arange(size)).sum(axis=2)
        return type_index(chosen.reshape(-1, size)).reshape(chosen.shape[:2])

    weight = log_type_probabilities(counts, probs)
    return _average(table.log_laws, loss, pairs[kinds], weight, rows)


def of_channel(
    log_laws: Float[np.ndarray, "datasets outputs"],
    data_probs: Float[np.ndarray, " values"],
    n: int,
    loss: Float[np.ndarray, "outputs values"],
) -> SupersampleInformation:
    """Figures of any algorithm on ordered datasets; means over the places ``i``.

    >>> laws = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    >>> found = of_channel(laws, np.array([0.5, 0.5]), 1, np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> round(found.evaluated / math.log(2), 6)
    0.5
    """
    pairs, probs = _pairs(data_probs)
    size = data_probs.size
    require_cells(
        "supersamples x selections x outputs",
        probs.size**n * 2**n * log_laws.shape[1],
        MAX_SELECTION_CELLS,
    )
    kinds = ordered_datasets(n, probs.size)
    place = size ** np.arange(n - 1, -1, -1)

    def rows(values: Int[np.ndarray, "supersamples selections n"]) -> Int[np.ndarray, ...]:
        return np.asarray(values @ place)

    weight = np.asarray(np.log(probs)[kinds].sum(axis=1))
    return _average(log_laws, loss, pairs[kinds], weight, rows)


def _pairs(
    data_probs: Float[np.ndarray, " values"],
) -> tuple[Int[np.ndarray, "kinds 2"], Float[np.ndarray, " kinds"]]:
    """Unordered pairs of values that occur, and their probabilities: fair bits undo the order."""
    seen = np.flatnonzero(data_probs)
    pairs = np.array(list(itertools.combinations_with_replacement(seen, 2)))
    probs = data_probs[pairs].prod(axis=1) * np.where(pairs[:, 0] == pairs[:, 1], 1.0, 2.0)
    return pairs, probs / probs.sum()


def _average(
    log_laws: Float[np.ndarray, "datasets outputs"],
    loss: Float[np.ndarray, "outputs values"],
    supersamples: Int[np.ndarray, "supersamples n 2"],
    log_weight: Float[np.ndarray, " supersamples"],
    rows: Rows,
) -> SupersampleInformation:
    n = supersamples.shape[1]
    bits = ordered_datasets(n, 2)  # selections, first bit slowest
    step = max(1, _CHUNK_CELLS // (bits.shape[0] * max(log_laws.shape[1], n)))
    total = np.zeros(4)
    for start in range(0, supersamples.shape[0], step):
        part = supersamples[start : start + step]
        laws = log_laws[rows(part[:, np.arange(n), bits])]
        present = np.zeros((part.shape[0], loss.shape[1]), bool)
        np.put_along_axis(present, part.reshape(part.shape[0], -1), True, axis=1)
        weight = np.exp(log_weight[start : start + step])
        total += weight @ _figures(laws, loss, present)
    return SupersampleInformation(*(float(x) for x in total))


def _figures(
    laws: Float[np.ndarray, "supersamples selections outputs"],
    loss: Float[np.ndarray, "outputs values"],
    present: Bool[np.ndarray, "supersamples values"],
) -> Float[np.ndarray, "supersamples 4"]:
    """Compute the four informations of every supersample."""
    count, selections, outputs = laws.shape
    n = selections.bit_length() - 1
    evaluated = np.empty(count)
    masks, which = np.unique(present, axis=0, return_inverse=True)
    for k, mask in enumerate(masks):
        rows = np.flatnonzero(which.ravel() == k)
        label = _same_losses(loss[:, mask])
        merged = np.full((rows.size, selections, label.max() + 1), -np.inf)
        for group in range(merged.shape[2]):
            merged[:, :, group] = logsumexp(laws[rows][:, :, label == group], axis=2)
        evaluated[rows] = _information(merged)
    individual, given_others = np.zeros(count), np.zeros(count)
    for i in range(n):
        split = laws.reshape(count, 2**i, 2, -1, outputs)
        zero, one = split[:, :, 0], split[:, :, 1]
        given_others += batched.jensen_shannon(zero, one).mean(axis=(1, 2)) / n
        share = math.log(selections // 2)
        averaged = (logsumexp(side, axis=(1, 2)) - share for side in (zero, one))
        individual += batched.jensen_shannon(*averaged) / n
    return np.stack([_information(laws), evaluated, individual, given_others], axis=1)


def _information(
    laws: Float[np.ndarray, "supersamples selections outputs"],
) -> Float[np.ndarray, " supersamples"]:
    """Information between output and a uniform selection, of every supersample."""
    mixed = logsumexp(laws, axis=1, keepdims=True) - math.log(laws.shape[1])
    return np.asarray(batched.kl(laws, np.broadcast_to(mixed, laws.shape)).mean(axis=1))


def _same_losses(loss: Float[np.ndarray, "outputs present"]) -> Int[np.ndarray, " outputs"]:
    """Give outputs with the same losses the same number."""
    unit = float(np.ptp(loss)) * _SAME_LOSS or 1.0
    _, label = np.unique(np.round(loss / unit), axis=0, return_inverse=True)
    return np.asarray(label).ravel()
