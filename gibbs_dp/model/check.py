"""Checks of arguments that samplers and audits share."""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable, Collection, Iterable
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.devices import key_of
from gibbs_dp.io.files import shown
from gibbs_dp.model.changes import notice_changes
from gibbs_dp.model.charts import FlatCoordinates
from gibbs_dp.model.examples import as_examples, num_examples
from gibbs_dp.model.losses.base import Loss

# What Python raises where it needs a number and JAX has none yet.
LOOKS_AT_VALUES = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
# Of the prior, to find one where the loss is finite.
NUM_DRAWS = 20
# Of examples, datasets, chains or draws.
MOST = 2**31 - 1


def as_key(key: Any) -> PRNGKeyArray:
    """Turn an integer seed into a JAX key; pass keys through."""
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        if not -(2**63) <= key < 2**63:
            raise ValueError(f"key: a seed has 64 bits, and {shown(str(key), 40)} has more.")
        return key_of(int(key))
    if isinstance(key, jax.Array):
        if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
            return key
        return jax.random.wrap_key_data(key)
    raise ValueError(f"key: give an integer seed or a JAX key, got {type(key).__name__}.")


def positive_count(name: str, value: Any, least: int = 1) -> int:
    """Check an integer setting."""
    is_whole = isinstance(value, (int, np.integer)) or (
        isinstance(value, (float, np.floating)) and float(value).is_integer()
    )
    if isinstance(value, bool) or not is_whole or value < least:
        raise ValueError(f"{name}: must be an integer of at least {least}, got {value}.")
    if value > MOST:
        raise ValueError(f"{name}: must be at most {MOST}, got {shown(str(value), 40)}.")
    return int(value)


def check_gamma(gamma: Any) -> float:
    """Check one inverse temperature."""
    if isinstance(gamma, str) or np.ndim(gamma) != 0:
        raise ValueError(f"gamma: must be one number, got {gamma!r}; call once for each.")
    try:
        value = float(gamma)
    except TypeError:
        raise ValueError(f"gamma: must be one number, got {type(gamma).__name__}.") from None
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"gamma: {value:g} is not a finite number >= 0.")
    return value


def check_posterior(posterior: Any, *others: Any) -> Any:
    """Check that a posterior is one; what was compiled of it, and of others, must still be true."""
    if not (isinstance(posterior, FlatCoordinates) and hasattr(posterior, "empirical_loss")):
        raise ValueError(
            f"posterior: got {type(posterior).__name__}; give gibbs_dp.GibbsPosterior(loss, prior)."
        )
    notice_changes((posterior, others))
    return posterior


def examples_for(posterior: Any, data: PyTree) -> PyTree:
    """Turn a dataset into examples that suit a posterior's loss; those of a program have been."""
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(data)):
        return data
    examples = as_examples(data)
    check_dataset(posterior, examples)
    return examples


def check_examples(posterior: Any, examples: PyTree) -> None:
    """Check examples one by one, as far as the loss knows what it takes."""
    loss = posterior.total_loss if posterior.structured else posterior.loss
    if hasattr(loss, "check_examples"):
        loss.check_examples(examples)


def check_dataset(
    posterior: Any, examples: PyTree, num_draws: int = NUM_DRAWS, needs_gradient: bool = False
) -> None:
    """Check examples of one dataset, arrays already; see `check_loss`."""
    if isinstance(posterior.loss, Loss):
        posterior.loss.check_data(examples)
    n = num_examples(examples)
    check_loss(posterior, examples, n, num_draws, needs_gradient)


