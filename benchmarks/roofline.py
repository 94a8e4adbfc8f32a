"""What a gradient costs per (chain x example), against the same arithmetic alone and the peak.

    python benchmarks/roofline.py

The built-in logistic loss, and losses written as a user would, one example at a time: logistic,
Poisson, a two-layer network and a mixture of Gaussians. One block of datasets. "bare" is the
gradient's arithmetic written out by hand as batched matrix products and elementwise functions, for
the mixture with its squares multiplied out; "gradient" is the gradient of the engine's potential;
"sampler" is a whole HMC step over its gradients, noise, acceptance and bookkeeping included. Times
are the least of many runs on one core, which is where a block of an audit runs.
"""

from __future__ import annotations

import argparse
import os
import time

if __name__ == "__main__" and hasattr(os, "sched_setaffinity"):  # before JAX starts its threads
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax
import jax.numpy as jnp
import machine
import numpy as np
import numpyro.distributions as dist

import gibbs_dp as gdp
from gibbs_dp._jaxlib.compile import compiler_options
from gibbs_dp.sampling.chains import evolve
from gibbs_dp.sampling.kernels.base import make_schedule
from gibbs_dp.sampling.kernels.hmc import HMC
from gibbs_dp.sampling.target import Target, Whitening

CHAINS, LEAPFROG = 8, 3
HIDDEN, COMPONENTS = 8, 3


def compiled(function, *arguments):
    """Compile as the engine does."""
    options = compiler_options(jax.default_backend())
    return jax.jit(function, compiler_options=options).lower(*arguments).compile()


def best(program, *arguments, runs):
    """Least time of several runs."""
    jax.block_until_ready(program(*arguments))
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        jax.block_until_ready(program(*arguments))
        times.append(time.perf_counter() - begin)
    return min(times)


def peak_gflops(runs):
    """Rate of a large single-precision matrix product."""
    size = 1024 if jax.default_backend() == "cpu" else 8192
    a = jnp.ones((size, size), jnp.float32)
    return 2 * size**3 / best(compiled(jnp.matmul, a, a), a, a, runs=runs) / 1e9


def own_logistic(theta, z):
    """Write the logistic loss as a user would."""
    x, y = z
    return jnp.logaddexp(0.0, x @ theta) - y * (x @ theta)


def own_poisson(theta, z):
    """Negative log-likelihood of a count, up to what the data alone say."""
    x, y = z
    prediction = jnp.sum(x * theta)
    return jnp.exp(prediction) - y * prediction


def own_network(theta, z):
    """Squared error of a two-layer network."""
    x, y = z
    hidden = jnp.tanh(theta["w"] @ x + theta["b"])
    return 0.5 * (hidden @ theta["v"] - y) ** 2


def own_mixture(theta, z):
    """Negative log-likelihood of a mixture of Gaussians, up to a constant."""
    x, _ = z
    return -jax.nn.logsumexp(-0.5 * jnp.sum((x - theta) ** 2, axis=-1))


def linear_gradient(mean):
    """Gradient of a linear predictor's loss, whose mean response is given."""

    def gradient(v, x, y):
        residual = mean(jnp.einsum("bcd,bnd->bcn", v, x)) - y[:, None]
        return jnp.einsum("bcn,bnd->bcd", residual, x)

    return gradient


def network_gradient(v, x, y):
    """Gradient of the network's loss; parameters in the order b, v, w."""
    b, top, w = v[..., :HIDDEN], v[..., HIDDEN : 2 * HIDDEN], v[..., 2 * HIDDEN :]
    w = w.reshape(*v.shape[:2], HIDDEN, -1)
    hidden = jnp.tanh(jnp.einsum("bchd,bnd->bchn", w, x) + b[..., None])
    residual = jnp.einsum("bchn,bch->bcn", hidden, top) - y[:, None]
    back = (1 - hidden**2) * top[..., None] * residual[:, :, None]
    parts = (
        jnp.einsum("bchn,n->bch", back, jnp.ones(x.shape[1])),
        jnp.einsum("bchn,bcn->bch", hidden, residual),
        jnp.einsum("bchn,bnd->bchd", back, x).reshape(*v.shape[:2], -1),
    )
    return jnp.concatenate(parts, axis=-1)


def mixture_gradient(v, x, y):
    """Gradient of the mixture's loss, with matrix products for the squared distances."""
    del y
    centers = v.reshape(*v.shape[:2], COMPONENTS, -1)
    scores = jnp.einsum("bckd,bnd->bckn", centers, x)
    shares = jax.nn.softmax(scores - 0.5 * jnp.sum(centers**2, -1)[..., None], axis=2)
    weight = jnp.einsum("bckn,n->bck", shares, jnp.ones(x.shape[1]))[..., None]
    slope = weight * centers - jnp.einsum("bckn,bnd->bckd", shares, x)
    return slope.reshape(v.shape)


def normal(*shape):
    """Independent standard normals."""
    return dist.Normal(0.0, 1.0).expand(shape).to_event()


def network_prior(dim):
    """Prior of the network's weights."""
    return {"w": normal(HIDDEN, dim), "b": normal(HIDDEN), "v": normal(HIDDEN)}


# Name: loss, prior for examples of this dimension, bare gradient.
LOSSES = {
    "linear predictor": (gdp.losses.logistic, normal, linear_gradient(jax.nn.sigmoid)),
    "own logistic": (own_logistic, normal, linear_gradient(jax.nn.sigmoid)),
    "own Poisson": (own_poisson, normal, linear_gradient(jnp.exp)),
    "own network": (own_network, network_prior, network_gradient),
    "own mixture": (own_mixture, lambda dim: normal(COMPONENTS, dim), mixture_gradient),
}


