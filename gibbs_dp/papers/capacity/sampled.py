"""Restricted divergences of two laws from draws: lower bounds by trained critics."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import ArrayLike

from gibbs_dp._jaxlib.compile import program
from gibbs_dp._jaxlib.devices import platform
from gibbs_dp.model.check import as_key, positive_count
from gibbs_dp.papers.capacity.adversaries import Adversary, KernelBall, LinearFeatures
from gibbs_dp.papers.capacity.bound import CapacityBound, Divergence
from gibbs_dp.papers.capacity.closed_forms import above_one
from gibbs_dp.papers.capacity.critics import (
    IPM,
    KL,
    Alpha,
    Objective,
    Training,
    check_trainable,
    inputs_of,
    train_and_judge,
)

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
