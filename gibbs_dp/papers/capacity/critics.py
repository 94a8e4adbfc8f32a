"""Critics that are trained on draws: what they maximize, how, and what they attain."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree
from numpy.typing import ArrayLike

from gibbs_dp._jaxlib.compile import program
from gibbs_dp._jaxlib.devices import platform
from gibbs_dp._jaxlib.linalg import cholesky, solve_lower
from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.model.check import as_key, positive_count
from gibbs_dp.papers.capacity.adversaries import Adversary, Polynomial, RandomFeatures, TwoLayerReLU
from gibbs_dp.papers.capacity.bound import CapacityBound
from gibbs_dp.papers.capacity.closed_forms import monomials

Outputs = Float[Array, "draws dim"]

# Largest share of one draw in a mean, so that at least fifty draws carry it.
_LARGEST_SHARE = 0.02


class Verdict(NamedTuple):
    """An estimate in nats, and its standard error over draws."""

    value: Float[Array, ""]
    se: Float[Array, ""]


# Restricted KL, of critics ``f`` given by their values at draws of P and Q: trained in the form of
# Donsker and Varadhan, judged by ``E_P h - E_Q e^{h-1}``.


def _mean_of_exp(log_values: Float[Array, " draws"]) -> Float[Array, ""]:
    return logsumexp(log_values) - jnp.log(log_values.shape[0])


def _plug_in(p: Float[Array, " draws"], q: Float[Array, " draws"]) -> Float[Array, ""]:
    """``E_P f - log E_Q e^f``, which training maximizes."""
    return jnp.mean(p) - _mean_of_exp(q)


def _is_stable(q: Float[Array, " draws"]) -> Bool[Array, ""]:
    """Whether no draw carries more than a fiftieth of the mean of ``e^f``."""
    return jnp.exp(jnp.max(q) - logsumexp(q)) <= _LARGEST_SHARE


def _verdict(train_q: Float[Array, " draws"], fresh: tuple[Array, Array]) -> Verdict:
    """Shift by the constant that suits the training draws: ``h = f + 1 - log E_Q e^f``."""
    shift = _mean_of_exp(train_q)
    # E_P h - E_Q e^{h-1}, without the ones in both, which cancel.
    p, q = fresh[0] - shift, jnp.expm1(fresh[1] - shift)
    variance = jnp.var(p, ddof=1) / p.shape[0] + jnp.var(q, ddof=1) / q.shape[0]
    return Verdict(jnp.mean(p) - jnp.mean(q), jnp.sqrt(variance))


class Inputs(NamedTuple):
    """Inputs of a critic at draws of P and of Q."""

    p: Float[Array, "draws inputs"]
    q: Float[Array, "draws inputs"]


def check_trainable(adversary: Adversary) -> Adversary:
    """Return an adversary that can be trained."""
    trainable = Polynomial | RandomFeatures | TwoLayerReLU
    if not isinstance(adversary, trainable):
        raise ValueError(
            f"adversary: {adversary!r} has no critic to train; pass Polynomial, RandomFeatures "
            "or TwoLayerReLU."
        )
    return adversary


def inputs_of(adversary: Adversary, x: Outputs) -> Float[Array, "draws inputs"]:
    """Compute the inputs of a class for outputs: features, or ``x``."""
    if isinstance(adversary, Polynomial):
        powers = monomials(x.shape[1], adversary.degree)[1:]
        # A product per monomial: `x ** array` would take logarithms of negative numbers.
        columns = [
            jnp.prod(jnp.stack([x[:, i] ** int(k) for i, k in enumerate(row)]), axis=0)
            for row in powers
        ]
        return jnp.stack(columns, axis=1)
    if isinstance(adversary, RandomFeatures):
        direction_key, phase_key = jax.random.split(jax.random.key(adversary.seed))
        count = adversary.num_features
        directions = jax.random.normal(direction_key, (x.shape[1], count), x.dtype)
        phase = jax.random.uniform(phase_key, (count,), x.dtype, maxval=2 * jnp.pi)
        return jnp.sqrt(2.0 / count) * jnp.cos(matmul(x, directions) / adversary.bandwidth + phase)
    return x


def initial(key: PRNGKeyArray, adversary: Adversary, num_inputs: int, dtype: jnp.dtype) -> PyTree:
    """Parameters of the critic that is 0 everywhere."""
    if isinstance(adversary, TwoLayerReLU):
        weight_key, offset_key = jax.random.split(key)
        width = adversary.width
        return {
            "weights": jax.random.normal(weight_key, (num_inputs, width), dtype)
            / jnp.sqrt(jnp.asarray(num_inputs, dtype)),
            "offsets": jax.random.normal(offset_key, (width,), dtype),
            "out": jnp.zeros((width,), dtype),
        }
    return {"out": jnp.zeros((num_inputs,), dtype)}


def value(parameters: PyTree, inputs: Float[Array, "draws inputs"]) -> Float[Array, " draws"]:
    """Evaluate a critic, without its constant."""
    if "weights" in parameters:
        inputs = jax.nn.relu(matmul(inputs, parameters["weights"]) + parameters["offsets"])
    return matmul(inputs, parameters["out"])


def standardized(adversary: Adversary, x_p: Outputs, x_q: Outputs, num_train: int) -> Inputs:
    """Compute inputs in coordinates fitted to the first ``num_train`` draws of each law."""
    pooled = jnp.concatenate([x_p[:num_train], x_q[:num_train]])
    tiny = jnp.finfo(pooled.dtype).tiny
    center, scale = jnp.mean(pooled, axis=0), jnp.std(pooled, axis=0) + tiny
    p, q = (inputs_of(adversary, (x - center) / scale) for x in (x_p, x_q))
    if not isinstance(adversary, Polynomial):
        return Inputs(p, q)
    features = jnp.concatenate([p[:num_train], q[:num_train]])
    mean = jnp.mean(features, axis=0)
    width = jnp.std(features, axis=0) + tiny
    scaled = (features - mean) / width
    ridge = 1e-4 * jnp.eye(features.shape[1], dtype=features.dtype)
    factor = cholesky(matmul(scaled.T, scaled) / features.shape[0] + ridge)

    def whiten(f: Float[Array, "draws inputs"]) -> Float[Array, "draws inputs"]:
        return solve_lower(factor, ((f - mean) / width).T).T

    return Inputs(whiten(p), whiten(q))


# Share of the training half for gradients; the rest decides when to stop.
_FIT_SHARE = 0.6
# Multiples of the critic tried on the stopping draws: shrinking removes noise.
_SHRINKAGE = tuple(i / 20 for i in range(21))


class _Best(NamedTuple):
    parameters: PyTree
    score: Float[Array, ""]


def train_and_judge(
    key: PRNGKeyArray, x_p: Outputs, x_q: Outputs, adversary: Adversary, num_steps: int
) -> Verdict:
    """Train a critic on the first half of the draws of each law, judge it on the second.

    Draws of a Markov chain must be ordered by chain, so that the halves are independent. The best
    critic on the last 40% of the training half is kept, shrunk by the best factor there. Factors at
    which few of Q's draws carry the mean of ``e^f`` are excluded: fresh draws could then show
    anything. Random features and networks are clipped to their range on Q's training draws.
    """
    half = x_p.shape[0] // 2
    inputs = standardized(adversary, x_p, x_q, half)
    parameters = initial(key, adversary, inputs.p.shape[1], x_p.dtype)
    # Spans of features are convex problems.
    rate = 0.01 if isinstance(adversary, TwoLayerReLU) else 0.05
    best = _climb(parameters, inputs, half, rate, num_steps)
    known_q = value(best, inputs.q[:half])
    fresh = _values(best, inputs, slice(half, None))
    if not isinstance(adversary, Polynomial):
        low, high = jnp.min(known_q), jnp.max(known_q)
        fresh = jnp.clip(fresh[0], low, high), jnp.clip(fresh[1], low, high)
    return _verdict(known_q, fresh)


def _values(
    parameters: PyTree, inputs: Inputs, rows: slice
) -> tuple[Float[Array, " rows"], Float[Array, " rows"]]:
    return value(parameters, inputs.p[rows]), value(parameters, inputs.q[rows])


def _climb(parameters: PyTree, inputs: Inputs, half: int, rate: float, num_steps: int) -> PyTree:
    """Climb on the fitting draws; keep the parameters that score best on the stopping draws."""
    fit = max(1, int(_FIT_SHARE * half))
    optimizer = optax.adam(optax.cosine_decay_schedule(rate, num_steps))

    def loss(current: PyTree) -> Float[Array, ""]:
        return -_plug_in(*_values(current, inputs, slice(0, fit)))

    def score(current: PyTree) -> Float[Array, ""]:
        found = _plug_in(*_values(current, inputs, slice(fit, half)))
        return jnp.where(jnp.isnan(found), -jnp.inf, found)

    def step(carry: tuple[PyTree, Any, _Best], _: None) -> tuple[tuple[PyTree, Any, _Best], None]:
        current, state, best = carry
        updates, state = optimizer.update(jax.grad(loss)(current), state, current)
        current = optax.apply_updates(current, updates)
        now = score(current)
        is_better = now > best.score
        best = jax.tree.map(lambda a, b: jnp.where(is_better, a, b), _Best(current, now), best)
        return (current, state, best), None

    start = (parameters, optimizer.init(parameters), _Best(parameters, score(parameters)))
    (_, _, best), _ = jax.lax.scan(step, start, None, length=num_steps)

    def shrunk(factor: Float[Array, ""]) -> PyTree:
        return {**best.parameters, "out": factor * best.parameters["out"]}

    factors = jnp.asarray(_SHRINKAGE, best.score.dtype)

    def tried(factor: Float[Array, ""]) -> Float[Array, ""]:
        q = value(shrunk(factor), inputs.q[:half])
        return jnp.where(_is_stable(q), score(shrunk(factor)), -jnp.inf)

    scores = jax.vmap(tried)(factors)
    return shrunk(factors[jnp.argmax(scores)])


# Restricted KL of two laws from draws: lower bounds by trained critics.


MIN_DRAWS = 16


class TrainedDivergence(NamedTuple):
    """The value that a trained critic attains on fresh draws.

    Attributes
    ----------
    bound
        The estimate, labelled as one: in expectation a **lower** bound on the restricted
        KL divergence. Infinite where Q's draws agree in a coordinate and P's do not: there is no
        noise.
    se
        Its standard error over draws, if these are independent.
    """

    bound: CapacityBound
    se: float


def trained_divergence(
    adversary: Adversary,
    draws_p: ArrayLike | Array,
    draws_q: ArrayLike | Array,
    *,
    key: int | PRNGKeyArray = 0,
    num_steps: int = 300,
) -> TrainedDivergence:
    """Train a critic on half of the draws and report the restricted KL it attains on the other.

    Parameters
    ----------
    adversary
        `Polynomial`, `RandomFeatures` or `TwoLayerReLU`.
    draws_p, draws_q
        Independent draws of each law, ``[draws, dim]``, equally many, at least 16.
    key
        Integer seed or JAX key of the network's initial weights.
    num_steps
        Of Adam; the critic that does best on a part of the training half is kept.

    Returns
    -------
    TrainedDivergence
        A lower bound in expectation, and its standard error.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    Nguyen, Wainwright & Jordan (2010); Chaudhuri, Imola & Machanavajjhala (2019).

    Examples
    --------
    >>> from gibbs_dp.papers.capacity import Polynomial
    >>> import jax
    >>> p, q = (jax.random.normal(jax.random.key(i), (4000, 1)) + i for i in (1, 0))
    >>> found = trained_divergence(Polynomial(1), p, q)
    >>> bool(abs(found.bound.value - 0.5) < 4 * found.se)
    True
    """
    check_trainable(adversary)
    p, q = (_draws(name, x) for name, x in (("draws_p", draws_p), ("draws_q", draws_q)))
    if p.shape != q.shape:
        raise ValueError(
            f"draws_p and draws_q must have one shape, got {p.shape} and {q.shape}; cut the longer."
        )
    num_steps = positive_count("num_steps", num_steps)
    judge = program(train_and_judge, ("adversary", "num_steps"), platform())
    found = judge(as_key(key), p, q, adversary, num_steps)
    value, se = float(found.value), float(found.se)
    # Where Q has one value in a coordinate and P others, slopes diverge.
    if bool(jnp.any(jnp.all(q == q[:1], axis=0) & jnp.any(p != q[:1], axis=0))):
        value, se = math.inf, 0.0
    bound = CapacityBound(value, "kl", adversary, status="estimate", source="critic")
    return TrainedDivergence(bound, se)


def _draws(name: str, values: ArrayLike | Array) -> Outputs:
    x = jnp.asarray(values, jnp.result_type(float))
    if x.ndim == 1:
        x = x[:, None]
    if x.ndim != 2 or x.shape[0] < MIN_DRAWS or x.shape[1] == 0:
        raise ValueError(
            f"{name} must be [draws, dim] with at least {MIN_DRAWS} draws, got {x.shape}."
        )
    if not bool(jnp.all(jnp.isfinite(x))):
        raise ValueError(f"{name} must be finite; drop NaN and infinite draws.")
    return x
