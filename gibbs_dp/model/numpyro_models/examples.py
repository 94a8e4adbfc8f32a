"""Where a model's examples lie: an axis of its log-likelihoods, and of its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from gibbs_dp.model.numpyro_models.sites import Observed

SERIES = (
    "give the model arguments with a row for each of them; for a time series two, the values "
    "before and those after, as in args=(y[:-1], y[1:])"
)


def find_axes(
    observed: Mapping[str, Observed], plate: str | None, structured: bool, is_told: bool = False
) -> tuple[dict[str, int | None], int]:
    """Find the axis of examples of every observed site, and how many examples there are.

    Parameters
    ----------
    observed
        The sites that gamma tempers.
    plate
        The plate whose members are the examples, if it was named.
    structured
        Whether one log-likelihood for all examples will do.
    is_told
        Whether the user said which arguments hold the examples: rows of different plates may then
        be parts of one.

    Returns
    -------
    tuple
        Axes, counted from the right (None: no such axis), and the number of examples.

    Raises
    ------
    ValueError
        If there is no such axis, or sites do not agree.
    """
    axes: dict[str, int | None] = {}
    sizes: dict[str, int] = {}
    for name, site in observed.items():
        axis = _axis(name, site, plate)
        axes[name] = axis
        if axis is not None:
            sizes[name] = site.batch_shape[axis]
            continue
        if not structured:
            raise ValueError(
                f"model: {name!r} has one log-likelihood for all examples; drop .to_event(1) where "
                "they are independent given the parameters, or pass structured=True (a Gaussian "
                "process)."
            )
        if not site.value_shape:
            raise ValueError(f"model: {name!r} observes a single number, which is no dataset.")
        sizes[name] = site.value_shape[0]
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{size} of {name!r}" for name, size in sizes.items())
        raise ValueError(
            f"observed: the sites have different numbers of examples ({told}); name the plate that "
            "they share with group=."
        )
    owners = {
        name: frame
        for name, axis in axes.items()
        for frame, at in observed[name].plates.items()
        if axis is not None and at == axis
    }
    if len(set(owners.values())) > 1 and not is_told:
        told = " and ".join(f"{name!r} in plate {frame!r}" for name, frame in owners.items())
        raise ValueError(
            f"observed: {told} are rows of different examples; take one of the sites, with "
            "examples=(...) naming its arguments alone, or put them into one plate where row i of "
            "each belongs to one example (or say so by examples=(...) naming the arguments of all)."
        )
    n = next(iter(sizes.values()))
    if n < 2:
        raise ValueError(f"model: {next(iter(sizes))!r} observes one example; give at least 2.")
    return axes, n


def _axis(name: str, site: Observed, plate: str | None) -> int | None:
    if plate is not None:
        if plate not in site.plates:
            raise ValueError(f"group: the observed site {name!r} lies outside plate {plate!r}.")
        return site.plates[plate]
    if len(site.batch_shape) < 2:
        return -1 if site.batch_shape else None
    first = -len(site.batch_shape)
    if list(site.plates.values()) == [first]:
        return first
    if site.plates:
        sizes = [f"{k} ({site.batch_shape[at]})" for k, at in site.plates.items()]
        which = " or ".join(f"group={frame!r}" for frame in site.plates)
        raise ValueError(
            f"model: the observed site {name!r} of batch shape {site.batch_shape} lies in the "
            f"plates {', '.join(sizes)}; say which of them holds the examples, whose members are "
            f"replaced as a whole (a person with all answers), {which}, or put the rows in a plate "
            "too."
        )
    return first


def find_examples(
    values: Mapping[str, Any],
    n: int,
    examples: Sequence[str] | Mapping[str, int] | None,
    observed_axes: Mapping[tuple[int, ...], int],
) -> dict[str, tuple[int | None, ...]]:
    """Find the axis of examples of every array among the arguments.

    Parameters
    ----------
    values
        The arguments.
    n
        Number of examples.
    examples
        Names of the arguments that hold examples, or their axes by name; None: every array with
        ``n`` rows.
    observed_axes
        By the shape of what is observed: which axis of it is of examples.

    Returns
    -------
    dict
        By argument: the axis, or None, for every leaf.

    Raises
    ------
    ValueError
        For names that do not exist, and arrays of which it is not clear.
    """
    if examples is None:
        return {
            name: tuple(_guess(name, leaf, n, observed_axes) for leaf in jax.tree.leaves(value))
            for name, value in values.items()
        }
    if isinstance(examples, str):
        examples = (examples,)
    wanted = dict(examples) if isinstance(examples, Mapping) else dict.fromkeys(examples, 0)
    unknown = [name for name in wanted if name not in values]
    if unknown:
        raise ValueError(
            f"examples: the model has no argument {unknown[0]!r}; they are {', '.join(values)}."
        )
    return {
        name: tuple(_stated(name, leaf, n, wanted.get(name)) for leaf in jax.tree.leaves(value))
        for name, value in values.items()
    }


def _guess(
    name: str, leaf: Any, n: int, observed_axes: Mapping[tuple[int, ...], int]
) -> int | None:
    if not isinstance(leaf, (np.ndarray, jax.Array)):
        return None
    if leaf.shape in observed_axes:
        return observed_axes[leaf.shape]
    at = [axis for axis, size in enumerate(leaf.shape) if size == n]
    if at in ([], [0]):
        return at[0] if at else None
    raise ValueError(
        f"args: {name!r} of shape {leaf.shape} has {n} entries, as many as there are examples, on "
        f"axis {' and '.join(map(str, at))}; say which arguments hold examples, and on which axis, "
        f"as in examples={{{name!r}: {at[0]}}}."
    )


def _stated(name: str, leaf: Any, n: int, axis: int | None) -> int | None:
    if axis is None:
        return None
    shape = np.shape(leaf)
    if not -len(shape) <= axis < len(shape) or shape[axis] != n:
        raise ValueError(
            f"examples: axis {axis} of {name!r}, of shape {shape}, is not of {n} examples; "
            f"{SERIES}."
        )
    return axis % len(shape)
