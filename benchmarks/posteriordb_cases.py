"""What the models of posteriordb's posteriors are called with, made from its datasets.

Everything that is computed from the data (logarithms, standardized columns, lags) is computed
here and handed to a model as an argument: a row is then an example, whatever its dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np
import posteriordb_models as models

Columns = dict[str, Any]
Draws = dict[str, np.ndarray]


class Case(NamedTuple):
    """A model, what it is called with, and how it is read.

    Attributes
    ----------
    model
        In NumPyro.
    arguments
        Of the dataset's columns.
    settings
        Of ``GibbsPosterior.from_numpyro``.
    read
        What the reference has draws of, from the model's and its arguments: ``[chain, draw, ...]``.
    """

    model: Callable[..., None]
    arguments: Callable[[Columns], tuple]
    settings: Mapping[str, Any] = MappingProxyType({})
    read: Callable[..., Draws] = lambda draws, *arguments: draws


def stacked(*columns) -> np.ndarray:
    """Columns of a design, after one of ones."""
    full = np.broadcast_arrays(1.0, *columns)
    return np.stack(full, axis=1).astype(np.float64)


def standardized(column: np.ndarray, widths: float = 1.0) -> np.ndarray:
    """Around its mean, in so many standard deviations."""
    return (column - column.mean()) / (widths * column.std(ddof=1))


def with_product(a, b) -> np.ndarray:
    """Two columns and their product."""
    return stacked(a, b, a * b)


def child_scores(*names: str) -> Callable[[Columns], tuple]:
    """Scores of children on columns of their mothers."""
    return lambda d: (stacked(*(d[name] for name in names)), d["kid_score"])


def logs(d: Columns, *names: str) -> tuple[np.ndarray, ...]:
    """Logarithms of columns."""
    return tuple(np.log(d[name]) for name in names)


def mesquite_logs(*names: str) -> Callable[[Columns], tuple]:
    """Logarithmic weight of bushes, on what their measures make."""

    def arguments(d: Columns) -> tuple:
        first, second, canopy, total, density = logs(
            d, "diam1", "diam2", "canopy_height", "total_height", "density"
        )
        made = {
            "volume": first + second + canopy,
            "area": first + second,
            "shape": first - second,
            "diam1": first,
            "diam2": second,
            "canopy": canopy,
            "total": total,
            "density": density,
            "group": d["group"],
        }
        return stacked(*(made[name] for name in names)), np.log(d["weight"])

    return arguments


def mesquite(d: Columns) -> tuple:
    """Weight of bushes on their measures."""
    names = "diam1", "diam2", "canopy_height", "total_height", "density", "group"
    return stacked(*(d[name] for name in names)), d["weight"]


def party(d: Columns) -> tuple:
    """Party identification, with age as a factor."""
    ages = [d["age_discrete"] == k for k in (2, 3, 4)]
    x = stacked(d["real_ideo"], d["race_adj"], *ages, d["educ1"], d["gender"], d["income"])
    return x, d["partyid7"]


def kilpisjarvi(d: Columns) -> tuple:
    """Years, temperatures and the prior's numbers."""
    assert d["pmubeta"] == 0
    widths = {"alpha": float(d["psalpha"]), "beta": float(d["psbeta"])}
    return d["x"], d["y"], float(d["pmualpha"]), widths


def diamonds(d: Columns) -> tuple:
    """Centred columns without the one of ones, and logarithmic prices."""
    x = d["X"][:, 1:]
    return x - x.mean(axis=0), d["Y"]


def lagged(d: Columns) -> tuple:
    """Set the values before each, the latest first, beside those that have as many before."""
    y, order = d["y"], int(d["K"])
    return np.stack([y[order - k : len(y) - k] for k in range(1, order + 1)], axis=1), y[order:]


def effects(draws: Draws, *_) -> Draws:
    """Effects of all schools."""
    theta = draws["mu"][..., None] + draws["tau"][..., None] * draws["z"]
    return {"mu": draws["mu"], "tau": draws["tau"], "theta": theta}


def rates(draws: Draws, x: np.ndarray, *_) -> Draws:
    """Logarithmic rates at all places."""
    each = jax.jit(jax.vmap(jax.vmap(lambda *given: models.smooth(x, *given))))
    f = np.asarray(each(draws["rho"], draws["alpha"], draws["z"]))
    return {"rho": draws["rho"], "alpha": draws["alpha"], "f": f}


# -- which is which -----------------------------------------------------------------------


def both(a: Callable, b: Callable) -> Callable[[Columns], tuple]:
    """Scores of children on what is made of two columns, and their product."""
    return lambda d: (with_product(a(d["mom_hs"]), b(d["mom_iq"])), d["kid_score"])


