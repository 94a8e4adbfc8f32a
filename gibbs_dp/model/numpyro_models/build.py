"""From a NumPyro model to loss, prior and examples; its latent sites as a prior."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree
from numpyro.distributions.distribution import Unit
from numpyro.primitives import Messenger

from gibbs_dp._jaxlib.per_example import reached
from gibbs_dp.model.check import LOOKS_AT_VALUES, check_gamma
from gibbs_dp.model.numpyro_models.likelihood import (
    Arguments,
    Groups,
    Likelihood,
    ModelLoss,
    ModelTotalLoss,
    named,
)
from gibbs_dp.model.numpyro_models.places import check_places
from gibbs_dp.model.numpyro_models.sites import (
    Found,
    Model,
    Observed,
    Trace,
    draw,
    latent_values,
    law_of,
    log_prob,
    look,
)
from gibbs_dp.model.prior import Flat, Prior

# The latent sites of a model as a prior.


@dataclass(frozen=True)
class Depends:
    """Stands for the law of a site that depends on other sites."""

    name: str

    def __call__(self, earlier: dict[str, Any]) -> Any:
        """Refuse: the law is found by running the model."""
        raise TypeError(f"the law of {self.name!r} is found by running the model.")


@dataclass(frozen=True, eq=False)
class ModelPrior(Prior):
    """A prior whose laws are those of a model's latent sites, found by running it."""

    run: Callable[[Mapping[str, Any]], Trace] | None = None
    draw: Callable[[PRNGKeyArray], Trace] | None = None
    known: tuple[str, ...] = ()

    def _trace(self, theta: PyTree) -> Trace:
        assert self.run is not None
        return self.run(theta)

    def _laws(self, theta: PyTree) -> list[Any]:
        sites = self._trace(theta)
        return [law_of(sites[name]) for name in sorted(self.tree)]

    def _laws_at_a_draw(self, seed: int) -> list[Any]:
        def laws(key: PRNGKeyArray) -> list[Any]:
            found = self._laws(self.initial(key))
            return [None if isinstance(law, Flat) else law for law in found]

        pairs = zip(jax.jit(laws)(jax.random.key(seed)), self.leaves, strict=True)
        return [leaf if law is None else law for law, leaf in pairs]

    def log_prob(self, theta: PyTree) -> Float[Array, ""]:
        """Log prior density (up to a constant for flat parts); ``theta`` must be on the support."""
        return _jitted(self, "_log_prob")(theta)

    def _log_prob(self, theta: PyTree) -> Float[Array, ""]:
        sites = self._trace(theta)
        names = [*sorted(self.tree), *self.known]
        return jnp.sum(jnp.stack([jnp.sum(log_prob(sites[name])) for name in names]))

    def initial(self, key: PRNGKeyArray) -> PyTree:
        """Draw from the model's prior; flat parts within (-2, 2) of unconstrained space."""
        return _jitted(self, "_initial")(key)

    @property
    def has_draws(self) -> bool:
        """Whether no site is flat, and no observed one is part of the prior."""
        return not self.known and not any(isinstance(leaf, Flat) for leaf in self.leaves)

    def sample(self, key: PRNGKeyArray) -> PyTree:
        """Draw from the model's prior; needs :attr:`has_draws`."""
        return self.initial(key)

    def _initial(self, key: PRNGKeyArray) -> PyTree:
        assert self.draw is not None
        return latent_values(self.draw(key))


@lru_cache(maxsize=64)  # traced once
def _jitted(prior: ModelPrior, method: str) -> Any:
    return jax.jit(getattr(prior, method))


def make_prior(likelihood: Likelihood, found: Found, data: dict[str, PyTree]) -> Prior:
    """Make a prior of the latent sites: of their laws, where none depends on another."""
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), data)
    known = tuple(name for name in found.observed if name not in likelihood.axes)

    def nothing() -> Any:
        return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)

    def run_model(theta: Mapping[str, Any]) -> Trace:
        return likelihood.trace(theta, nothing())

    def draw_model(key: PRNGKeyArray) -> Trace:
        return draw(likelihood.model, key, *likelihood.call(nothing()))

    laws = _laws(run_model, found)
    if not known and not any(isinstance(law, Depends) for law in laws.values()):
        return Prior(laws)
    return ModelPrior(laws, run=run_model, draw=draw_model, known=known)


