"""What an audit learns, and every column that a report may have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from gibbs_dp.engine.plan import AuditSpec
from gibbs_dp.engine.quantity import Quantity
from gibbs_dp.quantities.attacker import Attacker
from gibbs_dp.quantities.certified_kl import CertifiedKL
from gibbs_dp.quantities.exposure import Exposure
from gibbs_dp.quantities.further_information import FurtherInformation, Supersample
from gibbs_dp.quantities.mixing import Discretization, Lattice, Mixing
from gibbs_dp.quantities.mutual_information import MutualInformation
from gibbs_dp.quantities.on_average_kl import OnAverageKL
from gibbs_dp.quantities.risks import AbsoluteGap, Risks
from gibbs_dp.quantities.worst_case import WorstCase
from gibbs_dp.results.table import Column

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


# What an audit learns unless it is told otherwise.
DEFAULT: tuple[Quantity, ...] = (
    OnAverageKL(),
    Risks(),
    MutualInformation(),
    WorstCase(),
    Attacker(),
)
"""``learn=[*gibbs_dp.DEFAULT, ...]`` adds to these; another of the same kind takes its place."""

# What tells whether the draws are good, and is always there.
DIAGNOSTICS: tuple[Quantity, ...] = (Mixing(), Lattice(), Discretization())
# In the order of a report: of one's own come before the diagnostics.
_BUILT_IN = (
    OnAverageKL(),
    Risks(),
    AbsoluteGap(),
    MutualInformation(),
    Supersample(),
    FurtherInformation(),
    WorstCase(),
    Attacker(),
    CertifiedKL(),
)


def leading_of(learn: Sequence[Quantity]) -> OnAverageKL:
    """Return the quantity that steers an audit: the last on-average KL given, or the default."""
    found = _by_name(learn).get(OnAverageKL.name, OnAverageKL())
    assert isinstance(found, OnAverageKL)  # no other has its name
    return found


def others(learn: Sequence[Quantity], spec: AuditSpec) -> tuple[Quantity, ...]:
    """Return what an audit learns beside on-average KL, complete, in the order of a report."""
    given = _by_name(learn) | {q.name: q for q in DIAGNOSTICS}
    given.pop(OnAverageKL.name, None)
    found = {q.name: q for one in given.values() for q in one.resolved(spec, given)}
    first, last = ([q.name for q in some] for some in (_BUILT_IN, DIAGNOSTICS))
    own = [name for name in found if name not in (*first, *last)]
    return tuple(found[name] for name in (*first, *own, *last) if name in found)


def _by_name(learn: Any) -> dict[str, Quantity]:
    """Check that they are quantities, and that columns differ."""
    if isinstance(learn, Quantity) or not isinstance(learn, Sequence):
        raise ValueError(
            f"learn: give a list of quantities, such as [*gibbs_dp.DEFAULT, "
            f"gibbs_dp.Exposure()], got {learn!r:.60}."
        )
    found: dict[str, Quantity] = {}
    for one in learn:
        if isinstance(one, type) and issubclass(one, Quantity):
            name = one.__name__
            raise ValueError(f"learn: {name} is a class; give an object of it: {name}(...).")
        if not isinstance(one, Quantity):
            raise ValueError(
                f"learn: {one!r:.60} is no quantity; give objects of gibbs_dp.Quantity, such as "
                "gibbs_dp.MutualInformation(256)."
            )
        if type(one) not in _OWN:
            _check_own(one)
        found[one.name] = one
    names = [c.name for q in found.values() if type(q) not in _OWN for c in q.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"learn: two of your quantities have a column {twice[0]!r}; rename one.")
    return found


def _check_own(quantity: Quantity) -> None:
    """Refuse a user's quantity that would replace one of the library's, or cannot be kept."""
    kind = type(quantity).__name__
    name = getattr(quantity, "name", None)
    if not isinstance(name, str):
        raise ValueError(f"learn: {kind} has no name; give the class one, name = 'mine'.")
    if name in _NAMES:
        raise ValueError(
            f"learn: {kind} calls itself {name!r}, as a quantity of the library does; give it "
            "another name."
        )
    try:
        hash(quantity)
    except TypeError as error:
        raise ValueError(
            f"learn: {kind} cannot be hashed ({error}); make it a frozen dataclass."
        ) from error
    for column in quantity.columns:
        check_own_column(column, f"learn: {kind}")


def check_own_means(quantity: Quantity, means: Any) -> None:
    """Refuse means of a user's quantity that would be lost, or replace those of another."""
    if type(quantity) in _OWN:
        return
    names, whose = [c.name for c in quantity.columns], f"learn: {type(quantity).__name__}.means"
    if not isinstance(means, dict) or not set(means) <= set(names):
        raise ValueError(
            f"{whose} returns {list(means) if isinstance(means, dict) else means!r:.60}; return a "
            f"dict with names of its columns, {names}."
        )
    for name, values in means.items():
        if np.ndim(values) != 1:
            raise ValueError(
                f"{whose} returns {name!r} of shape {np.shape(values)}; return one number for each "
                "dataset."
            )


def check_own_column(column: Column, whose: str) -> None:
    """Refuse a column that tables, plots and files could not tell from others."""
    if column.name in COLUMNS:
        raise ValueError(
            f"{whose} calls a column {column.name!r}, which there is; give it another name."
        )
    if not _WORD.fullmatch(column.name):
        raise ValueError(
            f"{whose} calls a column {column.name!r}; a name is letters, digits and _."
        )
    panel = None if column.style is None else column.style.panel
    if panel is not None and PANEL_UNITS.get(panel) != column.unit:
        raise ValueError(
            f"{whose} draws {column.name!r} ({column.unit or 'no unit'}) in the panel "
            f"{panel!r}; panels and their units are "
            + ", ".join(f"{name} ({unit or 'no unit'})" for name, unit in PANEL_UNITS.items())
            + "."
        )


_LEARNT = [c for q in (*_BUILT_IN, *DIAGNOSTICS) for c in q.columns]
COLUMNS: dict[str, Column] = {c.name: c for c in (*FRAME[:3], *_LEARNT, *FRAME[3:])}
"""Every column of the library's own, by name, in the order of a report."""
# Units of the panels of a plot, by what is drawn there.
PANEL_UNITS = {c.style.panel: c.unit for c in COLUMNS.values() if c.style is not None}
# Classes whose columns need no look.
_OWN = {type(q) for q in (*_BUILT_IN, *DIAGNOSTICS, Exposure())}
_NAMES = {q.name for q in (*_BUILT_IN, *DIAGNOSTICS, Exposure())}
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
