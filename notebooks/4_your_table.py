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
# # 4. Your table, audited and released
#
# Tables come as files, with words for labels, empty cells and categories. **What does a model of such
# a table tell about its rows, and how is one released?** This notebook makes a small CSV file, audits
# it from the command line's functions and from Python, reads it again in the way a private release
# needs, and ends with a released model, its guarantee and the ledger that was charged.

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

from gibbs_dp.cli.main import main

fast = os.environ.get("GIBBS_DP_FAST") == "1"  # small counts, for tests

# %% [markdown]
# ## A file
#
# 2,000 patients, made up: age and dose, a smoker or not, the ward that they lay in, and whether they
# fell ill. Some ages are missing. Files are kept in a temporary folder; put the path of your own here.

# %%
folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "patients.csv"

os.environ["JAX_COMPILATION_CACHE_DIR"] = ""  # the command line keeps no compiled programs

rng = np.random.default_rng(0)
rows = 2000
table = pd.DataFrame(
    {
        "age": rng.integers(18, 91, rows).astype(float),
        "dose": rng.gamma(2.0, 10.0, rows).round(1),
        "smoker": rng.choice(["no", "yes"], rows),
        "ward": rng.choice(["north", "south", "west"], rows),
    }
)
score = 0.06 * table["age"] + 0.01 * table["dose"] + (table["smoker"] == "yes") - 4
table["ill"] = np.where(rng.random(rows) < 1 / (1 + np.exp(-score)), "yes", "no")
table.loc[rng.choice(rows, 40, replace=False), "age"] = np.nan
table.to_csv(path, index=False)
print("".join(path.open().readlines()[:4]))

# %% [markdown]
# ## An audit from the command line
#
# In a terminal this is
#
#     gibbs-dp audit --data patients.csv --target ill --missing drop --gammas 0.01 0.1 1 --out results
#
# and `main` is the function behind it. Without `--missing drop` the empty cells are refused: nothing
# is left out silently.

# %%
main(["audit", "--data", str(path), "--target", "ill", "--num-datasets", "64"]);

# %%
results = Path(folder.name) / "results"
words = ["audit", "--data", str(path), "--target", "ill", "--missing", "drop", "--n", "500"]
words += ["--gammas", "0.01", "0.1", "1", "--num-datasets", "64" if fast else "256"]
words += ["--num-information", "0", "--quiet", "--out", str(results)]
main(words)
saved = gdp.load_report(results / "audit.nc")
columns = ["on_average_kl", "on_average_kl_se", "generalization_error", "population_risk"]
saved.to_dataframe()[columns]

# %% [markdown]
# ## The same from Python
#
# `gdp.problems.table` makes features of the columns: numbers are standardized, text becomes one 0/1
# column per level but the first, a column of ones is the intercept. Its notes say what it did.

# %%
from gibbs_dp.problems.table import table as table_problem

problem = table_problem(path, target="ill", missing="drop")
print(*problem.notes, sep="\n")
report = gdp.audit(
    problem.posterior,
    problem.population,
    n=500,
    gammas=[0.01, 0.1, 1.0],
    num_datasets=64 if fast else 256,
    learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
    progress=False,
)
is_same = np.allclose(report["on_average_kl"], saved["on_average_kl"], rtol=1e-3)
print("the same numbers as from the command line:", is_same)

# %%
report.plot()

# %% [markdown]
# ## Before a release: declare the columns
#
# The audit looked at the table to scale it, and so nothing of it may be promised to anyone. For a
# release each column is declared from what is known *without* the table. A record that does not fit
# (here: an empty age) becomes zeros: it counts as a row, and nobody learns that it did not fit.

# %%
from gibbs_dp.privacy import Levels, Range

schema = gdp.privacy.Schema(
    {
        "age": Range(0.0, 100.0),
        "dose": Range(0.0, 100.0),
        "smoker": Levels(["no", "yes"]),
        "ward": Levels(["north", "south", "west"]),
    },
    target="ill",
    label=Levels(["no", "yes"]),
)
x, y = gdp.privacy.read_table(path, schema)
print(len(y), "records, of which zeros:", int((x == 0).all(axis=1).sum()))
pd.Series(schema.rules(), name="feature").to_frame()

# %% [markdown]
# ## What would it cost?
#
# The accountant computes every guarantee of one posterior at one `gamma`, for one draw or several.
# Here are four draws at the `gamma` of `(1, 1e-6)`-differential privacy.

# %%
posterior = gdp.GibbsPosterior(
    gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball(len(schema.names), 8.0))
)
public = {"n": len(y), "adjacency": "replace-one", "domain": schema.domain, "num_draws": 4}
found = gdp.calibrate(posterior, epsilon=1.0, delta=1e-6, **public)
accountant = gdp.privacy.account(posterior, gamma=found.gamma, **public)
print(gdp.privacy.explain(accountant, delta=1e-6).partition("constants")[0])

# %% [markdown]
# ## The release
#
# The ledger is charged before anything is drawn. With the same call once more the budget of 1.5 would
# be exceeded, and it is refused.

# %%
ledger = gdp.Ledger.create(
    Path(folder.name) / "patients.ledger", adjacency="replace-one", epsilon=1.5, delta=1e-5
)
settings = {
    "domain": schema.domain,
    "adjacency": "replace-one",
    "ledger": ledger,
    "epsilon": 1.0,
    "delta": 1e-6,
    "num_draws": 4,
    "accept": ["exact-draw", "float-arithmetic"],
    "purpose": "four draws of a logistic regression",
}
released = gdp.release(posterior, (x, y), **settings)
print(released.guarantee.summary().splitlines()[0])
pd.DataFrame(released.theta, columns=schema.names).round(2)

# %%
try:
    gdp.release(posterior, (x, y), **settings)
except ValueError as refusal:
    print(refusal)
main(["ledger", "show", "--ledger", str(ledger.path)]);

# %% [markdown]
# How good are the released weights? (Looking at the data again is for this demonstration only: an
# accuracy on private data is a release too.)

# %%
scores = x @ np.asarray(released.theta, dtype=float).T
right = ((scores > 0) == (y[:, None] == 1)).mean(axis=0)
print("share classified correctly, by draw:", right.round(2))
print("share of the larger class:", max(y.mean(), 1 - y.mean()).round(2))

# %%
folder.cleanup()  # keep a real ledger, next to the data

# %% [markdown]
# ## What was learnt
#
# One file, two ways to read it. The audit learns the scales and levels from the table, drops
# incomplete rows and says so, and tells what the model gives away *on average*. The release learns
# nothing from the table beforehand, turns incomplete records into zeros, and makes a promise to every
# person in it; the ledger refuses what the budget does not cover. Draws of one release differ from
# each other: that spread is the noise that protects, and it shrinks as the table grows.
