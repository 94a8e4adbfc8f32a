"""Priors for parameters that come as a tree of arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import PyTree

from gibbs_dp.model.ball import NormalInBall


def normal_like(params: PyTree, scale: float | PyTree = 1.0) -> PyTree:
    """Independent normal priors around zero, in the shape of given parameters.

    For the parameters of a network: of Flax (``nnx.split(model, nnx.Param)[1]``), of Equinox
    (``eqx.partition(model, eqx.is_inexact_array)[0]``), or any other pytree of arrays.

    Parameters
    ----------
    params
        A pytree of floating-point arrays, of which only the shapes count.
    scale
        Standard deviation, one for all or a pytree of them like ``params``.

    Returns
    -------
    pytree
        A distribution in place of every array.

    Raises
    ------
    ValueError
        If something else than such arrays is among the parameters, or a scale is not positive.

    Examples
    --------
    >>> prior = normal_like({"weights": jnp.ones((3, 2)), "bias": jnp.zeros(2)}, 0.5)
    >>> prior["weights"].shape()
    (3, 2)
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(params)
    tree: Any = jax.tree.structure(params)
    if not leaves:
        raise ValueError("params: they hold no array; give the parameters of a model.")
    scales = [scale] * len(leaves)
    own: Any = jax.tree.structure(scale)
    if not jax.tree_util.treedef_is_leaf(own):
        if own != tree:
            raise ValueError("scale: give one number, or a tree like params with one for each.")
        scales = jax.tree.leaves(scale)
    return tree.unflatten(
        [_normal(path, leaf, s) for (path, leaf), s in zip(leaves, scales, strict=True)]
    )


def _normal(path: Any, leaf: Any, scale: Any) -> dist.Distribution:
    name = jax.tree_util.keystr(path) or "params"
    is_array = isinstance(leaf, (jax.Array, np.ndarray, np.generic, float, jax.ShapeDtypeStruct))
    if not is_array or not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
        what = f"of {jnp.result_type(leaf)}" if is_array else type(leaf).__name__
        raise ValueError(
            f"params: {name} is {what}, no array of floating-point numbers; keep "
            "such parts aside, as in eqx.partition(model, eqx.is_inexact_array) or "
            "nnx.split(model, nnx.Param, ...)."
        )
    width = np.asarray(scale, np.float64)
    if not (np.isfinite(width) & (width > 0)).all():
        raise ValueError(f"scale: must be positive and finite, got {scale} for {name}.")
    shape = jnp.shape(leaf)
    try:
        return dist.Normal(0.0, scale).expand(shape).to_event(len(shape))
    except (TypeError, ValueError):
        raise ValueError(
            f"scale: shape {width.shape} does not fit {name} of shape {shape}."
        ) from None


def normal_in_ball(dim: int, *, radius: float, scale: float) -> NormalInBall:
    """Gaussian prior around zero, truncated to a ball: strongly log-concave, and bounded.

    Parameters
    ----------
    dim
        Number of parameters.
    radius
        Of the ball.
    scale
        Standard deviation before truncation.

    Returns
    -------
    distribution
        A NumPyro distribution of vectors ``[dim]``.

    Raises
    ------
    ValueError
        Unless ``dim`` is at least 1, and radius and scale are positive and finite.

    Examples
    --------
    >>> normal_in_ball(3, radius=2.0, scale=0.5).shape()
    (3,)
    """
    return NormalInBall(dim, radius, scale)
