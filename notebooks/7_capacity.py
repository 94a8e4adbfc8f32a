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
# # 7. Adversaries of bounded capacity
#
# Differential privacy protects against every adversary, also against one that computes what nobody
# could. **What does one see that can only fit a line, a polynomial or a small network to the output?**
# Chaudhuri, Imola & Machanavajjhala (2019) restrict the divergence to a class of functions. This
# notebook computes the restricted divergences of the Laplace mechanism exactly, shows where a printed
# bound fails, and ends with trained adversaries that try to see what a Gibbs posterior gives away.

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

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from gibbs_dp.papers import capacity

fast = os.environ.get("GIBBS_DP_FAST") == "1"  # small counts, for tests

# %% [markdown]
# ## One number, seen by different adversaries
#
# A number of sensitivity 1 is released with Laplace noise of scale 1, which is 1-differentially
# private. A Rényi divergence of order `alpha` measures how well two neighbouring datasets can be told
# apart; restricted to a class, it is what the best function *of that class* achieves.

# %%
eps = 1.0
alphas = np.array([1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 40.0])
curves = pd.DataFrame(
    {
        "linear": [capacity.laplace_renyi_of_polynomials(eps, a, 1) for a in alphas],
        "cubic": [capacity.laplace_renyi_of_polynomials(eps, a, 3) for a in alphas],
        "any function": [capacity.laplace_unrestricted_renyi(eps, a) for a in alphas],
        "linear, valid bound": [capacity.valid_laplace(eps, a) for a in alphas],
        "linear, as printed": [capacity.printed_laplace(eps, a) for a in alphas],
    },
    index=pd.Index(alphas, name="alpha"),
)
curves.loc[[1.5, 2.0, 3.0, 5.0, 10.0, 40.0]].round(3)

# %%
figure, axes = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
styles = {
    "linear": ("#0072B2", "-"),
    "cubic": ("#56B4E9", "-"),
    "any function": ("black", "-"),
    "linear, valid bound": ("#009E73", "-."),
    "linear, as printed": ("#D55E00", ":"),
}
for name, (color, line) in styles.items():
    axes.plot(alphas, curves[name], line, color=color, marker="o", markersize=3, label=name)
axes.set(xlabel="order alpha", ylabel="Rényi divergence (nats)", ylim=(0, 1.6), xscale="log")
axes.set_xticks([2, 5, 10, 20, 40], ["2", "5", "10", "20", "40"])
axes.minorticks_off()
axes.set_title("Laplace noise, eps = 1")
axes.grid(alpha=0.3)
axes.legend(frameon=False, fontsize=9)
plt.show()

# %% [markdown]
# ## Where the printed bound fails
#
# The paper bounds what a linear adversary sees by a closed form. A bound must lie above the exact
# value, and is of use only below that of an unrestricted adversary. `laplace_regime` compares the
# three: "fails" is below the exact value, "vacuous" above the unrestricted one.

# %%
grid_eps, grid_alpha = [0.1, 0.3, 1.0, 3.0], [1.5, 2.0, 3.0, 5.0, 10.0]
regimes = capacity.regime_map(capacity.laplace_regime, grid_eps, grid_alpha)
pd.DataFrame(regimes).pivot(index="privacy", columns="alpha", values="verdict").rename_axis("eps")

# %% [markdown]
# A number from the library says which kind it is, so that a bound that fails somewhere cannot pass for
# a guarantee:

# %%
alpha = 3.0
exact = capacity.CapacityBound(
    capacity.laplace_renyi_of_polynomials(0.1, alpha), "renyi", capacity.Polynomial(1), alpha
)
printed = capacity.CapacityBound(
    capacity.printed_laplace(0.1, alpha), "renyi", capacity.Polynomial(1), alpha, status="printed"
)
print(f"exact {exact.value:.5f}, a guarantee: {exact.is_guarantee}")
print(f"printed {printed.value:.5f}, a guarantee: {printed.is_guarantee}")

# %% [markdown]
# ## Trained adversaries of a posterior
#
# For a posterior that can only be sampled, adversaries are *trained*: for many pairs of neighbouring
# datasets a function of the class learns to tell the draws of one posterior from those of the other on
# half of the chains, and is judged on the other half. What it attains is a lower bound of what its
# class sees, on average. The private mean of Figure 2 is a Laplace mechanism, so that the truth is
# known for linear adversaries and for all functions.

# %%
from gibbs_dp.papers.on_average_kl.closed_forms import private_mean_on_average_kl
from gibbs_dp.papers.capacity.figures import private_mean_linear_kl

problem = gdp.problems.build_problem("private-mean")
gammas = [50.0] if fast else [20.0, 100.0]
found = capacity.on_average_capacity_kl(
    problem.posterior,
    problem.population,
    n=100,
    gammas=gammas,
    adversaries=(capacity.Polynomial(1), capacity.Polynomial(2), capacity.TwoLayerReLU(16)),
    num_datasets=8 if fast else 32,
    num_chains=16 if fast else 64,
)
print("warnings:", *found.warnings or ["none"], sep="\n")
columns = ["gamma", "adversary", "capacity_kl", "capacity_kl_se", "share", "share_se"]
pd.DataFrame(found.rows())[columns].set_index(["gamma", "adversary"]).round(4)

# %%
pd.DataFrame(
    {
        "linear, exact": [private_mean_linear_kl(gamma, 100) for gamma in gammas],
        "any function, exact": [private_mean_on_average_kl(gamma, 100) for gamma in gammas],
    },
    index=pd.Index(gammas, name="gamma"),
).assign(share=lambda t: t["linear, exact"] / t["any function, exact"]).round(4)

# %% [markdown]
# ## What was learnt
#
# A linear adversary of the Laplace mechanism sees less than any function does, at every order, and
# polynomials are in between. The closed form as printed is no bound in part of the table, and useless
# in another; the library keeps it for comparison and calls it no guarantee. For a posterior, trained
# adversaries find a share of the on-average KL that grows with their class. Being lower bounds, these
# shares say what an attack of that kind achieves, and never that a stronger one would fail.
