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
# # 8. Networks: the digits
#
# Everything so far had a handful of parameters. **What does a network of thousands of weights give
# away about each image that it was trained on?** This notebook samples the posterior of a two-layer
# network on handwritten digits, for several datasets at once, and compares a cautious `gamma` with
# Bayes. On a GPU it runs in full; a CPU does a smaller version.

# %% tags=["hide-input"]
# Finds gibbs_dp in the clone that this notebook lies in, or installed. Colab installs it: from
# REPOSITORY or, where none is set, from a wheel that you upload.
import importlib.util
import sys
from importlib.metadata import version
from pathlib import Path

REPOSITORY = ""  # where gibbs_dp is hosted
EXTRAS, NEEDS = "tables", "sklearn pyarrow"  # and modules that these bring

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

import numpy as np
import pandas as pd

fast = os.environ.get("GIBBS_DP_FAST") == "1"  # small counts, for tests
has_gpu = jax.default_backend() == "gpu"
gammas = [1.0] if fast else [0.3, 1.0]

# %% [markdown]
# ## The problem
#
# The digits of scikit-learn: 1,797 images of 8 x 8 pixels. The network has 70 hidden units on a
# GPU and 30 on a CPU, its loss is the cross-entropy, and the prior on its weights is Gaussian. Draws
# from the table with replacement make datasets of 100 images.

# %%
problem = gdp.problems.build_problem(
    "digits", num_hidden=8 if fast else 70 if has_gpu else 30
)
print(problem.description)
print("weights:", problem.posterior.dim)

# %% [markdown]
# ## The audit
#
# No Laplace fit and no mutual information in so many dimensions: HMC adapts a scale for every weight,
# and chains start from a descent. "one-sided" takes normalizer ratios from the posterior's own draws,
# a tenth of the work of sampling replaced posteriors as well. The chains of all datasets run at once,
# so that a GPU has room for many more of them: there, 64 datasets with eight chains each instead of
# eight with four.

# %%
report = gdp.audit(
    problem.posterior,
    problem.population,
    n=30 if fast else problem.n,
    gammas=gammas,
    num_datasets=4 if fast else 64 if has_gpu else 8,
    sampler=gdp.Chains(num_chains=8 if has_gpu else 4),
    learn=[*gdp.DEFAULT, gdp.OnAverageKL("one-sided")],
    progress=False,
)
columns = ["on_average_kl", "on_average_kl_ghost", "empirical_risk", "population_risk"]
table = report.to_dataframe()
table[[*columns, *(f"{name}_se" for name in columns[:2])]].round(4)

# %%
report.plot()

# %% [markdown]
# Few datasets and short chains make rough numbers, and a report says where it is to be trusted less:

# %%
print(*report.warnings, *report.notes, sep="\n")

# %% [markdown]
# ## The networks themselves
#
# Each draw of the posterior is a network. Here a few are drawn for 100 images, and asked about images
# that they have not seen, one by one and in a vote.

# %%
images, labels = map(np.asarray, problem.population.data)
order = np.random.default_rng(0).permutation(len(labels))
own, fresh = order[:100], order[100:]
rows = {}
for gamma in gammas:
    draws = gdp.sample(
        problem.posterior,
        (images[own], labels[own]),
        gamma=gamma,
        num_chains=4,
        num_warmup=30 if fast else 100,
        num_samples=10,
        key=1,
    )
    networks = jax.tree.map(lambda leaf: leaf[:, -1], draws.theta)  # the last of each chain

    def scores(theta, x):
        hidden = np.tanh(x @ theta["hidden_weight"] + theta["hidden_bias"][:, None])
        return hidden @ theta["output_weight"] + theta["output_bias"][:, None]

    guesses = scores(networks, images)
    chance = np.exp(guesses - guesses.max(axis=-1, keepdims=True))
    vote = (chance / chance.sum(axis=-1, keepdims=True)).mean(axis=0).argmax(axis=-1)
    right = guesses.argmax(axis=-1) == labels
    rows[gamma] = {
        "one network, own images": right[:, own].mean(),
        "one network, fresh images": right[:, fresh].mean(),
        "vote of four, fresh images": (vote == labels)[fresh].mean(),
    }
pd.DataFrame(rows).T.rename_axis("gamma").round(3)

# %% [markdown]
# ## What was learnt
#
# The same call audits a regression with three weights and a network with thousands. At the larger
# `gamma` the networks are better on fresh images, and each image shows more in them: the on-average
# KL is what that accuracy costs. `gamma` times the generalization error (`on_average_kl_ghost`) is the
# second route to the same number, and where the two disagree by many standard errors the chains were
# too short. More datasets, chains and samples, on a GPU, make every number sharper.
