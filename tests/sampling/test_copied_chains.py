"""Chains that hold each other's draws count as fewer: refused by every door that takes draws."""

import re

import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr

import gibbs_dp as gdp
from gibbs_dp.sampling.diagnostics import refuse_copies

N = 100


def independent(rng, chains, draws, dim=3):
    return rng.normal(size=(chains, draws, dim))


def sticky(rng, chains, draws, dim=3):
    """Metropolis on a normal law: a chain stays where it is while it rejects."""
    x, at = np.zeros((chains, draws, dim)), rng.normal(size=(chains, dim))
    for t in range(draws):
        new = at + 1.5 * rng.normal(size=at.shape)
        accepted = np.log(rng.random(chains)) < 0.5 * (at**2 - new**2).sum(axis=1)
        at = np.where(accepted[:, None], new, at)
        x[:, t] = at
    return x


def slow(rng, chains, draws, dim=3, rho=0.9):
    x = rng.normal(size=(chains, draws, dim))
    for t in range(1, draws):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * x[:, t]
    return x


def copies(chains, path, rng):
    """Every way in which two chains hold one sampler's draws, or one holds them twice."""
    one = chains[1]
    added = {
        "the same": one,
        "in single precision": one.astype(np.float32),
        "in four digits": one.round(4),
        "with noise of 1e-6": one + 1e-6 * rng.normal(size=one.shape),
        "with noise of 1%": one + 1e-2 * rng.normal(size=one.shape),
        "in another order": rng.permutation(one),
        "in another order, in single precision": rng.permutation(one).astype(np.float32),
        "backwards": one[::-1],
        "rolled": np.roll(one, 9, axis=0),
        "drawn from it": one[rng.integers(0, N, N)],
        "in one half": np.concatenate([one[: N // 2], chains[2, : N // 2]]),
    }
    found = {name: np.concatenate([chains[:3], other[None]]) for name, other in added.items()}
    for lag in (1, 7, 49, 80):
        found[f"a lag of {lag}"] = np.stack([path[:N], path[lag : N + lag]])
        found[f"a lag of -{lag}"] = np.stack([path[lag : N + lag], path[:N]])
    found["a lag and noise"] = np.stack([path[:N], path[7 : N + 7] + 1e-4])
    found["every second draw"] = np.stack([path[:N], path[: 2 * N : 2]])
    found["every fourth draw"] = np.stack([path[: 4 * N : 4], path[:N]])
    found["twice in one chain"] = np.concatenate([chains[:1], chains[:1]], axis=1)
    found["four times in one chain"] = np.concatenate([chains[:1]] * 4, axis=1)
    found["all chains"] = np.repeat(chains[:1], 4, axis=0)
    return found


@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize("sampler", [independent, sticky, slow])
def test_copies_are_refused(sampler, dim):
    rng = np.random.default_rng(1)
    chains, path = sampler(rng, 3, N, dim), sampler(rng, 1, 4 * N, dim)[0]
    missed = []
    for name, values in copies(chains, path, rng).items():
        try:
            refuse_copies("samples", values)
            missed.append(name)
        except ValueError as error:
            assert re.fullmatch(r"samples: chain.*count twice; leave.*", str(error))  # noqa: PT017
    assert not missed


@pytest.mark.parametrize("dim", [1, 4])
def test_chains_of_their_own_are_taken(dim):
    """Also where they mix badly, stay, are rounded or discrete: 7,000 others gave no alarm."""
    rng = np.random.default_rng(2)
    for shape in ((4, 100), (2, 1000), (12, 10)):
        for rho in (0.9, 0.999):
            refuse_copies("samples", slow(rng, *shape, dim, rho))
        chains = sticky(rng, *shape, dim)
        for digits in (1, 2, 3, 4, 16):
            refuse_copies("samples", chains.round(digits))
        for chance in (0.5, 0.01, 0.001):
            coins = (rng.random((*shape, 1)) < chance).astype(float)
            refuse_copies("samples", coins * np.ones(dim))
        for rate in (3, 300, 1e6):
            refuse_copies("samples", rng.poisson(rate, (*shape, 1)) * np.ones(dim))
    still = independent(rng, 4, N, dim)
    still[2:] = still[2, 0]  # stuck where they began: told of elsewhere
    refuse_copies("samples", still)
    refuse_copies("samples", np.zeros((4, N, dim)))


def test_every_door_that_takes_draws_refuses_copies(tmp_path):
    """A normal mean, four chains of which one is there twice."""
    rng = np.random.default_rng(3)
    z = rng.normal(size=20)
    theta = rng.normal(z.mean(), 20**-0.5, size=(4, N))
    theta[3] = theta[0]
    values = -0.5 * (theta[:, :, None] - z) ** 2
    group = xr.Dataset({"y": (("chain", "draw", "row"), values)})
    tree = xr.DataTree.from_dict({"/log_likelihood": group})
    tree.to_netcdf(tmp_path / "fit.nc", engine="h5netcdf")
    told = "chains 0 and 3 are the same draws, which would count twice"
    doors = [
        lambda: gdp.audit_log_likelihood(values),
        lambda: gdp.audit_log_likelihood(values, groups=[i // 2 for i in range(20)]),
        lambda: gdp.audit_inference_data(group),
        lambda: gdp.audit_inference_data(tree, group="row"),
        lambda: gdp.audit_inference_data(tmp_path / "fit.nc"),
    ]
    for door in doors:
        with pytest.raises(ValueError, match=f"log_likelihood: {told}"):
            door()
    posterior = gdp.GibbsPosterior.from_log_density(
        lambda theta, x: -0.5 * (theta - x) ** 2, dist.Normal(0.0, 1.0)
    )
    with pytest.raises(ValueError, match=f"samples: {told}"):
        gdp.as_draws(posterior, z, theta)
    with pytest.raises(ValueError, match=f"samples: {told}"):
        gdp.as_draws(posterior, z, theta[:, :, None], is_unconstrained=True)
