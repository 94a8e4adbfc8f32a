"""Training critics on one half of the draws, with early stopping, and judging them on the other."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from gibbs_dp.papers.capacity import critics
from gibbs_dp.papers.capacity.adversaries import Adversary, RandomFeatures, TwoLayerReLU
from gibbs_dp.papers.capacity.critics import Inputs
from gibbs_dp.papers.capacity.learned import KernelBall
from gibbs_dp.papers.capacity.objectives import IPM, Objective, Verdict

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
    inputs = critics.standardized(adversary, x_p, x_q, half)
    parameters = critics.initial(key, adversary, inputs.p.shape[1], x_p.dtype)
    rate, steps = training.rate(adversary), training.num_steps
    best = _climb(parameters, inputs, objective, (fit, half), rate, steps, critics.value, adversary)
    known = _values(best, inputs, slice(0, half), critics.value)
    fresh = _values(best, inputs, slice(half, None), critics.value)
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
            inputs = critics.standardized(adversary, x_p, x_q, half)
        else:
            inputs = Inputs(*(critics.inputs_of(adversary, x) for x in (x_p, x_q)))
        radius = adversary.norm if isinstance(adversary, KernelBall) else 1.0
        gap = jnp.mean(inputs.p[:half], axis=0) - jnp.mean(inputs.q[:half], axis=0)
        best = {"out": radius * gap / jnp.maximum(jnp.linalg.norm(gap), jnp.finfo(gap.dtype).tiny)}
        evaluate = critics.value
    else:
        inputs = critics.standardized(adversary, x_p, x_q, half)
        start = critics.initial(key, adversary, inputs.p.shape[1], x_p.dtype)
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
    return jnp.tanh(critics.value(parameters, inputs))


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
        current = critics.projected(adversary, optax.apply_updates(current, updates))
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
