"""Whether an example's log-likelihood is the same wherever it stands in a dataset."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from gibbs_dp._jaxlib.dependence import reached
from gibbs_dp.model.numpyro_models.likelihood import Likelihood
from gibbs_dp.model.numpyro_models.sites import Found, look
from gibbs_dp.model.prior import Prior

# Rows that are evaluated by themselves, and how much their values may differ from before.
FEW, TOLERANCE = 5, 1e-3
REMEDY = (
    "make all data and their number arguments of the model, or pass structured=True to replace "
    "examples in their places"
)


def check_places(
    likelihood: Likelihood, found: Found, prior: Prior, data: dict[str, PyTree], structured: bool
) -> Likelihood:
    """Check that examples have no places, unless the loss is to be that of whole datasets.

    Returns
    -------
    Likelihood
        With what was learnt: integers that are the number of examples, and how many places the
        model has.

    Raises
    ------
    ValueError
        If an example's log-likelihood depends on the others or on its place among them.
    """
    n = jax.tree.leaves(data)[0].shape[0]
    if structured:
        likelihood, is_bound = has_places(likelihood, found, data)
        return dataclasses.replace(likelihood, places=n if is_bound else None)
    likelihood, trouble = _follow_length(likelihood, found, data, n)
    trouble = trouble or _labels(likelihood, found, data) or _values(likelihood, prior, data, n)
    if trouble:
        raise ValueError(f"model: {trouble}; {REMEDY}.")
    return likelihood


def has_places(
    likelihood: Likelihood, found: Found, data: dict[str, PyTree]
) -> tuple[Likelihood, bool]:
    """Say whether a model has room for just so many examples as there are."""
    n = jax.tree.leaves(data)[0].shape[0]
    likelihood, trouble = _follow_length(likelihood, found, data, n)
    return likelihood, bool(trouble or _labels(likelihood, found, data))


def _follow_length(
    likelihood: Likelihood, found: Found, data: PyTree, n: int
) -> tuple[Likelihood, str]:
    """Try one more example, also with integers equal to ``n`` as the number of examples."""
    wider = jax.tree.map(lambda a: jnp.concatenate([a, a[:1]]), data)
    values = likelihood.arguments.values
    counts = tuple(k for k, v in values.items() if type(v) in (int, np.int64) and v == n)
    trouble = _trouble(likelihood, found, wider)
    if trouble and counts:
        arguments = dataclasses.replace(likelihood.arguments, counts=counts)
        other = dataclasses.replace(likelihood, arguments=arguments)
        if not _trouble(other, found, wider):
            return other, ""
    return likelihood, trouble


def _trouble(likelihood: Likelihood, found: Found, wider: PyTree) -> str:
    rows = wider if likelihood.groups is None else likelihood.groups.rows(wider)
    theta = {name: jnp.zeros(shape) for name, shape in found.latent.items()}
    evaluate = likelihood.total if None in likelihood.axes.values() else likelihood.each
    try:
        latent = look(likelihood.model, *likelihood.arguments.call(rows)).latent
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

    theta = {name: jnp.zeros(shape) for name, shape in found.latent.items()}
    program = jax.make_jaxpr(values)(theta, labels)
    if any(reached(program.jaxpr, [False] * len(theta) + [True])):
        return f"a group has parameters of its own, by {groups.name!r}"
    return ""


def _values(likelihood: Likelihood, prior: Prior, data: PyTree, n: int) -> str:
    """Evaluate a few examples by themselves, in another order."""
    few = np.arange(min(FEW, n - 1))[::-1]
    each = jax.jit(likelihood.each)
    theta = jax.jit(prior.initial)(jax.random.key(0))
    whole = np.asarray(each(theta, data))[few]
    alone = np.asarray(each(theta, jax.tree.map(lambda a: a[few], data)))
    if np.allclose(whole, alone, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
        return ""
    return (
        "the log-likelihood of an example depends on the others or on its place among them (a "
        "column standardized inside the model, a time series)"
    )
