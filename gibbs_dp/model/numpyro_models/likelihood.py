"""Arguments of a model: which are examples, which stay as they are."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Bool, Float, PyTree

from gibbs_dp._jaxlib.per_example import reached
from gibbs_dp.information.checks import refuse_masked
from gibbs_dp.model.examples import as_examples, num_examples
from gibbs_dp.model.numpyro_models.sites import Model, Trace, log_prob, model_name, run

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, eq=False)
class Arguments:
    """A call of a model, taken apart into examples and the rest."""

    values: dict[str, Any] = field(repr=False)  # all of the data
    num_positional: int
    axes: dict[str, tuple[int | None, ...]]
    counts: tuple[str, ...] = ()
    no_examples: tuple[str, ...] = ()

    def examples(self) -> dict[str, PyTree]:
        """Return what was given of examples, by argument, the axis of examples first."""
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
        """Put examples in their places, any number of them."""
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
    """An array that a model may look at, as in int(x.max()), and look up, as in x[rows]."""

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


# The observed sites of a model as log-likelihoods of examples, or of the whole dataset.


# Rows that belong to groups, with a whole group as the example.

IS_ROW = "is_row"


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of rows, padded to the same size."""

    name: str

    def pack(self, rows: dict[str, PyTree]) -> dict[str, PyTree]:
        """Put the rows of each group together."""
        labels = np.asarray(rows[self.name])
        if labels.ndim != 1 or labels.dtype.kind not in "iu" or labels.min() < 0:
            raise ValueError(
                f"group: {self.name!r} must hold the number of each row's group, 0, 1, 2, ..."
            )
        sizes = np.bincount(labels)
        if not sizes.all():
            raise ValueError(
                f"group: no row of {self.name!r} is in group {int(np.argmin(sizes))}; number "
                "them without gaps."
            )
        order = np.argsort(labels, kind="stable")
        begins = np.cumsum(sizes) - sizes
        place = np.arange(sizes.max())
        is_row = place < sizes[:, None]
        index = order[begins[:, None] + np.where(is_row, place, 0)]
        others = {k: v for k, v in rows.items() if k != self.name}
        packed: dict[str, Any] = jax.tree.map(lambda a: jnp.asarray(a)[index], others)
        return packed | {IS_ROW: jnp.asarray(is_row)}

    def rows(self, data: dict[str, PyTree]) -> dict[str, PyTree]:
        """Lay groups end to end, and number them."""
        count, most = data[IS_ROW].shape
        flat = {
            name: jax.tree.map(lambda a: a.reshape(count * most, *a.shape[2:]), part)
            for name, part in data.items()
            if name != IS_ROW
        }
        return flat | {self.name: jnp.repeat(jnp.arange(count), most)}

    def stacked(self, rows: dict[str, PyTree], data: dict[str, PyTree]) -> dict[str, PyTree]:
        """Put rows that were laid end to end back into their groups."""
        shape = data[IS_ROW].shape
        parts = {
            name: jax.tree.map(lambda a: a.reshape(*shape, *a.shape[1:]), part)
            for name, part in rows.items()
            if name != self.name
        }
        return parts | {IS_ROW: data[IS_ROW]}

    def sums(
        self, values: Float[Array, " rows"], data: dict[str, PyTree]
    ) -> Float[Array, " groups"]:
        """Add the values of every group's rows."""
        is_row = data[IS_ROW]
        return jnp.sum(jnp.where(is_row, values.reshape(is_row.shape), 0.0), axis=1)


# The observed sites of a model as log-likelihoods of examples, or of the whole dataset.


