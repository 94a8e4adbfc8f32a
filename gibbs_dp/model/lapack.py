"""A word of warning where a user's loss or prior meets what ``gibbs_dp/_linalg.py`` avoids."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
from jaxtyping import PyTree

from gibbs_dp._linalg import SHARED_OUT
from gibbs_dp.model.posterior import GibbsPosterior

FIRST, LAST = (0, 10, 0), (0, 11, 0)  # jaxlib versions that share batches out
FACTORIZATIONS = frozenset(
    {
        *("cholesky", "eig", "eigh", "geqp3", "geqrf", "hessenberg", "householder_product", "lu"),
        *("qr", "schur", "svd", "triangular_solve", "tridiagonal"),
    }
)
TYPICAL_BATCH = 512  # 32 datasets of 16 chains


class WaitingWarning(RuntimeWarning):
    """The installed jaxlib may wait for ever in the loss or the prior."""


def warn_of_lapack(posterior: GibbsPosterior, data: PyTree) -> None:
    """Warn if loss or prior factor matrices for every parameter, in batches that may wait.

    Warns
    -----
    WaitingWarning
        On CPUs and with jaxlib 0.10 to 0.11.0 only.
    """
    if jax.default_backend() != "cpu" or not FIRST <= jaxlib.version.__version_info__ <= LAST:
        return

    def terms(u: Any, data: PyTree) -> Any:
        theta = posterior.constrain(u)
        losses = posterior.empirical_loss if posterior.structured else posterior.losses
        return losses(theta, data), posterior.log_prior_unconstrained(u)

    two = jnp.zeros((2, posterior.dim))
    if not any(_factorized(jax.make_jaxpr(terms)(two[0], data).jaxpr)):
        return  # nearly always, at half the time
    for name, shape in _factorized(jax.make_jaxpr(jax.vmap(terms, (0, None)))(two, data).jaxpr):
        if len(shape) < 3:
            continue  # one matrix for all draws
        if math.prod(shape[:-2]) / 2 * TYPICAL_BATCH * shape[-1] ** 3 >= SHARED_OUT:
            warnings.warn(
                f"loss or prior: it uses {name} on {shape[-2]} x {shape[-1]} matrices for every "
                f"draw, and jaxlib {jaxlib.version.__version__} may wait for ever where several "
                "batches of them meet; if nothing moves, take another jaxlib: pip install "
                "'jax<0.10'.",
                WaitingWarning,
                stacklevel=2,
            )
            return


def _factorized(jaxpr: Any) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names, and shapes of the matrices, of what a program factors or solves with."""
    for equation in jaxpr.eqns:
        if equation.primitive.name in FACTORIZATIONS:
            yield equation.primitive.name, equation.invars[0].aval.shape
        for inner in jax.tree.leaves(tuple(equation.params.values()), is_leaf=_is_program):
            if _is_program(inner):
                yield from _factorized(getattr(inner, "jaxpr", inner))


def _is_program(value: Any) -> bool:
    return hasattr(value, "eqns") or hasattr(getattr(value, "jaxpr", None), "eqns")
