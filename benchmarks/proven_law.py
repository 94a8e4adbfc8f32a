"""Is the law of proven draws the posterior's? Quadrature in one and two dimensions, else HMC.

Draws in bins that are equally likely under the posterior: chi-squared, and the total variation
between bins, which is at most what is printed as ``visible`` with 99.9% (McDiarmid's inequality).
Copies that break the sampler are binned alike and must be caught. In 10 and 31 dimensions: means
and variances of every coordinate and of the loss, against long HMC chains; the largest deviation in
standard errors, of so many that 5 is a false alarm with less than 1e-4.

    python benchmarks/proven_law.py --draws 100000
    python benchmarks/proven_law.py --only "1, Gaussian prior"    # a million: 45 minutes
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import jax.numpy as jnp
import machine
import numpy as np
import numpyro.distributions as dist
from claims_case import patched
from scipy import stats

import gibbs_dp as gdp
from gibbs_dp.model.losses import Logistic
from gibbs_dp.privacy import proximal, proximal_sampler
from gibbs_dp.privacy.noise import SecretNoise
from gibbs_dp.privacy.proximal import QuadraticPrior, plan_proximal
from gibbs_dp.privacy.proximal_acceptance import TotalLoss
from gibbs_dp.privacy.proximal_sampler import ProximalSampler

# Far below what a million draws can see, so that what is seen is not what is allowed.
DISTANCE = 1e-4
BINS, CELLS = 50, 2001
FLAT = np.zeros(1)


def rows_of(dim: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Features of length up to 1, and labels."""
    rng = np.random.default_rng(dim)
    x = rng.normal(size=(count, dim)) / math.sqrt(dim)
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]
    return x, (rng.random(count) < 1 / (1 + np.exp(-3 * x[:, 0]))).astype(float)


def priors() -> dict[str, QuadraticPrior]:
    """Gaussian in one dimension, flat on an interval, flat on a disc."""
    one, two = np.ones(1), np.zeros(2)
    return {
        "1, Gaussian prior": QuadraticPrior(one, 0.3 * one, FLAT, np.inf * one),
        "1, flat on an interval": QuadraticPrior(FLAT, FLAT, 0.5 * one, one),
        "2, flat on a disc": QuadraticPrior(two, two, two, 1.5 * one),
        THINNED: QuadraticPrior(one, 0.3 * one, FLAT, np.inf * one),
    }


# Of so many rows a few are looked at to accept a proposal.
THINNED, MANY = "1, Gaussian prior, thinned", 4_000


def made(prior: QuadraticPrior, distance: float = DISTANCE, rows: int = 40) -> ProximalSampler:
    """Make the sampler of forty rows at gamma 0.5, or of more rows that weigh as much."""
    x, y = rows_of(prior.dim, rows)
    gamma = 20 / rows
    plan = plan_proximal(prior, smoothness=20 / 4, farthest=3.0, total_variation=distance)
    return ProximalSampler(prior, TotalLoss(Logistic(), gamma, x, y, 1.0), plan, SecretNoise())


