"""Langevin chains whose own guarantee holds: `release` by `ChainDraw`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from claims_case import Case, Copy, epsilon_of_mu, patched
from claims_release import BLOCK, DELTA, FLOAT, TOO_LARGE, released
from lower_bounds import Runs

import gibbs_dp as gdp
from gibbs_dp import privacy
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.privacy.releases import methods

PAIR = np.array([[1.0], [0.0]]), np.array([[-1.0], [0.0]])
UNIT = gdp.Domain(x_bound=1.0)
NORMAL = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(1), 1.0))


def otherwise(factor: float = 1.0, **settings: float) -> AbstractContextManager[Any]:
    """Copy whose chains run at a gamma that much too large, or with other settings."""
    real = methods.run_langevin

    def run(*args: Any, gamma: float, kernel: Any, **options: Any) -> Any:
        changed = replace(kernel, **settings)
        return real(*args, gamma=factor * gamma, kernel=changed, **options)

    return patched((methods, "run_langevin", run))()


def otherwise_private(step_size: float, clip: float) -> dict[str, Copy]:
    """Make copies that do not clip, and that add too little noise."""
    return {
        "without a clip": partial(otherwise, clip=1e3 * clip),
        # Four times the gradient with a quarter of the step: half the noise, the same drift.
        "half the noise": partial(otherwise, 4.0, step_size=step_size / 4),
    }


WARMER: dict[str, Any] = {"weaker": otherwise}
GAMMA = {"gamma x 8": partial(otherwise, TOO_LARGE)}


def chains(
    posterior: gdp.GibbsPosterior,
    tables: tuple[Any, Any],
    domain: gdp.Domain,
    kernel: Any,
    gamma: float,
    adjacency: str = "replace-one",
    block: int | None = None,
    delta: float = DELTA,
    **options: Any,
) -> Callable[[int], tuple[Runs, Runs]]:
    """Release by `ChainDraw`, many chains a release; ``block`` of them where it must be few."""

    def many(data: Any, count: int) -> Runs:
        return released(
            partial(gdp.release, posterior),
            adjacency,
            data,
            domain=domain,
            method=privacy.ChainDraw(kernel, gamma=gamma),
            delta=delta,
            accept=FLOAT,
            num_draws=count,
            **options,
        )

    def run(count: int) -> tuple[Runs, Runs]:
        parts = [block] * (count // block) if block else [count]
        first, second = (np.concatenate([many(data, part) for part in parts]) for data in tables)
        return first, second

    return run


def case(
    name: str,
    words: str,
    posterior: gdp.GibbsPosterior,
    tables: tuple[Any, Any],
    domain: gdp.Domain,
    kernel: gdp.ULA,
    gamma: float,
    num_draws: int = 1,
    broken: Mapping[str, Copy] = GAMMA,
) -> Case:
    """Make a case of full-batch chains, which have Gaussian DP."""
    mu = privacy.chain_guarantee(
        posterior,
        kernel,
        gamma=gamma,
        n=len(jax.tree.leaves(tables[0])[0]),
        adjacency="replace-one",
        domain=domain,
        delta=DELTA,
        num_draws=num_draws,
    ).gdp
    run = chains(posterior, tables, domain, kernel, gamma, in_zcdp=True)

    def together(count: int) -> tuple[Runs, Runs]:
        first, second = run(num_draws * count)
        return first.reshape(count, -1), second.reshape(count, -1)

    return Case(
        name,
        "gibbs_dp.privacy.ChainDraw",
        words,
        epsilon_of_mu(mu, DELTA),
        together,
        broken,
        delta=DELTA,
        mu=mu,
        **WARMER,
    )


def cases() -> Iterator[Case]:
    """Last iterates on a line and on an interval, trajectories, minibatches."""
    opposite = "one of two rows against its opposite"
    found = privacy.calibrate_chain(
        NORMAL, epsilon=1.0, delta=DELTA, n=2, adjacency="replace-one", domain=UNIT
    )
    yield case(
        "chain, last iterate",
        f"{opposite}; {found.kernel.num_steps} steps",
        NORMAL,
        PAIR,
        UNIT,
        found.kernel,
        found.gamma,
    )
    yield case(
        "chain, three draws",
        f"{opposite}; 20 steps",
        NORMAL,
        PAIR,
        UNIT,
        gdp.ULA(0.1, 20),
        0.1,
        num_draws=3,
    )
    interval = gdp.GibbsPosterior(gdp.losses.linear, gdp.Flat(gdp.supports.box(-1.0, 1.0, 1)))
    ends = tuple((np.ones((2, 1)), np.array([y, 0.0])) for y in (1.0, -1.0))
    yield case(
        "chain, projected",
        "a label against its opposite; 40 steps on an interval",
        interval,
        ends,  # type: ignore[arg-type]
        gdp.Domain(x_bound=1.0, y_range=(-1.0, 1.0)),
        gdp.ULA(0.05, 40),
        0.5,
    )
    # A loss that is not convex, on a line without a prior to speak of: the steps add up.
    wave = gdp.losses.Declared(lambda theta, z: 3.0 * z * jnp.sin(theta[0]))
    waves = PAIR[0][:, 0], PAIR[1][:, 0]
    flat = gdp.GibbsPosterior(wave, dist.Normal(jnp.zeros(1), 100.0))
    yield case(
        "chain, composition of clipped steps",
        f"{opposite}; 4 steps along a clipped wave",
        flat,
        waves,
        UNIT,
        gdp.ULA(0.05, 4, clip=1.0),
        0.5,
    )
    yield network()
    added = np.array([[1.0], [0.0]]), np.array([[0.0]])
    name = "chain, minibatches"
    yield minibatches(name, "a row added to another", NORMAL, added, "add-remove")
    # Along the wave steps add up; at eight times the gamma those of a distance swing back.
    broken = GAMMA | otherwise_private(step_size=0.1, clip=1.0)
    yield minibatches(f"{name}, replaced", opposite, flat, waves, "replace-one", broken)


def network() -> Case:
    """Weights and offsets of a small network, from zero; a target far from what it predicts."""

    def loss(theta: Any, z: Any) -> Any:
        hidden = jnp.tanh(theta["in"] * z[0] + theta["offsets"])
        return (jnp.dot(hidden, theta["out"]) + theta["offset"] - 9.0 * z[1]) ** 2

    sizes = {"in": 3, "offsets": 3, "out": 3, "offset": 1}
    prior = {name: dist.Normal(jnp.zeros(size), 100.0) for name, size in sizes.items()}
    posterior = gdp.GibbsPosterior(
        gdp.losses.Declared(lambda theta, z: jnp.sum(loss(theta, z))), prior
    )
    tables = tuple((np.array([[1.0], [0.0]]), np.array([y, 0.0])) for y in (1.0, -1.0))
    step, clip = 0.05, 1.0
    return case(
        "chain, a network",
        "a target against its opposite; 4 clipped steps of 10 weights",
        posterior,
        tables,  # type: ignore[arg-type]
        gdp.Domain(x_bound=1.0, y_range=(-1.0, 1.0)),
        gdp.ULA(step, 4, clip=clip),
        0.5,
        broken=otherwise_private(step, clip),
    )


def minibatches(
    name: str,
    words: str,
    posterior: gdp.GibbsPosterior,
    tables: tuple[Any, Any],
    adjacency: Adjacency,
    broken: Mapping[str, Copy] = GAMMA,
) -> Case:
    """SGLD on Poisson samples."""
    delta = 0.01
    kernel = gdp.SGLD(step_size=0.1, num_steps=2, clip=1.0, sampling_rate=0.5)
    gamma = 2.0
    claim = privacy.chain_guarantee(
        posterior, kernel, gamma=gamma, n=2, adjacency=adjacency, domain=UNIT, delta=delta
    )
    run = chains(posterior, tables, UNIT, kernel, gamma, adjacency, block=BLOCK, delta=delta, n=2)
    return Case(
        name,
        "gibbs_dp.privacy.ChainDraw, SGLD",
        f"{words}; 2 steps at rate 0.5",
        claim.epsilon,
        run,
        broken,
        delta=delta,
        **WARMER,
    )
