"""One verdict on draws: what has been checked, and never more."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gibbs_dp.sampling.modes import Modes, searched_for

_NAME = re.compile(r"\[([a-z0-9-]+)\]$")


def names_of(warnings: Sequence[str]) -> list[str]:
    """Names of warnings, each once, in order."""
    found = (_NAME.search(text) for text in warnings)
    return list(dict.fromkeys(match[1] for match in found if match))


def opening(warnings: Sequence[str]) -> str:
    """Begin a verdict: "checked", or "doubtful" with the names of the warnings."""
    names = names_of(warnings)
    return f"doubtful ({', '.join(names)})" if names else "checked"


def verdict_on_draws(
    warnings: Sequence[str], modes: Modes, num_particles: int | None, r_hat: float, ess: float
) -> str:
    """Say what speaks for draws and what against them.

    Parameters
    ----------
    warnings
        Of the draws.
    modes
        What a search for other modes found.
    num_particles
        Of SMC; None: chains.
    r_hat, ess
        Of the worst coordinate.

    Returns
    -------
    str
        ``"checked: ..."`` or ``"doubtful (names): ..."``.
    """
    tried = searched_for(modes)
    if num_particles is not None:
        tried = f"{num_particles} particles from the prior or a wide normal, weighed and moved"
        worth = f"islands worth {ess:.0f} independent draws"
        return f"{opening(warnings)}: {tried}; {worth}"
    return f"{opening(warnings)}: {tried}; R-hat {r_hat:.3f}; {ess:.0f} effective draws"