def binning(run: ProximalSampler) -> Callable[[np.ndarray], np.ndarray]:
    """Bins of equal probability, by quadrature: of the first coordinate, then of the second."""
    prior, dim = run.prior, run.prior.dim
    end = 8.0 if np.isinf(prior.radius) else prior.radius
    axis = prior.middle[:1] + np.linspace(-end, end, 40 * CELLS if dim == 1 else CELLS)
    points = np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    potential = prior.precision @ (points.T - prior.centre[:, None]) ** 2 / 2
    for row, label in zip(run.total.x, run.total.y, strict=True):  # type: ignore[union-attr]
        potential += run.total.gamma * Logistic().value(points @ row, label)
    weight = np.exp(potential.min() - potential)
    weight[np.linalg.norm(points - prior.middle, axis=1) > prior.radius] = 0.0
    mass = weight.reshape([len(axis)] * dim)
    side = BINS if dim == 1 else 8

    def upper(weights: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        steps = (weights[1:] + weights[:-1]) / 2
        share = np.concatenate([[0.0], np.cumsum(steps)]) / steps.sum()
        return lambda at: np.interp(at, axis, share)

    first = upper(mass if dim == 1 else mass.sum(axis=1))
    if dim == 1:
        return lambda found: np.minimum((first(found[:, 0]) * side).astype(int), side - 1)

    def cells(found: np.ndarray) -> np.ndarray:
        row = np.minimum((first(found[:, 0]) * side).astype(int), side - 1)
        at = np.interp(found[:, 0], axis, np.arange(len(axis)))
        second = np.empty(len(found))
        for k in np.unique(at.astype(int)):  # the second given the first, between grid lines
            here = at.astype(int) == k
            low, high = (upper(mass[min(j, len(axis) - 1)])(found[here, 1]) for j in (k, k + 1))
            share = at[here] - k
            second[here] = (1 - share) * low + share * high
        return side * row + np.minimum((second * side).astype(int), side - 1)

    return cells


def binned(run: ProximalSampler, count: int) -> dict[str, Any]:
    """Draw, count by bins, and compare with equal shares."""
    began = time.process_time()
    bins = binning(run)
    found = np.array([run.draw() for _ in range(count)])
    counts = np.bincount(bins(found), minlength=BINS if run.prior.dim == 1 else 64)
    apart = 0.5 * np.abs(counts / count - 1 / len(counts)).sum()
    return {
        "num_draws": count,
        "rounds": run.plan.num_steps,
        "bins": len(counts),
        "p_value": float(stats.chisquare(counts).pvalue),
        "total_variation_between_bins": round(float(apart), 6),
        "visible": round(float(apart + math.sqrt(math.log(1e3) / (2 * count))), 6),
        "cpu_seconds": round(time.process_time() - began, 1),
    }


def copies() -> Iterator[tuple[str, AbstractContextManager[Any]]]:
    """Break the sampler in three ways."""
    yield "a single round", patched((proximal, "num_rounds", lambda *given, **named: 1))()
    fill = proximal_sampler.Normals._fill

    def wide(self: Any, words: Any, source: Any) -> None:
        fill(self, words, source)
        self.values = math.sqrt(1.05) * self.values

    yield "proposals of 1.05 the variance", patched((proximal_sampler.Normals, "_fill", wide))()
    anchor = ProximalSampler._anchor

    def level(self: Any, *given: Any) -> Any:
        tangent = anchor(self, *given)
        return tangent._replace(gradient=0 * tangent.gradient)

    yield "the tangent is dropped", patched((ProximalSampler, "_anchor", level))()


def against_hmc(dim: int, rows: int, count: int) -> dict[str, Any]:
    """Compare moments with chains of a thousand times as many draws."""
    began = time.process_time()
    x, y = rows_of(dim, rows)
    prior = QuadraticPrior(np.ones(dim), np.zeros(dim), np.zeros(dim), np.inf * np.ones(1))
    gamma = 0.2
    plan = plan_proximal(prior, smoothness=gamma * rows / 4, farthest=6.0, total_variation=1e-9)
    run = ProximalSampler(prior, TotalLoss(Logistic(), gamma, x, y, 1.0), plan, SecretNoise())
    found = np.array([run.draw() for _ in range(count)])
    posterior = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(jnp.zeros(dim), 1.0))
    draws = gdp.sample(posterior, (x, y), gamma, key=0, num_chains=8, num_samples=5000)
    long = np.asarray(draws.theta, float).reshape(-1, dim)

    def features(theta: np.ndarray) -> np.ndarray:
        score = theta @ x.T
        loss = (np.logaddexp(0, score) - score * y).sum(axis=1, keepdims=True)
        both = np.concatenate([theta, loss], axis=1)
        middle = np.concatenate([long.mean(axis=0), [0.0]])
        return np.concatenate([both, (both - middle)[:, :dim] ** 2], axis=1)

    ours, theirs = features(found), features(long)
    error = theirs.std(axis=0) * math.sqrt(1 / count + 1 / 5000)  # at least so many are effective
    z = np.abs((ours.mean(axis=0) - theirs.mean(axis=0)) / error)
    return {
        "case": f"{dim}, Gaussian prior, {rows} rows: against HMC",
        "num_draws": count,
        "rounds": plan.num_steps,
        "moments": len(error),
        "largest_z": round(float(z.max()), 2),
        "cpu_seconds": round(time.process_time() - began, 1),
    }


def main() -> None:
    """Run all, print and save."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="2,000 draws, and 20 in 10 dimensions")
    parser.add_argument("--draws", type=int, default=1_000_000, help="of each law that is binned")
    parser.add_argument("--only", choices=priors(), help="one law; other rows stay")
    parser.add_argument("--out", help="folder for the results")
    given = parser.parse_args()
    count = 2_000 if given.quick else given.draws
    rows: list[dict[str, Any]] = []
    if given.only:
        before = machine.rows_of_others("proven_law", "case", [], given.out)
        rows += [row for row in before if row["case"] != given.only or row["copy"] is not None]

    def add(row: dict[str, Any]) -> None:
        rows.append(row)
        print(row, flush=True)

    for name, prior in priors().items():
        if given.only in (None, name):
            run = made(prior, rows=MANY if name == THINNED else 40)
            add({"case": name, "copy": None} | binned(run, count))
    for copy, broken in copies() if given.only is None else ():
        with broken:
            case = "1, Gaussian prior"
            add({"case": case, "copy": copy} | binned(made(priors()[case]), count))
    if given.only is None:
        for sizes in ((10, 500, 20),) if given.quick else ((10, 500, 1000), (31, 569, 400)):
            add(against_hmc(*sizes))
    machine.save("proven_law", rows, {"distance": DISTANCE, "gamma": 0.5}, given.out)


if __name__ == "__main__":
    main()
