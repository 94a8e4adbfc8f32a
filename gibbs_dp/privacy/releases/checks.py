"""Checks of a release: before its charge without seeing values, after it without a message."""

from __future__ import annotations

from collections.abc import Collection

import jax
import numpy as np
from jaxtyping import PyTree

from gibbs_dp.information import checks
from gibbs_dp.model.check import check_loss
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.private_data import clip_data, num_rows
from gibbs_dp.privacy.releases.arguments import one_sentence
from gibbs_dp.sampling.cautions import ESS_LIMIT, RHAT_LIMIT
from gibbs_dp.sampling.draws import Draws

EXACT_DRAW = "exact-draw"
FLOAT_ARITHMETIC = "float-arithmetic"
IDEALIZATIONS = {
    EXACT_DRAW: "the draws of a Markov chain are taken for draws of the posterior itself",
    FLOAT_ARITHMETIC: "floating-point arithmetic is taken for real numbers",
}


def require_accepted(accept: Collection[str], needed: Collection[str]) -> None:
    """Raise a ValueError unless every needed idealization was accepted by name.

    >>> require_accepted(["float-arithmetic"], ["float-arithmetic"])
    """
    if isinstance(accept, str):
        accept = [accept]
    if not isinstance(accept, Collection) or not all(isinstance(name, str) for name in accept):
        raise ValueError(
            f"accept: give the names of idealizations, of {', '.join(IDEALIZATIONS)}; got "
            f"{checks.shown(accept)}."
        )
    given = set(accept)
    unknown = given - set(IDEALIZATIONS)
    if unknown:
        raise ValueError(
            f"accept: {sorted(unknown)[0]!r} is no idealization; the names are "
            f"{', '.join(IDEALIZATIONS)}."
        )
    missing = [name for name in needed if name not in given]
    if missing:
        meanings = "; ".join(f"{name!r} ({IDEALIZATIONS[name]})" for name in missing)
        raise ValueError(
            f"accept: the guarantee is idealized, so name what you accept: {meanings}."
        )


def check_shapes(data: PyTree) -> int:
    """Count the examples; refuse anything but arrays of numbers without quoting a value."""
    for leaf in jax.tree.leaves(data):
        kind = getattr(getattr(leaf, "dtype", None), "kind", "")
        if kind not in "fiub" or not kind:
            raise ValueError("data: give arrays of numbers; encode text and tables first.")
    return num_rows(data)


def check_structure(unchecked: GibbsPosterior, blank: PyTree) -> None:
    """Evaluate the loss on zeros of the data's shape, so that no message can depend on values."""
    with one_sentence():
        check_loss(unchecked, blank, num_rows(blank))


def blank_data(posterior: GibbsPosterior, data: PyTree, domain: Domain) -> PyTree:
    """Make zeros of the data's shape in JAX's default precision, as the samplers will see them."""
    zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape), data)
    return jax.tree.map(
        lambda a: jax.numpy.asarray(a, jax.numpy.zeros(()).dtype),
        clip_data(posterior, zeros, domain),
    )


def has_converged(draws: Draws) -> bool:
    """Whether R-hat, effective draws and movement are what `Draws.warnings` asks for."""
    frame = draws.to_dataframe()
    return bool(
        not draws.is_stuck.any()
        and np.isfinite(draws.log_density).all()
        and (frame["r_hat"] <= RHAT_LIMIT).all()
        and (frame["ess"] >= ESS_LIMIT).all()
    )
