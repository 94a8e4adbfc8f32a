"""Where datasets and ghost examples come from."""

from gibbs_dp.model.populations import (
    Dependent,
    Finite,
    HasSample,
    Independent,
    Population,
    Predictive,
    Table,
    as_population,
    from_numpyro,
    pad,
)

__all__ = [
    "Dependent",
    "Finite",
    "HasSample",
    "Independent",
    "Population",
    "Predictive",
    "Table",
    "as_population",
    "from_numpyro",
    "pad",
]
