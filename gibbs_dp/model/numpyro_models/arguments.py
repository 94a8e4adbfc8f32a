"""Arguments of a model: which are examples, which stay as they are."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from gibbs_dp.information.checks import refuse_masked
from gibbs_dp.model.examples import as_examples, num_examples

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, eq=False)
class Arguments:
    """A call of a model, taken apart into examples and the rest.

    Parameters
    ----------
    values
        Every argument by its name, as it was given.
    num_positional
        So many of them, the first, are given by position.
    axes
        By argument, for every leaf of it: the axis of examples, or None where it has none.
    counts
        Arguments that are the number of examples, and follow it.
    no_examples
        Arguments that were declared to hold none: the model may look at their values.
    """

    values: dict[str, Any] = field(repr=False)  # all of the data
    num_positional: int
    axes: dict[str, tuple[int | None, ...]]
    counts: tuple[str, ...] = ()
    no_examples: tuple[str, ...] = ()

    def examples(self) -> dict[str, PyTree]:
        """Return what was given of examples, by argument, the axis of examples first.

        Raises
        ------
        ValueError
            If they are no finite numbers.
        """
        found = {}
        for name, axes in self.axes.items():
            if any(axis is not None for axis in axes):
                leaves = jax.tree.leaves(self.values[name])
                parts = [
                    None if axis is None else np.moveaxis(np.asarray(leaf), axis, 0)
                    for leaf, axis in zip(leaves, axes, strict=True)
                ]
                found[name] = jax.tree.unflatten(jax.tree.structure(self.values[name]), parts)
        for leaf in jax.tree.leaves(found):
            if leaf.dtype.kind == "f" and np.isnan(leaf).any():
                raise ValueError(
                    f"args: {int(np.isnan(leaf).sum())} values are NaN; leave those rows out, or, "
                    "where the model masks some values of a row, fill in numbers there, as in "
                    "np.nan_to_num(y), with the mask as an argument: gradients of NaN are NaN."
                )
        return as_examples(found, "args")

    def call(self, data: Mapping[str, PyTree]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Put examples in their places, any number of them.

        Returns
        -------
        tuple
            Positional arguments, and named ones.

        Raises
        ------
        ValueError
            If the data are not the arguments by name.
        """
        wanted = self.examples_of
        if not isinstance(data, Mapping) or set(data) != set(wanted):
            got = ", ".join(data) if isinstance(data, Mapping) else type(data).__name__
            raise ValueError(
                f"data: give a dict of the model's arguments {', '.join(wanted)}, as "
                f"posterior.data is; got {got}."
            )
        n = num_examples(dict(data)) if data else None
        full = {}
        for name, value in self.values.items():
            if name in self.counts:
                full[name] = n
            elif name in data:
                full[name] = self._filled(name, data[name])
            else:
                as_seen = _with_values if name in self.no_examples else _fixed
                full[name] = jax.tree.map(as_seen, value)
        names = list(full)
        positional, named = names[: self.num_positional], names[self.num_positional :]
        return tuple(full[name] for name in positional), {name: full[name] for name in named}

    @property
    def examples_of(self) -> tuple[str, ...]:
        """Names of the arguments that hold examples."""
        return tuple(k for k, axes in self.axes.items() if any(a is not None for a in axes))

    def _filled(self, name: str, part: PyTree) -> PyTree:
        leaves = jax.tree.leaves(self.values[name])
        moved = iter(jax.tree.leaves(part))
        filled = [
            _fixed(leaf) if axis is None else _moved(next(moved), axis)
            for leaf, axis in zip(leaves, self.axes[name], strict=True)
        ]
        return jax.tree.unflatten(jax.tree.structure(self.values[name]), filled)


class _Fixed(np.ndarray):
    """An array that a model may look at, as in int(x.max()), and look up, as in x[rows].

    JAX's arrays have no values inside a program; NumPy's cannot be looked up at traced places.
    """

    def __getitem__(self, index: Any) -> Any:
        parts = index if isinstance(index, tuple) else (index,)
        if any(isinstance(part, jax.core.Tracer) for part in parts):
            return jnp.asarray(np.asarray(self))[index]
        return super().__getitem__(index)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = [np.asarray(x) if isinstance(x, _Fixed) else x for x in inputs]
        if method == "__call__" and any(isinstance(x, jax.Array) for x in plain):
            return getattr(jnp, ufunc.__name__)(*plain, **kwargs)
        found = getattr(ufunc, method)(*plain, **kwargs)
        return found.view(_Fixed) if isinstance(found, np.ndarray) else found


def _fixed(leaf: Any) -> Any:
    """NumPy's arrays cannot be looked up at traced places, as in means[group]."""
    is_numeric = isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fiub"
    return jnp.asarray(leaf) if is_numeric else leaf


def _with_values(leaf: Any) -> Any:
    """Give a model an array of no examples, of which it may know the values."""
    is_numeric = isinstance(leaf, (np.ndarray, jax.Array)) and leaf.dtype.kind in "fiub"
    if not is_numeric or isinstance(leaf, jax.core.Tracer):
        return leaf
    array = np.asarray(leaf)
    # As JAX would have them: a product with float64 would otherwise be of another type.
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype)).view(_Fixed)


def _moved(leaf: Any, axis: int) -> Any:
    return leaf if axis == 0 else jnp.moveaxis(leaf, 0, axis)


def named(
    model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Name positional arguments after the model's parameters.

    >>> def model(x, y=None): ...
    >>> named(model, (1,), {"y": 2})
    {'x': 1, 'y': 2}

    Raises
    ------
    ValueError
        If ``args`` is not a tuple of arguments, or one is given twice.
    """
    if not isinstance(args, (tuple, list)):
        raise ValueError(
            f"args: give a tuple of the model's arguments, as in args=(x, y); got "
            f"{type(args).__name__}."
        )
    function: Any = model
    while hasattr(function, "fn"):  # NumPyro's handlers hide what they wrap
        function = function.fn
    names: list[str] = []
    try:
        parameters = inspect.signature(function).parameters.values()
        names = [p.name for p in parameters if p.kind in POSITIONAL]
    except (TypeError, ValueError):  # some built-in callables have no signature
        pass
    names += [f"arg{i}" for i in range(len(names), len(args))]
    values = dict(zip(names, args, strict=False))
    for name, value in (values | dict(kwargs)).items():
        refuse_masked(f"args: {name!r}", value)
    twice = values.keys() & kwargs.keys()
    if twice:
        raise ValueError(f"kwargs: {', '.join(twice)} is given in args too; give it once.")
    return {name: _plain(name, value) for name, value in (values | dict(kwargs)).items()}


def _plain(name: str, value: Any) -> Any:
    """Turn lists of numbers and columns of tables into arrays; JAX takes such lists apart."""
    if hasattr(value, "to_numpy"):
        if getattr(value, "ndim", 1) != 1:
            raise ValueError(
                f"args: {name!r} is a table, into which JAX cannot look; give the model arrays, as "
                "in table['column'].to_numpy()."
            )
        return value.to_numpy()
    if type(value) is dict:
        return {key: _plain(f"{name}[{key!r}]", part) for key, part in value.items()}
    if type(value) in (list, tuple) and value:
        if all(isinstance(x, (int, float, np.generic)) for x in value):
            return np.asarray(value)
        return type(value)(_plain(f"{name}[{i}]", part) for i, part in enumerate(value))
    return value
