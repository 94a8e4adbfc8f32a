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
# # 2. Figure 2, and the theorem behind it
#
# Wang, Lei & Fienberg (2016, [arXiv:1605.02277](https://arxiv.org/abs/1605.02277)) proved that for a
# Gibbs posterior **privacy on average and generalization are one thing**:
#
# > on-average KL = `gamma` x generalization error.
#
# The left side asks how far the posterior moves when one example is replaced by a fresh one, the
# right side how much worse the model does on fresh examples than on its own. Is it so, in numbers?
# This notebook estimates both sides on the two problems of their Figure 2, compares them with exact
# values, and ends with a problem that is small enough to compute both sides without any sampling.

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

from gibbs_dp.papers.on_average_kl.figure2 import figure2

fast = os.environ.get("GIBBS_DP_FAST") == "1"  # small counts, for tests

# %% [markdown]
# ## Why it is true
#
# Take one dataset `Z` and `Z'`, which has a fresh example `z'` in place of `z`. The two posteriors
# differ by the factor `exp(-gamma (loss(z') - loss(z)))` and by their normalizers, so that
#
# > KL(p(. | Z) || p(. | Z')) = `gamma` E[loss(theta, z') - loss(theta, z)] + log normalizer(Z') - log normalizer(Z),
#
# with `theta` drawn given `Z`. On average over datasets the normalizers cancel, because `Z` and `Z'`
# have the same law. What stays is `gamma` times the loss on a fresh example minus the loss on an own
# one: the generalization error. So there are two routes to one number, the normalizers and the
# losses, and `audit` takes both wherever each of them is steady.
#
# ## Two problems
#
# - **(a) private mean**: normals truncated to [-2, 2], loss `|mean(z) - theta|`. The posterior is the
#   Laplace mechanism, `4 gamma / n`-differentially private.
# - **(b) linear regression**: `x` and noise uniform on (-1, 1), `y = x + noise`, squared loss, `theta`
#   in [-2, 2]: `32 gamma`-differentially private.

# %%
small = {"private mean": (10.0, 100.0), "linear regression": (0.1, 10.0)}
if fast:
    result = figure2(num_datasets=64, gammas=small, progress=False)
else:
    result = figure2(progress=False)
result.plot()

# %% [markdown]
# Crosses are exact values, by quadrature; lines are sampled. The worst case lies far above the
# average, and further for the regression, whose worst case must allow for examples that hardly occur.
#
# ## Both routes against the exact value
#
# `z` is the distance of each estimate from the exact value, in standard errors: beyond 4 something
# would be wrong. The column `route` says where the on-average KL comes from: "one-sided" and
# "two-sided" are normalizers; "ghost" is `gamma` times the generalization error itself, which `audit`
# takes where the KL is so large that normalizers are not steady (the two numbers are then the same).

# %%
rows = pd.DataFrame(result.rows())
names = {
    "estimator": "route",
    "gamma": "gamma",
    "on_average_kl_exact": "exact KL",
    "on_average_kl": "on-average KL",
    "on_average_kl_se": "its s.e.",
    "z": "its z",
    "on_average_kl_ghost": "gamma x gen",
    "on_average_kl_ghost_se": "and its s.e.",
    "z_ghost": "and its z",
}
table = rows.set_index("panel")[[*names]].rename(columns=names)
table.map(lambda cell: f"{cell:.3g}" if isinstance(cell, float) else cell)

# %%
print("largest |z|:", rows[["z", "z_ghost"]].abs().max().round(1).to_dict())
both = rows[rows["estimator"] != "ghost"]
ratio = (both["on_average_kl_ghost_se"] / both["on_average_kl_se"]).groupby(both["panel"])
print("standard error of gamma x gen over that of the normalizers:")
print(ratio.agg(["min", "max"]).round(1))

# %% [markdown]
# ## Without any sampling
#
# Let an example be one of three numbers, `theta` one of five, and the loss their squared distance.
# Then every dataset of `n` examples can be listed, and both sides are finite sums.

# %%
theta, z = np.linspace(0.0, 1.0, 5), np.array([0.0, 0.5, 1.0])
problem = gdp.exact.FiniteProblem(
    (theta[:, None] - z) ** 2, data_probs=[0.5, 0.3, 0.2], prior_probs=np.full(5, 0.2)
)
exact = pd.DataFrame(
    {
        "on-average KL": [problem.on_average_kl(gamma, 10) for gamma in (0.1, 1.0, 10.0)],
        "gamma x gen": [
            gamma * problem.generalization_error(gamma, 10) for gamma in (0.1, 1.0, 10.0)
        ],
    },
    index=pd.Index([0.1, 1.0, 10.0], name="gamma"),
)
exact.assign(difference=exact["on-average KL"] - exact["gamma x gen"])

# %% [markdown]
# ## What was learnt
#
# Where both sides are finite sums they agree up to the rounding of the computer, and where they are
# sampled both are within a few standard errors of the exact value. So a posterior that overfits is one
# that tells about its examples, and the other way round. The normalizers are the steadier route while the KL is
# small; the losses are the check, and take over where it is large. None of this bounds the worst case:
# that is the line of the DP epsilon.