def _laws(run_model: Callable[[Mapping[str, Any]], Trace], found: Found) -> dict[str, Any]:
    """Return every latent site's law, where it depends on no other."""
    theta = found.zeros()

    def laws(theta: dict[str, Any]) -> dict[str, Any]:
        sites = run_model(theta)
        return {name: law_of(sites[name]) for name in found.latent}

    def parts(theta: dict[str, Any]) -> dict[str, Any]:
        return {
            k: [] if isinstance(x, Flat) else jax.tree.leaves(x) for k, x in laws(theta).items()
        }

    program, shapes = jax.make_jaxpr(parts, return_shape=True)(theta)
    marks = reached(program.jaxpr, [True] * len(theta))
    depends = jax.tree.unflatten(jax.tree.structure(shapes), marks)
    flat: dict[str, Flat] = {}

    def fixed(theta: dict[str, Any]) -> dict[str, Any]:
        every = laws(theta)
        flat.update({name: law for name, law in every.items() if isinstance(law, Flat)})
        return {k: law for k, law in every.items() if k not in flat and not any(depends[k])}

    own = jax.jit(fixed)(theta)
    missing = {name: Depends(name) for name in found.latent if name not in flat | own}
    return flat | own | missing


# Where a model's examples lie: an axis of its log-likelihoods, and of its arguments.

SERIES = (
    "give the model arguments with a row for each of them; for a time series two, the values "
    "before and those after, as in args=(y[:-1], y[1:])"
)


def find_axes(
    observed: Mapping[str, Observed], plate: str | None, structured: bool, is_told: bool = False
) -> tuple[dict[str, int | None], int]:
    """Find the axis of examples of every observed site, and how many examples there are."""
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
    if n < 2 and not structured:  # of which nothing tells how a loss follows more of them
        raise ValueError(
            f"model: {next(iter(sizes))!r} observes one example; give at least 2, or pass "
            "structured=True where it is the whole dataset."
        )
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
    """Find the axis of examples of every array among the arguments."""
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


class Built(NamedTuple):
    """What a model is made of, as a Gibbs posterior."""

    # loss, total_loss: One of them: minus the log-likelihood of an example, or of the
    # dataset.
    loss: ModelLoss | None
    total_loss: ModelTotalLoss | None
    prior: Prior  # of the latent sites
    data: dict[str, PyTree]  # the examples that came as arguments, by the argument's name


def build(
    model: Model,
    observed: str | Sequence[str],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    group: str | None,
    structured: bool,
    examples: Sequence[str] | Mapping[str, int] | None,
) -> Built:
    """Take a model apart; see ``gibbs_dp.GibbsPosterior.from_numpyro``."""
    likelihood, found = read(model, observed, args, kwargs, group, structured, examples)
    data = likelihood.examples()
    _check_dependence(likelihood, found, data)
    likelihood.check(found.zeros(), data)
    prior = make_prior(likelihood, found, data)
    likelihood = check_places(likelihood, found, prior, data, structured)
    if structured:
        return Built(None, ModelTotalLoss(likelihood, found.zeros()), prior, data)
    return Built(ModelLoss(likelihood, found.zeros()), None, prior, data)


