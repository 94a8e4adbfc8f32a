"""The numbers of fourteen small audits, for comparing two versions of the library.

    python benchmarks/reports.py --out before                            # on one version
    python benchmarks/reports.py --out after --against before/reports.json  # on the other

Every kernel, structured and dependent data, a table, a grid, two sides, mutual information, groups
of examples, double precision and a store: what a change of the code alone must leave as it is.
Every number that differs by more than rounding is printed, and the exit status is then 1.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import machine
import numpy as np
import numpyro.distributions as dist

import gibbs_dp as gdp

# Relative difference that another order of the same float32 sums may make.
ROUNDING = 2e-4
DOUBLE = ("hmc", "group")
# Columns that once had other names.
RENAMED = {"rhat": "r_hat", "rhat_exceed": "r_hat_exceed"}


def gaussian(key, n):
    """Two independent standard normal coordinates."""
    return jax.random.normal(key, (n, 2))


def regression(key, n):
    """Three normal regressors and normal noise."""
    x_key, noise_key = jax.random.split(key)
    x = jax.random.normal(x_key, (n, 3))
    return x, x @ jnp.array([1.0, -0.5, 0.2]) + 0.3 * jax.random.normal(noise_key, (n,))


def labels(key, n):
    """Three normal features and a label of 0 or 1."""
    x_key, y_key = jax.random.split(key)
    x = jax.random.normal(x_key, (n, 3))
    p = jax.nn.sigmoid(x @ jnp.array([1.5, -1.0, 0.0]))
    return x, jax.random.bernoulli(y_key, p).astype(x.dtype)


def walk(key, n):
    """Draw a random walk, whose examples depend on each other."""
    return jnp.cumsum(0.3 * jax.random.normal(key, (n, 2)), axis=0)


def absolute_total(theta, data):
    """Compute a loss of the whole dataset."""
    return jnp.max(jnp.abs(theta - data)) + jnp.sum((theta - data) ** 2)


def posteriors():
    """Posteriors by name."""
    normal = dist.Normal(jnp.zeros(3), 1.0)
    return {
        "mean": gdp.GibbsPosterior(
            gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.real(2))
        ),
        "regression": gdp.GibbsPosterior(gdp.losses.squared, normal),
        "logistic": gdp.GibbsPosterior(gdp.losses.logistic, normal),
        "box": gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.box(-1.0, 1.0, 3))),
        "structured": gdp.GibbsPosterior(
            total_loss=absolute_total, prior=dist.Normal(jnp.zeros(2), 1.0)
        ),
        "own": gdp.GibbsPosterior(
            lambda theta, z: jnp.sum(jnp.sqrt(1.0 + (theta - z) ** 2)),
            dist.Normal(jnp.zeros(2), 2.0),
        ),
    }


def audits():
    """Yield a name and a function that makes the report."""
    p = posteriors()
    small = {"num_datasets": 64, "progress": False, "sampler": gdp.Chains(num_chains=4)}

    def run(name, posterior, population, *learn, **settings):
        settings = {**small, "learn": [*gdp.DEFAULT, *learn], **settings}
        return name, lambda: gdp.audit(p[posterior], population, **settings)

    yield run("hmc", "logistic", labels, n=30, gammas=[0.1, 1.0, 10.0])
    four = {
        name: gdp.Chains(kernel, num_chains=4)
        for name, kernel in {
            "leapfrog": gdp.HMC(integrator="leapfrog"),
            "mala": gdp.MALA(),
            "ula": gdp.ULA(preconditioner="laplace"),
            "sgld": gdp.SGLD(batch_size=8),
        }.items()
    }
    yield run("leapfrog", "box", regression, n=20, gammas=[1.0], sampler=four["leapfrog"])
    yield run("mala", "logistic", labels, n=30, gammas=[1.0], sampler=four["mala"])
    yield run("ula", "own", gaussian, n=20, gammas=[1.0], sampler=four["ula"])
    yield run("sgld", "logistic", labels, n=40, gammas=[1.0], sampler=four["sgld"])
    none = gdp.MutualInformation(0)
    yield run("structured", "structured", gaussian, none, n=10, gammas=[0.5])
    walks, whole = gdp.populations.Dependent(walk), gdp.OnAverageKL(group_size=8)
    yield run("dependent", "mean", walks, whole, n=8, gammas=[0.1])
    rng = np.random.default_rng(0)
    table = (rng.normal(size=(300, 3)), rng.normal(size=300))
    yield run(
        "table", "regression", gdp.populations.Table(table, replace=False), n=40, gammas=[0.3, 1.0]
    )
    yield run(
        "grid",
        "mean",
        gaussian,
        n=10,
        gammas=[0.2, 1.0],
        sampler=gdp.Grid(low=-4.0, high=4.0, num_points=48),
    )
    both, sigma = gdp.OnAverageKL("two-sided"), gdp.MutualInformation(sigma="empirical")
    yield run("two-sided", "regression", regression, both, n=5, gammas=[4.0, 20.0])
    yield run("information", "regression", regression, sigma, n=20, gammas=[0.1, 1.0])
    three = gdp.OnAverageKL(group_size=3)
    yield run("group", "mean", gaussian, three, n=12, gammas=[1.0, 30.0])
    yield run("rel-error", "mean", gaussian, n=20, gammas=[1.0, 3.0], rel_error=0.03)

    def stored():
        with tempfile.TemporaryDirectory() as folder:
            for count in (32, 64):
                found = run(
                    "store", "own", gaussian, n=10, gammas=[1.0], store=folder, num_datasets=count
                )[1]()
        return found

    yield "store", stored


def numbers(names=None):
    """Return the rows of the audits, or of the named ones."""
    found = []
    for name, call in audits():
        if names is None or name in names:
            report = call()
            told = [*report.warnings, *report.notes]
            found += [{"audit": name, **json.loads(r), "told": told} for r in report.to_json_rows()]
    return found


def in_double_precision(names):
    """Return the rows of audits from a process that computes in double precision."""
    environment = os.environ | {"JAX_ENABLE_X64": "1"}
    call = [sys.executable, __file__, "--only", *names]
    text = subprocess.run(call, env=environment, check=True, stdout=subprocess.PIPE).stdout
    return [row | {"audit": f"{row['audit']}, float64"} for row in json.loads(text)]


def differences(old, new):
    """Yield one line for each number that is another one."""
    for before, after in zip(old, new, strict=True):
        before = {RENAMED.get(name, name): value for name, value in before.items()}
        for column in {**before, **after}:
            a, b = before.get(column), after.get(column)
            if isinstance(a, float) and isinstance(b, float):
                scale = max(abs(a), before.get(f"{column}_se", 0.0), 1e-6)
                is_same = math.isclose(a, b, abs_tol=ROUNDING * scale)
            elif column == "told":  # texts may be written better
                is_same = len(a) == len(b)
            else:
                is_same = a == b
            if not is_same:
                yield f"{before['audit']}, gamma={before['gamma']:g}, {column}: {a} is now {b}"


def main():
    """Run the audits, save their numbers and compare them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parser.add_argument("--against", help="file with the numbers of another version")
    parser.add_argument("--only", nargs="+", help="print the numbers of these audits, save none")
    parser.add_argument("--quick", action="store_true", help="two audits only")
    parsed = parser.parse_args()
    warnings.simplefilter("ignore")
    if parsed.only:
        print(json.dumps(numbers(parsed.only)))
        return 0
    rows = numbers(DOUBLE) if parsed.quick else numbers() + in_double_precision(DOUBLE)
    print("saved", machine.save("reports", rows, {}, parsed.out))
    if not parsed.against:
        return 0
    lines = list(differences(json.loads(Path(parsed.against).read_text())["rows"], rows))
    print("\n".join(lines) or "all numbers are the same")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