def potential_of(posterior, x, y):
    """Return the engine's potential of one dataset at gamma = 1."""
    target = Target(posterior, (x, y), jnp.ones(()))
    return target.relative_to(target.terms(jnp.zeros(posterior.dim)))


def unit_of(dim):
    """Coordinates like those that the engine whitens with."""
    return Whitening(jnp.zeros(dim), 0.1 * jnp.eye(dim))


def inputs_of(name, datasets, n, dim):
    """Return a posterior, examples of many datasets and positions of their chains."""
    loss, prior, _ = LOSSES[name]
    posterior = gdp.GibbsPosterior(loss, prior(dim))
    key = jax.random.key(0)
    x = jax.random.normal(key, (datasets, n, dim))
    y = (jax.random.uniform(key, (datasets, n)) < 0.5).astype(x.dtype)
    return posterior, x, y, 0.1 * jax.random.normal(key, (datasets, CHAINS, posterior.dim))


def measure(name, datasets, n, dim, runs, steps=100):
    """Nanoseconds per (chain x example): gradient, value and gradient, a sampler's gradient."""
    posterior, x, y, v = inputs_of(name, datasets, n, dim)
    size = posterior.dim
    keys = jax.random.split(jax.random.key(0), datasets)
    unit = datasets * CHAINS * n * 1e-9

    def gradients(v, x, y):
        def one(v, x, y):
            slope = jax.vmap(jax.grad(unit_of(size).pull_back(potential_of(posterior, x, y))))
            return jax.lax.fori_loop(0, steps, lambda _, v: v - 1e-4 * slope(v), v)

        return jax.vmap(one)(v, x, y)

    def values(v, x, y):
        def one(v, x, y):
            pulled = unit_of(size).pull_back(potential_of(posterior, x, y))
            both = jax.vmap(jax.value_and_grad(pulled))

            def body(_, v):
                value, slope = both(v)
                return v - 1e-4 * slope - 1e-9 * value[:, None]

            return jax.lax.fori_loop(0, steps, body, v)

        return jax.vmap(one)(v, x, y)

    def sampler(keys, v, x, y, burn_in):
        def one(key, v, x, y):
            schedule = make_schedule((0.1, LEAPFROG), 0, 0)._replace(num_burn_in=burn_in)
            potential = potential_of(posterior, x, y)
            return evolve(key, potential, v, unit_of(size), HMC(), schedule, 8, True).v

        return jax.vmap(one)(keys, v, x, y)

    gradient = best(compiled(gradients, v, x, y), v, x, y, runs=runs) / steps / unit
    both = best(compiled(values, v, x, y), v, x, y, runs=runs) / steps / unit
    few, many = jnp.asarray(8, jnp.int32), jnp.asarray(8 + steps, jnp.int32)
    program = compiled(sampler, keys, v, x, y, few)
    spans = [best(program, keys, v, x, y, count, runs=runs) for count in (few, many)]
    # The last gradient of a trajectory comes with the potential's value, which the step needs.
    step = (spans[1] - spans[0]) / steps / unit
    return gradient, both, step / LEAPFROG


def bare(name, datasets, n, dim, runs, steps=100):
    """Nanoseconds per (chain x example) of the arithmetic alone."""
    _, x, y, v = inputs_of(name, datasets, n, dim)
    gradient = LOSSES[name][2]

    def run(v, x, y):
        return jax.lax.fori_loop(0, steps, lambda _, v: v - 1e-4 * (gradient(v, x, y) + v), v)

    return best(compiled(run, v, x, y), v, x, y, runs=runs) / steps / (datasets * CHAINS * n * 1e-9)


def main():
    """Measure and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="one small shape, two runs")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    if parsed.quick:
        parsed.runs = 2
    peak = peak_gflops(parsed.runs)
    rows = []
    shapes = [(8, 200, 10), (64, 200, 3), (64, 200, 10), (64, 1000, 31)]
    if jax.default_backend() != "cpu":
        shapes += [(1024, 200, 10), (4096, 200, 10), (16384, 200, 10)]
    if parsed.quick:
        shapes = shapes[:1]
    for datasets, n, dim in shapes:
        for name, (_, prior, _) in LOSSES.items():
            is_linear = prior is normal
            if n > 200 and not is_linear:
                continue  # minutes
            alone = bare(name, datasets, n, dim, parsed.runs)
            gradient, both, sampler = measure(name, datasets, n, dim, parsed.runs)
            own = ((LEAPFROG - 1) * gradient + both) / LEAPFROG
            rows.append(
                {
                    "loss": name,
                    "datasets": datasets,
                    "n": n,
                    "dim": dim,
                    "bare_ns": alone,
                    "gradient_ns": gradient,
                    "value_and_gradient_ns": both,
                    "sampler_ns": sampler,
                    "gradient_over_bare": gradient / alone,
                    "sampler_over_gradients": sampler / own,
                    "share_of_peak": 4 * dim / gradient / peak if is_linear else None,
                }
            )
    machine.show(rows)
    settings = {"num_chains": CHAINS, "num_leapfrog": LEAPFROG, "peak_gflops": peak}
    print("saved", machine.save("roofline", rows, settings, parsed.out))
    assert np.isfinite(peak)


if __name__ == "__main__":
    main()
