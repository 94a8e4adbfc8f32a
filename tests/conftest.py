"""Fixtures that every folder of tests shares."""

import jax
import jax.numpy as jnp
import pytest


def enable_x64(on: bool):
    """Switch the precision inside a ``with``, in old and new JAX."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(on)
    from jax.experimental import enable_x64 as switch  # JAX before 0.8

    return switch(on)


@pytest.fixture(params=["float32", "float64"])
def precision(request):
    """Run the test in both precisions; the value is the default dtype."""
    with enable_x64(request.param == "float64"):
        assert jnp.zeros(()).dtype == request.param
        yield jnp.dtype(request.param)


@pytest.fixture
def float64():
    """Run the test in float64."""
    with enable_x64(True):
        yield
