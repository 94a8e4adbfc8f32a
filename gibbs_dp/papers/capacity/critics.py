"""Critics that are trained on draws: what they maximize, how, and what they attain."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol, runtime_checkable

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
from gibbs_dp.papers.capacity.adversaries import (
    Adversary,
    KernelBall,
    LinearFeatures,
    Polynomial,
    RandomFeatures,
    TwoLayerReLU,
)
from gibbs_dp.papers.capacity.bound import CapacityBound, Divergence
from gibbs_dp.papers.capacity.closed_forms import above_one, monomials

# Largest share of one draw in a mean, so that at least fifty draws carry it.
_LARGEST_SHARE = 0.02


class Verdict(NamedTuple):
    """An estimate in nats (of the metric for IPMs), and its standard error over draws."""

    value: Float[Array, ""]
    se: Float[Array, ""]


@runtime_checkable
class Objective(Protocol):
    """A restricted divergence, for critics ``f`` given by their values at draws of P and Q."""

    def training(self, p: Float[Array, " draws"], q: Float[Array, " draws"]) -> Float[Array, ""]:
        """Plug-in value, which training maximizes."""
        ...

    def is_stable(self, q: Float[Array, " draws"]) -> Bool[Array, ""]:
        """Whether a mean over fresh draws of Q will be near its expectation."""
        ...

    def verdict(self, train: tuple[Array, Array], fresh: tuple[Array, Array]) -> Verdict:
        """Estimate on fresh draws."""
        ...


def _mean_of_exp(log_values: Float[Array, " draws"]) -> Float[Array, ""]:
    return logsumexp(log_values) - jnp.log(log_values.shape[0])


def _difference(p: Float[Array, " draws"], q: Float[Array, " others"]) -> Verdict:
    """Mean of ``p`` minus mean of ``q``, independent draws."""
    variance = jnp.var(p, ddof=1) / p.shape[0] + jnp.var(q, ddof=1) / q.shape[0]
    return Verdict(jnp.mean(p) - jnp.mean(q), jnp.sqrt(variance))


class KL(NamedTuple):
    """Restricted KL: trained in the Donsker-Varadhan form, judged by ``E_P h - E_Q e^{h-1}``."""

    def training(self, p: Float[Array, " draws"], q: Float[Array, " draws"]) -> Float[Array, ""]:
        """``E_P f - log E_Q e^f``."""
        return jnp.mean(p) - _mean_of_exp(q)

    def is_stable(self, q: Float[Array, " draws"]) -> Bool[Array, ""]:
        """Whether no draw carries more than a fiftieth of the mean of ``e^f``."""
        return jnp.exp(jnp.max(q) - logsumexp(q)) <= _LARGEST_SHARE

    def verdict(self, train: tuple[Array, Array], fresh: tuple[Array, Array]) -> Verdict:
        """Shift by the constant that suits the training draws: ``h = f + 1 - log E_Q e^f``."""
        shift = _mean_of_exp(train[1])
        # E_P h - E_Q e^{h-1}, without the ones in both, which cancel.
        return _difference(fresh[0] - shift, jnp.expm1(fresh[1] - shift))


class Alpha(NamedTuple):
    """Restricted alpha-divergence of ``g = 1 + f`` times the best factor."""

    alpha: float

    def training(self, p: Float[Array, " draws"], q: Float[Array, " draws"]) -> Float[Array, ""]:
        """``log E_P g / |g|_{L^q(Q)}``: scale free."""
        conjugate = self.alpha / (self.alpha - 1)
        mean = jnp.maximum(jnp.mean(1 + p), 1e-6)
        size = jnp.mean((jnp.abs(1 + q) + 1e-9) ** conjugate)
        return jnp.log(mean) - jnp.log(size) / conjugate

    def is_stable(self, q: Float[Array, " draws"]) -> Bool[Array, ""]:
        """Whether no draw carries more than a fiftieth of the mean of ``|g|^q``."""
        conjugate = self.alpha / (self.alpha - 1)
        size = conjugate * jnp.log(jnp.abs(1 + q) + 1e-9)
        return jnp.exp(jnp.max(size) - logsumexp(size)) <= _LARGEST_SHARE

    def verdict(self, train: tuple[Array, Array], fresh: tuple[Array, Array]) -> Verdict:
        """``E_P h - E_Q f*(h)``, ``h = c g / (alpha - 1)``, ``c`` from the training draws."""
        a, conjugate = self.alpha, self.alpha / (self.alpha - 1)
        size = jnp.mean(jnp.abs(1 + train[1]) ** conjugate)
        c = jnp.maximum(jnp.mean(1 + train[0]) / size, 0.0) ** (a - 1)
        p = c * (1 + fresh[0]) / (a - 1)
        q = (c * jnp.abs(1 + fresh[1])) ** conjugate / a + 1 / (a * (a - 1))
        return _difference(p, q)


class IPM(NamedTuple):
    """Integral probability metric, of critics that are bounded by construction."""

    def training(self, p: Float[Array, " draws"], q: Float[Array, " draws"]) -> Float[Array, ""]:
        """``E_P f - E_Q f``."""
        return jnp.mean(p) - jnp.mean(q)

    def is_stable(self, q: Float[Array, " draws"]) -> Bool[Array, ""]:
        """Whether a mean is reliable: of bounded critics, always."""
        return jnp.asarray(True)

    def verdict(self, train: tuple[Array, Array], fresh: tuple[Array, Array]) -> Verdict:
        """Evaluate the same on fresh draws."""
        return _difference(*fresh)


# Added to the kernel's matrix of landmarks: norms are overstated by it, never understated.
_RIDGE = 1e-4


class Inputs(NamedTuple):
    """Inputs of a critic at draws of P and of Q."""

    p: Float[Array, "draws inputs"]
    q: Float[Array, "draws inputs"]


def check_trainable(adversary: Adversary) -> Adversary:
    """Return an adversary that can be trained."""
    trainable = Polynomial | RandomFeatures | TwoLayerReLU | LinearFeatures | KernelBall
    if not isinstance(adversary, trainable):
        raise ValueError(
            f"adversary: {adversary!r} has no critic to train; pass Polynomial, RandomFeatures, "
            "TwoLayerReLU, LinearFeatures or KernelBall."
        )
    return adversary


def inputs_of(adversary: Adversary, x: Float[Array, "draws dim"]) -> Float[Array, "draws inputs"]:
    """Compute the inputs of a class for outputs: features, or ``x``; balls: `kernel_inputs`."""
    if isinstance(adversary, Polynomial):
        powers = monomials(x.shape[1], adversary.degree)[1:]
        # A product per monomial: `x ** array` would take logarithms of negative numbers.
        columns = [
            jnp.prod(jnp.stack([x[:, i] ** int(k) for i, k in enumerate(row)]), axis=0)
            for row in powers
        ]
        return jnp.stack(columns, axis=1)
    if isinstance(adversary, LinearFeatures):
        return _features(adversary, x)
    if isinstance(adversary, RandomFeatures):
        direction_key, phase_key = jax.random.split(jax.random.key(adversary.seed))
        count = adversary.num_features
        directions = jax.random.normal(direction_key, (x.shape[1], count), x.dtype)
        phase = jax.random.uniform(phase_key, (count,), x.dtype, maxval=2 * jnp.pi)
        return jnp.sqrt(2.0 / count) * jnp.cos(matmul(x, directions) / adversary.bandwidth + phase)
    return x


def _features(
    adversary: LinearFeatures, x: Float[Array, "draws dim"]
) -> Float[Array, "draws inputs"]:
    found = jax.vmap(adversary.phi)(x)
    shape = getattr(found, "shape", None)
    if shape is None or len(shape) != 2 or shape[1] == 0:
        raise ValueError(
            "phi: must return one vector of features [k] for an output "
            f"[{x.shape[1]}]; got {'no array' if shape is None else f'shape {shape[1:]}'}."
        )
    return found.astype(x.dtype)


def kernel_inputs(
    adversary: KernelBall, x: Float[Array, "draws dim"], landmarks: Float[Array, "landmarks dim"]
) -> Float[Array, "draws landmarks"]:
    """Features whose coefficients' Euclidean norm is at least the function's norm in the space.

    With the kernel's matrix of the landmarks ``K + r I = L L'`` they are ``L^-1 k(landmarks, x)``:
    coefficients ``a`` belong to ``sum_j c_j k(z_j, x)``, ``c = L'^-1 a``, of squared norm
    ``c' K c <= |a|^2``.
    """
    center = jnp.mean(landmarks, axis=0)
    near = (landmarks - center) / adversary.bandwidth

    def kernel(points: Float[Array, "points dim"]) -> Float[Array, "points landmarks"]:
        at = (points - center) / adversary.bandwidth
        lengths = jnp.sum(jnp.square(at), axis=1)[:, None] + jnp.sum(jnp.square(near), axis=1)
        return jnp.exp(-jnp.maximum(lengths / 2 - matmul(at, near.T), 0.0))

    ridge = _RIDGE * jnp.eye(landmarks.shape[0], dtype=x.dtype)
    return solve_lower(cholesky(kernel(landmarks) + ridge), kernel(x).T).T


def landmarks_of(
    adversary: KernelBall, p: Float[Array, "draws dim"], q: Float[Array, "draws dim"]
) -> Float[Array, "landmarks dim"]:
    """Draws of both laws in turn, evenly spaced along the chains."""
    both = jnp.stack([p, q], axis=1).reshape(-1, p.shape[1])
    count = min(adversary.num_landmarks, both.shape[0])
    rows = [i * both.shape[0] // count for i in range(count)]
    # Even rows are P's: every other landmark moves on by one, to Q's.
    rows = [2 * (row // 2) + i % 2 for i, row in enumerate(rows)]
    return both[jnp.asarray(rows)]


def projected(adversary: Adversary, parameters: PyTree) -> PyTree:
    """Return the nearest parameters that belong to the class: inside the ball of a kernel."""
    if not isinstance(adversary, KernelBall):
        return parameters
    size = jnp.sqrt(jnp.sum(jnp.square(parameters["out"])))
    shrink = adversary.norm / jnp.maximum(size, adversary.norm)
    return {**parameters, "out": shrink * parameters["out"]}


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


def standardized(
    adversary: Adversary,
    x_p: Float[Array, "draws dim"],
    x_q: Float[Array, "draws dim"],
    num_train: int,
) -> Inputs:
    """Compute inputs in coordinates fitted to the first ``num_train`` draws of each law.

    Affine changes of the output leave the classes as they are; features of polynomials and of the
    user's are also whitened, so that one learning rate suits all. A ball of a kernel is of the
    output as it is.
    """
    if isinstance(adversary, KernelBall):
        landmarks = landmarks_of(adversary, x_p[:num_train], x_q[:num_train])
        return Inputs(*(kernel_inputs(adversary, x, landmarks) for x in (x_p, x_q)))
    pooled = jnp.concatenate([x_p[:num_train], x_q[:num_train]])
    tiny = jnp.finfo(pooled.dtype).tiny
    center, scale = jnp.mean(pooled, axis=0), jnp.std(pooled, axis=0) + tiny
    is_given = isinstance(adversary, LinearFeatures)
    p, q = (inputs_of(adversary, x if is_given else (x - center) / scale) for x in (x_p, x_q))
    if not isinstance(adversary, Polynomial | LinearFeatures):
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


class Training(NamedTuple):
    """How critics are trained.

    Attributes
    ----------
    num_steps
        Steps on the whole training half.
    learning_rate
        Initial rate, which falls to 0 along a cosine; by default 0.05 for spans of features, which
        are convex problems, and 0.01 for networks. Balls of a kernel take gradient steps in their
        own geometry instead of Adam's, by default of 1: the curvature there is at most 1.
    """

    num_steps: int = 200
    learning_rate: float | None = None

    def rate(self, adversary: Adversary) -> float:
        """Return the learning rate for a class."""
        if self.learning_rate is not None:
            return self.learning_rate
        if isinstance(adversary, KernelBall):
            return 1.0
        return 0.01 if isinstance(adversary, TwoLayerReLU) else 0.05


class _Best(NamedTuple):
    parameters: PyTree
    score: Float[Array, ""]


def train_and_judge(
    key: PRNGKeyArray,
    x_p: Float[Array, "draws dim"],
    x_q: Float[Array, "draws dim"],
    adversary: Adversary,
    objective: Objective,
    training: Training,
) -> Verdict:
    """Train a critic on the first half of the draws of each law, judge it on the second.

    Draws of a Markov chain must be ordered by chain, so that the halves are independent. The critic
    that scores best on the last 40% of the training half is kept, shrunk by the best factor on
    those draws; the first candidate is 0. Factors at which few of Q's draws carry the mean of
    ``e^f`` are excluded: fresh draws could then show anything. Random features and networks are
    clipped to their range on Q's training draws, beyond which training does not constrain them.
    Critics of a ball are projected onto it after every step.
    Pure: vmap and jit it over pairs of laws.
    """
    half = x_p.shape[0] // 2
    fit = max(1, int(_FIT_SHARE * half))
    if isinstance(objective, IPM):
        return _judge_metric(key, x_p, x_q, adversary, half, training)
    inputs = standardized(adversary, x_p, x_q, half)
    parameters = initial(key, adversary, inputs.p.shape[1], x_p.dtype)
    rate, steps = training.rate(adversary), training.num_steps
    best = _climb(parameters, inputs, objective, (fit, half), rate, steps, value, adversary)
    known = _values(best, inputs, slice(0, half), value)
    fresh = _values(best, inputs, slice(half, None), value)
    if isinstance(adversary, RandomFeatures | TwoLayerReLU):
        low, high = jnp.min(known[1]), jnp.max(known[1])
        known = jnp.clip(known[0], low, high), jnp.clip(known[1], low, high)
        fresh = jnp.clip(fresh[0], low, high), jnp.clip(fresh[1], low, high)
    return objective.verdict(known, fresh)


def _judge_metric(
    key: PRNGKeyArray,
    x_p: Float[Array, "draws dim"],
    x_q: Float[Array, "draws dim"],
    adversary: Adversary,
    half: int,
    training: Training,
) -> Verdict:
    """Spans have coefficients of norm at most 1, for which the best is the gap of the means."""
    if not isinstance(adversary, TwoLayerReLU):
        if isinstance(adversary, KernelBall):
            inputs = standardized(adversary, x_p, x_q, half)
        else:
            inputs = Inputs(*(inputs_of(adversary, x) for x in (x_p, x_q)))
        radius = adversary.norm if isinstance(adversary, KernelBall) else 1.0
        gap = jnp.mean(inputs.p[:half], axis=0) - jnp.mean(inputs.q[:half], axis=0)
        best = {"out": radius * gap / jnp.maximum(jnp.linalg.norm(gap), jnp.finfo(gap.dtype).tiny)}
        evaluate = value
    else:
        inputs = standardized(adversary, x_p, x_q, half)
        start = initial(key, adversary, inputs.p.shape[1], x_p.dtype)
        fit = max(1, int(_FIT_SHARE * half))
        evaluate = _squashed
        rate, steps = training.rate(adversary), training.num_steps
        best = _climb(start, inputs, IPM(), (fit, half), rate, steps, evaluate, adversary)
    return IPM().verdict(
        _values(best, inputs, slice(0, half), evaluate),
        _values(best, inputs, slice(half, None), evaluate),
    )


def _squashed(parameters: PyTree, inputs: Float[Array, "draws inputs"]) -> Float[Array, " draws"]:
    """Networks with values in [-1, 1]."""
    return jnp.tanh(value(parameters, inputs))


def _values(
    parameters: PyTree, inputs: Inputs, rows: slice, evaluate: Any
) -> tuple[Float[Array, " rows"], Float[Array, " rows"]]:
    return evaluate(parameters, inputs.p[rows]), evaluate(parameters, inputs.q[rows])


def _climb(
    parameters: PyTree,
    inputs: Inputs,
    objective: Objective,
    ends: tuple[int, int],
    rate: float,
    num_steps: int,
    evaluate: Any,
    adversary: Adversary,
) -> PyTree:
    """Climb on the fitting draws; keep the parameters that score best on the stopping draws."""
    fit, half = ends
    schedule = optax.cosine_decay_schedule(rate, num_steps)
    optimizer = optax.adam(schedule)
    if isinstance(adversary, KernelBall):
        optimizer = optax.sgd(schedule, momentum=0.9, nesterov=True)

    def loss(current: PyTree) -> Float[Array, ""]:
        return -objective.training(*_values(current, inputs, slice(0, fit), evaluate))

    def score(current: PyTree) -> Float[Array, ""]:
        found = objective.training(*_values(current, inputs, slice(fit, half), evaluate))
        return jnp.where(jnp.isnan(found), -jnp.inf, found)

    def step(carry: tuple[PyTree, Any, _Best], _: None) -> tuple[tuple[PyTree, Any, _Best], None]:
        current, state, best = carry
        updates, state = optimizer.update(jax.grad(loss)(current), state, current)
        current = projected(adversary, optax.apply_updates(current, updates))
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
        q = evaluate(shrunk(factor), inputs.q[:half])
        return jnp.where(objective.is_stable(q), score(shrunk(factor)), -jnp.inf)

    scores = jax.vmap(tried)(factors)
    return shrunk(factors[jnp.argmax(scores)])


# Restricted divergences of two laws from draws: lower bounds by trained critics.


MIN_DRAWS = 16


class TrainedDivergence(NamedTuple):
    """The value that a trained critic attains on fresh draws.

    Attributes
    ----------
    bound
        The estimate, labelled as one: in expectation a **lower** bound on the restricted
        divergence (for "renyi" the curvature of the logarithm lowers it further). Infinite where
        Q's draws agree in a coordinate and P's do not: there is no noise.
    se
        Its standard error over draws, if these are independent.
    """

    bound: CapacityBound
    se: float


def trained_divergence(
    adversary: Adversary,
    draws_p: ArrayLike | Array,
    draws_q: ArrayLike | Array,
    divergence: Divergence = "kl",
    alpha: float | None = None,
    *,
    key: int | PRNGKeyArray = 0,
    num_steps: int = 300,
    learning_rate: float | None = None,
) -> TrainedDivergence:
    """Train a critic on half of the draws and report what it attains on the other half.

    Parameters
    ----------
    adversary
        `Polynomial`, `RandomFeatures`, `TwoLayerReLU`, `LinearFeatures` or `KernelBall`. For "ipm"
        spans have coefficients of Euclidean norm at most 1 on the features of the output as it is,
        a ball is what it says, and networks take values in ``[-1, 1]``.
    draws_p, draws_q
        Independent draws of each law, ``[draws, dim]``, equally many, at least 16.
    divergence
        "kl", "renyi", "alpha" or "ipm".
    alpha
        Order, for "renyi" and "alpha".
    key
        Integer seed or JAX key of the network's initial weights.
    num_steps, learning_rate
        Of Adam (by default 0.05, for networks 0.01), for balls of gradient steps (by default 1);
        the critic that does best on a part of the training half is kept.

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
    objective: Objective = KL() if divergence == "kl" else IPM()
    if divergence in ("renyi", "alpha"):
        if alpha is None:
            raise ValueError(f"alpha must be given for {divergence!r}; pass the order.")
        above_one(alpha)
        if isinstance(adversary, KernelBall):
            raise ValueError(
                f"divergence: {divergence!r} is of classes closed under scaling, and a ball is "
                "not; use 'kl' or 'ipm'."
            )
        objective = Alpha(float(alpha))
    training = Training(positive_count("num_steps", num_steps), learning_rate)
    if learning_rate is not None and not learning_rate > 0:
        raise ValueError(f"learning_rate must be positive, got {learning_rate}; try 0.05.")
    static = ("adversary", "objective", "training")
    judge = program(train_and_judge, static, platform())
    found = judge(as_key(key), p, q, adversary, objective, training)
    value, se = float(found.value), float(found.se)
    if divergence != "ipm" and _is_without_noise(adversary, p, q):
        value, se = math.inf, 0.0
    if divergence == "renyi" and alpha is not None and math.isfinite(value):
        inside = 1 + alpha * (alpha - 1) * value
        se *= alpha / max(inside, 1e-12)
        value = math.log(max(inside, 1e-12)) / (alpha - 1)
    return TrainedDivergence(
        CapacityBound(value, divergence, adversary, alpha, status="estimate", source="critic"), se
    )


def _is_without_noise(
    adversary: Adversary, p: Float[Array, "draws dim"], q: Float[Array, "draws dim"]
) -> bool:
    """Whether Q has one value in a coordinate and P others: slopes then diverge."""
    if isinstance(adversary, KernelBall):
        return False  # bounded
    if isinstance(adversary, LinearFeatures):
        p, q = inputs_of(adversary, p), inputs_of(adversary, q)
    is_fixed = jnp.all(q == q[:1], axis=0)
    return bool(jnp.any(is_fixed & jnp.any(p != q[:1], axis=0)))


def _draws(name: str, values: ArrayLike | Array) -> Float[Array, "draws dim"]:
    x = jnp.asarray(values, jnp.zeros(()).dtype)
    if x.ndim == 1:
        x = x[:, None]
    if x.ndim != 2 or x.shape[0] < MIN_DRAWS or x.shape[1] == 0:
        raise ValueError(
            f"{name} must be [draws, dim] with at least {MIN_DRAWS} draws, got {x.shape}."
        )
    if not bool(jnp.all(jnp.isfinite(x))):
        raise ValueError(f"{name} must be finite; drop NaN and infinite draws.")
    return x
