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
# # 12. What an attacker sees
#
# "0.03 nats" is no answer to somebody who asks: *if someone saw one draw, and knew everything but whether
# I was in the data, how often would they be right?* **This notebook answers it for the mean of thirty
# incomes**: an audit, what the worst case allows beside it, an attack that is run, the rows of a table
# that cost most, a certificate of the risk, and the gamma at which the attacker is hardly better than
# guessing.

# %% tags=["hide-input"]
# Finds gibbs_dp in the clone that this notebook lies in, or installed. Colab installs it: from
# REPOSITORY or, where none is set, from a wheel that you upload.
import importlib.util
import sys
from importlib.metadata import version
from pathlib import Path

REPOSITORY = ""  # where gibbs_dp is hosted
EXTRAS, NEEDS = "privacy", "dp_accounting"  # and modules that these bring

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

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

fast = os.environ.get("GIBBS_DP_FAST") == "1"  # small counts, for tests
num_datasets = 64 if fast else 512
num_trials = 256 if fast else 4096
gammas = [0.1, 1.0, 10.0] if fast else [0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0]

# %% [markdown]
# ## The question
#
# Incomes on a scale from -1 to 1, most of them low: a few people earn much more than the others. What is
# released is one draw from the Gibbs posterior of their mean. The bounds of the scale are declared, so that
# there is a worst-case epsilon.

# %%
n = 30
domain = gdp.Domain(x_bound=1.0)
posterior = gdp.GibbsPosterior(
    gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.box(-1.0, 1.0, 1))
)


def incomes(key, count):
    """Skewed, between -1 and 1."""
    return 2.0 * jax.random.beta(key, 1.0, 4.0, (count, 1)) - 1.0


learn = [*gdp.DEFAULT, gdp.MutualInformation(0)]  # it has a notebook of its own
settings = {"n": n, "num_datasets": num_datasets, "progress": False}
report = gdp.audit(posterior, incomes, gammas=gammas, domain=domain, learn=learn, **settings)
columns = ["on_average_kl", "on_average_tv", "attack_auc", "attack_tpr_1pct", "dp_epsilon"]
report.to_dataframe()[columns].round(4)

# %% [markdown]
# `on_average_tv` is the best attacker's advantage: how much more often they say "in the data" of somebody
# who is than of somebody who is not. They are right in (1 + advantage) / 2 of the cases.

# %% [markdown]
# ## Advantage over gamma
#
# What epsilon allows in the worst case (dashed) and what the best attacker reaches on average. The average
# is no guarantee for any one person. Dotted: half the square root of the KL, a rule of thumb.

# %%
frame = report.to_dataframe().reset_index()
figure, axes = plt.subplots(figsize=(6.4, 4.0))
axes.errorbar(frame["gamma"], frame["on_average_tv"], 1.96 * frame["on_average_tv_se"], fmt="o-", label="best attacker, on average")
axes.plot(frame["gamma"], frame["attack_advantage_limit"], "--", label="DP epsilon allows")
axes.plot(frame["gamma"], 0.5 * np.sqrt(frame["on_average_kl"]), ":", color="gray", label="half the root of the KL")
axes.set(xscale="log", yscale="log", xlabel="gamma", ylabel="advantage (TPR - FPR)")
axes.legend();

# %% [markdown]
# ## The ROC
#
# Few false alarms matter most: somebody who accuses wants to be right. The right panel has logarithmic axes.
# Dashed lines are what epsilon allows.

# %%
report.plot_attack(gammas=gammas[::2])

# %%
report.attack_roc([0.001, 0.01, 0.1]).round(4).unstack()

# %% [markdown]
# ## An attack
#
# Thousands of posteriors, each of a dataset or of the same one with one income replaced: a coin says which.
# Three attackers see one draw and guess: one who knows the normalizers, one with a single threshold on the
# loss, one with shadow draws (LiRA). The black line is what was computed for the best.

# %%
from gibbs_dp.papers.attack.attack import attack

lattice = gdp.Grid(low=-1.0, high=1.0, num_points=256)
attacked = attack(
    posterior,
    incomes,
    n=n,
    gammas=gammas[-3:],
    num_trials=num_trials,
    sampler=lattice,
    domain=domain,
    progress=False,
)
attacked.plot()

# %%
print(attacked.summary())

# %% [markdown]
# ## Who pays
#
# Now a table of 60 people *is* the population. Rows are ranked by one half of the datasets, and their
# figures are of the other half, as the largest of many estimates overstates its row. The list is as
# sensitive as the table: the people with unusual incomes are on top of it.

# %%
table = np.asarray(incomes(jax.random.key(1), 60))
exposed = gdp.audit(
    posterior,
    gdp.populations.Table(jnp.asarray(table)),
    gammas=gammas[-1:],
    sampler=lattice,
    learn=[*learn, gdp.Exposure()],
    **settings,
)
top = exposed.exposure[["rank", "row", "on_average_kl", "on_average_kl_se", "advantage"]].head(5)
top.assign(income=table[top["row"], 0]).round(3)

# %%
exposed.plot_exposure()

# %% [markdown]
# ## A certificate
#
# The same posterior from the other side: what is its risk, at most, with probability 0.95, when only these
# 60 people are known? PAC-Bayes bounds hold without a population model; losses are in [0, 2].

# %%
certificate = gdp.certify(posterior, jnp.asarray(table), gammas, delta=0.05, domain=domain)
certificate.plot()

# %%
print(certificate)

# %% [markdown]
# ## Gamma for an attacker who is right in 50.5% of the cases
#
# The gamma at which the best attacker's advantage is 1%, by audits on the same datasets.

# %%
chosen = gdp.calibrate(
    posterior,
    n=n,
    population=incomes,
    attack_advantage=0.01,
    num_datasets=num_datasets,
    progress=False,
)
worst = gdp.privacy.account(
    posterior, gamma=chosen.gamma, n=n, adjacency="replace-one", domain=domain
)
print(chosen)
print(f"worst-case epsilon at that gamma: {worst.pure():.3f}")

# %% [markdown]
# ## What was learnt
#
# - The advantage of the best attacker is about half the square root of the on-average KL: 0.03 nats are
#   some 8%, right in 54 cases of 100.
# - The average and the worst case are answers to different questions. The worst case is a guarantee; the
#   average says what happens to the people whom the population has, and unusual ones pay more.
# - An attack that is run reaches what was computed, if it is the best one. One that fails shows nothing.
# - Gamma can be chosen for an attacker's advantage, but that is a choice on average: for a guarantee give
#   a worst-case target.
