"""What a proven draw takes: rounds, proposals a round and seconds, by size, prior and target.

Logistic regression on made rows of length up to 1, with a Gaussian prior or a flat one on a ball;
replace-one neighbours, delta 1e-6. Rounds depend on nothing else; proposals depend on the data.
The condition is the largest curvature that the declared bounds allow over the prior's, on a ball of
radius R over 2 / (e R^2). Seconds are CPU time, which waiting threads add to:

    OMP_NUM_THREADS=1 python benchmarks/proven_draws.py
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import jax.numpy as jnp
import machine
import numpy as np
import numpyro.distributions as dist

import gibbs_dp as gdp
from gibbs_dp.privacy import ProvenDraw
from gibbs_dp.privacy.proximal_sampler import ProximalSampler

DELTA, MANY = 1e-6, 50_000
DOMAIN = gdp.Domain(x_bound=1.0)


def cases(is_quick: bool) -> Iterator[tuple[int, int, str, float, float]]:
    """Parameters, rows, prior, its scale or radius, epsilon."""
    if is_quick:
        yield 3, 200, "Gaussian", 1.0, 1.0
        yield 3, 200, "ball", 1.0, 1.0
        return
    for dim in (2, 10, 31, 100, 200):
        for rows in (500, 5_000, MANY):
            others = (0.3, 3.0) if rows * dim < 200_000 and rows < MANY else ()
            for epsilon in (1.0, *others):
                yield dim, rows, "Gaussian", 1.0, epsilon
                if rows < MANY or dim <= 10:
                    yield dim, rows, "ball", 2.0, epsilon
    for scale in (0.3, 3.0):
        yield 10, 5_000, "Gaussian", scale, 1.0
        yield 10, 5_000, "ball", scale, 1.0


def measure(dim: int, rows: int, kind: str, size: float, epsilon: float) -> dict[str, object]:
    """Draw three times, or once of many rows; the guarantee and counts are those of the last."""
    num_draws = 3 if rows < 5_000 else 1
    rng = np.random.default_rng(dim + rows)
    x = rng.normal(size=(rows, dim)) / math.sqrt(dim)
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]
    y = (rng.random(rows) < 1 / (1 + np.exp(-4 * x[:, 0]))).astype(float)
    prior = (
        dist.Normal(jnp.zeros(dim), size)
        if kind == "Gaussian"
        else gdp.Flat(gdp.supports.l2_ball(dim, size))
    )
    posterior = gdp.GibbsPosterior(gdp.losses.logistic, prior)
    row: dict[str, object] = {"d": dim, "n": rows, "prior": f"{kind} {size:g}", "epsilon": epsilon}
    samplers: list[ProximalSampler] = []
    made = ProximalSampler.__init__

    def kept(self: ProximalSampler, *given: object) -> None:
        made(self, *given)
        samplers.append(self)

    ProximalSampler.__init__ = kept
    seconds = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            ledger = gdp.Ledger.create(
                Path(folder) / "l", adjacency="replace-one", epsilon=100.0, delta=1e-3
            )
            for _ in range(num_draws):
                begin = time.process_time()
                out = gdp.release(
                    posterior,
                    (x, y),
                    domain=DOMAIN,
                    adjacency="replace-one",
                    ledger=ledger,
                    epsilon=epsilon,
                    delta=DELTA,
                    method=ProvenDraw(),
                )
                seconds.append(time.process_time() - begin)
    except ValueError as refusal:
        return row | {"refused": str(refusal)}
    finally:
        ProximalSampler.__init__ = made
    plan, proposals = samplers[-1].plan, samplers[-1].num_proposals
    flat = 1 / size**2 if kind == "Gaussian" else 2 / (math.e * size**2)
    return row | {
        "gamma": out.guarantee.gamma,
        "condition": plan.smoothness / flat,
        "rounds": plan.num_steps,
        "proposals": proposals / plan.num_steps,
        "total_variation": out.guarantee.total_variation,
        "rounding": plan.rounding,
        "seconds": float(np.median(seconds)),
        "draws": num_draws,
    }


def main() -> None:
    """Measure all cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two small cases")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    given = parser.parse_args()
    print("  d      n  prior         eps  condition  rounds  proposals  tot. var.  CPU seconds")
    rows = []
    for case in cases(given.quick):
        row = measure(*case)
        rows.append(row)
        head = f"{row['d']:3} {row['n']:6}  {row['prior']:12} {row['epsilon']:4g}"
        if "refused" in row:
            print(f"{head}  {row['refused']}", flush=True)
        else:
            print(
                f"{head} {row['condition']:10.4g} {row['rounds']:7} {row['proposals']:10.2f} "
                f"{row['total_variation']:10.2g} {row['seconds']:12.2f}",
                flush=True,
            )
        machine.save(
            "proven_draws",
            rows,
            {"delta": DELTA, "threads": os.environ.get("OMP_NUM_THREADS")},
            given.out,
        )


if __name__ == "__main__":
    main()
