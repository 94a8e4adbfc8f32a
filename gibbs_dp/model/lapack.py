"""A warning when a user's loss or prior may hang as described in ``gibbs_dp/_jaxlib/linalg.py``."""

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

from gibbs_dp._cautions import Caution
from gibbs_dp._jaxlib.devices import is_accelerator, platform
from gibbs_dp._jaxlib.linalg import SHARED_OUT
from gibbs_dp.model.posterior import GibbsPosterior

FIRST, LAST = (0, 10, 0), (0, 11, 0)  # jaxlib versions that share batches out
COSTS = dict.fromkeys(("eig", "eigh", "svd", "schur", "hessenberg"), 10.0)
COSTS |= dict.fromkeys(("cholesky", "lu", "qr", "geqrf", "geqp3", "householder_product"), 1.0)
COSTS |= {"ormqr": 1.0, "triangular_solve": 1.0, "tridiagonal_solve": 5.0}
"""Operations on a matrix, over its rows times the entries of it or of the right-hand side."""
TYPICAL_BATCH = 512  # 32 datasets of 16 chains

MAY_HANG = Caution(
    "may-hang",
    "loss or prior: it uses {name} on {rows} x {columns} matrices for every draw or dataset, and "
    "jaxlib {version} may hang where several batches of them meet; if nothing moves, install "
    "another one: pip install 'jax<0.10'.",
    "Versions 0.10 and 0.11.0 of jaxlib can wait forever on a CPU where several large batches of "
    "matrices are factored at once. The library's own factorizations are cut so that they cannot; "
    "those of a loss or prior of yours still can. Numbers are not affected.",
    "Nothing, as long as it moves. Otherwise pip install 'jax<0.10', or use a GPU.",
)

# What is done with a batch of matrices, their shape, and its cost in operations.
Matrices: TypeAlias = tuple[str, tuple[int, ...], float]


class WaitingWarning(RuntimeWarning):
    """The installed jaxlib may hang in the loss or the prior."""


def warn_of_lapack(posterior: GibbsPosterior, data: PyTree) -> None:
    """Warn if loss or prior factor matrices for every draw or dataset, in batches that may hang.

    Warns
    -----
    WaitingWarning
        On CPUs and with jaxlib 0.10 to 0.11.0 only.
    """
    if is_accelerator(platform()) or not FIRST <= jaxlib.version.__version_info__ <= LAST:
        return
    leaves, treedef = jax.tree.flatten(data)
    shapes = tuple(jax.ShapeDtypeStruct(jnp.shape(a), jnp.result_type(a)) for a in leaves)
    found = _largest(posterior, treedef, shapes)
    if found is not None:
        name, shape, _ = found
        version = jaxlib.version.__version__
        text = MAY_HANG(name=name, rows=shape[-2], columns=shape[-1], version=version)
        warnings.warn(text, WaitingWarning, stacklevel=2)


@lru_cache(maxsize=256)  # nothing is traced again for a new dataset of the same shape
def _largest(posterior: GibbsPosterior, treedef: Any, shapes: tuple[Any, ...]) -> Matrices | None:
    """Find matrices of the loss or prior that jaxlib would share out."""

    def terms(u: Any, data: PyTree) -> Any:
        theta = posterior.constrain(u)
        losses = posterior.empirical_loss if posterior.structured else posterior.losses
        return losses(theta, data), posterior.log_prior_unconstrained(u)

    # Two datasets, two draws of each: what appears once is shared by all.
    two = jnp.zeros((2, 2, posterior.dim))
    one, data = two[0, 0], jax.tree.unflatten(treedef, shapes)
    if not any(_factorized(jax.make_jaxpr(terms)(one, data).jaxpr)):
        return None  # nearly always, in half the time
    datasets = jax.tree.map(lambda s: jax.ShapeDtypeStruct((2, *s.shape), s.dtype), data)
    batched = jax.vmap(jax.vmap(terms, (0, None)))
    for name, shape, cost in _factorized(jax.make_jaxpr(batched)(two, datasets).jaxpr):
        if math.prod(shape[:-2]) > 1 and cost / 4 * TYPICAL_BATCH >= SHARED_OUT:
            return name, shape, cost
    return None


def _factorized(jaxpr: Any) -> Iterator[Matrices]:
    """List what a program factors or solves with."""
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name in COSTS:
            shapes = [v.aval.shape for v in equation.invars]
            # A tridiagonal matrix comes as three vectors; a right-hand side last.
            shape = (*shapes[0], shapes[0][-1]) if name == "tridiagonal_solve" else shapes[0]
            rows = 1 if name == "tridiagonal_solve" else shape[-2]
            yield name, shape, COSTS[name] * rows * math.prod(shapes[-1])
        for inner in jax.tree.leaves(tuple(equation.params.values()), is_leaf=_is_program):
            if _is_program(inner):
                yield from _factorized(getattr(inner, "jaxpr", inner))


def _is_program(value: Any) -> bool:
    return hasattr(value, "eqns") or hasattr(getattr(value, "jaxpr", None), "eqns")