def read(
    model: Model,
    observed: str | Sequence[str],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    group: str | None,
    structured: bool,
    examples: Sequence[str] | Mapping[str, int] | None,
) -> tuple[Likelihood, Found]:
    """Find a model's sites, and which of its arguments are examples."""
    if not callable(model):
        raise ValueError(
            f"model: give a NumPyro model, a function of the data; got {type(model).__name__}."
        )
    names = (observed,) if isinstance(observed, str) else tuple(observed)
    values = named(model, args, kwargs or {})
    said = (examples,) if isinstance(examples, str) else examples
    others = () if said is None else tuple(name for name in values if name not in said)
    arguments = Arguments(values, len(args), {}, no_examples=others)
    try:
        found = look(model, *arguments.call({}), observed=names)
    except LOOKS_AT_VALUES as error:
        raise ValueError(_needs_values(error)) from error
    except TypeError as error:
        raise ValueError(
            f"args: the model cannot be called with them ({str(error).splitlines()[0]})."
        ) from error
    if not found.latent:
        raise ValueError("model: it has no latent site, so there is nothing to sample.")
    _check_observed(names, found)
    is_plate = any(group in found.observed[name].plates for name in names)
    if group is not None and not is_plate and group not in values:
        plates = {plate for name in names for plate in found.observed[name].plates}
        raise ValueError(
            f"group: there is no plate and no argument {group!r}; the plates of the observed sites "
            f"are {', '.join(sorted(plates)) or 'none'}, the arguments {', '.join(values)}."
        )
    plate = group if is_plate else None
    sites = {name: found.observed[name] for name in names}
    axes, n = find_axes(sites, plate, structured, is_told=examples is not None)
    leading = find_examples(values, n, examples, _observed_axes(found, axes))
    if all(axis is None for parts in leading.values() for axis in parts):
        raise ValueError(
            f"args: none has an axis of {n} entries, one for each log-likelihood of {names[0]!r}; "
            f"{SERIES}."
        )
    groups = None if group is None or is_plate else Groups(group)
    if groups is not None and None in axes.values():
        raise ValueError(
            f"group: the rows of a group by {group!r} have no log-likelihoods of their own; leave "
            "group out, or write the observed site with an axis of rows."
        )
    if groups is not None and 0 not in leading[groups.name]:
        raise ValueError(f"group: {group!r} does not hold the number of each row's group.")
    return Likelihood(model, replace(arguments, axes=leading), axes, groups), found


def _observed_axes(found: Found, axes: dict[str, int | None]) -> dict[tuple[int, ...], int]:
    """By the shape of observed values, which axis of them is of examples."""
    known: dict[tuple[int, ...], int] = {}
    for name, axis in axes.items():
        batch, value = found.observed[name].batch_shape, found.observed[name].value_shape
        event = len(value) - len(batch)
        if axis is None:
            known[value] = 0
        elif event >= 0 and len(value) + axis - event >= 0:
            known[value] = len(value) + axis - event
    return known


def _check_observed(names: Sequence[str], found: Found) -> None:
    seen = ", ".join(found.observed)
    if not seen:
        raise ValueError("observed: the model has no observed site; give one obs=.")
    for name in names:
        if f"{name}_observed" in found.observed:
            raise ValueError(
                f"observed: {name!r} has an obs_mask, which makes parameters of the values that it "
                f"hides; leave those rows out of args and drop obs_mask, as in obs={name}[mask]."
            )
        if name not in found.observed:
            raise ValueError(
                f"observed: the model has no site {name!r}; its observed sites are {seen}."
            )
    if not names or len(set(names)) < len(names):
        raise ValueError(f"observed: name each site once, of {seen}.")


def _check_dependence(likelihood: Likelihood, found: Found, data: dict[str, PyTree]) -> None:
    """Refuse priors that depend on examples, and likelihoods that do not."""

    def outputs(theta: dict[str, Any], data: PyTree) -> dict[str, Any]:
        sites = likelihood.trace(theta, data)
        laws = {name: jax.tree.leaves(sites[name]["fn"]) for name in found.latent}
        known = {k: log_prob(sites[k]) for k in found.observed if k not in likelihood.axes}
        values = {k: sites[k]["value"] for k in likelihood.axes}
        return {"laws": laws, "known": known, "values": values}

    theta = found.zeros()
    try:
        program, shapes = jax.make_jaxpr(outputs, return_shape=True)(theta, data)
    except LOOKS_AT_VALUES as error:
        raise ValueError(_needs_values(error)) from error
    marks = [False] * len(theta) + [True] * len(jax.tree.leaves(data))
    depends = jax.tree.unflatten(jax.tree.structure(shapes), reached(program.jaxpr, marks))
    for name, parts in depends["laws"].items():
        if any(parts):
            raise ValueError(
                f"model: the prior of {name!r} depends on the examples, so that it is no prior of "
                "a Gibbs posterior; where it needs what is no example (the points of a latent "
                "function), name the arguments that are, as in structured=True, examples=['y']; "
                "else pass what it needs as numbers of its own, or write the site as a function of "
                "one with a fixed law (non-centred)."
            )
    for name, is_reached in depends["known"].items():
        if is_reached:
            raise ValueError(
                f"observed: site {name!r} is observed too and depends on the examples; name it, "
                f"observed={(*likelihood.axes, name)!r}."
            )
    for name, is_reached in depends["values"].items():
        if not is_reached:
            raise ValueError(
                f"args: the values observed at {name!r} do not come from an argument with an axis "
                "of examples, so they could not be replaced; make them an argument of the model."
            )


