"""Do private fits keep their epsilon? An attack on every route, and on a copy that breaks it.

Two neighbouring tables of the worst kind, a row against its opposite. For every route of the
estimators, 20,000 draws from each table; an event is chosen on one half, and on the other half
its true and false positives give a lower bound on epsilon (at the route's delta) that holds with
95% (`lower_bounds.py`). It must not exceed the claim. A copy whose
gamma is eight times too large is attacked in the same way, and must be caught.

    python benchmarks/private_attacks.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import jax
import jax.numpy as jnp
import machine
import numpy as np
from claims_release import hotter
from lower_bounds import lower_bound
from scipy.optimize import brentq

from gibbs_dp.model import losses
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy import ProvenDraw, ReleaseRequest
from gibbs_dp.privacy.noise import SecretNoise
from gibbs_dp.privacy.releases import method
from gibbs_dp.privacy.releases.arguments import without_checks
from gibbs_dp.privacy.releases.rejection import draw_by_rejection
from gibbs_dp.sampling.unadjusted import run_langevin
from gibbs_dp.sklearn.chains import Target, TotalLoss, draw_posterior
from gibbs_dp.sklearn.location import GibbsMean, GibbsMedian, draw_median
from gibbs_dp.sklearn.mechanisms import (
    plan_chain,
    plan_direction,
    plan_gaussian,
    plan_rejection,
    prior_on,
)
from gibbs_dp.sklearn.plan import Facts

EPSILON, DELTA = 1.0, 1e-5
TOO_LARGE = 8.0
# One row against its opposite, beside one that stays; features of norm 1.
X = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[-1.0, 0.0], [0.0, 1.0]])
Y = np.array([1.0, 1.0])
# A draw of many: from the number of draws and how much too large gamma is to both tables' draws.
Route = Callable[[int, float], tuple[np.ndarray, np.ndarray]]


def sums(delta: float) -> Route:
    """Routes that add noise to a sum."""
    facts = Facts(n=2, num_features=2, epsilon=EPSILON, delta=delta)
    make = plan_direction if delta == 0 else plan_gaussian

    def draw(count: int, factor: float) -> tuple[np.ndarray, np.ndarray]:
        plan = make(facts, (0.0, 1.0))
        wanted = factor * plan.guarantee.gamma

        def excess(log_epsilon: float) -> float:
            other = replace(facts, epsilon=float(np.exp(log_epsilon)))
            return float(np.log(make(other, (0.0, 1.0)).guarantee.gamma / wanted))

        if factor != 1:
            epsilon = float(np.exp(brentq(excess, -1.0, 6.0, xtol=1e-6)))
            plan = make(replace(facts, epsilon=epsilon), (0.0, 1.0))
        noise = SecretNoise()
        return tuple(  # type: ignore[return-value]
            np.concatenate([plan.draw(x, Y, noise) for _ in range(count)]) for x in X
        )

    return draw


def chains(
    delta: float,
    loss: losses.Loss,
    ends: tuple[float, float],
    radius: float | None,
    scale: float | None,
) -> Route:
    """Routes that draw from the posterior itself, by chains."""
    facts = Facts(n=2, num_features=2, epsilon=EPSILON, delta=delta)

    def draw(count: int, factor: float) -> tuple[np.ndarray, np.ndarray]:
        prior, chart, _ = prior_on(2, radius, scale)
        found = facts.calibrate(GibbsPosterior(loss, prior), Domain(x_bound=1.0, y_range=ends))
        noise, y = SecretNoise(), np.full(2, ends[1])
        drawn = [
            draw_posterior(Target(TotalLoss(loss, factor * found.gamma, x, y), chart), count, noise)
            for x in X
        ]
        assert all(d is not None for d in drawn)
        return tuple(drawn)  # type: ignore[return-value]

    return draw


def proximal(radius: float | None, scale: float | None) -> Route:
    """Draws of the logistic loss by the proximal sampler, which estimators release by default."""

    def draw(count: int, factor: float) -> tuple[np.ndarray, np.ndarray]:
        prior, _, _ = prior_on(2, radius, scale)
        posterior = GibbsPosterior(losses.logistic, prior)
        asked = {"epsilon": EPSILON, "delta": DELTA}
        request = ReleaseRequest(posterior, 2, Domain(x_bound=1.0), "replace-one", 1, asked)
        with hotter(method, factor):
            plan = ProvenDraw().plan_proximal(request)
        assert plan.guarantee.mechanism == "proven draw"
        noise = SecretNoise()
        return tuple(  # type: ignore[return-value]
            np.concatenate([plan.draw(posterior, (x, Y), noise) for _ in range(count)]) for x in X
        )

    return draw


def langevin(count: int, factor: float) -> tuple[np.ndarray, np.ndarray]:
    """One private Langevin run, its last iterate."""
    facts = Facts(n=2, num_features=2, epsilon=EPSILON, delta=DELTA)
    plan = plan_chain(facts, losses.logistic, Domain(x_bound=1.0), 0.5)
    from gibbs_dp.privacy.chain_calibration import calibrate_chain

    run = calibrate_chain(
        plan.posterior,
        epsilon=EPSILON,
        delta=DELTA,
        n=2,
        adjacency="replace-one",
        domain=Domain(x_bound=1.0),
    )
    return tuple(  # type: ignore[return-value]
        np.asarray(
            run_langevin(
                without_checks(plan.posterior),
                (jnp.asarray(x), jnp.asarray(Y)),
                gamma=factor * run.gamma,
                kernel=run.kernel,
                num_draws=count,
                key=key,
            ),
            np.float64,
        )
        for key, x in enumerate(X)
    )


def rejection(count: int, factor: float) -> tuple[np.ndarray, np.ndarray]:
    """Rejection draws within a proven total variation."""
    facts = Facts(n=2, num_features=2, epsilon=EPSILON, delta=DELTA)
    plan = plan_rejection(facts, losses.logistic, Domain(x_bound=1.0), 0.5)
    gamma = factor * plan.guarantee.gamma
    posterior = without_checks(plan.posterior)
    convexity = 0.5**-2
    keys = jax.random.split(jax.random.key(5), 2 * count).reshape(2, count)

    def one(x: jax.Array, key: jax.Array) -> jax.Array:
        return draw_by_rejection(
            posterior,
            (x, jnp.asarray(Y)),
            jnp.asarray(gamma),
            jnp.asarray(convexity),
            jnp.asarray(convexity + gamma * 2 / 4),
            key,
            num_steps=20,
            num_tries=400,
        )

    many = jax.jit(lambda x, keys: jax.lax.map(lambda k: one(x, k), keys, batch_size=500))
    return tuple(  # type: ignore[return-value]
        np.asarray(many(jnp.asarray(x, jnp.zeros(()).dtype), k), np.float64)
        for x, k in zip(X, keys, strict=True)
    )


def location(estimator: type) -> Route:
    """Means and medians of one column of five rows, one of which moves from end to end; pure DP."""
    tables = (
        np.array([[0.0], [0.3], [0.5], [0.7], [1.0]]),
        np.array([[1.0], [0.3], [0.5], [0.7], [1.0]]),
    )

    def draw(count: int, factor: float) -> tuple[np.ndarray, np.ndarray]:
        found = estimator(EPSILON, bounds=(0, 1)).fit(tables[0])
        gamma, noise = factor * found.gamma_, SecretNoise()
        if estimator is GibbsMedian:
            return tuple(  # type: ignore[return-value]
                np.array([[draw_median(t[:, 0], gamma, noise)] for _ in range(count)])
                for t in tables
            )
        sizes = -np.log(noise.random((2, count, 2))).sum(axis=2) / (gamma * 5)
        moved = sizes * (2 * noise.random((2, count)) - 1)
        return tuple((t.mean() + m)[:, None] for t, m in zip(tables, moved, strict=True))  # type: ignore[return-value]

    return draw


def routes() -> Iterator[tuple[str, float, Route]]:
    """Name, delta and route."""
    huber = losses.Huber(delta=0.5)
    yield "direction", 0.0, sums(0.0)
    yield "gaussian", DELTA, sums(DELTA)
    yield "posterior: logistic on a ball", 0.0, chains(0.0, losses.logistic, (0.0, 1.0), 3.0, None)
    yield "posterior: Huber on a ball", 0.0, chains(0.0, huber, (-1.0, 1.0), 2.0, None)
    yield "posterior: Huber, Gaussian prior", DELTA, chains(DELTA, huber, (-1.0, 1.0), None, 0.15)
    yield (
        "posterior: logistic, Gaussian in a ball",
        DELTA,
        chains(DELTA, losses.logistic, (0.0, 1.0), 2.0, 0.5),
    )
    yield (
        "posterior: squared, Gaussian in a ball",
        DELTA,
        chains(DELTA, losses.squared, (-1.0, 1.0), 0.7, 0.25),
    )
    yield "proximal: logistic, Gaussian prior", DELTA, proximal(None, 0.5)
    yield "proximal: logistic on a ball", DELTA, proximal(3.0, None)
    yield "chain", DELTA, langevin
    yield "rejection", DELTA, rejection
    yield "mean, pure", 0.0, location(GibbsMean)
    yield "median, pure", 0.0, location(GibbsMedian)


def main() -> None:
    """Attack every route, print and save."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="1,000 draws")
    parser.add_argument("--out", help="folder for the results")
    given = parser.parse_args()
    count = 1000 if given.quick else 20_000
    rows = []
    for name, delta, draw in routes():
        began = time.perf_counter()
        found = lower_bound(*draw(count, 1.0), delta)
        broken = lower_bound(*draw(count, TOO_LARGE), delta)
        row = {
            "route": name,
            "claimed_epsilon": EPSILON,
            "delta": delta,
            "epsilon_at_least": round(found, 4),
            "with_gamma_8_times": round(broken, 4),
            "holds": found <= EPSILON,
            "broken_is_caught": broken > EPSILON,
            "num_draws": count,
            "seconds": round(time.perf_counter() - began, 1),
        }
        rows.append(row)
        print(row, flush=True)
    machine.save("private_attacks", rows, {"epsilon": EPSILON, "num_draws": count}, given.out)


if __name__ == "__main__":
    main()
