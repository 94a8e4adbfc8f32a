"""Draws as trees of xarray and as what ArviZ works on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from gibbs_dp._extras import require
from gibbs_dp._version import __version__

if TYPE_CHECKING:
    import xarray as xr


def as_xarray(
    leaves: dict[str, np.ndarray],
    stats: dict[str, np.ndarray],
    attributes: dict[str, Any],
    log_likelihood: Float[np.ndarray, "*batch chain draw n"] | None = None,
) -> xr.DataTree:
    """Make a tree with groups ``posterior``, ``sample_stats`` and, if given, ``log_likelihood``.

    Parameters
    ----------
    leaves
        Parameters by name, ``[chain, draw, ...]``, with a leading axis of datasets for a batch.
    stats
        ``lp [chain, draw]``, and numbers for every chain.
    attributes
        Of the file.
    log_likelihood
        Of every example.

    Returns
    -------
    xarray.DataTree
        With dims ``(chain, draw, ...)``.
    """
    import xarray as xr  # slow to import

    sizes = stats["lp"].shape
    lead = ("dataset",) * (len(sizes) - 2) + ("chain", "draw")
    posterior = {
        name: ((*lead, *(f"{name}_dim_{k}" for k in range(leaf.ndim - len(lead)))), leaf)
        for name, leaf in leaves.items()
    }
    chains = {name: (lead[: values.ndim], values) for name, values in stats.items()}
    coordinates = {name: np.arange(size) for name, size in zip(lead, sizes, strict=True)}
    told = {"gibbs_dp_kind": "draws", "gibbs_dp_version": __version__} | attributes
    groups = {
        "/": xr.Dataset(attrs=told),
        "/posterior": xr.Dataset(posterior, coordinates),
        "/sample_stats": xr.Dataset(chains, coordinates),
    }
    if log_likelihood is not None:
        examples = {"example": np.arange(log_likelihood.shape[-1])}
        groups["/log_likelihood"] = xr.Dataset(
            {"loss": ((*lead, "example"), log_likelihood)},
            coordinates | examples,
            {"description": "minus gamma times the loss of every example, in nats"},
        )
    return xr.DataTree.from_dict(groups)


def as_arviz(tree: xr.DataTree) -> Any:
    """Return ArviZ's own container: InferenceData before 1.0, the same tree from 1.0 on.

    Parameters
    ----------
    tree
        What `as_xarray` made.

    Returns
    -------
    InferenceData or DataTree
        By the version of ArviZ that is installed.

    Raises
    ------
    ValueError
        If none is.
    """
    arviz = require("arviz")
    if arviz.__version__.startswith("0."):
        return arviz.InferenceData.from_datatree(tree)
    return tree