def _needs_values(error: Exception) -> str:
    of = re.search(r"the argument data\[\W?(\w+)", str(error).replace("\n", " "))
    return (
        f"model: it looks at the values of {repr(of[1]) if of else 'its data'} while it is built, "
        "as np.unique, int(x.max()) and 'if' do, but many datasets share one program; pass what it "
        "finds there (such as the number of groups) as an argument of its own or, where these are "
        "no examples, name the arguments that are, as in examples=('y',)."
    )


# NumPyro models whose likelihood is tempered, for NumPyro's own samplers.


class _Tempered(Messenger):  # type: ignore[misc]  # it has no types
    """Scale observed sites by their names, and remember which were there."""

    def __init__(self, fn: Any, gamma: Any, sites: tuple[str, ...] | None) -> None:
        super().__init__(fn)
        self.gamma, self.sites = gamma, sites
        self.seen: set[str] = set()

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] != "sample" or not msg["is_observed"] or isinstance(msg["fn"], Unit):
            return
        if self.sites is None or msg["name"] in self.sites:
            self.seen.add(msg["name"])
            msg["scale"] = self.gamma if msg["scale"] is None else self.gamma * msg["scale"]


def temper(
    model: Callable[..., Any], gamma: float | Array, sites: str | Sequence[str] | None = None
) -> Callable[..., Any]:
    """Multiply the log-likelihood of a NumPyro model's observed sites by gamma, and nothing else.

    The posterior of the new model is the Gibbs posterior of the old one's negative log-likelihood:
    for ``numpyro.infer.MCMC`` and everything else that takes a model. ``handlers.scale`` around a
    whole model would temper its prior too.

    Parameters
    ----------
    model
        A NumPyro model.
    gamma
        Inverse temperature, finite and >= 0; may be traced.
    sites
        Observed sites to temper; None: all of them.

    Returns
    -------
    callable
        A model with the same arguments.

    Raises
    ------
    ValueError
        For a gamma below 0; and when the new model runs, if it has no such observed site.

    Examples
    --------
    >>> import numpyro, numpyro.distributions as dist
    >>> from numpyro.infer.util import log_density
    >>> def model(y):
    ...     numpyro.sample("y", dist.Normal(numpyro.sample("mean", dist.Normal())), obs=y)
    >>> at = {"mean": 1.0}
    >>> round(float(log_density(temper(model, 0.0), (0.0,), {}, at)[0]), 4)  # the prior's alone
    -1.4189
    >>> round(float(log_density(temper(model, 2.0), (0.0,), {}, at)[0]), 4)
    -4.2568
    """
    scale = check_gamma(gamma) if gamma is None or isinstance(gamma, (int, float, str)) else gamma
    names = (sites,) if isinstance(sites, str) else None if sites is None else tuple(sites)

    @wraps(model)
    def tempered(*args: Any, **kwargs: Any) -> Any:
        program = _Tempered(model, scale, names)
        result = program(*args, **kwargs)
        missing = set(names or ()) - program.seen
        if missing or not program.seen:
            told = ", ".join(sorted(map(repr, missing))) or "any name"
            raise ValueError(
                f"sites: the model has no observed site of {told} (it observes "
                f"{', '.join(sorted(program.seen)) or 'none of those asked for'})."
            )
        return result

    return tempered
