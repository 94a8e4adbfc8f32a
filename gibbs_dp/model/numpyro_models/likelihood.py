"""The observed sites of a model as log-likelihoods of examples, or of the whole dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from gibbs_dp.model.examples import num_examples
from gibbs_dp.model.numpyro_models.arguments import Arguments
from gibbs_dp.model.numpyro_models.groups import Groups
from gibbs_dp.model.numpyro_models.sites import Model, Trace, log_prob, model_name, run


@dataclass(frozen=True, eq=False)
class Likelihood:
    """Log-likelihoods of a model's examples.

    The model runs inside ``jax.jit`` only: NumPyro raises where it sees that a number lies outside
    a distribution's support.

    Parameters
    ----------
    model
        A NumPyro model.
    arguments
        Its arguments, of which some are examples.
    axes
        By observed site: the axis of its log-likelihoods that is of examples, counted from the
        right; None where there is one log-likelihood for all of them.
    groups
        Where an example is a whole group of rows.
    places
        Number of examples of every dataset, where the model has room for no other.
    """

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
        """Run the model at parameters and data.

        Raises
        ------
        ValueError
            If the model has no room for so many examples.
        """
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
        """Log-likelihood of every example.

        Raises
        ------
        ValueError
            If the model does not give one for each.
        """
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


@lru_cache(maxsize=64)  # traced once for every shape
def _jitted(likelihood: Likelihood, method: str) -> Any:
    return jax.jit(getattr(likelihood, method))


@dataclass(frozen=True, eq=False)
class ModelLoss:
    """Minus the log-likelihood of an example (nats)."""

    likelihood: Likelihood

    @property
    def __name__(self) -> str:
        return model_name(self.likelihood.model)

    def __call__(self, theta: Mapping[str, Any], z: PyTree) -> Float[Array, ""]:
        """Loss of one example."""
        return self.batch(theta, jax.tree.map(lambda a: jnp.asarray(a)[None], z))[0]

    def batch(self, theta: Mapping[str, Any], data: PyTree) -> Float[Array, " n"]:
        """Losses of ``n`` examples."""
        return -self.likelihood.each(theta, data)


@dataclass(frozen=True, eq=False)
class ModelTotalLoss:
    """Minus the log-likelihood of a dataset whose examples have their places in it (nats)."""

    likelihood: Likelihood

    @property
    def __name__(self) -> str:
        return model_name(self.likelihood.model)

    def __call__(self, theta: Mapping[str, Any], data: PyTree) -> Float[Array, ""]:
        """Total loss."""
        return -self.likelihood.total(theta, data)

    @property
    def has_examples(self) -> bool:
        """Whether every example has a log-likelihood of its own."""
        return None not in self.likelihood.axes.values()

    def batch(self, theta: Mapping[str, Any], data: PyTree) -> Float[Array, " n"]:
        """Return the losses of the examples in their places."""
        return -self.likelihood.each(theta, data)
