"""How often intervals from private draws hold the population's parameters, noise counted or not.

Linear and logistic regression with an intercept and two features of which many are clipped;
parameters drawn from the prior that the analyst has, where intervals are to hold as often as they
say, or the same ones every time, where they hold more often or less. One proven draw is released;
`Release.infer` gives central intervals. Beside it two analysts who know the scale of the errors,
and of clipped rows, and forget something: one takes the draw for the estimate without noise, with
the estimate's standard error; the other takes the spread of the mechanism's posterior for all
there is. Both use normal laws around the draw.

    python benchmarks/infer_coverage.py [--repeats 200] [--only fixed]
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import machine
import numpy as np
import numpyro.distributions as dist
from scipy import stats

import gibbs_dp as gdp

N, DIM, DELTA = 250, 3, 1e-6
SCALE, RADIUS = 2.0, 3.0  # of the release's prior
LEVELS = (0.5, 0.95)
DOMAIN = gdp.Domain(x_bound=1.3, y_range=(-2.0, 2.0))
COUNTS = {"num_warmup": 125, "num_samples": 400}
TRUTH = {"coefficients": dist.Normal(jnp.zeros(DIM), 1.0), "noise": dist.LogNormal(-1.0, 0.3)}
PRIOR = gdp.priors.normal_in_ball(DIM, radius=RADIUS, scale=SCALE)
MANY = 20_000  # rows that the two other analysts simulate


def features(key, n):
    """Ones, and two normal features."""
    return jnp.concatenate([jnp.ones((n, 1)), 0.5 * gdp.random.normal(key, (n, DIM - 1))], axis=1)


def linear(phi, key, n):
    """Numbers with normal errors."""
    first, second = jax.random.split(key)
    x = features(first, n)
    return x, x @ phi["coefficients"] + phi["noise"] * gdp.random.normal(second, (n,))


def logistic(phi, key, n):
    """Two classes; the noise is not used."""
    first, second = jax.random.split(key)
    x = features(first, n)
    chance = jax.nn.sigmoid(x @ phi["coefficients"])
    return x, 1.0 * (gdp.random.uniform(second, (n,)) < chance)


CASES = {"linear": (linear, gdp.losses.squared), "logistic": (logistic, gdp.losses.logistic)}


def drawn_truth(key):
    """Draw parameters from the analyst's prior."""
    first, second = jax.random.split(key)
    return {
        "coefficients": TRUTH["coefficients"].sample(first),
        "noise": TRUTH["noise"].sample(second),
    }


# About one deviation of its prior from the middle, which clipped rows reach.
FIXED = {"coefficients": jnp.array([0.5, 1.0, -1.0]), "noise": jnp.exp(jnp.array(-1.0))}
TRUTHS = {"drawn": drawn_truth, "fixed": lambda key: FIXED}


def spreads(name, theta, noise, gamma, key):
    """Return standard errors of the estimate without noise, and of the mechanism's posterior."""
    population, loss = CASES[name]
    x, y = loss.clip(population({"coefficients": theta, "noise": noise}, key, MANY), DOMAIN)
    at = x @ theta
    slope = loss.slope(at, y)[:, None] * x
    curvature = (loss.curvature(at, y)[:, None] * x).T @ x / MANY
    inverse = np.linalg.inv(curvature)
    estimate = inverse @ (slope.T @ slope / MANY) @ inverse / N
    own = np.linalg.inv(gamma * N * curvature + np.eye(DIM) / SCALE**2)
    return np.sqrt(np.diag(estimate)), np.sqrt(np.diag(own))


def measure(name, truths, epsilon, repeats):
    """Count how often each interval holds each coefficient."""
    population, loss = CASES[name]
    posterior = gdp.GibbsPosterior(loss, PRIOR)
    methods = ("infer", "estimate", "posterior")
    hits = {(method, level): [] for method in methods for level in LEVELS}
    widths = {key: [] for key in hits}
    ess, drifts, seconds, gamma = [], [], [], None
    for i in range(repeats):
        keys = jax.random.split(jax.random.fold_in(jax.random.key(20), i), 4)
        truth = TRUTHS[truths](keys[0])
        target = np.asarray(truth["coefficients"])
        rows = jax.tree.map(np.asarray, population(truth, keys[1], N))
        with tempfile.TemporaryDirectory() as folder:
            ledger = gdp.Ledger.create(
                Path(folder) / "l", adjacency="replace-one", epsilon=epsilon, delta=DELTA
            )
            released = gdp.release(
                posterior,
                rows,
                domain=DOMAIN,
                adjacency="replace-one",
                ledger=ledger,
                epsilon=epsilon,
                delta=DELTA,
            )
        gamma = released.guarantee.gamma
        begin = time.process_time()
        found = released.infer(TRUTH, population, key=keys[2], **COUNTS)
        seconds.append(time.process_time() - begin)
        table = found.draws.to_dataframe()
        ess.append(float(table["ess"].min()))
        drifts.append(found.drift)
        theta = np.asarray(released.theta[0], np.float64)
        sds = spreads(name, theta, float(truth["noise"]), gamma, keys[3])
        for level in LEVELS:
            z = stats.norm.ppf((1 + level) / 2)
            ends = {"infer": found.interval(level)["coefficients"]}
            ends |= {
                method: np.stack([theta - z * sd, theta + z * sd])
                for method, sd in zip(methods[1:], sds, strict=True)
            }
            for method, (low, high) in ends.items():
                hits[method, level].append(np.mean((low <= target) & (target <= high)))
                widths[method, level].append(np.mean(high - low))
    base = {
        "case": name,
        "truth": truths,
        "epsilon": epsilon,
        "gamma": gamma,
        "n": N,
        "d": DIM,
        "repeats": repeats,
    }
    base |= {"median_ess": float(np.median(ess)), "largest_drift": float(np.max(drifts))}
    base |= {"median_cpu_seconds": float(np.median(seconds))}
    return [
        base
        | {"method": method, "level": level, "coverage": float(np.mean(hit))}
        | {"coverage_se": float(np.std(hit, ddof=1) / np.sqrt(len(hit)))}
        | {"width": float(np.mean(widths[method, level]))}
        for (method, level), hit in hits.items()
    ]


def main():
    """Measure all cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="three repetitions")
    parser.add_argument("--only", choices=TRUTHS, help="parameters of one kind; other rows stay")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    given = parser.parse_args()
    repeats = 3 if given.quick else given.repeats
    chosen = [given.only] if given.only else list(TRUTHS)
    rows = machine.rows_of_others("infer_coverage", "truth", chosen, given.out)
    for truths, name, epsilon in itertools.product(chosen, CASES, given.epsilons):
        rows += measure(name, truths, epsilon, repeats)
        for row in rows[-6:]:
            print(
                f"{name:9} {truths} eps {epsilon:3g} gamma {row['gamma']:.4f}  {row['method']:9} "
                f"{row['level']:4}: {row['coverage']:.3f}({row['coverage_se']:.3f}) "
                f"width {row['width']:.3f}  ess {row['median_ess']:.0f}",
                flush=True,
            )
        machine.save("infer_coverage", rows, COUNTS | {"delta": DELTA}, given.out)


if __name__ == "__main__":
    main()
