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
# # 5. Mutual information, from both sides
#
# **How many nats do a dataset and the model that was drawn from it share?** Mutual information cannot
# be averaged from single datasets like a risk, since it asks what *other* datasets would have led to
# the same model. `audit` brackets it: a lower bound, which has a ceiling, and an upper bound, which
# has none. This notebook checks the bracket where the truth is known, shows the ceiling, and asks what
# the information says about generalization.

# %% tags=["hide-input"]
# Finds gibbs_dp in the clone that this notebook lies in, or installed. Colab installs it: from
# REPOSITORY or, where none is set, from a wheel that you upload.
import importlib.util
import sys
from importlib.metadata import version
from pathlib import Path

REPOSITORY = ""  # where gibbs_dp is hosted
EXTRAS, NEEDS = "privacy", ""  # and modules that these bring

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

# %% [markdown]
# ## Where the truth is a finite sum
#
# Ten opinions 0, 1/2 or 1, and a model that is one of five numbers. `FiniteProblem` adds up all
# datasets; `audit` sees only samples of them. (The support of the prior is wider than the five
# candidates, which are what bounds the model.)

# %%
candidates, values, law = np.linspace(0.0, 1.0, 5), np.array([0.0, 0.5, 1.0]), [0.5, 0.3, 0.2]
n, gammas = 10, [0.3, 1.0, 3.0, 10.0]
posterior = gdp.GibbsPosterior(
    gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.box(-1.0, 2.0, 1))
)
report = gdp.audit(
    posterior,
    gdp.populations.Finite(values[:, None], law),
    n=n,
    gammas=gammas,
    num_datasets=128 if fast else 1024,
    sampler=gdp.Grid(candidates=candidates[:, None]),
    learn=[*gdp.DEFAULT, gdp.MutualInformation(sigma=0.25)],  # losses lie in [0, 1/2]
    progress=False,
)
problem = gdp.exact.FiniteProblem(
    (candidates[:, None] - values) ** 2 / 2, law, np.full(5, 0.2)
)
exact = pd.DataFrame([problem.quantities(gamma, n, beta=0.05) for gamma in gammas], index=gammas)
sampled = report.to_dataframe()
pd.DataFrame(
    {
        "lower": sampled["mutual_information_lower"],
        "exact": exact["mutual_information"],
        "upper": sampled["mutual_information_upper"],
        "s.e. of lower": sampled["mutual_information_lower_se"],
        "s.e. of upper": sampled["mutual_information_upper_se"],
    }
)

# %% [markdown]
# The exact value should lie between the two, give or take two standard errors or so.
#
# ## Lautum information
#
# Mutual information is the KL divergence of the joint law of dataset and draw from the product of the
# two; *lautum* information is the divergence the other way round. Their sum is an average over pairs
# of datasets, and for a Gibbs posterior it is `n` times the on-average KL: a third way to see the same
# number.

# %%
pd.DataFrame(
    {
        "lautum, sampled": sampled["lautum_information"],
        "s.e.": sampled["lautum_information_se"],
        "exact": exact["lautum_information"],
        "information + lautum, exact": exact["mutual_information"] + exact["lautum_information"],
        "n x on-average KL, exact": n * exact["on_average_kl"],
    }
)

# %% [markdown]
# ## What it says about generalization
#
# Corollary 10 of Wang, Lei & Fienberg (2016): `I / (n gamma) <= gen <= sqrt(2 sigma^2 I / n)`. The
# left end holds for Gibbs posteriors, the right end for every algorithm whose losses are
# `sigma^2`-subgaussian; a loss with values in an interval of length 1/2 has `sigma = 1/4`.

# %%
pd.DataFrame(
    {
        "I / (n gamma)": sampled["generalization_lower"],
        "gen, sampled": sampled["generalization_error"],
        "gen, exact": exact["generalization_error"],
        "sqrt(2 sigma^2 I / n)": sampled["generalization_upper"],
    }
)

# %%
report.plot(panels=["information", "generalization"])

# %% [markdown]
# ## The ceiling
#
# The lower bound compares each draw with the posteriors of `M` datasets (`num_information`): it asks
# which of them the draw came from, and that is worth at most `log M` nats. Here the mean of ten
# Gaussian coordinates is estimated, for which the information has a closed form.

# %%
from gibbs_dp.papers.on_average_kl import closed_forms

gaussian = gdp.problems.build_problem("gaussian-mean", dim=10)
rows, warnings = [], []
for count in (32, 64) if fast else (32, 512):
    found = gdp.audit(
        gaussian.posterior,
        gaussian.population,
        n=50,
        gammas=[0.1, 1.0, 10.0],
        num_datasets=max(count, 64),
        learn=[*gdp.DEFAULT, gdp.MutualInformation(count)],
        progress=False,
    )
    warnings += [f"M = {count}, {text}" for text in found.warnings]
    for row in found.rows:
        truth = closed_forms.gaussian_mean(row["gamma"], n=50, dim=10, data_variance=1.0)
        rows.append(
            {
                "M": count,
                "gamma": row["gamma"],
                "log M": np.log(count),
                "lower": row["mutual_information_lower"],
                "exact": truth.mutual_information,
                "upper": row["mutual_information_upper"],
            }
        )
print(*warnings, sep="\n")
pd.DataFrame(rows).set_index(["M", "gamma"]).round(3)

# %% [markdown]
# ## What was learnt
#
# Where the truth is known the bracket is close to it. The lower bound stops at `log M` however much
# there is to know, and the report warns when it comes near; the upper bound has no ceiling, and gets
# better with more datasets. For generalization the information gives both ends, and neither is tight:
# the generalization error itself is estimated more easily than either. What information adds is that
# it holds for every loss at once.
