import jax.numpy as jnp
import pytest

from gibbs_dp.audit.workers import precision as switch


@pytest.fixture
def precision(dtype):
    """The dtype of both precisions in turn, each made JAX's default."""
    return jnp.dtype(dtype)


@pytest.fixture
def float64():
    """Run the test in double precision."""
    with switch(True):
        yield
