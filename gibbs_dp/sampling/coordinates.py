"""The single numbers of a pytree of draws: their names, and what describes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, PyTree
from numpyro import diagnostics


def named_leaves(theta: PyTree) -> list[tuple[str, Any]]:
    """Name every leaf of a tree by its path, and a single array ``theta``.

    >>> named_leaves({"layers": [{"bias": 0.0, "weight": 1.0}]})
    [('layers.0.bias', 0.0), ('layers.0.weight', 1.0)]
    """
    pairs = jax.tree_util.tree_flatten_with_path(theta)[0]
    around = Counter(path[:-1] for path, _ in pairs)
    return [(_name(path, around) or "theta", leaf) for path, leaf in pairs]


def _name(path: tuple[Any, ...], around: Counter[tuple[Any, ...]]) -> str:
    # Flax NNX wraps every array in a variable, whose only part is its value.
    if len(path) > 1 and getattr(path[-1], "name", None) == "value" and around[path[:-1]] == 1:
        path = path[:-1]
    return ".".join(map(_part, path))


def _part(key: Any) -> str:
    """Say where a step of a path leads: dicts have keys, sequences an index, classes names."""
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def label(name: str, index: tuple[int, ...]) -> str:
    """Name one number of a leaf.

    >>> label("theta", (0, 2)), label("scale", ())
    ('theta[0,2]', 'scale')
    """
    return f"{name}[{','.join(map(str, index))}]" if index else name


def coordinates(
    tree: dict[str, np.ndarray],
) -> Iterator[tuple[str, Float[np.ndarray, "chain draw"]]]:
    """Go through all numbers of a tree, ``[chain, draw]`` each."""
    for name, leaf in tree.items():
        for index in np.ndindex(leaf.shape[2:]):
            yield (
                label(name, index),
                np.asarray(leaf[(slice(None), slice(None), *index)], np.float64),
            )


def describe(values: Float[np.ndarray, "chain draw"], is_path: bool = False) -> dict[str, float]:
    """Moments, quantiles and diagnostics of one coordinate.

    Particles of SMC (``is_path``) have no order in time: how many draws they are worth is what
    their islands' means say.
    """
    low, high = np.quantile(values, [0.05, 0.95])
    moving = values.std() > 0
    worth = _island_worth if is_path else diagnostics.effective_sample_size
    return {
        "mean": float(values.mean()),
        "sd": float(values.std(ddof=1)),
        "5%": float(low),
        "95%": float(high),
        "ess": float(worth(values)) if moving else float("nan"),
        "r_hat": float(diagnostics.split_gelman_rubin(values)) if moving else float("nan"),
    }


def _island_worth(values: Float[np.ndarray, "island particle"]) -> float:
    """Independent draws whose mean is as noisy as the islands' means are; at most all particles."""
    within = values.var(axis=1, ddof=1).mean()
    between = values.mean(axis=1).var(ddof=1)
    return values.size * min(1.0, within / max(values.shape[1] * between, np.finfo(float).tiny))
