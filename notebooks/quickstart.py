# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     notebook_metadata_filter: -jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Quickstart
#
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/gibbs-dp/gibbs-dp/blob/main/notebooks/quickstart.ipynb)
#
# A *Gibbs posterior* `p(theta | Z) ∝ exp(-gamma L(theta, Z)) prior(theta)` gives away something
# about every example it was fitted to. This notebook measures how much, on average, and what
# accuracy that buys.

# %%
import sys

if "google.colab" in sys.modules:
    # %pip install --quiet gibbs-dp
    pass

# %%
# %matplotlib inline
import os

import jax
import numpyro.distributions as dist

import gibbs_dp as gdp

fast = os.environ.get("GIBBS_DP_FAST") == "1"  # small counts, for tests
num_datasets = 64 if fast else 1024

# %% [markdown]
# ## A posterior and a population
#
# The loss is of one example, and `gamma` multiplies the sum of losses. The prior is a NumPyro
# distribution (or a dict of them, or `gdp.Flat(support)`).

# %%
weights = dist.Normal(jax.numpy.zeros(3), 1.0)
posterior = gdp.GibbsPosterior(gdp.losses.logistic, weights)


def population(key, n):
    """Three features; only the first one matters."""
    x_key, y_key = jax.random.split(key)
    x = jax.random.normal(x_key, (n, 3))
    return x, jax.random.bernoulli(y_key, jax.nn.sigmoid(2 * x[:, 0])).astype(float)


# %% [markdown]
# ## Audit
#
# For every gamma, thousands of datasets are drawn and their posteriors sampled. Standard errors
# are over datasets.

# %%
report = gdp.audit(
    posterior,
    population,
    n=50,
    gammas=[0.01, 0.1, 1.0, 10.0],
    num_datasets=num_datasets,
    progress=not fast,
)
print(report)

# %% [markdown]
# `on-average KL` and `gamma*gen` estimate the same number by two routes (Theorem 4 of Wang, Lei &
# Fienberg 2016): how far the posterior moves, in nats, when one random example is replaced by a
# fresh one. It is an average over the population, and no worst-case guarantee. More gamma: less
# excess risk, less privacy.

# %%
report.plot()

# %% [markdown]
# The numbers, with their errors, are a pandas table, an xarray dataset, or a NetCDF file.

# %%
report.to_dataframe()[["on_average_kl", "on_average_kl_se", "excess_risk", "excess_risk_se"]]

# %% [markdown]
# ## Draws from one posterior

# %%
data = population(jax.random.key(1), 50)
draws = gdp.sample(posterior, data, gamma=1.0, num_samples=200 if fast else 1000)
print(draws.summary())
