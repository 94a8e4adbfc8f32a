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
# # 10. A private model in a scikit-learn pipeline
#
# A draw from a calibrated Gibbs posterior *is* a private model. **How accurate is one at a given
# epsilon, and what does it promise?** This notebook fits a private classifier and a private regression
# in scikit-learn's way, on tables that come with scikit-learn, charges a ledger, reads the guarantee,
# and looks at what epsilon costs.

# %% tags=["hide-input"]
# Finds gibbs_dp in the clone that this notebook lies in, or installed. Colab installs it: from
# REPOSITORY or, where none is set, from a wheel that you upload.
import importlib.util
import sys
from importlib.metadata import version
from pathlib import Path

REPOSITORY = ""  # where gibbs_dp is hosted
EXTRAS, NEEDS = "tables,privacy", "sklearn pyarrow dp_accounting"  # and modules that these bring

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
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from gibbs_dp.sklearn import GibbsClassifier, GibbsMean, GibbsRegressor, RepeatedFitWarning

fast = os.environ.get("GIBBS_DP_FAST") == "1"  # small counts, for tests
repetitions = 2 if fast else 20

# %% [markdown]
# ## Declare, then fit
#
# 569 tumours with 30 measurements each. What may not come from the data is declared: bounds of the
# columns and the classes. People who measure cells know what sizes there are; here, where nobody does,
# middle and spread of the columns stand in for that knowledge, and count as public.

# %%
table = load_breast_cancer(as_frame=True)
rows, benign = table.data, table.target
middle, spread = rows.mean(), rows.std()
bounds = (middle - 2.5 * spread).to_numpy(), (middle + 2.5 * spread).to_numpy()
train, test, benign_train, benign_test = train_test_split(rows, benign, random_state=0)

folder = tempfile.TemporaryDirectory()
ledger = gdp.Ledger.create(
    Path(folder.name) / "tumours.ledger", epsilon=3.0, delta=2e-5, adjacency="replace-one"
)
model = GibbsClassifier(
    epsilon=1.0, delta=1e-5, bounds=bounds, classes=[0, 1], ledger=ledger
)
pipeline = make_pipeline(FunctionTransformer(feature_names_out="one-to-one"), model)
pipeline.fit(train, benign_train)
print("accuracy", round(pipeline.score(test, benign_test), 3))

# %% [markdown]
# What was done, and what it promises. The mechanism was picked by a rule that knows the number of rows
# and columns and the target, and nothing else.

# %%
print(model.told_)
model.guarantee_

# %%
ledger

# %% [markdown]
# ## What epsilon costs
#
# Accuracy of private fits over epsilon, under pure DP and under ($\varepsilon$, $10^{-5}$), beside a
# logistic regression without privacy. Each fit is repeated here on the *same* rows, which for real
# would spend each time: the warning says so, and is silenced because these rows are public.

# %%
epsilons = [0.1, 0.3, 1.0, 3.0, 10.0]


def scores(delta):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepeatedFitWarning)
        return np.array(
            [
                [
                    GibbsClassifier(epsilon, delta, bounds=bounds, classes=[0, 1])
                    .fit(train, benign_train)
                    .score(test, benign_test)
                    for _ in range(repetitions)
                ]
                for epsilon in epsilons
            ]
        )


plain = LogisticRegression(max_iter=5000).fit((train - middle) / spread, benign_train)
without = plain.score((test - middle) / spread, benign_test)

figure, axes = plt.subplots(figsize=(6, 3.5))
for delta, name in [(0.0, "pure DP"), (1e-5, "(epsilon, 1e-5)")]:
    found = scores(delta)
    error = found.std(axis=1) / np.sqrt(repetitions)
    axes.errorbar(epsilons, found.mean(axis=1), yerr=2 * error, marker="o", label=name)
axes.axhline(without, color="gray", linestyle=":", label="no privacy")
axes.set(xscale="log", xlabel="epsilon", ylabel="accuracy on held-out rows")
axes.legend();

# %% [markdown]
# ## Numbers, and means
#
# A regression declares the range of its labels too.

# %%
diabetes = load_diabetes(as_frame=True)
x_train, x_test, y_train, y_test = train_test_split(diabetes.data, diabetes.target, random_state=0)
regression = GibbsRegressor(epsilon=3.0, delta=1e-5, bounds=(-0.12, 0.12), y_bounds=(0, 350))
regression.fit(x_train, y_train)
ridge = RidgeCV().fit(x_train, y_train)
print("R2 private", round(regression.score(x_test, y_test), 2), "plain", round(ridge.score(x_test, y_test), 2))

# %%
mean = GibbsMean(epsilon=0.5, bounds=(0, 350)).fit(y_train.to_frame())
print("mean", round(mean.mean_[0], 1), "private;", round(y_train.mean(), 1), "true")

# %% [markdown]
# ## Beside the average
#
# The same posterior can be audited: how private is such a draw on average, over tables like this one?
# Its features have norm at most 1, and its labels are -1 and 1 or 0 and 1, as the loss takes them.

# %%
features = model.scaling_.features(rows.to_numpy())
low, high = model.domain_.y_range
labels = low + (high - low) * benign.to_numpy(float)
report = gdp.audit(
    model.posterior_,
    gdp.populations.Table((features, labels), replace=True),
    n=len(train),
    gammas=[model.gamma_],
    num_datasets=32 if fast else 256,
    domain=model.domain_,
    learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
    progress=False,
)
exact = gdp.privacy.account(
    model.posterior_,
    gamma=model.gamma_,
    n=len(train),
    adjacency="replace-one",
    domain=model.domain_,
)
average, worst = report.rows[0]["on_average_kl"], exact.kl()
print(f"on-average KL {average:.4f} nats, worst case {worst:.4f} nats")

# %% [markdown]
# ## What was learnt
#
# - Bounds, classes and a budget are declared; the rule does the rest before it sees a value.
# - At epsilon 1 a private classifier of thirty columns and 426 rows is a few points behind one without
#   privacy; below 0.3 a simpler loss takes over.
# - The guarantee names its assumptions, and what was taken from the data, if anything was.
# - Every fit spends. A ledger keeps count.