@dataclass(frozen=True, eq=False)
class Likelihood:
    """Log-likelihoods of a model's examples, in ``jax.jit`` only: else NumPyro may raise."""

    model: Model
    arguments: Arguments
    axes: dict[str, int | None]
    groups: Groups | None = None
    places: int | None = None

    def examples(self) -> dict[str, PyTree]:
        """Return the examples that came as arguments, grouped where groups are the examples."""
        found = self.arguments.examples()
        return found if self.groups is None else self.groups.pack(found)

    def rows(self, data: PyTree) -> PyTree:
        """Return the rows of examples: these themselves, unless they are groups."""
        return data if self.groups is None else self.groups.rows(data)

    def call(self, data: PyTree) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the model's arguments with these examples."""
        return self.arguments.call(self.rows(data))

    def trace(self, theta: Mapping[str, Any], data: PyTree) -> Trace:
        """Run the model at parameters and data."""
        n = num_examples(data)
        if self.places is not None and n != self.places:
            raise ValueError(
                f"data: {n} examples, but the model has places for {self.places}; use n="
                f"{self.places}."
            )
        return self.trace_rows(theta, self.rows(data))

    def trace_rows(self, theta: Mapping[str, Any], rows: PyTree) -> Trace:
        """Run the model at parameters and rows, which are the data unless examples are groups."""
        args, kwargs = self.arguments.call(rows)
        return run(self.model, theta, args, kwargs)

    def each(self, theta: Mapping[str, Any], data: PyTree) -> Float[Array, " n"]:
        """Log-likelihood of every example."""
        return _jitted(self, "_each")(dict(theta), data)

    def _each(self, theta: dict[str, Any], data: PyTree) -> Float[Array, " n"]:
        values = self._along_examples(self.trace(theta, data))
        if self.groups is not None:
            values = self.groups.sums(values, data)
        n = num_examples(data)
        if values.shape != (n,):
            raise ValueError(
                f"model: it has {values.shape[0]} log-likelihoods for {n} examples; take the size "
                "of the plate from the data, as in numpyro.plate('rows', x.shape[0])."
            )
        return values

    def check(self, theta: Mapping[str, Any], data: PyTree) -> None:
        """Raise a ValueError for examples of other shapes, without a law, or hidden by a mask."""
        self._check_shapes(data)

        def look(theta: dict[str, Any], data: PyTree) -> dict[str, Any]:
            sites = self.trace(theta, data)
            return {
                "outside": {name: _outside(sites[name]) for name in self.axes},
                "values": {name: sites[name]["value"] for name in self.axes},
                "seen": self._seen(sites, data),
            }

        try:
            program, shapes = jax.make_jaxpr(look, return_shape=True)(dict(theta), data)
        except (TypeError, ValueError, IndexError, KeyError):
            return  # evaluating the loss says why
        marks = [True] * len(theta) + [False] * len(jax.tree.leaves(data))
        moves = jax.tree.unflatten(jax.tree.structure(shapes), reached(program.jaxpr, marks))
        found = jax.jit(look)(dict(theta), data)
        for name, outside in found["outside"].items():
            bad = np.asarray(outside)
            if moves["outside"][name] or not bad.any():  # a support that parameters move is none
                continue
            value = np.asarray(found["values"][name])
            first = value[np.unravel_index(bad.argmax(), bad.shape)] if bad.ndim else value
            raise ValueError(
                f"args: {int(bad.sum())} values observed at {name!r}, such as "
                f"{np.ravel(first)[0]:g}, are none that its law can have; recode them (labels of "
                "two classes as 0 and 1, classes as 0, 1, 2, ..., counts as whole numbers from 0)."
            )
        seen = np.asarray(found["seen"])
        if not seen.all() and not moves["seen"]:
            raise ValueError(
                f"args: {int((~seen).sum())} of {seen.size} examples are hidden, by "
                "handlers.mask or a weight of 0, and would be counted; leave their rows out, as in "
                "y[mask]."
            )

    def _check_shapes(self, data: PyTree) -> None:
        """Compare with what the model was shown: NumPyro spreads an axis too many over the rows."""
        if not isinstance(data, Mapping):
            return
        lead = 1 if self.groups is None else 2
        for name in self.arguments.examples_of:
            leaves = jax.tree.leaves(self.arguments.values[name])
            axes = [axis for axis in self.arguments.axes[name] if axis is not None]
            shown = [
                x for x, a in zip(leaves, self.arguments.axes[name], strict=True) if a is not None
            ]
            for leaf, like, axis in zip(jax.tree.leaves(data.get(name)), shown, axes, strict=False):
                wanted = tuple(np.delete(np.shape(like), axis).tolist())
                if jnp.shape(leaf)[lead:] != wanted:
                    raise ValueError(
                        f"data: {name!r} has shape {jnp.shape(leaf)}, and the model was given rows "
                        f"of shape {wanted}; give it as posterior.data has it."
                    )

    def _seen(self, sites: Trace, data: PyTree) -> Bool[Array, " n"]:
        """Whether each example has a log-likelihood that no mask or weight takes away."""
        found: Any = None
        for name, axis in self.axes.items():
            shape = jnp.shape(log_prob(sites[name]))
            if axis is None:
                return jnp.ones(num_examples(data), bool)
            some = jnp.broadcast_to(_shown(sites[name]["fn"]), shape)
            if sites[name]["scale"] is not None:
                some = some & (jnp.asarray(sites[name]["scale"]) != 0)
            some = jnp.moveaxis(some, axis, 0).reshape(shape[axis], -1).any(1)
            found = some if found is None else found | some
        if self.groups is not None:
            return self.groups.sums(found.astype(float), data) > 0
        return found

    def of_rows(self, theta: Mapping[str, Any], rows: PyTree) -> Float[Array, " rows"]:
        """Log-likelihood of every row, where examples are groups of them."""
        return self._along_examples(self.trace_rows(theta, rows))

    def _along_examples(self, sites: Trace) -> Float[Array, " n"]:
        found: Any = 0.0
        for name, axis in self.axes.items():
            if axis is None:
                raise ValueError(f"model: {name!r} has one log-likelihood for all examples.")
            values = jnp.moveaxis(log_prob(sites[name]), axis, 0)
            found = found + values.reshape(values.shape[0], -1).sum(1)
        return found

    def total(self, theta: Mapping[str, Any], data: PyTree) -> Float[Array, ""]:
        """Log-likelihood of the dataset."""
        return _jitted(self, "_total")(dict(theta), data)

    def _total(self, theta: dict[str, Any], data: PyTree) -> Float[Array, ""]:
        if self.groups is not None:
            return jnp.sum(self.each(theta, data))
        sites = self.trace(theta, data)
        return jnp.sum(jnp.stack([jnp.sum(log_prob(sites[name])) for name in self.axes]))


