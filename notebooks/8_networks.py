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

import jax.numpy as jnp
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
# ## Warm and cold posteriors
#
# Bayes is `gamma` = 1. Networks are often better at a larger one, a *cold* posterior (Wenzel et al.
# 2020). What does the temperature do to their errors, to how well their probabilities are
# calibrated, and to what one of them gives away?
#
# A pool of 200 images stands for the people who may have been in the data; every dataset is half of
# it, chosen at random, and all other images are fresh. Of each posterior four networks are drawn, one
# a chain. They are judged on the fresh images, one by one and as an average of their probabilities.
# Then an attacker looks at **one** network and says of each image of the pool whether it was trained
# on: the likelihood-ratio attack (LiRA, Carlini et al. 2022), whose shadows are the networks of all
# other datasets, some trained on the image and some not.

# %%
images, labels = map(np.asarray, problem.population.data)
order = np.random.default_rng(0).permutation(len(labels))
pool, fresh = order[:200], order[200:]
num_datasets = 6 if fast else 64 if has_gpu else 16
temperatures = [0.3, 3.0] if fast else [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]
halves = [np.random.default_rng(d).permutation(200)[:100] for d in range(num_datasets)]


@jax.jit
def log_probabilities(theta, x):
    hidden = jnp.tanh(x @ theta["hidden_weight"] + theta["hidden_bias"][..., None, :])
    scores = hidden @ theta["output_weight"] + theta["output_bias"][..., None, :]
    return jax.nn.log_softmax(scores)


def networks_of(half, gamma):
    """Log probabilities of all images: last draws of four chains, and R-hat of the fresh log loss."""
    own = pool[half]
    draws = gdp.sample(
        problem.posterior,
        (images[own], labels[own]),
        gamma=gamma,
        num_chains=4,
        num_warmup=20 if fast else 300,
        num_samples=4 if fast else 20,
        key=1,
    )
    found = log_probabilities(jax.tree.map(lambda leaf: leaf[:, -1], draws.theta), images)
    some = np.asarray(log_probabilities(draws.theta, images[fresh[:300]]))
    loss = -some[..., np.arange(300), labels[fresh[:300]]].mean(axis=-1)  # [chains, draws]
    within, between = loss.var(axis=1, ddof=1).mean(), loss.mean(axis=1).var(ddof=1)
    return np.asarray(found), np.sqrt(1 + between / within - 1 / loss.shape[1])


# %% [markdown]
# The calibration error is the distance of "how sure" from "how often right", over ten classes of
# sureness. On-average KL is `gamma` times the generalization error, of these very draws.


# %%
def calibration_error(probability):
    sure, is_right = probability.max(axis=-1), probability.argmax(axis=-1) == labels[fresh]
    which = np.minimum((10 * sure).astype(int), 9)
    gaps = [np.sum((which == k) * (is_right - sure)) for k in range(10)]
    return np.abs(gaps).sum() / len(fresh)


def lira(chosen, is_member):
    """Advantage on every dataset: of one network's log odds of the right labels of the pool."""
    odds = chosen - np.log1p(-np.exp(np.minimum(chosen, -1e-6)))  # [datasets, networks, images]
    found = []
    for d in range(len(odds)):
        others = np.arange(len(odds)) != d
        fits = []
        for is_in in (True, False):
            weight = (is_member[others] == is_in)[:, None] * np.ones_like(odds[others])
            total = np.maximum(weight.sum(axis=(0, 1)), 1)
            mean = (weight * odds[others]).sum(axis=(0, 1)) / total
            # One deviation for all images: shadows are few.
            fits.append((mean, np.sqrt((weight * (odds[others] - mean) ** 2).sum() / weight.sum())))
        score = [-(((odds[d] - m) / s) ** 2) / 2 - np.log(s) for m, s in fits]
        says_in = score[0] > score[1]
        found.append(says_in[:, is_member[d]].mean() - says_in[:, ~is_member[d]].mean())
    return np.array(found)


