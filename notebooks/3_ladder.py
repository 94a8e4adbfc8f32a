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
# # 3. The ladder of notions
#
# Pure differential privacy, zCDP, Rényi DP, KL-privacy, on-average KL, mutual information,
# generalization: **which of them implies which?** A small value of a notion further up forces a small
# value of those below it, and not the other way round. This notebook computes all of them *exactly*
# on one small problem, orders them, and then asks of every pair whether one implies the other: either
# an inequality is checked, or a counterexample is shown.

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

from gibbs_dp.papers.notions.notions import compare_notions
from gibbs_dp.papers.notions.measures import NOTIONS
from gibbs_dp.papers.notions.plot import plot_curves

fast = os.environ.get("GIBBS_DP_FAST") == "1"  # small counts, for tests

# %% [markdown]
# ## A problem that can be enumerated
#
# Four people, each with an opinion 0, 1/2 or 1; the model is one of five numbers, close to the
# opinions in squared distance. There are so few datasets that every privacy notion is a finite sum
# or maximum: nothing in this notebook is sampled, so that it needs no GPU.

# %%
theta, z = np.linspace(0.0, 1.0, 5), np.array([0.0, 0.5, 1.0])
problem = gdp.exact.FiniteProblem(
    (theta[:, None] - z) ** 2, data_probs=[0.5, 0.3, 0.2], prior_probs=np.full(5, 0.2)
)
n, gamma, adjacency = 4, 1.0, "replace-one"
renyi = problem.renyi_curve(gamma, n, [2.0, 8.0], adjacency=adjacency)
ladder = pd.Series(
    {
        "pure DP, eps": problem.dp_epsilon(gamma, n, adjacency=adjacency),
        "Rényi DP of order 8": renyi[1],
        "Rényi DP of order 2": renyi[0],
        "KL-privacy (worst neighbours)": problem.kl_privacy(gamma, n, adjacency=adjacency),
        "on-average KL": problem.on_average_kl(gamma, n),
        "gamma x generalization error": gamma * problem.generalization_error(gamma, n),
        "mutual information / n": problem.subset_information(gamma, n)[-1] / n,
        "information about one example": problem.individual_information(gamma, n),
    },
    name="nats",
)
ladder.to_frame()

# %% [markdown]
# Every line is at most the one above it. The first four look at the *worst* pair of neighbouring
# datasets, and differ in how they treat the outputs; below them, datasets are averaged too. The
# equality in the middle is the theorem of notebook 2.
#
# ## Over gamma

# %%
gammas = np.geomspace(0.01, 30.0, 7 if fast else 25)
notions = compare_notions(problem, n=n, gammas=gammas)
plot_curves(notions)

# %% [markdown]
# ## What implies what
#
# `compare_notions` checked every implication on random mechanisms, with its inequality, and searched
# a counterexample wherever there is none. "yes" in the table: if the notion of the row is small, so is
# that of the column; "no": a mechanism is known on which the first is small and the second is not.
# An answer in capitals was checked directly; the others follow from those.

# %%
words = {
    "self": "",
    "arrow": "YES",
    "implied": "yes",
    "counterexample": "NO",
    "refuted": "no",
    "open": "?",
}
names = list(NOTIONS)
pd.DataFrame(
    [[words[notions.verdicts[row, column]] for column in names] for row in names],
    index=pd.Index([NOTIONS[name].title for name in names], name="small in the row"),
    columns=names,
)

# %% [markdown]
# A few of the counterexamples, with the mechanism that separates the two notions:

# %%
rows = pd.DataFrame(notions.parts()["implication"])
missing = rows[rows["verdict"] == "counterexample"]
shown = missing[missing["from"].isin(["max", "on_average", "kl", "zcdp"])]
shown[["from", "to", "statement", "from_value", "to_value"]].set_index(["from", "to"]).round(3)

# %% [markdown]
# Did everything hold: the order of the curves, the inequalities, the counterexamples, and was every
# pair decided?

# %%
print("what failed, or is open:", notions.failures or "nothing")
print("verdicts:", pd.Series(notions.verdicts).value_counts().to_dict())

# %% [markdown]
# ## What was learnt
#
# Pure DP is the top of the ladder: it implies all the others, and none of them implies it. On-average
# KL bounds mutual information and generalization, and costs much less than a worst case, but a person
# who is rare can be given away while it stays small (the "rare person" in the table): **a small
# average is no promise to anyone in particular**. The parity of all bits shows what information *per
# example* leaves out: it tells one bit about everybody together, and all of the last person's bit to
# whoever knows the others.
