import os

# Compiling is most of what the tests do: the least optimized code is the sooner run. Set before
# JAX starts; `tests/cli/test_process.py` runs a program without it.
os.environ["XLA_FLAGS"] = " ".join(
    (
        os.environ.get("XLA_FLAGS", ""),
        "--xla_backend_optimization_level=0",
        "--xla_cpu_use_fusion_emitters=false",
    )
)

import jax.numpy as jnp
import matplotlib as mpl
import pytest

from gibbs_dp.audit.workers import precision

mpl.use("Agg")


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    """Runs a test in single and in double precision."""
    with precision(request.param == "float64"):
        yield request.param


@pytest.fixture(name="precision")
def precision_fixture(dtype):
    """Runs a test in both precisions; the value is the default dtype."""
    return jnp.dtype(dtype)


@pytest.fixture
def float64():
    """Runs a test in double precision."""
    with precision(True):
        yield
