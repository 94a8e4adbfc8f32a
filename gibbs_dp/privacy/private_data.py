"""Private examples before anything looks at them: how many they are, and projected on a domain."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import jax
import numpy as np
from jaxtyping import PyTree

from gibbs_dp._jaxlib.whole_cache import nothing_kept
from gibbs_dp.information import checks
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.losses import Loss
from gibbs_dp.model.posterior import GibbsPosterior


@contextmanager
def unobserved() -> Iterator[None]:
    """Work on private values: no warning tells of them, and no compiled program is kept.

    Programs have the shapes of the data and of what was done to them: how many rows there are under
    add/remove, and how often chains were run again.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"), nothing_kept():
        warnings.simplefilter("ignore")
        yield


def num_rows(data: PyTree) -> int:
    """Count the examples, from shapes alone.

    Raises
    ------
    ValueError
        If the leaves have no common leading axis, or are masked arrays.
    """
    checks.refuse_masked("data", data, is_private=True)
    lengths = {len(leaf) for leaf in jax.tree.leaves(data) if getattr(leaf, "ndim", 1)}
    if len(lengths) != 1 or lengths == {0}:
        raise ValueError("data: give arrays with one common leading axis of examples.")
    return int(lengths.pop())


def dataset_size(rows: int, adjacency: Adjacency, n: int | None) -> int:
    """Size that the guarantee is for: public under replace-one, a public bound under add/remove.

    Raises
    ------
    ValueError
        If it is missing, superfluous, or below the data's.
    """
    checks.adjacency(adjacency)
    if n is not None:
        n = checks.count("n", n)
    if adjacency == "replace-one":
        if n not in (None, rows):
            raise ValueError("n: under replace-one it is the number of rows; leave it out.")
        return rows
    if n is None or n < rows:
        raise ValueError(
            "n: under add-remove give a public upper bound on the number of examples, at least as "
            "large as the data."
        )
    return n


def clip_data(posterior: GibbsPosterior, data: PyTree, domain: Domain) -> PyTree:
    """Project every example on the domain, as the loss asks."""
    if isinstance(posterior.loss, Loss):
        return posterior.loss.clip(data, domain)
    return domain.clip(data)
