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
# # Figure 2 of Wang, Lei & Fienberg (2016)
#
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/gibbs-dp/gibbs-dp/blob/main/notebooks/figure2.ipynb)
#
# Two small problems where the worst case and the average differ by orders of magnitude, redrawn
# from sampled posteriors:
#
# - **(a) private mean**: normals truncated to [-2, 2], loss `|mean(z) - theta|`, flat prior. The
#   posterior is the Laplace mechanism, `4 gamma / n`-differentially private.
# - **(b) linear regression**: `x` and noise uniform on (-1, 1), `y = x + noise`, squared loss,
#   theta in [-2, 2]: `32 gamma`-differentially private.

# %%
import sys

if "google.colab" in sys.modules:
    # %pip install --quiet gibbs-dp
    pass

# %%
# %matplotlib inline
import os

from gibbs_dp.experiments.figure2 import figure2

fast = os.environ.get("GIBBS_DP_FAST") == "1"  # small counts, for tests
counts = {"num_datasets": 64} if fast else {}
result = figure2(progress=not fast, **counts)

# %% [markdown]
# Crosses are exact, by quadrature. `z` is the distance of the sampled value from the exact one in
# standard errors.

# %%
print(result.summary())

# %%
result.plot()
