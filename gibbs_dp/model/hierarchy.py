"""Hierarchical priors: entries of a dict whose law depends on the entries before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist
from jaxtyping import PRNGKeyArray

Conditional = Callable[[dict[str, Any]], Any]
ARRAYS = (jax.Array, np.ndarray)


def is_conditional(leaf: Any) -> bool:
    """Whether a part of a prior is a function of other parts, rather than a law or a tree of them.

    Modules and variables of network libraries are trees that can be called.
    """
    if not callable(leaf) or isinstance(leaf, (dist.Distribution, type)):
        return False
    parts = jax.tree.leaves(leaf, is_leaf=lambda x: isinstance(x, dist.Distribution))
    return not any(isinstance(part, ARRAYS) or hasattr(part, "log_prob") for part in parts)


def resolve(tree: dict[str, Any], theta: dict[str, Any]) -> dict[str, Any]:
    """Return every entry's law at given values; a function sees the entries before it.

    Parameters
    ----------
    tree
        Distributions, and functions ``earlier -> distribution``.
    theta
        Values of at least the entries that functions use.

    Returns
    -------
    dict
        Distributions by name.
    """
    found: dict[str, Any] = {}
    for name, leaf in tree.items():
        earlier = {k: theta[k] for k in found if k in theta}
        found[name] = _law(name, leaf, earlier) if is_conditional(leaf) else leaf
    return found


def draw(tree: dict[str, Any], key: PRNGKeyArray, sample: Callable[[Any, Any], Any]) -> Any:
    """Draw the entries in the order of the dict.

    Parameters
    ----------
    tree
        As in `resolve`.
    key
        JAX key, split among the entries.
    sample
        ``sample(law, key)`` of one entry.

    Returns
    -------
    dict
        Values by name.
    """
    theta: dict[str, Any] = {}
    for i, (name, leaf) in enumerate(tree.items()):
        law = _law(name, leaf, dict(theta)) if is_conditional(leaf) else leaf
        theta[name] = sample(law, jax.random.fold_in(key, i))
    return theta


def check_tree(tree: Any) -> None:
    """Raise a ValueError unless functions sit directly in a dict."""
    if not isinstance(tree, dict):
        raise ValueError(
            "prior: a function of other parts needs a dict to find them in; write "
            "{'scale': HalfNormal(1.0), 'weights': lambda earlier: Normal(0, earlier['scale'])}."
        )
    if any(isinstance(leaf, (dict, list, tuple)) for leaf in tree.values()):
        raise ValueError(
            "prior: a dict with functions of other parts cannot hold further dicts or lists; give "
            "every part a name of its own in one dict."
        )


def _law(name: str, leaf: Conditional, earlier: dict[str, Any]) -> Any:
    try:
        law = leaf(earlier)
    except KeyError as error:
        raise ValueError(
            f"prior: the function of {name!r} looks for {error}, which is not among the entries "
            f"written before it ({', '.join(earlier) or 'none'}); write that one first."
        ) from error
    if not isinstance(law, dist.Distribution):
        raise ValueError(
            f"prior: the function of {name!r} returned a {type(law).__name__}; it must return a "
            "NumPyro distribution."
        )
    return law
