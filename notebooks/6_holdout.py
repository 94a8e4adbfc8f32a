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
# # 6. The reusable holdout
#
# A holdout set tells how good a model is, once. **What if its answers are used to build the next
# model, and the one after?** Then it is overfitted like a training set. This notebook shows it
# happening, then answers the same questions through Thresholdout (Dwork et al. 2015), which checks the
# training set against the holdout and lets out little of it, and ends with a plan for a holdout that
# keeps a promise.

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
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from gibbs_dp.papers.reusable_holdout.run import run_holdout
from gibbs_dp.papers.reusable_holdout.plot import plot_holdout
from gibbs_dp.papers.reusable_holdout.data import Sizes

fast = os.environ.get("GIBBS_DP_FAST") == "1"  # small counts, for tests

# %% [markdown]
# ## An analyst who climbs
#
# Labels are tosses of a coin, and so are thousands of attributes: nothing can be predicted, and every
# classifier is right half of the time. The analyst asks how often each attribute agrees with the
# label, lets all attributes vote as their answers suggest, asks for the accuracy of the vote, and goes
# on with more attributes: four times. The planner says how many rows that takes, some 13,000. One analyst
# asks the holdout plainly, the other one asks through Thresholdout.

# %%
counts = {"d": 2048, "repetitions": 2} if fast else {"repetitions": 10}
found = run_holdout("climb", Sizes(**counts))
names = {
    "queries": "questions",
    "answered": "answered, share",
    "last_told_accuracy": "accuracy told at the end",
    "true_accuracy": "true accuracy",
    "largest_error": "largest error of an answer",
    "promised_tau": "promised error",
    "kept": "promise kept, share",
}
pd.DataFrame(found.summary).set_index("analyst")[[*names]].rename(columns=names).round(3).T

# %%
plot_holdout(found)

# %% [markdown]
# The plain holdout was talked into an accuracy that does not exist. On the right every point is one
# analyst; the dashed line is what is proven for Thresholdout's answers with probability 95%. It is far
# above what happened: a proof must hold for the cleverest analyst, and this one is simple.
#
# ## A gate of one's own
#
# Now with a guarantee. `plan_thresholdout` chooses the settings for a number of questions and an
# accuracy, *before* the first question, or says that there are none:

# %%
try:
    gdp.holdout.plan_thresholdout(10_000, num_queries=1000, tau=0.2)
except ValueError as refusal:
    print(refusal)

# %%
n = 200_000
plan = gdp.holdout.plan_thresholdout(n, num_queries=1000, tau=0.2)
pd.Series(plan._asdict(), name="plan").to_frame()

# %% [markdown]
# With 200,000 rows, all of 1,000 answers are within 0.2 of the truth with probability 95%, whatever the
# analyst does, and some of them may be corrected by the holdout (`budget`). A ledger is charged before
# a round's first answer, so that a crash refunds nothing.

# %%
rng = np.random.default_rng(0)


def draw_rows(names):
    """Rows of coin tosses, with a name each."""
    return {"name": names, "tosses": rng.random((len(names), 20)) < 0.5}


train, holdout = draw_rows(np.arange(n)), draw_rows(np.arange(n, 2 * n))
folder = tempfile.TemporaryDirectory()
ledger = gdp.Ledger.create(
    Path(folder.name) / "holdout.ledger", adjacency="replace-one", epsilon=10.0
)
gate = gdp.Thresholdout(
    train,
    holdout,
    threshold=plan.threshold,
    sigma=plan.sigma,
    budget=plan.budget,
    ledger=ledger,
)

# %% [markdown]
# Two kinds of questions: how often does each coin show heads, which is honest; and "is this row one
# that I was trained on?", which is what a model that memorizes amounts to. The truth is one half for
# the first, and zero for fresh rows for the second.

# %%
honest = gate.query_batch(lambda rows: rows["tosses"])
print("coins: answers from", honest.values.min().round(3), "to", honest.values.max().round(3))
print("budget left:", gate.budget_left, "of", plan.budget)

memorized = gate.query(lambda rows: rows["name"] < n)
print(f"memorized: {memorized:.4f}, on the training set: 1")
print("budget left:", gate.budget_left, "of", plan.budget)

# %%
print(gate.guarantee(rounds=gate.rounds_started))
print("every answer within", round(gate.promise(1000).tau, 3), "with probability 0.95")
print("left in the ledger:", ledger.left())
folder.cleanup()  # keep a real ledger, next to the data

# %% [markdown]
# ## What was learnt
#
# A plain holdout that is asked again and again says what the analyst wants to hear. Thresholdout gave
# the honest questions the training set's answers, at no cost; the question that had memorized the
# training set was found out, got the holdout's answer, and used up a unit of the budget. The price is
# the number of rows: a proven promise over a thousand adaptive questions needs tens of thousands of
# them, while what happens in practice is better than the proof.
