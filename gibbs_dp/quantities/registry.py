"""The quantities of an audit, and every column that a report may have."""

from __future__ import annotations

from typing import Literal

from gibbs_dp.engine.quantity import Column, Quantity
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.domain import Domain
from gibbs_dp.quantities.attacker import Attacker
from gibbs_dp.quantities.discretization import Discretization
from gibbs_dp.quantities.information import NAMES, FurtherInformation, Supersample
from gibbs_dp.quantities.lattice import Lattice
from gibbs_dp.quantities.mixing import Mixing
from gibbs_dp.quantities.mutual_information import MutualInformation
from gibbs_dp.quantities.on_average_kl import OnAverageKL
from gibbs_dp.quantities.risks import Risks
from gibbs_dp.quantities.worst_case import WorstCase

# What every row has, whatever is learnt.
FRAME = (
    Column("gamma", "Inverse temperature; it multiplies the total loss, never the prior."),
    Column("n", "Examples of a dataset."),
    Column("group_size", "Examples replaced at once."),
    Column("num_datasets", "Datasets that the means are over.", title="datasets"),
    Column(
        "failed_datasets",
        "Datasets left out, as their chains failed: the means are conditional on the others.",
        title="failed",
    ),
    Column(
        "trust",
        "One verdict in words: warnings by name, then every check that was made and what it "
        "showed. That no second mode was found does not say that there is none.",
    ),
)


def others(
    num_information: int = 0,
    sigma: float | Literal["empirical"] | None = None,
    domain: Domain | None = None,
    adjacency: Adjacency = "replace-one",
    information: tuple[str, ...] = ("mutual",),
    num_releases: int | None = 1,
    b: float | None = None,
) -> tuple[Quantity, ...]:
    """Return what an audit learns beside on-average KL, in the order of a report's columns.

    Parameters
    ----------
    num_information, sigma, domain, adjacency, information, num_releases, b
        As in ``gibbs_dp.audit``; of ``num_releases`` None: nothing of an attacker.

    Returns
    -------
    tuple[Quantity, ...]
        One object a quantity.
    """
    mutual = MutualInformation(num_information, sigma, domain, "mutual" in information, b)
    return (
        Risks(),
        mutual,
        *((Supersample(),) if "conditional" in information else ()),
        FurtherInformation(information, mutual),
        WorstCase(domain, adjacency),
        *(() if num_releases is None else (Attacker(num_releases),)),
        Mixing(),
        Lattice(),
        Discretization(),
    )


_QUANTITIES = (OnAverageKL(), *others(information=NAMES))
_LEARNT = [column for quantity in _QUANTITIES for column in quantity.columns]
COLUMNS: dict[str, Column] = {c.name: c for c in (*FRAME[:3], *_LEARNT, *FRAME[3:])}
"""Every column, by name, in the order of a report."""
