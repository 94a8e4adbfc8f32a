"""What a NumPyro model does, statement by statement."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, PRNGKeyArray, PyTree
from numpyro import handlers
from numpyro.distributions.distribution import Unit
from numpyro.primitives import Messenger

from gibbs_dp.model.prior import Flat, flat_if_improper

Model = Callable[..., Any]
Trace = dict[str, dict[str, Any]]

# NumPyro keeps the handlers that are at work in one list for all threads.
_LOCK = threading.RLock()


class Observed(NamedTuple):
    """An observed site, as far as shapes tell."""

    batch_shape: tuple[int, ...]  # of its log-likelihoods
    value_shape: tuple[int, ...]  # of what is observed
    # Where each plate lies among the batch's axes, counted from the right (-1: the last).
    plates: dict[str, int]


class Found(NamedTuple):
    """The sites of a model, by kind."""

    latent: dict[str, tuple[int, ...]]  # shapes of what is to be sampled
    observed: dict[str, Observed]  # sites with a likelihood, all of them

    def zeros(self) -> dict[str, Array]:
        """Return a value of every latent site, for its shape."""
        return {name: jnp.zeros(shape) for name, shape in self.latent.items()}


def model_name(model: Model) -> str:
    """Name the function that a model is, under NumPyro's handlers.

    >>> def regression(): ...
    >>> model_name(handlers.seed(regression, 0))
    'regression'
    """
    while hasattr(model, "fn"):
        model = model.fn
    return getattr(model, "__name__", type(model).__name__)


def run(
    model: Model, theta: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Trace:
    """Run the model at values of its latent sites."""
    return traced(handlers.substitute(handlers.seed(model, 0), dict(theta)), args, kwargs)


def traced(program: Model, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Trace:
    """Run a model, and return what it did at every site."""
    with _LOCK:
        return dict(handlers.trace(program).get_trace(*args, **kwargs))


def draw(model: Model, key: PRNGKeyArray, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Trace:
    """Run the model at a draw from its prior; flat parts within (-2, 2) of unconstrained space."""

    def choose(site: dict[str, Any]) -> Array | None:
        if site["type"] != "sample" or site["is_observed"] or not isinstance(law_of(site), Flat):
            return None
        support = law_of(site).support
        start = jax.random.uniform(
            site["kwargs"]["rng_key"], support.unconstrained_shape, minval=-2.0, maxval=2.0
        )
        return support.constrain(start)

    return traced(
        handlers.substitute(handlers.seed(model, key), substitute_fn=choose), args, kwargs
    )


def is_latent(site: dict[str, Any]) -> bool:
    """Whether the site is to be sampled."""
    return site["type"] == "sample" and not site["is_observed"]


def latent_values(sites: Trace) -> dict[str, Array]:
    """Return the values of the latent sites of a run."""
    return {name: site["value"] for name, site in sites.items() if is_latent(site)}


def is_likelihood(site: dict[str, Any]) -> bool:
    """Whether the site is observed."""
    return site["type"] == "sample" and site["is_observed"]


def log_prob(site: dict[str, Any]) -> Array:
    """Log density of a site's value, in the shape of its batch, scaled as the model says."""
    value, intermediates = site["value"], site["intermediates"]
    found = site["fn"].log_prob(value, intermediates) if intermediates else None
    found = site["fn"].log_prob(value) if found is None else found
    return found if site["scale"] is None else site["scale"] * found


class _Refusing(Messenger):  # type: ignore[misc]  # it has no types
    """Refuse statements that have no place in a Gibbs posterior, before they take effect."""

    def __init__(self, fn: Model, observed: Sequence[str]) -> None:
        super().__init__(fn)
        self.observed = observed

    def process_message(self, msg: dict[str, Any]) -> None:
        name = msg.get("name", "")
        if name in self.observed and msg["type"] == "sample" and not msg["is_observed"]:
            raise ValueError(
                f"observed: {name!r} is not observed in this call of the model; pass its values in "
                "args or kwargs."
            )
        _refuse(name, msg)


