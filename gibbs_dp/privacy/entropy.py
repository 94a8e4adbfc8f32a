"""Keys from the operating system's entropy, for noise that has to be a secret."""

from __future__ import annotations

import secrets

import jax
import numpy as np
from jaxtyping import PRNGKeyArray


def secret_key() -> PRNGKeyArray:
    """Make a JAX key from 64 bits of the operating system's entropy; it is never shown or stored.

    Examples
    --------
    >>> secret_key().shape
    ()
    """
    words = np.frombuffer(secrets.token_bytes(8), dtype=np.uint32)
    return jax.random.wrap_key_data(jax.numpy.asarray(words), impl="threefry2x32")
