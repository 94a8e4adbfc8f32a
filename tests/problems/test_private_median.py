"""The private median against quadrature over theta, on the datasets that the audit drew."""

import jax
import numpy as np
import pytest

import gibbs_dp as gdp
from gibbs_dp.problems import build_problem

N, GHOSTS, DATASETS = 100, 16, 256


def exact_kl(y, ghosts, gamma):
    """Mean KL over all pairs, on a lattice fine enough for the staircase of slopes."""
    theta = np.linspace(-2, 2, 801)

    def log_law(potential):
        top = potential.max(axis=-1, keepdims=True)
        return potential - top - np.log(np.exp(potential - top).sum(axis=-1, keepdims=True))

    near, far = np.abs(theta - y[:, None]), np.abs(theta - ghosts[:, None])
    p = log_law(-gamma * near.sum(axis=0))
    delta = gamma * (far[:, None] - near[None])  # log p / p' up to a constant
    weight = np.exp(p)
    return np.mean(delta @ weight + np.log(np.exp(-delta) @ weight))


@pytest.mark.trust
def test_sampled_on_average_kl_is_that_of_quadrature():
    problem = build_problem("private-median")
    report = gdp.audit(
        problem.posterior,
        problem.population,
        N,
        problem.gammas,
        num_datasets=DATASETS,
        domain=problem.domain,
        learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
        progress=False,
    )
    root = jax.random.split(jax.random.fold_in(jax.random.key(0), 0), 2)[0]
    keys = jax.vmap(lambda i: jax.random.fold_in(root, i))(np.arange(DATASETS))
    draw = jax.jit(jax.vmap(lambda k: problem.population.sample(k, N, GHOSTS)))
    (_, y), (_, ghosts) = jax.tree.map(lambda a: np.asarray(a, float), draw(keys))
    for row in report.rows:
        few = slice(0, 32)  # some pairs of some datasets: theirs is the noise of the reference
        kls = np.array(
            [exact_kl(*z, row["gamma"]) for z in zip(y[few], ghosts[few, :2], strict=True)]
        )
        error = np.hypot(row["on_average_kl_se"], kls.std(ddof=1) / np.sqrt(kls.size))
        assert abs(row["on_average_kl"] - kls.mean()) < 4 * error
        assert error < 0.15 * row["on_average_kl"]
        assert row["dp_epsilon"] == 8 * row["gamma"]
    assert not report.warnings
