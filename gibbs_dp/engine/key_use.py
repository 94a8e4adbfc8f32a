"""Whether a population draws with the key that it is given."""

from __future__ import annotations

import jax
from jaxtyping import PRNGKeyArray

from gibbs_dp._jaxlib.dependence import reached
from gibbs_dp.model.populations import Population


def check_key_is_used(population: Population, key: PRNGKeyArray, n: int, num_ghosts: int) -> None:
    """Refuse a population none of whose numbers depends on its key.

    NumPy's generator is such a case: compiled once, it yields one dataset forever. The check reads
    the program that JAX makes of the population rather than its draws, which may agree by chance:
    Bernoulli examples of a small probability are all 0 in most datasets.

    Raises
    ------
    ValueError
        If no training example can depend on the key.
    """
    program = jax.make_jaxpr(lambda k: population.sample(k, n, num_ghosts)[0])(key)
    if not any(reached(program.jaxpr, [True])):
        raise ValueError(
            "population: its examples do not depend on the key, so that every dataset would be the "
            "same one (as with NumPy's generator); draw with jax.random, or gibbs_dp.random, from "
            "the key that it is given."
        )
