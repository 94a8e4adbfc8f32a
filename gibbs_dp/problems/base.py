"""Problems: a posterior, where its data come from, and default settings."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from gibbs_dp._extras import install_hint
from gibbs_dp.model import Domain, Flat, GibbsPosterior, supports
from gibbs_dp.model.populations import as_population
from gibbs_dp.problems.registry import PROBLEMS, Entry


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything ``gibbs_dp.audit`` needs, under one name.

    Parameters
    ----------
    name
        Short name, shown in titles.
    posterior
        Loss and prior.
    population
        A callable ``(key, n) -> examples``, a distribution of NumPyro or an object of
        ``gibbs_dp.populations``.
    n
        Default dataset size.
    gammas
        Default inverse temperatures.
    num_datasets
        Default number of datasets per gamma.
    domain
        Declared bounds on examples, for the worst-case epsilon; None where there are none.
    description
        One sentence.
    notes
        What a user must know about how the data were prepared, a sentence each.
    names
        Of theta's coordinates, or of its rows, in order; none where they have no names.

    Raises
    ------
    ValueError
        If a field has a wrong type or value.

    Examples
    --------
    >>> import jax, gibbs_dp as gdp
    >>> problem = Problem(
    ...     name="mine",
    ...     posterior=gdp.GibbsPosterior(gdp.losses.half_squared_distance,
    ...                                  gdp.Flat(gdp.supports.real(2))),
    ...     population=lambda key, n: jax.random.normal(key, (n, 2)),
    ...     n=50,
    ...     gammas=(0.1, 1.0))
    >>> problem.population.sample(jax.random.key(0), 3, 1)[0].shape
    (3, 2)
    """

    name: str
    posterior: GibbsPosterior
    population: Any
    n: int = 100
    gammas: tuple[float, ...] = (0.1, 1.0, 10.0)
    num_datasets: int = 1024
    domain: Domain | None = None
    description: str = ""
    notes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.posterior, GibbsPosterior):
            raise ValueError(
                "Problem(posterior): give a gibbs_dp.GibbsPosterior, "
                f"got {type(self.posterior).__name__}."
            )
        if self.n < 1:
            raise ValueError(f"Problem(n): must be at least 1, got {self.n}.")
        if not self.gammas:
            raise ValueError("Problem(gammas): it is empty; give at least one value.")
        object.__setattr__(self, "population", as_population(self.population))


def normal_prior(dim: int, scale: float | None) -> Any:
    """Independent ``Normal(0, scale)`` weights; flat if the scale is None or infinite."""
    if dim < 1:
        raise ValueError(f"dim: must be at least 1, got {dim}.")
    if scale is None or scale == np.inf:
        return Flat(supports.real(dim))
    if not scale > 0:
        raise ValueError(f"prior_scale: must be positive (inf for a flat prior), got {scale:g}.")
    return dist.Normal(np.zeros(dim, jnp.result_type(float)), scale)


def flat_prior(shape: int | tuple[int, ...], theta_bound: float | None) -> Flat:
    """Flat prior on all of Euclidean space, or on ``[-theta_bound, theta_bound]`` per entry."""
    if theta_bound is None:
        return Flat(supports.real(shape))
    if not (theta_bound > 0 and np.isfinite(theta_bound)):
        raise ValueError(f"theta_bound: must be positive and finite, got {theta_bound:g}.")
    return Flat(supports.box(-theta_bound, theta_bound, shape))


def scikit_learn_data(problem: str, loader: str) -> tuple[np.ndarray, np.ndarray]:
    """Load the examples and labels of a table that comes with scikit-learn."""
    try:
        from sklearn import datasets
    except ImportError as error:
        raise ValueError(
            f"{problem}: the data come with scikit-learn; {install_hint('sklearn')}"
        ) from error
    return getattr(datasets, loader)(return_X_y=True)


# Problems from their names.


def build_problem(name: str, **options: Any) -> Problem:
    """Build a built-in problem.

    Parameters
    ----------
    name
        One of `PROBLEMS`.
    options
        Arguments of the problem's function in ``gibbs_dp.problems``.

    Returns
    -------
    Problem
        Ready for `gibbs_dp.audit`.

    Raises
    ------
    ValueError
        If there is no such problem or option, or an option has a wrong value.

    Examples
    --------
    >>> build_problem("gaussian-mean", dim=3).posterior.dim
    3
    """
    if name not in PROBLEMS:
        raise ValueError(f"problem: there is no {name!r}; choose one of {', '.join(PROBLEMS)}.")
    return build_entry(PROBLEMS[name], name, options)


def build_entry(entry: Entry, name: str, options: Mapping[str, Any]) -> Problem:
    """Build what an entry describes; errors as of `build_problem`."""
    known = {option.keyword for option in entry.options}
    for keyword in options:
        if keyword not in known:
            has = ", ".join(sorted(known)) or "none"
            raise ValueError(f"{keyword}: {name} has no such option; it has {has}.")
    for option in entry.options:
        if option.is_required and options.get(option.keyword) is None:
            raise ValueError(
                f"{option.keyword}: {name} needs it ({option.help}); give {option.keyword}= "
                f"({option.flag})."
            )
    module, _, function = entry.where.partition(":")
    return getattr(importlib.import_module(module), function)(**options)
