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
# # 1. Quickstart
#
# A model is fitted to data about people. **How much does it tell about each of them, and what does
# more privacy cost?** This notebook answers for a small table: it measures what a model tells on
# average, sets that beside the worst case, and ends with a model that may be handed out.

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
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

fast = os.environ.get("GIBBS_DP_FAST") == "1"  # small counts, for tests

# %% [markdown]
# ## Data
#
# Any arrays will do. Here 400 people recovered, or did not, after some dose of a drug. Put a table
# of your own in place of `people`.

# %%
rng = np.random.default_rng(0)
people = pd.DataFrame({"age": rng.integers(18, 91, 400), "dose": rng.uniform(0, 50, 400).round(1)})
chance = 1 / (1 + np.exp(-(2 - 0.06 * people["age"] + 0.08 * people["dose"])))
people["recovered"] = (rng.random(400) < chance).astype(int)
people.head(3)

# %% [markdown]
# Features are scaled by bounds that are known **without looking at the data** (ages up to 100, doses
# up to 50), and begin with a 1 for the intercept. Then no feature vector is longer than the root of
# 3, and the worst case can be computed.

# %%
x = np.column_stack([np.ones(len(people)), people["age"] / 100, people["dose"] / 50])
y = people["recovered"].to_numpy(float)
domain = gdp.Domain(x_bound=3**0.5, y_range=(0.0, 1.0))

# %% [markdown]
# ## A posterior
#
# A *Gibbs posterior* draws weights with probability proportional to `exp(-gamma * total loss)`,
# here of a logistic regression with weights in a ball of radius 8. A small `gamma` ignores the data,
# a large one follows them closely; `gamma = 1` is Bayes.

# %%
posterior = gdp.GibbsPosterior(gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball(3, 8.0)))

# %% [markdown]
# ## Average and worst case
#
# Which `gamma` is small enough? `calibrate` finds the one whose worst case is `epsilon = 1`. `audit`
# then draws many datasets of 400 rows from the table, samples the posterior of each at several
# gammas, and averages. Every number has a standard error over datasets.

# %%
n = len(people)
private = gdp.calibrate(
    posterior, n=n, pure_epsilon=1.0, adjacency="replace-one", domain=domain
).gamma
gammas = [0.01, private, 1.0] if fast else [0.003, 0.01, private, 0.1, 0.3, 1.0]
report = gdp.audit(
    posterior,
    gdp.populations.Table((x, y)),
    n=n,
    gammas=gammas,
    num_datasets=64 if fast else 512,
    learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],  # mutual information has a notebook of its own
    domain=domain,
    progress=False,
)
columns = ["on_average_kl", "on_average_kl_se", "dp_epsilon", "population_risk"]
report.to_dataframe()[columns]

# %%
report.plot()

# %% [markdown]
# `on_average_kl` is how far the posterior moves, in nats, when one random person is replaced by
# another: what the model tells about a person **on average**. `dp_epsilon` bounds what it tells about
# anyone, in any dataset within the bounds: the **worst case**. Both grow with `gamma`. The risk is
# the mean loss on people whom the model has not seen.
#
# ## A private draw
#
# Only the worst case is a promise to each person. `release` takes the target itself, charges a
# *ledger* that keeps count of what was spent on these data, and draws. `accept` names what the
# promise takes for granted: that floating-point numbers are real numbers.

# %%
folder = tempfile.TemporaryDirectory()
ledger = gdp.Ledger.create(
    Path(folder.name) / "people.ledger", adjacency="replace-one", epsilon=2.0
)
released = gdp.release(
    posterior,
    (x, y),
    domain=domain,
    adjacency="replace-one",
    pure_epsilon=1.0,
    ledger=ledger,
    accept=["float-arithmetic"],
)
print(dict(zip(["intercept", "age", "dose"], map(float, released.theta[0]))))
print("left in the ledger:", ledger.left())
print(released.guarantee)

# %% [markdown]
# How do the promise and the average compare at this `gamma`? The same unit makes it fair: the KL
# between the posteriors of two neighbouring datasets, the largest possible and the average one.

# %%
worst = gdp.privacy.account(posterior, gamma=private, n=n, adjacency="replace-one", domain=domain)
row = report.to_dataframe().loc[private]
pd.Series(
    {
        "KL at most, any neighbours": worst.kl(),
        "KL on average": row["on_average_kl"],
        "its standard error": row["on_average_kl_se"],
    }
)

# %%
folder.cleanup()  # keep a real ledger, next to the data

# %% [markdown]
# ## What was learnt
#
# The released weights are private whoever is in the data, and the ledger remembers what that cost.
# For people like these the model tells far less on average than the promise allows for. The average
# is no promise, since an unusual person may be far above it: use it to compare models and to choose
# `gamma`, and the worst case to hand something out. How the risk changes from row to row of the table
# is what privacy costs.