def mother_works(d: Columns) -> tuple:
    """Scores of children, with their mothers' work as a factor."""
    return stacked(*(d["mom_work"] == k for k in (2, 3, 4))), d["kid_score"]


def earnings(
    columns: Callable[[Columns], np.ndarray], of: Callable = np.log
) -> Callable[[Columns], tuple]:
    """Earnings, of which a function is taken, on columns."""
    return lambda d: (columns(d), of(d["earn"]))


def same(values):
    """Leave values as they are."""
    return values


PLACES = {"structured": True}
YEARS = 1972, 1976, 1980, 1984, 1988, 1992, 1996, 2000

REGRESSIONS = {
    "kidiq-kidscore_momhs": Case(models.linear_cauchy, child_scores("mom_hs")),
    "kidiq-kidscore_momiq": Case(models.linear_cauchy, child_scores("mom_iq")),
    "kidiq-kidscore_momhsiq": Case(models.linear_cauchy, child_scores("mom_hs", "mom_iq")),
    "kidiq-kidscore_interaction": Case(models.linear_cauchy, both(same, same)),
    "kidiq_with_mom_work-kidscore_interaction_c": Case(
        models.linear, both(lambda a: a - a.mean(), lambda b: b - b.mean())
    ),
    "kidiq_with_mom_work-kidscore_interaction_c2": Case(
        models.linear, both(lambda a: a - 0.5, lambda b: b - 100)
    ),
    "kidiq_with_mom_work-kidscore_interaction_z": Case(
        models.linear, both(lambda a: standardized(a, 2), lambda b: standardized(b, 2))
    ),
    "kidiq_with_mom_work-kidscore_mom_work": Case(models.linear, mother_works),
    "earnings-earn_height": Case(models.linear, earnings(lambda d: stacked(d["height"]), same)),
    "earnings-log10earn_height": Case(
        models.linear, earnings(lambda d: stacked(d["height"]), np.log10)
    ),
    "earnings-logearn_height": Case(models.linear, earnings(lambda d: stacked(d["height"]))),
    "earnings-logearn_height_male": Case(
        models.linear, earnings(lambda d: stacked(d["height"], d["male"]))
    ),
    "earnings-logearn_logheight_male": Case(
        models.linear, earnings(lambda d: stacked(np.log(d["height"]), d["male"]))
    ),
    "earnings-logearn_interaction": Case(
        models.linear, earnings(lambda d: with_product(d["height"], d["male"]))
    ),
    "earnings-logearn_interaction_z": Case(
        models.linear, earnings(lambda d: with_product(standardized(d["height"]), d["male"]))
    ),
    "mesquite-mesquite": Case(models.linear, mesquite),
    "mesquite-logmesquite": Case(
        models.linear, mesquite_logs("diam1", "diam2", "canopy", "total", "density", "group")
    ),
    "mesquite-logmesquite_logvolume": Case(models.linear, mesquite_logs("volume")),
    "mesquite-logmesquite_logva": Case(models.linear, mesquite_logs("volume", "area", "group")),
    "mesquite-logmesquite_logvas": Case(
        models.linear, mesquite_logs("volume", "area", "shape", "total", "density", "group")
    ),
    "mesquite-logmesquite_logvash": Case(
        models.linear, mesquite_logs("volume", "area", "shape", "total", "group")
    ),
    **{f"nes{year}-nes": Case(models.linear, party) for year in YEARS},
    "sblrc-blr": Case(models.linear_normal, lambda d: (d["X"], d["y"])),
    "sblri-blr": Case(models.linear_normal, lambda d: (d["X"], d["y"])),
    "kilpisjarvi_mod-kilpisjarvi": Case(models.temperatures, kilpisjarvi),
    "diamonds-diamonds": Case(models.prices, diamonds),
}

OTHERS = {
    "arK-arK": Case(models.autoregression, lagged),
    "arma-arma11": Case(models.moving_average, lambda d: (d["y"],), PLACES),
    "eight_schools-eight_schools_noncentered": Case(
        models.eight_schools, lambda d: (d["sigma"], d["y"]), PLACES, effects
    ),
    "gp_pois_regr-gp_regr": Case(models.gaussian_process, lambda d: (d["x"], d["y"]), PLACES),
    "gp_pois_regr-gp_pois_regr": Case(
        models.poisson_process, lambda d: (d["x"], d["k"]), PLACES | {"observed": "k"}, rates
    ),
    "low_dim_gauss_mix-low_dim_gauss_mix": Case(models.mixture, lambda d: (d["y"],)),
}
CASES = REGRESSIONS | OTHERS
