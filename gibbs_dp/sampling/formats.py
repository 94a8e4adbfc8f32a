"""Draws in the forms of other libraries: trees of xarray, ArviZ, log-likelihoods of examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from gibbs_dp._extras import require
from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp._version import __version__
from gibbs_dp.model.examples import num_examples
from gibbs_dp.model.posterior import GibbsPosterior

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


# Log-likelihoods of single examples at draws of a posterior.

# Losses that are in memory at a time, beside the result.
AT_ONCE = 2**22


def _of_draws(posterior: GibbsPosterior, size: int, theta: PyTree, data: PyTree) -> Array:
    return jax.lax.map(lambda t: posterior.losses(t, data), theta, batch_size=size)


_losses = on_default_backend(_of_draws, "posterior", "size")


def log_likelihoods(
    posterior: GibbsPosterior, data: PyTree, theta: PyTree, gamma: float, is_batch: bool
) -> Float[np.ndarray, "*batch chain draw n"]:
    """Return minus gamma times the loss of every example at every draw.

    Parameters
    ----------
    posterior, data, gamma
        What was sampled.
    theta
        Draws: leaves ``[chain, draw, ...]``, with a leading axis of datasets for a batch.
    is_batch
        Whether the data are a batch of datasets.

    Returns
    -------
    array
        In nats.

    Raises
    ------
    ValueError
        For a structured loss that examples have no share of.
    """
    if is_batch:
        parts = [
            log_likelihoods(posterior, _row(data, i), _row(theta, i), gamma, False)
            for i in range(jax.tree.leaves(theta)[0].shape[0])
        ]
        return np.stack(parts)
    lead = jax.tree.leaves(theta)[0].shape[:2]
    flat = jax.tree.map(lambda a: jnp.asarray(a).reshape(-1, *np.shape(a)[2:]), theta)
    size = max(1, min(lead[0] * lead[1], AT_ONCE // num_examples(data)))
    found = np.asarray(_losses(posterior, size, flat, data))
    return -gamma * found.reshape(*lead, -1)


def _row(tree: PyTree, index: int) -> Any:
    return jax.tree.map(lambda a: a[index], tree)
