"""Whether an example's log-likelihood is the same wherever it stands in a dataset."""

from __future__ import annotations

import dataclasses
from functools import partial
from itertools import chain, combinations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from gibbs_dp._jaxlib.per_example import reached
from gibbs_dp.model.charts import FlatCoordinates
from gibbs_dp.model.examples import num_examples
from gibbs_dp.model.numpyro_models.likelihood import Likelihood
from gibbs_dp.model.numpyro_models.sites import Found, log_prob, look
from gibbs_dp.model.prior import Prior

# How much losses may differ, in spreads of them and in the largest: more than rounding does.
OF_SPREAD, OF_LARGEST = 1e-3, 1e-5
NUM_POINTS = 2
REMEDY = (
    "make all data and their number arguments of the model (a plate of len(y), not of a number "
    "written out), or pass structured=True to replace examples in their places"
)


def check_places(
    likelihood: Likelihood, found: Found, prior: Prior, data: dict[str, PyTree], structured: bool
) -> Likelihood:
    """Check that examples have no places, unless the loss is to be that of whole datasets."""
    n = num_examples(data)
    if structured:
        _check_order(likelihood, prior, data)
        likelihood, is_bound = has_places(likelihood, found, None, data)
        return dataclasses.replace(likelihood, places=n if is_bound else None)
    likelihood, trouble = _follow_length(likelihood, found, data, n)
    trouble = trouble or _labels(likelihood, found, data) or _values(likelihood, prior, data, n)
    if trouble:
        raise ValueError(f"model: {trouble}; {REMEDY}.")
    return likelihood


def has_places(
    likelihood: Likelihood, found: Found, prior: Prior | None, data: dict[str, PyTree]
) -> tuple[Likelihood, bool]:
    """Say whether a model has room for just so many examples as there are."""
    n = num_examples(data)
    likelihood, trouble = _follow_length(likelihood, found, data, n)
    trouble = trouble or _labels(likelihood, found, data)
    if prior is not None and not trouble and None not in likelihood.axes.values():
        trouble = _values(likelihood, prior, data, n)
    return likelihood, bool(trouble)


def _follow_length(
    likelihood: Likelihood, found: Found, data: PyTree, n: int
) -> tuple[Likelihood, str]:
    """Try one more example, also with integers equal to ``n`` as the number of examples."""
    whole = jax.tree.map(np.asarray, data)  # of JAX's functions each would be compiled
    wider = jax.tree.map(lambda a: jnp.asarray(np.concatenate([a, a[:1]])), whole)
    values = likelihood.arguments.values
    counts = [k for k, v in values.items() if type(v) in (int, np.int64) and v == n]
    trouble = _trouble(likelihood, found, wider)
    some = chain.from_iterable(combinations(counts, k) for k in range(1, len(counts) + 1))
    for names in some if trouble else ():  # as few as will do: others may be equal by chance
        arguments = dataclasses.replace(likelihood.arguments, counts=names)
        other = dataclasses.replace(likelihood, arguments=arguments)
        if not _trouble(other, found, wider):
            return other, ""
    return likelihood, trouble


def _trouble(likelihood: Likelihood, found: Found, wider: PyTree) -> str:
    theta = found.zeros()
    evaluate = likelihood.total if None in likelihood.axes.values() else likelihood.each
    try:
        latent = look(likelihood.model, *likelihood.call(wider)).latent
        grown = [name for name, shape in latent.items() if shape != found.latent.get(name)]
        if grown:
            return f"the latent sites {', '.join(grown)} have an entry for every example"
        jax.eval_shape(evaluate, theta, wider)
    except Exception as error:  # whatever a user's model raises
        reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else repr(error)
        return f"it has room for these examples only ({reason})"
    return ""


def _labels(likelihood: Likelihood, found: Found, data: dict[str, PyTree]) -> str:
    """Say whether parameters are looked up by the number of a group."""
    groups = likelihood.groups
    if groups is None:
        return ""
    rows = groups.rows(data)
    labels = rows[groups.name]

    def values(theta: Any, labels: Any) -> Any:
        return groups.sums(likelihood.of_rows(theta, rows | {groups.name: labels}), data)

    theta = found.zeros()
    program = jax.make_jaxpr(values)(theta, labels)
    if any(reached(program.jaxpr, [False] * len(theta) + [True])):
        return f"a group has parameters of its own, by {groups.name!r}"
    return ""


def _values(likelihood: Likelihood, prior: Prior, data: PyTree, n: int) -> str:
    """Evaluate examples in another order, and a part of them by itself; the prior too."""
    rng = np.random.default_rng(0)
    mixed = rng.permutation(n)
    data = jax.tree.map(np.asarray, data)  # of JAX's functions each would be compiled
    each, log_prior = likelihood.each, jax.jit(partial(_log_prior, likelihood))
    for theta in _points(prior):
        whole = np.asarray(each(theta, data), np.float64)
        for rows in (mixed, np.arange(n)[::-1], mixed[: max(1, n // 2)], mixed[:1]):
            part = jax.tree.map(lambda a, rows=rows: a[rows], data)
            if _differ(whole[rows], np.asarray(each(theta, part), np.float64), whole):
                return (
                    "the log-likelihood of an example depends on the others or on its place among "
                    "them (a column standardized inside the model, a time series)"
                )
        half = jax.tree.map(lambda a: a[: max(1, n // 2)], data)
        values = [np.asarray(log_prior(theta, d), np.float64) for d in (data, half)]
        if _differ(values[0], values[1], values[0]):
            return "the prior depends on the number of examples"
    return ""


def _log_prior(likelihood: Likelihood, theta: Any, data: PyTree) -> Any:
    sites = likelihood.trace(theta, data)
    return jnp.stack([jnp.sum(log_prob(sites[name])) for name in sorted(theta)])


def _check_order(likelihood: Likelihood, prior: Prior, data: PyTree) -> None:
    """Refuse groups whose rows cannot be moved together without changing the model."""
    if likelihood.groups is None:
        return
    rows, of_rows = likelihood.arguments.examples(), jax.jit(likelihood.of_rows)
    for theta in _points(prior):
        ordered = np.asarray(of_rows(theta, rows), np.float64)
        packed = np.asarray(likelihood.each(theta, data), np.float64)
        if _differ(ordered.sum(keepdims=True), packed.sum(keepdims=True), ordered):
            raise ValueError(
                "group: the rows of a group are moved together and padded, and the model's "
                "log-likelihood of a row depends on other rows or on their order; leave group out."
            )


def _points(prior: Prior) -> list[Any]:
    """Draw from the prior, and where no prior is vague: within (-2, 2) of unconstrained space."""
    flat = FlatCoordinates()
    flat.prior = prior
    found, initial, constrain = [], jax.jit(prior.initial), jax.jit(flat.constrain)
    for seed in range(NUM_POINTS):
        u = jnp.asarray(np.random.default_rng(seed).uniform(-2.0, 2.0, flat.dim))
        found += [initial(jax.random.key(seed)), constrain(u)]
    return found


def _differ(a: np.ndarray, b: np.ndarray, like: np.ndarray) -> bool:
    finite = like[np.isfinite(like)]
    if not finite.size:
        return False
    spread, largest = float(np.std(finite)), float(np.abs(finite).max())
    slack = OF_SPREAD * spread + OF_LARGEST * largest * max(1.0, like.size / a.size) ** 0.5
    return not np.allclose(a, b, rtol=0.0, atol=slack + 1e-6, equal_nan=True)
