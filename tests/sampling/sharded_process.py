"""One of several processes that sample one posterior; prints its draws as JSON.

``python sharded_process.py PORT NUM_PROCESSES PROCESS_ID``
"""

import json
import sys

import jax
import numpy as np


def main():
    port, count, number = map(int, sys.argv[1:])
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"localhost:{port}", count, number)
    import numpyro.distributions as dist

    import gibbs_dp as gdp

    x, y = examples()
    rows = np.array_split(np.arange(y.size), count)[number]
    data = gdp.shard_examples((x[rows], y[rows]))
    posterior = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(0.0, 1.0).expand([2]))
    draws = gdp.sample(posterior, data, **SETTINGS)
    answer = {
        "theta": draws.theta.tolist(),
        "rows_here": sum(s.data.shape[0] for s in data[1].addressable_shards),
        "rows": data[1].shape[0],
    }
    refusal = None
    try:
        gdp.shard_examples(np.ones(3 + number))
    except ValueError as error:
        refusal = str(error)
    sys.stdout.write(json.dumps(answer | {"refusal": refusal}) + "\n")


SETTINGS = {"gamma": 0.5, "num_chains": 2, "num_warmup": 20, "num_samples": 20}


def examples():
    """A table of 400 rows, the same in every process."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 2))
    return x, (rng.uniform(size=400) < 1 / (1 + np.exp(-x.sum(axis=1)))).astype(float)


if __name__ == "__main__":
    main()
