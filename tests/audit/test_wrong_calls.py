"""Wrong calls and arguments are refused in one sentence, before anything is sampled."""

import json
import os
import subprocess
import sys
from pathlib import Path

import flat
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from problems import (
    QUICK,
    gaussian_examples,
    gaussian_mean,
    linear_regression,
    regression_examples,
)

import gibbs_dp as gdp
from gibbs_dp.auditing import audit as auditing
from gibbs_dp.engine.datasets import check_key_is_used

HERE = Path(__file__).parent


def test_wrong_calls_are_one_sentence():
    paths = (
        str(Path(gdp.__file__).parents[1]),
        str(Path(__file__).parents[1]),
        os.environ.get("PYTHONPATH", ""),
    )
    done = subprocess.run(
        [sys.executable, HERE / "wrong_calls.py"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    said = json.loads(done.stdout)
    assert len(said) == 45
    for wanted, text in said.items():
        assert text.startswith(wanted.strip())
        assert "\n" not in text


@pytest.mark.parametrize(
    "draw",
    [
        lambda key, n: jax.random.bernoulli(key, 1e-9, (n, 1)),  # 0 in every draw
        jax.jit(lambda key, n: jax.random.normal(key, (n, 1)), static_argnums=1),
        lambda key, n: jax.lax.map(jax.random.normal, jax.random.split(key, n))[:, None],
    ],
)
def test_populations_that_use_their_key_are_let_through(draw):
    check_key_is_used(gdp.populations.Independent(draw), jax.random.key(0), 5, 5)


GOOD = {"posterior": gaussian_mean(1), "population": gaussian_examples(1), "n": 5, "gammas": [1.0]}
TABLE = np.arange(12.0).reshape(12, 1)


def vector_loss(theta, z):
    return (theta - z) ** 2


def with_nan(key, n):
    return jax.random.normal(key, (n, 1)).at[0].set(jnp.nan)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"gammas": [-1.0]}, "gammas: -1 is not"),
        ({"gammas": [float("nan")]}, "gammas: nan is not"),
        ({"gammas": []}, "gammas: the grid is empty"),
        ({"gammas": [1.0, 1.0]}, "gammas: a value is repeated"),
        ({"num_datasets": 0}, "num_datasets: must be an integer of at least 2"),
        ({"n": 0}, "n: must be"),
        ({"num_chains": 1}, "num_chains"),
        ({"num_samples": 2}, "num_samples"),
        ({"group_size": 6}, "group_size: 6 examples of a dataset of n=5"),
        ({"rel_error": 0.0}, "rel_error"),
        ({"max_datasets": 10, "rel_error": 0.1}, "num_datasets: at most 10 is below"),
        ({"max_datasets": 10_000}, "num_datasets: a second number goes with rel_error"),
        ({"estimator": "best"}, "estimator"),
        ({"population": with_nan}, "population: it produced NaN"),
        ({"population": lambda key, n: jnp.zeros((n + 1, 1))}, "leading axis"),
        ({"population": lambda key: jnp.zeros((5, 1))}, "population: sampling failed"),
        ({"posterior": gdp.GibbsPosterior(vector_loss, dist.Normal(jnp.zeros(1), 1.0))}, "scalar"),
        (
            {"posterior": gdp.GibbsPosterior(gdp.losses.squared, dist.Normal(jnp.zeros(3), 1.0)),
             "population": regression_examples},
            "loss: it cannot be evaluated with theta and data of shapes",
        ),
        (
            {"population": gdp.populations.Table(TABLE, replace=False), "n": 10, "num_ghosts": 16},
            "disjoint rows, but the table has 12",
        ),
        (
            {"posterior": gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(jnp.zeros(1), 1.0)),
             "population": gdp.populations.Table((TABLE, np.ones(12)))},
            "needs both classes",
        ),
    ],
    ids=lambda x: "" if isinstance(x, dict) else x[:25],
)  # fmt: skip
def test_refused(changed, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        flat.audit(**(GOOD | changed), **QUICK)
    if isinstance(caught.value, ValueError):
        assert "\n" not in str(caught.value)


@pytest.mark.trust
def test_an_improper_posterior_is_refused():
    # Two examples do not determine three coefficients, and the prior is flat.
    posterior = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.real(3)))

    def examples(key, n):
        return jax.random.normal(key, (n, 3)), jnp.ones(n)

    with pytest.raises(gdp.ImproperPosteriorError, match=r"posterior: improper at gamma=1 .*prior"):
        flat.audit(posterior, examples, 2, [1.0], num_datasets=64, **QUICK)


def test_a_domain_that_does_not_fit_is_refused_before_anything_is_sampled(monkeypatch):
    monkeypatch.setattr(auditing, "run_sweep", lambda *_: pytest.fail("sampled"))
    domain = gdp.Domain(x_bound=1.0, y_range=(-2.0, 2.0), theta_bound=2.0)
    with pytest.raises(ValueError, match="theta_bound=2 is below the prior's support"):
        flat.audit(linear_regression(), regression_examples, 20, [1.0], domain=domain, **QUICK)
