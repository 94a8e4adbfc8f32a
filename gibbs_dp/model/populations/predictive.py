"""A population simulated by a NumPyro model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, PyTree

from gibbs_dp.model.examples import num_examples
from gibbs_dp.model.numpyro_models.build import read
from gibbs_dp.model.numpyro_models.likelihood import Likelihood
from gibbs_dp.model.numpyro_models.places import has_places
from gibbs_dp.model.numpyro_models.priors import make_prior
from gibbs_dp.model.numpyro_models.simulate import find_sources, prior_draw, simulate
from gibbs_dp.model.numpyro_models.sites import Model


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
    sources = find_sources(likelihood, data, found)
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
    values = {name: jnp.asarray(params[name], jnp.zeros(()).dtype) for name in latent}
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
