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
# # 11. A posterior with several modes
#
# The means of a Gaussian mixture have two posterior modes at least: one for each way to put labels on
# the components. **Is an audit right there, and what do numbers about single means say?** This notebook
# audits a mixture with the default chains, which see one mode and warn, with particles that see both
# (`gdp.SMC`), and on a lattice, which is exact.

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

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

fast = os.environ.get("GIBBS_DP_FAST") == "1"  # small counts, for tests
num_datasets = 16 if fast else 256
gammas = [0.3] if fast else [0.1, 0.3, 1.0]

# %% [markdown]
# ## The problem
#
# Examples are normal about -1.5 (30% of them) or 1.5 (70%). The shares are known, the two means are
# not; the loss is minus the log density. As the shares differ, so do the two modes: the one with its
# labels exchanged has less mass, by how much depends on the dataset.

# %%
problem = gdp.problems.build_problem("mixture", shares=(0.3, 0.7))
posterior, population = problem.posterior, problem.population
data, _ = population.sample(jax.random.key(1), problem.n, 1)
print(problem.description, "n =", problem.n)

# %% [markdown]
# ## Particles along gamma
#
# `gdp.SMC` draws particles from the prior and follows them to larger and larger gamma, weighing,
# resampling and moving them. A mode that has its share of the mass at small gamma keeps it. Below, the
# contours are the posterior density of this one dataset, the dots are particles: one cloud of the
# prior becomes two, and at gamma 1 the smaller one has all but gone.

# %%
axis = jnp.linspace(-5.0, 5.0, 81)
points = jnp.stack(jnp.meshgrid(axis, axis, indexing="ij"), axis=-1)[..., None]
density = jax.jit(jax.vmap(jax.vmap(posterior.log_density, (0, None, None)), (0, None, None)))

path = [0.01, 0.1, 0.3, 1.0]
figure, panels = plt.subplots(1, 4, figsize=(11, 3.1), sharex=True, sharey=True)
for panel, gamma in zip(panels, path):
    cloud = gdp.sample(posterior, data, gamma=gamma, key=3, sampler=gdp.SMC())
    first, second = np.asarray(cloud.theta)[..., 0].reshape(-1, 2).T
    height = np.asarray(density(points, data, gamma))
    panel.contour(axis, axis, (height - height.max()).T, [-6, -4, -2, -0.5], colors="gray", linewidths=0.7)
    panel.plot(first, second, ".", ms=3)
    panel.set(title=f"gamma {gamma:g}", xlabel="first mean", aspect="equal", xlim=(-5, 5), ylim=(-5, 5))
panels[0].set_ylabel("second mean");

# %% [markdown]
# ## Three audits
#
# The same datasets three times. Chains start at modes and stay there; the lattice sums the posterior
# over 96 x 96 points and has no sampling error at all.

# %%
kernels = {
    "HMC": gdp.HMC(),
    "SMC": gdp.SMC(),
    "lattice": gdp.Grid(low=-12.0, high=12.0, num_points=96),
}
reports = {
    name: gdp.audit(
        posterior,
        population,
        problem.n,
        gammas,
        num_datasets=num_datasets,
        sampler=kernel,
        learn=[gdp.OnAverageKL()],
        progress=False,
    )
    for name, kernel in kernels.items()
}
kl = pd.DataFrame({name: report["on_average_kl"] for name, report in reports.items()})
kl.index = pd.Index(gammas, name="gamma")
kl["standard error"] = reports["lattice"]["on_average_kl_se"]
kl.round(5)

# %% [markdown]
# The datasets are shared, so that kernels can be compared to much less than the standard error, which is
# between datasets. SMC is within a few percent of the lattice. HMC is too small where both modes have mass:
# which of two modes a draw is from tells something of the dataset, and chains in one mode cannot know.
# They do notice that there is another one:

# %%
for name, report in reports.items():
    print(f"{name}: {len(report.warnings)} warnings")
    print(*report.warnings, sep="\n")

# %% [markdown]
# ## What does not depend on labels
#
# With equal shares the loss ignores the order of the means: the two modes are mirror images, and a
# function of losses (risk, generalization error, on-average KL) is the same in both. Draws of one mode
# are then enough for it. A function of *labels*, such as the first mean, is another matter. Its posterior
# mean is near zero by symmetry; what chains say of it is how many of them started in which mode.

# %%
even = gdp.problems.build_problem("mixture")
data, fresh = even.population.sample(jax.random.key(2), even.n, 1000)
settings = {"HMC": {"sampler": gdp.HMC(), "num_samples": 64}, "SMC": {"sampler": gdp.SMC()}}


@jax.jit
def risk(theta):
    """Mean loss of a draw on fresh examples."""
    return even.posterior.losses(theta, fresh).mean()


rows = {}
for name, given in settings.items():
    theta = gdp.sample(even.posterior, data, key=4, **given).theta.reshape(-1, 2, 1)
    rows[name] = {
        "first mean": float(theta[:, 0].mean()),
        "smaller mean": float(theta.min(axis=1).mean()),
        "risk of a draw": float(jax.vmap(risk)(theta).mean()),
    }
pd.DataFrame(rows).T.round(3)

# %% [markdown]
# The smaller of the two means does not depend on labels either, and agrees.

# %% [markdown]
# ## What was learnt
#
# - Chains see the mode that they start in. With equal modes that is enough for losses and for on-average
#   KL; with modes of different mass the report is wrong, and warns.
# - `gdp.SMC()` follows particles from the prior and comes close to exact sums. A mode that no particle met
#   on the way is lost without a sign: particles are a better search, not a proof.
# - Of parameters that may be permuted, report what does not depend on labels.
