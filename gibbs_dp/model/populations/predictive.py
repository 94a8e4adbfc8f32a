"""Datasets that a model makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from jax.extend import core
from jaxtyping import Array, PRNGKeyArray, PyTree
from numpyro import handlers
from numpyro.primitives import Messenger

from gibbs_dp._jaxlib.per_example import reached
from gibbs_dp.model.examples import num_examples
from gibbs_dp.model.numpyro_models.build import make_prior, read
from gibbs_dp.model.numpyro_models.likelihood import Likelihood
from gibbs_dp.model.numpyro_models.places import has_places
from gibbs_dp.model.numpyro_models.sites import Model, draw, latent_values, traced


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


def find_sources(likelihood: Likelihood, data: PyTree, theta: dict[str, Array]) -> dict[str, int]:
    """Find which leaf of the rows each observed site's values are; ``theta`` is any value."""
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
        structure, [-1 if isinstance(v, core.Literal) else places.get(v, -1) for v in outputs]
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


# A population simulated by a NumPyro model.


@dataclass(frozen=True, eq=False)
class Predictive:
    """Datasets that a model simulates; made by :func:`from_numpyro`.

    Parameters
    ----------
    likelihood
        The model.
    sources
        By observed site: which argument its values are.
    data
        The examples whose other arguments are used.
    params
        One value of every latent site; or many, ``[draws, ...]``; or None.
    is_fixed
        Whether the other arguments keep their places.
    has_draws
        Whether ``params`` are many.
    """

    likelihood: Likelihood
    sources: dict[str, int]
    data: PyTree
    params: dict[str, Array] | None
    is_fixed: bool
    has_draws: bool

    is_dependent: ClassVar[bool] = False
    is_conditional: ClassVar[bool] = False

    @property
    def is_mixture(self) -> bool:
        """Whether every dataset has parameters of its own, shared by its ghosts."""
        return self.params is None or self.has_draws

    def sample(self, key: PRNGKeyArray, n: int, num_ghosts: int) -> tuple[PyTree, PyTree]:
        """Draw ``n`` training examples and ``num_ghosts`` fresh ones, of the same parameters."""
        params_key, train_key, ghost_key = jax.random.split(key, 3)
        theta = self._parameters(params_key)
        train = self._draw(train_key, theta, n)
        if not self.is_fixed:
            return train, self._draw(ghost_key, theta, num_ghosts)
        # One dataset after the other: a ghost takes the place that it was made for.
        keys = jax.random.split(ghost_key, -(-num_ghosts // n))
        many = jax.vmap(lambda k: self._draw(k, theta, n))(keys)
        return train, jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[:num_ghosts], many)

    def _parameters(self, key: PRNGKeyArray) -> dict[str, Array]:
        if self.params is None:
            return prior_draw(self.likelihood, self.data, key)
        if not self.has_draws:
            return self.params
        count = jax.tree.leaves(self.params)[0].shape[0]
        row = jax.random.randint(key, (), 0, count)
        return jax.tree.map(lambda a: a[row], self.params)

    def _draw(self, key: PRNGKeyArray, theta: dict[str, Array], count: int) -> PyTree:
        row_key, own_key = jax.random.split(key)
        size = num_examples(self.data)
        if self.is_fixed and count != size:
            raise ValueError(f"population: its datasets have {size} examples, not {count}.")
        rows = jnp.arange(size)
        if not self.is_fixed:
            rows = jax.random.randint(row_key, (count,), 0, size)
        data = jax.tree.map(lambda a: a[rows], self.data)
        return simulate(self.likelihood, self.sources, own_key, theta, data)


jax.tree_util.register_dataclass(
    Predictive,
    data_fields=["data", "params"],
    meta_fields=["likelihood", "sources", "is_fixed", "has_draws"],
)


def from_numpyro(
    model: Model,
    params: Mapping[str, Any] | None = None,
    observed: str | Sequence[str] = ("y",),
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    group: str | None = None,
    examples: Sequence[str] | Mapping[str, int] | None = None,
    design: Literal["resampled", "fixed"] | None = None,
) -> Predictive:
    """Simulate the population by a NumPyro model: prior or posterior predictive.

    Parameters
    ----------
    model, observed, args, kwargs, group, examples
        As in :meth:`gibbs_dp.GibbsPosterior.from_numpyro`.
    params
        Values of the latent sites: one each (a known truth), or many, with leading axes, as
        ``mcmc.get_samples()`` and ``draws.theta`` have them: every dataset is then made with one of
        them, at random (posterior predictive). None: a draw from the prior for every dataset.
    design
        Where the arguments that are not observed come from: "resampled", rows of those given, with
        replacement; "fixed", those given, in their places, so that audits have the same ``n``.
        None: fixed where the model has no room for other numbers of examples.

    Returns
    -------
    Predictive
        A population. Where every dataset has parameters of its own, audits average over them and
        leave out mutual information, whose bounds need independent examples.

    Raises
    ------
    ValueError
        If the model cannot be taken apart, a latent site has no value, or an observed value is no
        argument itself.

    Examples
    --------
    >>> import numpyro, numpyro.distributions as dist
    >>> def model(y):
    ...     mean = numpyro.sample("mean", dist.Normal())
    ...     with numpyro.plate("rows", y.shape[0]):
    ...         numpyro.sample("y", dist.Normal(mean, 0.1), obs=y)
    >>> population = from_numpyro(model, {"mean": 3.0}, args=(jnp.zeros(2),))
    >>> train, ghosts = population.sample(jax.random.key(0), 1000, 5)
    >>> round(float(train["y"].mean()), 1), ghosts["y"].shape
    (3.0, (5,))
    """
    likelihood, found = read(model, observed, args, kwargs, group, True, examples)
    data = likelihood.examples()
    likelihood.check(found.zeros(), data)
    prior = make_prior(likelihood, found, data)
    likelihood, is_bound = has_places(likelihood, found, prior, data)
    if design not in (None, "resampled", "fixed"):
        raise ValueError(f"design: give 'resampled' or 'fixed', got {design!r}.")
    if design == "resampled" and is_bound:
        raise ValueError("design: the model has places for the examples given; use 'fixed'.")
    is_fixed = is_bound if design is None else design == "fixed"
    values, has_draws = _params(params, found.latent)
    sources = find_sources(likelihood, data, found.zeros())
    return Predictive(likelihood, sources, data, values, is_fixed, has_draws)


def _params(
    params: Mapping[str, Any] | None, latent: dict[str, tuple[int, ...]]
) -> tuple[dict[str, Array] | None, bool]:
    """Take the latent sites' values; those with leading axes in one row of draws."""
    if params is None:
        return None, False
    missing = [name for name in latent if name not in params]
    if missing:
        raise ValueError(
            f"params: no value of the latent sites {', '.join(missing)}; give all of "
            f"{', '.join(latent)}."
        )
    values = {name: jnp.asarray(params[name], jnp.result_type(float)) for name in latent}
    leads = set()
    for name, shape in latent.items():
        have = values[name].shape
        cut = len(have) - len(shape)
        if cut < 0 or have[cut:] != shape:
            raise ValueError(f"params: {name!r} has shape {have}, in the model it is {shape}.")
        leads.add(have[:cut])
    if len(leads) > 1:
        raise ValueError(
            f"params: some latent sites have draws and others not, or not as many ({leads})."
        )
    (lead,) = leads
    if not lead:
        return values, False
    return {name: a.reshape(-1, *latent[name]) for name, a in values.items()}, True