def look(
    model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], observed: Sequence[str] = ()
) -> Found:
    """List the model's sites; nothing is computed."""
    found: list[Found] = []

    def trace(key: PRNGKeyArray) -> PyTree:
        sites = draw(_Refusing(model, observed), key, args, kwargs)
        _refuse_params(sites)
        latent = {k: jnp.shape(s["value"]) for k, s in sites.items() if is_latent(s)}
        seen = {
            name: Observed(
                jnp.shape(log_prob(site)),
                jnp.shape(site["value"]),
                {frame.name: frame.dim for frame in site["cond_indep_stack"]},
            )
            for name, site in sites.items()
            if is_likelihood(site)
        }
        for name in observed:
            if name in seen:
                _refuse_spread(name, seen[name], sites[name]["fn"].event_dim)
        found.append(Found(latent, seen))
        return 0

    jax.eval_shape(trace, jax.random.key(0))
    return found[0]


def _refuse_spread(name: str, site: Observed, event_dim: int) -> None:
    """Refuse a column of values that is compared with every row."""
    own = site.value_shape[: len(site.value_shape) - event_dim]
    pairs = zip(reversed(own), reversed(site.batch_shape), strict=False)
    if any(size == 1 and whole > 1 for size, whole in pairs):
        raise ValueError(
            f"args: the values observed at {name!r}, of shape {site.value_shape}, have an axis "
            f"too many and give log-likelihoods of shape {site.batch_shape}; drop it, as in "
            "y[:, 0]."
        )


def _refuse_params(sites: Trace) -> None:
    """Refuse parameters without a prior; those of ``random_*_module`` are drawn under its name."""
    for name, site in sites.items():
        if site["type"] != "param":
            continue
        module = name.removesuffix("$params")
        if module == name:
            raise ValueError(
                f"model: {name!r} is a numpyro.param, which has no prior; write "
                f"numpyro.sample({name!r}, ...) with one."
            )
        whole, left = _sizes_of_module(site["value"])
        if left == whole:  # Equinox: nothing is marked as drawn
            latent = latent_values(sites)
            left -= sum(jnp.size(v) for at, v in latent.items() if at.startswith(module))
        if left:
            raise ValueError(
                f"model: {left} of the {whole} parameters of the module {module!r} have no prior; "
                "declare it by numpyro.contrib.module.random_nnx_module, random_flax_module or "
                "random_eqx_module, with a prior for all."
            )


def _sizes_of_module(params: PyTree) -> tuple[int, int]:
    """Count the numbers of a module, and those that no site takes the place of."""
    from numpyro.contrib.module import ParamShape  # of what has been drawn, its shape stays

    leaves = jax.tree.leaves(params, is_leaf=lambda leaf: isinstance(leaf, ParamShape))
    drawn = sum(prod(leaf.shape) for leaf in leaves if isinstance(leaf, ParamShape))
    left = sum(jnp.size(leaf) for leaf in leaves if not isinstance(leaf, ParamShape))
    return drawn + left, left


def law_of(site: dict[str, Any]) -> dist.Distribution | Flat:
    """Return a latent site's law; an improper uniform one is a flat measure."""
    return flat_if_improper(site["fn"])


def _refuse(name: str, site: dict[str, Any]) -> None:
    kind = site["type"]
    if kind == "plate":
        size, subsample = site["args"]
        if subsample is not None and subsample != size:
            raise ValueError(
                f"model: plate {name!r} subsamples {subsample} of {size}; drop subsample_size, "
                "since gamma multiplies the loss of all examples."
            )
    elif kind == "mutable":
        raise ValueError(
            f"model: {name!r} is mutable state; a log density is a function of parameters and "
            "data alone, so take it out."
        )
    elif kind == "sample":
        _refuse_sample(name, site)


def _refuse_sample(name: str, site: dict[str, Any]) -> None:
    if isinstance(site["fn"], Unit):
        raise ValueError(
            f"model: {name!r} is a factor, neither likelihood of an example nor law of a "
            "parameter; write it as numpyro.sample, observed or latent."
        )
    if site["is_observed"]:
        return
    if site["fn"].support is not None and site["fn"].support.is_discrete:
        raise ValueError(
            f"model: the latent site {name!r} is discrete and has no gradient; sum over it, for "
            "instance by a MixtureSameFamily."
        )
    if site["scale"] is not None:
        raise ValueError(
            f"model: handlers.scale changes the prior of {name!r}; put it around observed sites "
            "only (gamma is there for the rest)."
        )
