"""Private estimators for scikit-learn: whole fits, and the routes of `private_attacks.py`.

Plans depend on public facts alone, and take longer than fits: they are made once for all runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import private_attacks
from claims_case import Case, patched
from lower_bounds import Runs, known

from gibbs_dp.privacy.routes import gdp_at
from gibbs_dp.sklearn import (
    GibbsClassifier,
    GibbsMean,
    GibbsMedian,
    GibbsRegressor,
    linear_model,
    location,
    plan,
)

TOO_LARGE = 8.0
# Routes whose claim is that of Gaussian DP at delta.
BY_MU = ("gaussian", "posterior: Huber, Gaussian prior", "chain")
LEFT_OUT = ("mean, pure", "median, pure")  # whole fits are attacked here


def fits(
    make: Callable[[], Any], tables: tuple[Any, Any], shown: Callable[[Any], np.ndarray]
) -> Callable[[int], tuple[Runs, Runs]]:
    """Fit again and again to each of two tables."""

    def run(count: int) -> tuple[Runs, Runs]:
        with ExitStack() as stack:
            for module, name in (
                (location, "_plan_mean"),
                (location, "_median_guarantee"),
                (linear_model, "make_plan"),
            ):
                real = getattr(module, name)
                # Plans may have been made, and kept, by another copy of the library.
                once = cache(getattr(real, "__wrapped__", real))
                stack.enter_context(patched((module, name, once))())
            first, second = (
                np.array([np.ravel(shown(make().fit(*table))) for _ in range(count)])
                for table in tables
            )
        return first, second

    return run


def hotter(factor: float) -> AbstractContextManager[Any]:
    """Copy of the library whose calibration for estimators finds a gamma that much too large."""
    real, median = plan.calibrate_gamma, location._median_guarantee

    def calibrate(*args: Any, **options: Any) -> Any:
        found = real(*args, **options)
        gamma = factor * found.gamma
        return replace(found, gamma=gamma, guarantee=replace(found.guarantee, gamma=gamma))

    def promise(facts: Any) -> Any:
        found = median(facts)
        return replace(found, gamma=factor * found.gamma)

    return patched((plan, "calibrate_gamma", calibrate), (location, "_median_guarantee", promise))()


def route(name: str, delta: float, draw: private_attacks.Route) -> Case:
    """Take a route of `private_attacks.py`, by the same draws."""
    factor = [1.0]

    @contextmanager
    def warmer(times: float) -> Iterator[None]:
        factor[0] = times
        yield
        factor[0] = 1.0

    return Case(
        f"estimators, {name}",
        "the plan of a fit",
        "a row against its opposite, beside another",
        private_attacks.EPSILON,
        lambda count: draw(count, factor[0]),
        {"gamma x 8": partial(warmer, TOO_LARGE)},
        warmer,
        delta=delta,
        mu=gdp_at(private_attacks.EPSILON, delta) if name in BY_MU else None,
    )


def cases() -> Iterator[Case]:
    """Whole fits that need no chain; then the routes."""
    gamma = {"gamma x 8": partial(hotter, TOO_LARGE)}
    column = tuple((np.array([[x], [0.3], [0.5], [0.7], [1.0]]),) for x in (0.0, 1.0))
    # Of so many rows the noise is well inside the bounds, where means are moved to.
    corners, many = (
        tuple((np.vstack([[[x] * d], np.full((n - 1, d), 0.5)]),) for x in (0.0, 1.0))
        for n, d in ((60, 3), (60, 4))
    )
    moved = "a row moves from one end of its bounds to the other"
    options: dict[str, Any] = {"bounds": (0, 1)}
    # At this delta Gaussian noise is less than pure DP needs for four columns.
    delta = 0.05
    mu = gdp_at(1.0, delta)

    def mean(**more: Any) -> Callable[[], Any]:
        return partial(GibbsMean, 1.0, **options, **more)

    def found(estimator: Any) -> np.ndarray:
        return np.asarray(estimator.mean_ if hasattr(estimator, "mean_") else estimator.median_)

    yield Case(
        "GibbsMean",
        "GibbsMean.fit",
        moved,
        1.0,
        fits(mean(), column, found),  # type: ignore[arg-type]
        gamma,
        hotter,
    )
    yield Case(
        "GibbsMean, three columns",
        "GibbsMean.fit",
        moved + ", in all columns",
        1.0,
        fits(mean(), corners, found),  # type: ignore[arg-type]
        gamma,
        hotter,
    )
    yield Case(
        "GibbsMean, Gaussian",
        "GibbsMean.fit, delta",
        moved + ", in all of four columns",
        1.0,
        fits(mean(delta=delta), many, found),  # type: ignore[arg-type]
        gamma,
        hotter,
        delta=delta,
        mu=mu,
        scores=known(lambda runs: runs.sum(axis=1)),
    )
    yield Case(
        "GibbsMedian",
        "GibbsMedian.fit",
        moved,
        1.0,
        fits(partial(GibbsMedian, 1.0, **options), column, found),  # type: ignore[arg-type]
        gamma,
        hotter,
    )
    yield from linear_models(gamma)
    for name, delta, draw in private_attacks.routes():
        if name not in LEFT_OUT:
            yield route(name, delta, draw)


def linear_models(gamma: Any) -> Iterator[Case]:
    """Fits of sums: one row and its label against their opposite."""
    options: dict[str, Any] = {"x_bound": 1.0, "fit_intercept": False, "accept": "float-arithmetic"}
    x = np.array([[1.0], [0.2], [-0.2]])
    classes = tuple((x, np.array([y, 1, 0])) for y in (0, 1))
    numbers = tuple((x, np.array([y, 0.1, -0.1])) for y in (-1.0, 1.0))

    def shown(model: Any) -> np.ndarray:
        return np.asarray(model.draws_)

    one = "the label of one of three rows against its opposite"
    yield Case(
        "GibbsClassifier",
        "GibbsClassifier.fit",
        one,
        1.0,
        fits(partial(GibbsClassifier, 1.0, classes=[0, 1], **options), classes, shown),  # type: ignore[arg-type]
        gamma,
        hotter,
    )
    yield Case(
        "GibbsRegressor",
        "GibbsRegressor.fit",
        one,
        1.0,
        fits(partial(GibbsRegressor, 1.0, y_bounds=(-1, 1), **options), numbers, shown),  # type: ignore[arg-type]
        gamma,
        hotter,
    )
