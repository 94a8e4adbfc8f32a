"""Noise for releases, from OpenDP: a cryptographic source, exactly discretized."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float

from gibbs_dp._extras import require
from gibbs_dp.information import checks


def laplace_release(
    values: Float[np.ndarray, " values"], scale: float
) -> Float[np.ndarray, " values"]:
    """Add independent ``Lap(scale)`` noise to every value.

    OpenDP wants an opt-in to what it has not formally verified ("contrib"); the functions of this
    file opt in.

    Parameters
    ----------
    values
        Finite numbers.
    scale
        Of the noise, in the unit of the values.

    Returns
    -------
    array
        The noisy values.

    Raises
    ------
    ValueError
        If ``scale`` is not positive, or OpenDP (extra ``privacy``) is not installed.

    Examples
    --------
    >>> laplace_release(np.zeros(3), 1.0).shape
    (3,)
    """
    checks.positive("scale", scale)
    return np.asarray(_laplace(scale)(_finite(values)), dtype=np.float64)


def gaussian_release(
    values: Float[np.ndarray, " values"], sigma: float
) -> Float[np.ndarray, " values"]:
    """Add independent ``N(0, sigma^2)`` noise to every value; parameters as `laplace_release`.

    Examples
    --------
    >>> gaussian_release(np.zeros(3), 1.0).shape
    (3,)
    """
    checks.positive("sigma", sigma)
    return np.asarray(_gaussian(sigma)(_finite(values)), dtype=np.float64)


def gumbel_argmax_release(values: Float[np.ndarray, " values"], scale: float) -> int:
    """Index of the largest value after Gumbel noise: a draw ``∝ exp(value / scale)``.

    Parameters are those of `laplace_release`.

    Examples
    --------
    >>> gumbel_argmax_release(np.array([0.0, 1000.0]), 1.0)
    1
    """
    checks.positive("scale", scale)
    return int(_gumbel(scale)(_finite(values)))


# Building a measurement takes longer than running it.
@lru_cache(maxsize=64)
def _laplace(scale: float) -> Any:
    opendp = _opendp()
    return opendp.m.make_laplace(_vectors(opendp), opendp.l1_distance(T=float), scale=scale)


@lru_cache(maxsize=64)
def _gaussian(sigma: float) -> Any:
    opendp = _opendp()
    return opendp.m.make_gaussian(_vectors(opendp), opendp.l2_distance(T=float), scale=sigma)


@lru_cache(maxsize=64)
def _gumbel(scale: float) -> Any:
    opendp = _opendp()
    space, metric = _vectors(opendp), opendp.linf_distance(T=float)
    measure = opendp.zero_concentrated_divergence()
    return opendp.m.make_noisy_max(space, metric, measure, scale=scale)


def _opendp() -> Any:
    opendp = require("opendp.prelude")
    opendp.enable_features("contrib")
    return opendp


def _vectors(opendp: Any) -> Any:
    return opendp.vector_domain(opendp.atom_domain(T=float, nan=False))


def _finite(values: Float[np.ndarray, " values"]) -> list[float]:
    checks.refuse_masked("values", values, is_private=True)
    if values.size == 0 or not np.all(np.isfinite(values)):
        raise ValueError("values must be finite and at least one; remove the others.")
    return values.tolist()