is_member = np.array([np.isin(np.arange(200), half) for half in halves])
rows, rhats = [], {}
for gamma in temperatures:
    found, rhat = zip(*(networks_of(half, gamma) for half in halves), strict=True)
    every = np.stack(found)  # [datasets, networks, images, classes]
    chosen = every[..., np.arange(len(labels)), labels]
    average = np.log(np.exp(every).mean(axis=1))
    own = np.stack([-c[:, pool[half]].mean() for c, half in zip(chosen, halves, strict=True)])
    columns = {
        "error, one": (every[:, :, fresh].argmax(axis=-1) != labels[fresh]).mean((1, 2)),
        "error, average": (average[:, fresh].argmax(axis=-1) != labels[fresh]).mean(axis=1),
        "log loss, one": -chosen[:, :, fresh].mean((1, 2)),
        "log loss, average": -average[:, fresh, labels[fresh]].mean(axis=1),
        "calibration, one": [np.mean([calibration_error(np.exp(n[fresh])) for n in e]) for e in every],
        "calibration, average": [calibration_error(np.exp(a[fresh])) for a in average],
        "on-average KL": gamma * (-chosen[:, :, fresh].mean((1, 2)) - own),
        "attack": lira(chosen[:, :, pool], is_member),
    }
    rhats[gamma] = np.median(rhat)
    for name, values in columns.items():
        rows.append((gamma, name, np.mean(values), np.std(values, ddof=1) / np.sqrt(num_datasets)))
cold = pd.DataFrame(rows, columns=["gamma", "what", "mean", "se"]).set_index(["what", "gamma"])
cold["mean"].unstack().loc[list(columns)].round(3)

# %% [markdown]
# No attack has an advantage above $\sqrt{\mathrm{KL}/2}$ (Pinsker) or $\sqrt{1 - e^{-\mathrm{KL}}}$
# (Bretagnolle and Huber) on average, whatever it looks at: the dashed line.

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(2, 2, figsize=(9, 6.5), sharex=True, layout="constrained")


def line(ax, name, label, **style):
    part = cold.loc[name]
    ax.errorbar(part.index, part["mean"], 1.96 * part["se"], label=label, capsize=2, **style)


for ax, name in zip(axes.flat, ("error", "log loss", "calibration"), strict=False):
    line(ax, f"{name}, one", "one network", color="#D55E00", marker="o")
    line(ax, f"{name}, average", "average of four", color="#0072B2", marker="s")
    ax.set_ylabel({"calibration": "calibration error"}.get(name, name) + ", fresh images")
kl = cold.loc["on-average KL"]
nats = np.maximum(kl["mean"], 0)
limit = np.sqrt(np.minimum(nats / 2, 1 - np.exp(-nats)))
axes[1, 1].plot(kl.index, limit, "k--", label="no attack is above this")
line(axes[1, 1], "attack", "LiRA on one network", color="#009E73", marker="^")
line(axes[1, 1], "on-average KL", "on-average KL", color="#CC79A7", marker="D")
axes[1, 1].set_ylabel("advantage; nats")
axes[1, 1].set_yscale("symlog", linthresh=0.01)
for ax in axes.flat:
    ax.set_xscale("log")
    ax.axvline(1.0, color="0.8", zorder=0)
    ax.legend(frameon=False, fontsize="small")
for ax in axes[1]:
    ax.set_xlabel("gamma (1 is Bayes; to the right, cold)")
print("R-hat of the fresh log loss, median over datasets:")
print(*(f"gamma {gamma:g}: {rhat:.2f}" for gamma, rhat in rhats.items()), sep="; ")

# %% [markdown]
# ## What was learnt
#
# The same call audits a regression with three weights and a network with thousands. `gamma` times the
# generalization error (`on_average_kl_ghost`) is the second route to on-average KL, and where the two
# disagree by many standard errors the chains were too short. More datasets, chains and samples, on a
# GPU, make every number sharper.
#
# Of this network, prior and 100 images the cold posteriors are better in everything but privacy: at
# Bayes' `gamma` most fresh images are misread, by networks that are far too unsure, and from 10 on one
# in seven or fewer. For that a draw gives away thousands of times as much: at 0.1 the attacker guesses,
# at 100 three of four guesses about the pool are right. Averaging four networks makes errors fewer, and
# probabilities that were too unsure still less sure.
