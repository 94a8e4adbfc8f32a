"""A word of warning where a user's loss or prior meets what ``gibbs_dp/_linalg.py`` avoids."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeAlias

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

Matrices: TypeAlias = tuple[str, tuple[int, ...]]  # what is done with them, and their shape


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
    leaves, treedef = jax.tree.flatten(data)
    shapes = tuple(jax.ShapeDtypeStruct(jnp.shape(a), jnp.result_type(a)) for a in leaves)
    found = _largest(posterior, treedef, shapes)
    if found is not None:
        name, shape = found
        warnings.warn(
            f"loss or prior: it uses {name} on {shape[-2]} x {shape[-1]} matrices for every "
            f"draw, and jaxlib {jaxlib.version.__version__} may wait for ever where several "
            "batches of them meet; if nothing moves, take another jaxlib: pip install "
            "'jax<0.10'.",
            WaitingWarning,
            stacklevel=2,
        )


@lru_cache(maxsize=256)  # nothing is traced again for a new dataset of the same shape
def _largest(posterior: GibbsPosterior, treedef: Any, shapes: tuple[Any, ...]) -> Matrices | None:
    """Find matrices of the loss or prior, one for every parameter, that jaxlib would share out."""

    def terms(u: Any, data: PyTree) -> Any:
        theta = posterior.constrain(u)
        losses = posterior.empirical_loss if posterior.structured else posterior.losses
        return losses(theta, data), posterior.log_prior_unconstrained(u)

    two, data = jnp.zeros((2, posterior.dim)), jax.tree.unflatten(treedef, shapes)
    if not any(_factorized(jax.make_jaxpr(terms)(two[0], data).jaxpr)):
        return None  # nearly always, at half the time
    for name, shape in _factorized(jax.make_jaxpr(jax.vmap(terms, (0, None)))(two, data).jaxpr):
        batch = math.prod(shape[:-2]) / 2 * TYPICAL_BATCH
        if len(shape) > 2 and batch * shape[-1] ** 3 >= SHARED_OUT:
            return name, shape
    return None


def _factorized(jaxpr: Any) -> Iterator[Matrices]:
    """Names, and shapes of the matrices, of what a program factors or solves with."""
    for equation in jaxpr.eqns:
        if equation.primitive.name in FACTORIZATIONS:
            yield equation.primitive.name, equation.invars[0].aval.shape
        for inner in jax.tree.leaves(tuple(equation.params.values()), is_leaf=_is_program):
            if _is_program(inner):
                yield from _factorized(getattr(inner, "jaxpr", inner))


def _is_program(value: Any) -> bool:
    return hasattr(value, "eqns") or hasattr(getattr(value, "jaxpr", None), "eqns")