def check_loss(
    posterior: Any, data: PyTree, n: int, num_draws: int = 1, needs_gradient: bool = False
) -> None:
    """Check on real data that the loss is a scalar per example and accepts the prior's theta."""
    loss = posterior.total_loss if posterior.structured else posterior.loss
    check_examples(posterior, data)
    first = data
    wanted: tuple[int, ...] = () if posterior.structured else (n,)
    if not posterior.structured and not hasattr(loss, "batch"):
        first, wanted = jax.tree.map(lambda a: a[0], data), ()

    theta = _initial.eval_shape(posterior, key_of(0))
    try:
        found = _value.eval_shape(posterior, theta, first)
        if needs_gradient and found.shape == wanted:
            _gradient.eval_shape(posterior, theta, first)
    except LOOKS_AT_VALUES as error:
        raise ValueError(
            "loss: it looks at the value of theta or of an example, as 'if', float() and NumPy's "
            "functions do, which JAX cannot follow; write jnp.where(theta > 0, a, b) for 'if', and "
            "jax.numpy for numpy (jnp.sin for np.sin)."
        ) from error
    except (TypeError, ValueError, IndexError, KeyError) as error:
        shapes = jax.tree.map(jnp.shape, (theta, data))
        # What a product of the library's own losses says of its operands adds nothing.
        reason = "" if isinstance(loss, Loss) else f" ({str(error).splitlines()[0]})"
        raise ValueError(
            f"loss: it cannot be evaluated with theta and data of shapes {shapes}, as the prior "
            f"and the population make them{reason}; give the prior the shape of the parameter that "
            "the loss takes, and data one row an example."
        ) from error
    if found.shape != wanted:
        what = "total_loss(theta, data)" if posterior.structured else "loss(theta, z)"
        raise ValueError(
            f"loss: {what} must return a scalar, got shape {found.shape}; sum or average inside it."
        )
    if not num_draws:
        return
    keys = map(key_of, range(num_draws))
    if any(bool(_is_finite_at_a_draw(posterior, key, first)) for key in keys):
        return
    which = "a draw" if num_draws == 1 else f"each of {num_draws} draws"
    raise ValueError(
        f"loss: it is NaN or infinite at {which} from the prior; give data (labels, counts) that "
        "the likelihood can have, or a prior on parameters where the loss is finite."
    )


# Jitted, so that the next check of the same posterior and shapes traces nothing.


@partial(jax.jit, static_argnames=("posterior",))
def _initial(posterior: Any, key: PRNGKeyArray) -> PyTree:
    return posterior.prior.initial(key)


@partial(jax.jit, static_argnames=("posterior",))
def _value(posterior: Any, theta: PyTree, some: PyTree) -> Array:
    """Loss of a dataset, losses of its examples, or, of a plain function, that of one example."""
    if posterior.structured:
        return jnp.asarray(posterior.empirical_loss(theta, some))
    is_batch = hasattr(posterior.loss, "batch")
    return jnp.asarray((posterior.losses if is_batch else posterior.loss)(theta, some))


@partial(jax.jit, static_argnames=("posterior",))
def _gradient(posterior: Any, theta: PyTree, some: PyTree) -> PyTree:
    return jax.grad(lambda t: jnp.sum(_value(posterior, t, some)))(theta)


@partial(jax.jit, static_argnames=("posterior",))
def _is_finite_at_a_draw(posterior: Any, key: PRNGKeyArray, some: PyTree) -> Bool[Array, ""]:
    # One program for a posterior: operation by operation, some twenty would be compiled.
    return jnp.all(jnp.isfinite(_value(posterior, posterior.prior.initial(key), some)))


# Suggestions for misspelt keywords.

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def check_keywords(
    function: str, given: Iterable[str], known: Collection[str], otherwise: str
) -> None:
    """Refuse keywords that a function has not, and say which was probably meant."""
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else otherwise
            raise TypeError(f"{function}() has no keyword {shown(name, 60)!r}; {hint}")


def names_keywords(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Make a function say which keyword was probably meant; Python does so from 3.13 on.

    >>> @names_keywords
    ... def audit(gammas): ...
    >>> audit(gamma=1)
    Traceback (most recent call last):
        ...
    TypeError: audit() has no keyword 'gamma'; did you mean 'gammas'?
    """
    known = tuple(inspect.signature(function).parameters)

    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        check_keywords(function.__name__, kwargs, known, f"it has {', '.join(known)}.")
        return function(*args, **kwargs)

    return call
