"""Releases of draws: by every route of the accountant, and by `ProvenDraw`.

One call makes thousands of draws, at the gamma of a claim about one: what is claimed for one draw
is what the accountant says at that gamma, and draws are independent given the data. Two attacks of
each claim take long enough: how small a violation would be seen is to be read from the bound.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from claims_case import Case, epsilon_of_mu, patched
from lower_bounds import Runs
from scipy.optimize import brentq

import gibbs_dp as gdp
from gibbs_dp import privacy
from gibbs_dp.papers import bayesian_dp
from gibbs_dp.privacy.calibrate import Target, calibrate_gamma
from gibbs_dp.privacy.releases import method

DELTA = 1e-5
TOO_LARGE = 8.0
# Proven draws of one release: all together have a larger epsilon, where rounding is accepted.
BLOCK, MOST_EPSILON = 200, 40.0
# Chains of one release.
CHAINS = 4000
BOTH = ("exact-draw", "float-arithmetic")
FLOAT = ("float-arithmetic",)
WHOLE = jnp.zeros(1)


def hotter(module: Any, factor: float) -> AbstractContextManager[Any]:
    """Copy of a file in which calibration finds a gamma that much too large."""
    real = module.calibrate_gamma

    def calibrate(*args: Any, **options: Any) -> Any:
        found = real(*args, **options)
        gamma = factor * found.gamma
        return replace(found, gamma=gamma, guarantee=replace(found.guarantee, gamma=gamma))

    return patched((module, "calibrate_gamma", calibrate))()


def released(
    call: Callable[..., Any], adjacency: str, data: Any, in_zcdp: bool = False, **options: Any
) -> Runs:
    """Draws ``[draws, dim]`` of one release, charged to a ledger with room for it."""
    budget = {"zcdp": 1e12} if in_zcdp else {"epsilon": 1e9, "delta": 1.0 - 1e-9}
    with tempfile.TemporaryDirectory() as folder:
        ledger = gdp.Ledger.create(Path(folder) / "ledger", adjacency=adjacency, **budget)
        found = call(data=data, ledger=ledger, adjacency=adjacency, **options)
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(found.theta)]
    return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)


def exact(
    posterior: gdp.GibbsPosterior,
    tables: tuple[Any, Any],
    target: Callable[[int], dict[str, float]],
    adjacency: str = "replace-one",
    **options: Any,
) -> Callable[[int], tuple[Runs, Runs]]:
    """Run `gibbs_dp.release`; ``target`` is that of so many draws."""

    def many(data: Any, count: int) -> Runs:
        return released(
            partial(gdp.release, posterior),
            adjacency,
            data,
            accept=BOTH,
            num_draws=count,
            method=privacy.ExactDraw(num_warmup=200, num_samples=400),
            **target(count),
            **options,
        )

    def run(count: int) -> tuple[Runs, Runs]:
        parts = max(1, count // CHAINS)
        first, second = (
            np.concatenate([many(data, count // parts) for _ in range(parts)]) for data in tables
        )
        return first, second

    return run


HOTTER = partial(hotter, method)
GAMMA = {"gamma x 8": partial(HOTTER, TOO_LARGE)}


def cliff(theta: jax.Array, z: jax.Array) -> jax.Array:
    """Loss between -1/2 and 1/2 that falls, or rises, where theta is above 0.75."""
    return -z * 0.5 * jnp.tanh(10.0 * (theta[0] - 0.75))


def distance(theta: jax.Array, data: jax.Array) -> jax.Array:
    """Distance from the sum of the rows, without its kink."""
    return jnp.sqrt(1e-6 + (theta[0] - jnp.sum(data)) ** 2)


FAMILY = gdp.GibbsPosterior(
    total_loss=distance,
    prior=gdp.Flat(gdp.supports.real(1)),
    sensitivity=lambda n: 2.0,
    location_family=True,
)


def cases() -> Iterator[Case]:
    """One case a route of the accountant, then what it says of several draws and dependent rows."""
    steep = gdp.losses.Declared(cliff, oscillation=1.0)
    bounded = gdp.GibbsPosterior(steep, gdp.Flat(gdp.supports.box(-1.0, 1.0, 1)))
    one, other = np.array([1.0, 0.0]), np.array([-1.0, 0.0])
    unit = gdp.Domain(x_bound=1.0)
    yield Case(
        "release, bounded range",
        "gibbs_dp.release, pure_epsilon",
        "one of two rows against its opposite: an eighth of the space gains what the rest loses",
        0.5,  # with 8 times the gamma chains could hardly pass their checks at more
        exact(bounded, (one, other), lambda m: {"pure_epsilon": 0.5 * m}, domain=unit),
        GAMMA,
        HOTTER,
    )
    yield Case(
        "release, bounded range, add-remove",
        "gibbs_dp.release, pure_epsilon",
        "a row added to another",
        0.5,
        exact(
            bounded,
            (one, np.array([0.0])),
            lambda m: {"pure_epsilon": 0.5 * m},
            "add-remove",
            n=2,
            domain=unit,
        ),
        GAMMA,
        HOTTER,
    )
    yield from more_routes()


def more_routes() -> Iterator[Case]:
    """Location family, strongly convex, convex on a bounded set, several draws, dependent rows."""
    unit = gdp.Domain(x_bound=1.0)

    pair = np.array([[1.0], [0.0]]), np.array([[-1.0], [0.0]])
    location = exact(FAMILY, pair, lambda m: {"pure_epsilon": float(m)}, domain=unit)
    yield Case(
        "release, location family",
        "gibbs_dp.release, pure_epsilon",
        "one of two rows against its opposite",
        1.0,
        location,
        GAMMA,
        HOTTER,
    )

    normal = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(WHOLE, 0.5))
    mu = calibrate_gamma(
        normal, Target(epsilon=1.0, delta=DELTA), n=2, adjacency="replace-one", domain=unit
    ).guarantee.gdp
    yield Case(
        "release, strongly convex",
        "gibbs_dp.release, gdp",
        "one of two rows against its opposite; a Gaussian posterior moves",
        epsilon_of_mu(mu, DELTA),
        exact(normal, pair, lambda m: {"gdp": mu * m**0.5}, domain=unit),
        GAMMA,
        HOTTER,
        delta=DELTA,
        mu=mu,
    )
    linear = gdp.GibbsPosterior(gdp.losses.linear, gdp.Flat(gdp.supports.box(-1.0, 1.0, 1)))
    labels = np.array([1.0, 0.0]), np.array([-1.0, 0.0])
    wide = gdp.Domain(x_bound=1.0, y_range=(-1.0, 1.0))
    big = 4.0
    yield Case(
        "release, convex on a bounded set",
        "gibbs_dp.release, gdp",
        "a label against its opposite; the posterior leans on one end of an interval or the other",
        epsilon_of_mu(big, DELTA),
        exact(
            linear,
            tuple((np.ones((2, 1)), y) for y in labels),  # type: ignore[arg-type]
            lambda m: {"gdp": big * m**0.5},
            domain=wide,
        ),
        GAMMA,
        HOTTER,
        delta=DELTA,
        mu=big,
    )
    yield from proven()
    yield dependent()
    yield from beta_bernoulli()


def proven() -> Iterator[Case]:
    """Draws within a proven total variation, at the gamma of a target for one of them."""
    prior = dist.Normal(WHOLE, 0.5)
    mean = gdp.GibbsPosterior(gdp.losses.half_squared_distance, prior)
    means = np.array([[1.0], [0.0]]), np.array([[-1.0], [0.0]])
    slope = gdp.GibbsPosterior(gdp.losses.Huber(0.5), prior)
    x = np.array([[1.0], [0.0]])
    pair = (x, np.array([3.0, 0.0])), (x, np.array([-3.0, 0.0]))
    single, run = proven_runs(mean, means, gdp.Domain(x_bound=1.0))
    yield Case(
        "release, proven draws",
        "gibbs_dp.privacy.ProvenDraw",
        "one of two rows against its opposite",
        1.0,
        run,
        {"gamma x 8": partial(hotter, method, TOO_LARGE)},
        partial(hotter, method),
        delta=DELTA,
        mu=single,
    )
    single, run = proven_runs(slope, pair, gdp.Domain(x_bound=1.0, y_range=(-3.0, 3.0)))
    yield Case(
        "release, proven rounds",
        "gibbs_dp.privacy.ProvenDraw",
        "Huber's loss: the label of one of two rows against its opposite",
        1.0,
        run,
        {"gamma x 8": partial(hotter, method, TOO_LARGE)},
        delta=DELTA,
        mu=single,
    )


def proven_runs(
    posterior: gdp.GibbsPosterior, pair: tuple[Any, Any], domain: gdp.Domain
) -> tuple[float, Callable[[int], tuple[Runs, Runs]]]:
    """Gaussian DP of one draw, and draws from two neighbours at its gamma."""

    def gamma_of(epsilon: float, num_draws: int) -> float:
        asked = {"epsilon": epsilon, "delta": DELTA}
        request = privacy.ReleaseRequest(posterior, 2, domain, "replace-one", num_draws, asked)
        gamma = privacy.ProvenDraw().plan(request).guarantee.gamma
        assert gamma is not None
        return gamma

    single = gamma_of(1.0, 1)
    mu = privacy.account(posterior, gamma=single, n=2, adjacency="replace-one", domain=domain).gdp()

    def run(count: int) -> tuple[Runs, Runs]:
        def excess(epsilon: float) -> float:
            return float(np.log(gamma_of(epsilon, BLOCK) / single))

        with patched((method, "calibrate_gamma", calibrate_gamma))():
            total = brentq(excess, 1.0, MOST_EPSILON, rtol=1e-9)

        def many(data: Any) -> Runs:
            return released(
                partial(gdp.release, posterior),
                "replace-one",
                data,
                domain=domain,
                epsilon=total,
                delta=DELTA,
                accept=FLOAT,
                num_draws=BLOCK,
                method=privacy.ProvenDraw(),
            )

        first, second = (
            np.concatenate([many(data) for _ in range(count // BLOCK)]) for data in pair
        )
        return first, second

    return mu, run


def dependent() -> Case:
    """Release from two rows of a Markov chain; the second is drawn given the first."""
    chain = bayesian_dp.MarkovChain([[0.8, 0.2], [0.2, 0.8]], 2)
    unit = gdp.Domain(x_bound=1.0)
    found = calibrate_gamma(
        FAMILY,
        Target(bayesian_epsilon=2.0),
        n=2,
        adjacency="replace-one",
        domain=unit,
        rows=chain,
    ).guarantee

    def target(count: int) -> dict[str, float]:
        return {"pure_epsilon": count * found.pure_epsilon}

    def run(count: int) -> tuple[Runs, Runs]:
        rng = np.random.default_rng()
        low, high = np.array([[-1.0], [-1.0]]), np.array([[1.0], [1.0]])
        apart = np.array([[-1.0], [1.0]])
        sides = []
        for alike in (low, high):  # the first row is known to be -1, or 1
            draws = exact(FAMILY, (alike, apart), target, domain=unit)(count)
            is_alike = rng.random((count, 1)) < chain.matrix[0, 0]
            sides.append(np.where(is_alike, *draws))
        return sides[0], sides[1]

    return Case(
        "release, Bayesian DP of a chain",
        "gibbs_dp.release, bayesian_epsilon",
        "a row of a chain of 2, -1 or 1, to one who does not know the other",
        found.bayesian_epsilon,
        run,
        GAMMA,
        HOTTER,
    )


def beta_bernoulli() -> Iterator[Case]:
    """Draw from the posterior of bits: the library has its promise, and draws are NumPy's."""
    delta = 0.01
    bits = privacy.BetaBernoulli(5.0, 5.0, gamma=1.0, n=10)
    heat = [1.0]

    def run(count: int) -> tuple[Runs, Runs]:
        rng, gamma = np.random.default_rng(), heat[0] * bits.gamma
        first, second = (
            rng.beta(bits.a + gamma * k, bits.b + gamma * (bits.n - k), size=count)[:, None]
            for k in (0, 1)
        )
        return first, second

    @contextmanager
    def warmer(factor: float) -> Iterator[None]:
        heat[0] = factor
        yield
        heat[0] = 1.0

    yield Case(
        "Beta posterior of bits",
        "BetaBernoulli.guarantee",
        "no one among ten bits, or 1",
        bits.guarantee(delta).epsilon,
        run,
        {"gamma x 8": partial(warmer, TOO_LARGE)},
        warmer,
        delta=delta,
    )
