"""Datasets that a model makes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Literal
from jaxtyping import Array, PRNGKeyArray, PyTree
from numpyro import handlers
from numpyro.primitives import Messenger

from gibbs_dp._jaxlib.per_example import reached
from gibbs_dp.model.numpyro_models.likelihood import Likelihood
from gibbs_dp.model.numpyro_models.sites import Found, Model, draw, latent_values, traced


class _Simulating(Messenger):  # type: ignore[misc]  # it has no types
    """Draw what was observed, in the shape that was observed."""

    def __init__(self, fn: Model, names: tuple[str, ...], key: PRNGKeyArray) -> None:
        super().__init__(fn)
        self.names, self.key = names, key

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg.get("name") not in self.names or msg["type"] != "sample":
            return
        law, shape = msg["fn"], jnp.shape(msg["value"])
        # A law that no plate has expanded stands for all examples at once.
        batch = jnp.broadcast_shapes(shape[: len(shape) - law.event_dim], law.batch_shape)
        own = jax.random.fold_in(self.key, self.names.index(msg["name"]))
        msg["value"] = law.expand(batch).sample(own)
        msg["intermediates"] = []


def find_sources(likelihood: Likelihood, data: PyTree, found: Found) -> dict[str, int]:
    """Find which leaf of the rows each observed site's values are.

    Raises
    ------
    ValueError
        If they are no argument, but computed from some.
    """
    theta = found.zeros()
    rows = likelihood.rows(data)

    def values(rows: PyTree, theta: dict[str, Array]) -> dict[str, Any]:
        sites = likelihood.trace_rows(theta, rows)
        for name in likelihood.axes:
            _refuse_censored(name, sites[name]["fn"])
        return {
            name: (sites[name]["value"], jax.tree.leaves(sites[name]["fn"]))
            for name in likelihood.axes
        }

    program, shapes = jax.make_jaxpr(values, return_shape=True)(rows, theta)
    inputs, outputs = program.jaxpr.invars, program.jaxpr.outvars
    structure = jax.tree.structure(shapes)
    places = {variable: i for i, variable in enumerate(inputs)}
    found_at = jax.tree.unflatten(
        structure, [-1 if isinstance(v, Literal) else places.get(v, -1) for v in outputs]
    )
    at = {name: place for name, (place, _) in found_at.items()}
    is_observed = [i in at.values() for i in range(len(inputs))]
    depends = jax.tree.unflatten(structure, reached(program.jaxpr, is_observed))
    for name, place in at.items():
        if any(depends[name][1]):
            raise ValueError(
                f"model: the law of {name!r} depends on observed values (a time series), so that "
                "they cannot be drawn all at once; write a simulator (key, n) -> examples."
            )
        if place < 0:
            raise ValueError(
                f"args: the values observed at {name!r} are computed from the model's arguments "
                "and are none of them, so that simulated ones cannot be put back; give the model "
                "the observed values, or write a simulator (key, n) -> examples."
            )
    return dict(at)


def _refuse_censored(name: str, law: Any) -> None:
    while hasattr(law, "base_dist"):
        if type(law).__name__.endswith("CensoredDistribution"):
            raise ValueError(
                f"model: {name!r} has a censored law, which is drawn without its censoring; write "
                "a simulator (key, n) -> examples."
            )
        law = law.base_dist


def prior_draw(likelihood: Likelihood, data: PyTree, key: PRNGKeyArray) -> dict[str, Array]:
    """Draw the latent sites from the prior."""
    return latent_values(draw(likelihood.model, key, *likelihood.call(data)))


def simulate(
    likelihood: Likelihood,
    sources: dict[str, int],
    key: PRNGKeyArray,
    theta: dict[str, Array],
    data: PyTree,
) -> PyTree:
    """Replace what is observed by what the model draws at ``theta``."""
    groups = likelihood.groups
    rows = likelihood.rows(data)
    args, kwargs = likelihood.arguments.call(rows)
    model = handlers.substitute(handlers.seed(likelihood.model, 0), theta)
    sites = traced(_Simulating(model, tuple(sources), key), args, kwargs)
    leaves = jax.tree.leaves(rows)
    for name, place in sources.items():
        drawn = sites[name]["value"]
        # Whole numbers may stand for those of a continuous law, which must not be cut to them.
        is_cut = jnp.issubdtype(drawn.dtype, jnp.floating)
        leaves[place] = drawn if is_cut else drawn.astype(leaves[place].dtype)
    new = jax.tree.unflatten(jax.tree.structure(rows), leaves)
    return new if groups is None else groups.stacked(new, data)
