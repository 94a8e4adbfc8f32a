"""What `private_accuracy.py` compares with; every peer has its settings chosen on the test rows.

Each function takes a table and gives, for every setting, scores of shape ``[epsilon, repetition]``.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
from private_accuracy_tables import TARGET_BOUND, Table
from scipy.optimize import brentq
from scipy.stats import norm

DELTA = 1e-5
# Norms that features are clipped to, in units of sqrt(number of features).
CLIPS = (0.25, 0.5, 1.0, 1.5)

# Integers, where sums are finite.
ORDERS = (*range(2, 64), 80, 96, 128, 192, 256, 512)

Scored = Iterator[tuple[str, np.ndarray]]


def clip(x: np.ndarray, bound: float) -> np.ndarray:
    """Features of norm at most ``bound``, and a column of ones after them."""
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return np.hstack([x * np.minimum(1, bound / np.maximum(length, 1e-12)), np.ones((len(x), 1))])


def accuracy(theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Share of right labels, for every column of ``theta``."""
    return np.mean((x @ theta > 0) == (y[:, None] > 0.5), axis=0)


def r_squared(theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Share of variance explained, for every column of ``theta``."""
    rest = np.mean((y[:, None] - x @ theta) ** 2, axis=0)
    return 1 - rest / np.var(y)


def without_privacy(table: Table, epsilons: tuple, repetitions: int) -> Scored:
    """Least squares, or logistic regression with scikit-learn's penalty."""
    from sklearn.linear_model import LinearRegression, LogisticRegression

    model = LinearRegression() if table.is_regression else LogisticRegression(max_iter=2_000)
    scores = []
    for repetition in range(repetitions):
        x, y, x_test, y_test = table.split(repetition)
        scores.append(model.fit(x, y).score(x_test, y_test))
    yield "", np.array([scores] * len(epsilons))


def objective_perturbation(table: Table, epsilons: tuple, repetitions: int) -> Scored:
    """Logistic regression of diffprivlib.

    It takes the curvature ``X/4`` where ``X^2/4`` is needed, right at ``X = 1`` only: so rows are
    divided by their bound, intercept included.
    """
    from diffprivlib.models import LogisticRegression

    for share, penalty in itertools.product(CLIPS, (0.1, 1.0, 10.0, 100.0)):
        bound = share * math.sqrt(table.x.shape[1])

        def fit(x, y, epsilon, seed, bound=bound, penalty=penalty):
            x = x / math.hypot(bound, 1)
            model = LogisticRegression(
                epsilon=epsilon,
                data_norm=1.0,
                C=penalty,
                fit_intercept=False,
                random_state=seed,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return model.fit(x, y).coef_[0]

        yield (
            f"clip {share:g} sqrt(d), C {penalty:g}",
            _each(table, epsilons, repetitions, fit, bound),
        )


def naive_bayes(table: Table, epsilons: tuple, repetitions: int) -> Scored:
    """Gaussian naive Bayes of diffprivlib."""
    from diffprivlib.models import GaussianNB

    for bound in (1.0, 2.0, 4.0):
        scores = np.zeros((len(epsilons), repetitions))
        for repetition in range(repetitions):
            x, y, x_test, y_test = table.split(repetition)
            for i, epsilon in enumerate(epsilons):
                seed = 1_000 * repetition + i
                model = GaussianNB(epsilon=epsilon, bounds=(-bound, bound), random_state=seed)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model.fit(np.clip(x, -bound, bound), y)
                    scores[i, repetition] = model.score(np.clip(x_test, -bound, bound), y_test)
        yield f"features in [-{bound:g}, {bound:g}]", scores


def functional_mechanism(table: Table, epsilons: tuple, repetitions: int) -> Scored:
    """Linear regression of diffprivlib, without an intercept: features and target are centred.

    It takes sensitivities of squares from lower bounds alone: so ranges are symmetric.
    """
    from diffprivlib.models import LinearRegression

    for bound in (0.5, 1.0, 2.0, 4.0):

        def fit(x, y, epsilon, seed, bound=bound):
            model = LinearRegression(
                epsilon=epsilon,
                bounds_X=(-bound, bound),
                bounds_y=(-TARGET_BOUND, TARGET_BOUND),
                fit_intercept=False,
                random_state=seed,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return model.fit(np.clip(x[:, :-1], -bound, bound), y).coef_

        scores = _each(table, epsilons, repetitions, fit, math.inf, bound)
        yield f"features in [-{bound:g}, {bound:g}]", scores


def adassp(table: Table, epsilons: tuple, repetitions: int) -> Scored:
    """Wang's AdaSSP with the constants that he prints, add/remove neighbours, in its favour."""

    def fit(x, y, epsilon, seed):
        rng, d, third = np.random.default_rng(seed), x.shape[1], epsilon / 3
        bound = np.linalg.norm(x, axis=1).max()
        log, noise = math.log(6 / DELTA), math.sqrt(math.log(6 / DELTA)) / third
        gram = x.T @ x
        least = np.linalg.eigvalsh(gram)[0]
        least += noise * bound**2 * rng.normal() - log * bound**2 / third
        wanted = math.sqrt(d * log * math.log(2 * d**2 / 0.05)) * bound**2 / third
        ridge = max(0.0, wanted - max(least, 0.0))
        upper = np.triu(rng.normal(size=(d, d)))
        gram += noise * bound**2 * (upper + np.triu(upper, 1).T)
        cross = x.T @ y + noise * bound * TARGET_BOUND * rng.normal(size=d)
        return np.linalg.lstsq(gram + ridge * np.eye(d), cross, rcond=None)[0]

    for share in CLIPS:
        bound = share * math.sqrt(table.x.shape[1])
        yield f"clip {share:g} sqrt(d)", _each(table, epsilons, repetitions, fit, bound)


def gradient_descent(table: Table, epsilons: tuple, repetitions: int) -> Scored:
    """Noisy gradient descent on all rows; neighbours replace one, as for ours."""
    rows = len(table.split(0)[0])
    # Replacement moves a sum of clipped gradients by twice the clipping norm.
    for steps in (10, 30, 100):
        noises = [2 * math.sqrt(steps) / gaussian_dp(epsilon) for epsilon in epsilons]
        yield from _descents(table, repetitions, rows, steps, noises)


def stochastic_descent(table: Table, epsilons: tuple, repetitions: int) -> Scored:
    """DP-SGD: Poisson batches, neighbours add or remove a row, which is in its favour."""
    rows = len(table.split(0)[0])
    batch = min(256, rows // 2)
    for steps in (100, 1_000):
        noises = [noise_multiplier(epsilon, batch / rows, steps) for epsilon in epsilons]
        yield from _descents(table, repetitions, batch, steps, noises)


def _descents(table: Table, repetitions: int, batch: int, steps: int, noises: list) -> Scored:
    bound = math.sqrt(table.x.shape[1])
    grid = list(itertools.product((0.1, 1.0), (0.03, 0.1, 0.3, 1.0)))
    measure = r_squared if table.is_regression else accuracy
    scores = np.zeros((len(grid), len(noises), repetitions))
    for repetition in range(repetitions):
        x, y, x_test, y_test = table.split(repetition)
        rng = np.random.default_rng(repetition)
        theta = _descend(clip(x, bound), y, table.is_regression, batch, steps, noises, grid, rng)
        found = measure(theta, clip(x_test, bound), y_test)
        scores[:, :, repetition] = found.reshape(len(grid), len(noises))
    for (limit, rate), found in zip(grid, scores, strict=True):
        name = f"{steps} steps of {batch} rows"
        yield f"{name}, clip {limit:g}, rate {rate:g}", found


@cache
def noise_multiplier(epsilon: float, share: float, steps: int) -> float:
    """Noise of one step over its clipping norm, by dp-accounting."""
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    def event(noise):
        step = dp_accounting.PoissonSampledDpEvent(share, dp_accounting.GaussianDpEvent(noise))
        return dp_accounting.SelfComposedDpEvent(step, steps)

    return dp_accounting.calibrate_dp_mechanism(
        lambda: RdpAccountant(ORDERS),
        event,
        epsilon,
        DELTA,
        dp_accounting.LowerEndpointAndGuess(0.0, 1.0),
        tol=1e-3,
    )


def gaussian_dp(epsilon: float) -> float:
    """``mu`` of the Gaussian mechanism that is ``(epsilon, DELTA)``-DP."""

    def excess(mu):
        second = math.exp(epsilon + norm.logcdf(-epsilon / mu - mu / 2))
        return norm.cdf(-epsilon / mu + mu / 2) - second - DELTA

    return brentq(excess, 1e-6, 100.0)


def _descend(x, y, is_regression, batch, steps, noises, grid, rng) -> np.ndarray:
    """Last iterates, a column for each pair of grid and noise."""
    limits = np.repeat([limit for limit, _ in grid], len(noises))
    rates = np.repeat([rate for _, rate in grid], len(noises))
    spread = np.tile(noises, len(grid)) * limits
    theta = np.zeros((x.shape[1], len(limits)))
    norms = np.linalg.norm(x, axis=1)[:, None]
    rows = np.arange(len(x))
    for _ in range(steps):
        if batch < len(x):
            rows = np.flatnonzero(rng.random(len(x)) < batch / len(x))
        prediction = x[rows] @ theta
        if not is_regression:
            prediction = 0.5 + 0.5 * np.tanh(prediction / 2)
        rest = prediction - y[rows, None]
        rest *= np.minimum(1, limits / np.maximum(np.abs(rest) * norms[rows], 1e-12))
        gradient = x[rows].T @ rest + spread * rng.normal(size=theta.shape)
        # Steps are measured in clipping norms, so that one grid of rates does for all of them.
        theta -= rates * gradient / (batch * limits)
    return theta


def _each(
    table: Table,
    epsilons: tuple,
    repetitions: int,
    fit: Callable,
    bound: float,
    box: float = math.inf,
) -> np.ndarray:
    """Scores of one fit for every epsilon and split."""
    scores = np.zeros((len(epsilons), repetitions))
    measure = r_squared if table.is_regression else accuracy
    for repetition in range(repetitions):
        x, y, x_test, y_test = table.split(repetition)
        x, x_test = clip(x, bound), clip(np.clip(x_test, -box, box), bound)
        for i, epsilon in enumerate(epsilons):
            theta = fit(x, y, epsilon, 1_000 * repetition + i)
            test = x_test[:, : len(theta)]
            scores[i, repetition] = measure(theta[:, None], test, y_test)[0]
    return scores


CLASSIFIERS = {
    "without privacy": (0.0, without_privacy),
    "diffprivlib, logistic regression": (0.0, objective_perturbation),
    "diffprivlib, naive Bayes": (0.0, naive_bayes),
    "noisy gradient descent": (DELTA, gradient_descent),
    "DP-SGD": (DELTA, stochastic_descent),
}
REGRESSORS = {
    "without privacy": (0.0, without_privacy),
    "diffprivlib, linear regression": (0.0, functional_mechanism),
    "AdaSSP": (DELTA, adassp),
    "noisy gradient descent": (DELTA, gradient_descent),
    "DP-SGD": (DELTA, stochastic_descent),
}
