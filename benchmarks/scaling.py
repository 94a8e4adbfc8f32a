"""How time and peak memory grow with datasets, examples, dimensions and gammas.

    python benchmarks/scaling.py            # 20 minutes on two cores; --quick for a look

Every point is a process of its own, so that its peak memory is its own. "seconds" is the second of
two audits: compilation is in the first. Slopes are of log time on log size over the points given.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import time

import machine
import numpy as np

# What varies, with everything else as in BASE.
BASE = {"num_datasets": 1024, "n": 200, "dim": 10, "num_gammas": 1}
SWEEPS = {
    "num_datasets": [100, 1_000, 10_000, 100_000],
    "n": [100, 1_000, 10_000, 100_000],
    "dim": [1, 10, 50, 200, 500],
    "num_gammas": [1, 4, 16, 64],
}
QUICK = {"num_datasets": [1_000, 10_000], "n": [100, 1_000], "dim": [1, 10], "num_gammas": [1, 4]}
PILOTS = 64  # 32 datasets, sampled twice
# Fewer datasets where one dataset is large.
DATASETS = {"dim": {50: 256, 200: 64, 500: 16}}


def one(point):
    """Run one point in this process and print what it took."""
    import jax
    import jax.numpy as jnp
    import numpyro.distributions as dist

    import gibbs_dp as gdp

    dim = point["dim"]
    posterior = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(0.0, 1.0).expand([dim]))

    def examples(key, n):
        x_key, y_key = jax.random.split(key)
        x = gdp.random.normal(x_key, (n, dim))
        y = gdp.random.uniform(y_key, (n,)) < jax.nn.sigmoid(x.sum(axis=1) / jnp.sqrt(dim))
        return x, y.astype(x.dtype)

    gammas = np.geomspace(0.1, 1.0, point["num_gammas"])
    spans = []
    for key in (0, 1):
        begin = time.perf_counter()
        gdp.audit(
            posterior,
            examples,
            point["n"],
            gammas,
            num_datasets=point["num_datasets"],
            key=key,
            learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
            progress=False,
        )
        spans.append(time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    first, second = spans
    print(json.dumps({"first_s": first, "seconds": second, "peak_mib": peak}))


def run(name, value):
    """Measure one point in a process of its own."""
    point = BASE | {name: value}
    point["num_datasets"] = DATASETS.get(name, {}).get(value, point["num_datasets"])
    command = [sys.executable, __file__, "--one", json.dumps(point)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {"sweep": name, **point, **json.loads(done.stdout.splitlines()[-1])}


def slopes(rows):
    """Log-log slope of the seconds a dataset and gamma cost, from point to point."""
    found = []
    for name in dict.fromkeys(row["sweep"] for row in rows):
        mine = [row for row in rows if row["sweep"] == name]
        for a, b in itertools.pairwise(mine):
            # Where the datasets differ too, time is per dataset, pilots (of every gamma) included.
            per = [r["seconds"] if name == "num_datasets"
                   else r["seconds"] / (r["num_datasets"] + PILOTS) for r in (a, b)]  # fmt: skip
            slope = np.log(per[1] / per[0]) / np.log(b[name] / a[name])
            found.append({"sweep": name, "from": a[name], "to": b[name], "slope": float(slope)})
    return found


def main():
    """Measure and save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sweeps", nargs="+", choices=list(SWEEPS), default=list(SWEEPS))
    parser.add_argument("--one", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    if parsed.one is not None:
        one(parsed.one)
        return
    table = QUICK if parsed.quick else SWEEPS
    rows = machine.rows_of_others("scaling", "sweep", parsed.sweeps, parsed.out)
    for name in parsed.sweeps:
        for value in table[name]:
            rows.append(run(name, value))
            print(f"{name}={value}: {rows[-1]['seconds']:.2f} s", file=sys.stderr, flush=True)
    found = slopes(rows)
    machine.show(rows)
    machine.show(found)
    print("saved", machine.save("scaling", rows, {"base": BASE, "slopes": found}, parsed.out))


if __name__ == "__main__":
    main()
