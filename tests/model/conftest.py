import jax.numpy as jnp
import pytest


@pytest.fixture
def precision(dtype):
    """The dtype of both precisions in turn, each made JAX's default."""
    return jnp.dtype(dtype)
