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
# # 9. Your model, and your draws
#
# You have a model in NumPyro, or draws of PyMC or Stan in an ArviZ file. **How much does one draw tell
# about a row, and about which?** Two doors: a model goes through `gdp.audit`, which samples the
# posteriors of many datasets; draws that exist go through `gdp.audit_inference_data`, which samples
# nothing again. This notebook goes through both with one model, and compares what they say.

# %% tags=["hide-input"]
# Finds gibbs_dp in the clone that this notebook lies in, or installed. Colab installs it: from
# REPOSITORY or, where none is set, from a wheel that you upload.
import importlib.util
import sys
from importlib.metadata import version
from pathlib import Path

REPOSITORY = ""  # where gibbs_dp is hosted
EXTRAS, NEEDS = "arviz", "arviz"  # and modules that these bring

for folder in (Path.cwd(), Path.cwd().parent):
    if (folder / "gibbs_dp" / "__init__.py").is_file() and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

wanted = f"gibbs-dp[{EXTRAS}] @ git+{REPOSITORY}" if REPOSITORY else ""
if importlib.util.find_spec("gibbs_dp") is None and "google.colab" in sys.modules:
    if not wanted:
        from google.colab import files

        print("Choose a wheel of gibbs_dp; 'make release' in a clone leaves one in dist/.")
        wheels = [name for name in files.upload() if name.endswith(".whl")]
        wanted = f"./{wheels[0]}[{EXTRAS}]" if wheels else ""
    if wanted:
        jax_here, jaxlib_here = f"jax=={version('jax')}", f"jaxlib=={version('jaxlib')}"  # Colab's
        # %pip install --quiet "{jax_here}" "{jaxlib_here}" "{wanted}"
        importlib.invalidate_caches()

try:
    import gibbs_dp as gdp

    for name in NEEDS.split():
        if importlib.util.find_spec(name) is None:
            raise ImportError(f"No module named {name!r}")
except ImportError as error:
    how = f"pip install '{wanted or f'PATH/TO/CLONE[{EXTRAS}]'}'"
    if not wanted:
        how += " from a clone, as REPOSITORY above is not set,"
    raise ImportError(
        f"{error}: install gibbs_dp into this notebook's Python with {how} and restart the kernel."
    ) from None

# %% [markdown]
# **GPU.** The next line shows the devices that JAX found. A GPU is used when it is listed; on a CPU
# everything here runs too. In Colab, *Runtime > Change runtime type* adds a GPU.

# %%
# %matplotlib inline
import jax

jax.devices()

# %%
import os
import tempfile
from pathlib import Path

import arviz
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

fast = os.environ.get("GIBBS_DP_FAST") == "1"  # small counts, for tests

# %% [markdown]
# ## A NumPyro model
#
# Logistic regression on 120 rows. Nothing in it is made for gibbs_dp: data are arguments, the observed
# site has a value for every row.

# %%
rng = np.random.default_rng(1)
x = np.column_stack([np.ones(120), rng.normal(size=(120, 2))])
y = (rng.random(120) < 1 / (1 + np.exp(-x @ [0.5, 1.0, -1.0]))).astype(int)


def model(x, y=None):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=x @ w), obs=y)


# %% [markdown]
# From here to a report it is three lines. The rows of the table are taken for the population: each
# dataset is 120 rows drawn from it.

# %%
posterior = gdp.GibbsPosterior.from_numpyro(model, args=(x, y))
table = gdp.populations.Table(posterior.data)
report = gdp.audit(
    posterior,
    table,
    n=120,
    gammas=[0.1, 0.3, 1.0],
    num_datasets=128 if fast else 1024,
    learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
    progress=False,
)
report

# %%
report.plot("Logistic regression from NumPyro")

# %% [markdown]
# **Reading it.** At `gamma = 1`, which is Bayes, replacing one row moves the posterior by some two
# hundredths of a nat on average. gamma tempers the likelihood and nothing else, so smaller ones lead to the
# prior, and tell less.
#
# The gamma can be handed to NumPyro's own sampler: `gdp.temper(model, 0.3, "y")` is a NumPyro model.
#
# ## Draws in a file
#
# What PyMC, Stan and NumPyro users have is draws in an ArviZ file, with the log-likelihood of every row
# at every draw (PyMC: `pm.compute_log_likelihood(idata)`; Stan: a generated quantity `log_lik`). Here
# NumPyro's NUTS makes them, at `gamma = 1`.

# %%
mcmc = MCMC(
    NUTS(model),
    num_warmup=300,
    num_samples=300 if fast else 1000,
    num_chains=4,
    chain_method="vectorized",
    progress_bar=False,
)
mcmc.run(jax.random.key(0), x, y)

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "logistic.nc"
arviz.from_numpyro(mcmc, log_likelihood=True).to_netcdf(path)

# %% [markdown]
# Nothing is sampled again: the posterior without a row is reached by weighting the draws. In a terminal
# this is `gibbs-dp audit --idata logistic.nc`.

# %%
one = gdp.audit_inference_data(path)
one

# %%
one.plot()

# %% [markdown]
# **Both doors.** The first figure is a mean over datasets drawn from the table, the second belongs to
# the one dataset at hand, with `n - 1` rows. They estimate the same thing where rows are independent
# draws of a population; that they come out alike is no accident, and no proof.

# %%
at_one = report.to_dataframe().loc[1.0]
print(f"many datasets: {at_one['on_average_kl']:.4f} nats")
print(f"one dataset:   {one['on_average_kl']:.4f} ± {one['on_average_kl_se']:.4f} nats")

# %% [markdown]
# ## Whose rows
#
# A mean hides who pays. These rows would change the posterior most, chosen by one half of the draws and
# measured by the other, so that the largest is not overstated. **The list itself tells about these
# rows**: it is for whoever holds the data, and not for publication.

# %%
one.most_exposed(5)

# %% [markdown]
# ## What was learnt
#
# One draw of this posterior gives away little of a row on average; someone who knows all other rows and
# guesses by one draw whether a row was in the data gains a few percentage points over a coin
# (`advantage`). None of this is a worst-case guarantee: for one, declare bounds and use `gdp.release`
# (notebook 4).
#
# Draws from elsewhere (PyTorch, say) need only an array: `gdp.audit_log_likelihood(values)` with
# `values[chain, draw, row]`.
