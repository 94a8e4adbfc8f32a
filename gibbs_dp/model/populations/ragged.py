"""Datasets of different lengths in one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PyTree

from gibbs_dp.model.examples import as_examples, num_examples


def pad(datasets: Sequence[PyTree]) -> tuple[PyTree, Bool[np.ndarray, "datasets n"]]:
    """Stack datasets of different lengths, padding the shorter ones with zeros.

    Parameters
    ----------
    datasets
        Pytrees of one structure whose leaves have a leading axis of examples.

    Returns
    -------
    data, mask
        Leaves ``[datasets, n, ...]`` with the largest ``n``, and which examples are real, for
        ``gibbs_dp.sample(posterior, data, mask=mask, is_batch=True)``.

    Raises
    ------
    ValueError
        If there are none, or they differ by more than their length.

    Examples
    --------
    >>> data, mask = pad([np.ones(2), np.ones(3)])
    >>> data.tolist(), mask.sum(axis=1).tolist()
    ([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]], [2, 3])
    """
    if not datasets:
        raise ValueError("datasets: the list is empty; give at least one dataset.")
    checked = [as_examples(data, f"datasets[{i}]") for i, data in enumerate(datasets)]
    lengths = np.array([num_examples(data) for data in checked])
    longest = int(lengths.max())

    def stack(*leaves: Any) -> Array:
        return jnp.stack(
            [jnp.pad(a, [(0, longest - len(a))] + [(0, 0)] * (a.ndim - 1)) for a in leaves]
        )

    try:
        data = jax.tree.map(stack, *checked)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "datasets: they differ by more than their length "
            f"({str(error).strip().splitlines()[0]}); give all one structure."
        ) from error
    return data, np.arange(longest) < lengths[:, None]