def _shown(law: Any) -> Any:
    """Where a law of a site is not masked, in the shape of its batch."""
    inner = getattr(law, "base_dist", None)
    if isinstance(law, dist.MaskedDistribution):
        mask = law._mask  # it has no public name
        return jnp.broadcast_to(jnp.asarray(mask, bool), law.batch_shape) & _shown(inner)
    if isinstance(law, dist.Independent):
        inside = _shown(inner)
        return inside.any(axis=tuple(range(len(law.batch_shape), inside.ndim)))
    if isinstance(law, dist.ExpandedDistribution):
        return jnp.broadcast_to(_shown(inner), law.batch_shape)
    return jnp.ones(law.batch_shape, bool)


def _outside(site: dict[str, Any]) -> Any:
    """Where an observed value is none of its law's, and not masked."""
    law = site["fn"]
    try:
        is_inside = jnp.asarray(law.support(site["value"]), bool)
    except (AttributeError, NotImplementedError, TypeError, ValueError):  # it knows of none
        return jnp.zeros((), bool)
    return ~is_inside & _shown(law)


@lru_cache(maxsize=64)  # traced once for every shape
def _jitted(likelihood: Likelihood, method: str) -> Any:
    return jax.jit(getattr(likelihood, method))


@dataclass(frozen=True, eq=False)
class ModelLoss:
    """Minus the log-likelihood of an example (nats); ``latent``, a value of every latent site."""

    likelihood: Likelihood
    latent: dict[str, Array]

    @property
    def __name__(self) -> str:
        return model_name(self.likelihood.model)

    def __call__(self, theta: Mapping[str, Any], z: PyTree) -> Float[Array, ""]:
        """Loss of one example."""
        return self.batch(theta, jax.tree.map(lambda a: jnp.asarray(a)[None], z))[0]

    def check_examples(self, data: PyTree) -> None:
        """Raise a ValueError for examples that the model was not written for."""
        self.likelihood.check(self.latent, data)

    def batch(self, theta: Mapping[str, Any], data: PyTree) -> Float[Array, " n"]:
        """Losses of ``n`` examples."""
        return -self.likelihood.each(theta, data)


@dataclass(frozen=True, eq=False)
class ModelTotalLoss:
    """Minus the log-likelihood (nats) of a dataset with places; ``latent`` is of its shape."""

    likelihood: Likelihood
    latent: dict[str, Array]

    @property
    def __name__(self) -> str:
        return model_name(self.likelihood.model)

    def __call__(self, theta: Mapping[str, Any], data: PyTree) -> Float[Array, ""]:
        """Total loss."""
        return -self.likelihood.total(theta, data)

    def check_examples(self, data: PyTree) -> None:
        """Raise a ValueError for examples that the model was not written for."""
        self.likelihood.check(self.latent, data)

    @property
    def has_examples(self) -> bool:
        """Whether every example has a log-likelihood of its own."""
        return None not in self.likelihood.axes.values()

    def batch(self, theta: Mapping[str, Any], data: PyTree) -> Float[Array, " n"]:
        """Return the losses of the examples in their places."""
        return -self.likelihood.each(theta, data)
