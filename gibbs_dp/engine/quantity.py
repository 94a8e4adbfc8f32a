"""The contract of quantities, what is learnt from the draws of a dataset, and settings of a sweep.

A quantity is a frozen, hashable object: part of what a block program is compiled for. Traced
methods see one dataset (:class:`~gibbs_dp.engine.view.View`); host methods see all datasets of a
gamma (:class:`~gibbs_dp.engine.view.GammaResult`). Every method has a default that does nothing.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from gibbs_dp._cautions import Warned
from gibbs_dp._source import own_code
from gibbs_dp.engine.plan import AuditSpec, Tuned
from gibbs_dp.engine.view import Explored, GammaResult, Health, PairView, Summary, View, is_believed
from gibbs_dp.results.table import Column

Row = dict[str, Any]
Means = dict[str, Float[np.ndarray, " datasets"]]
Curves = dict[str, dict[str, Float[np.ndarray, " points"]]]
"""By name, columns of equal length: functions of something else than gamma."""
# Columns by name, a number for every row of the population's table.
RowTable = dict[str, np.ndarray]


class Quantity:
    """Base of all quantities.

    Attributes
    ----------
    name
        Identifier; no other quantity of an audit has it.
    columns
        What it adds to a report, in order.
    Values, Kept
        Named tuples of arrays: what a dataset leaves behind, and what only the first
        :attr:`num_kept` datasets do; None for nothing. What takes long, and needs no more
        datasets for its error, belongs into the second.
    needs_independent_chains
        Whether chains of one dataset may not share random numbers.
    needs_optimum
        Whether the best parameter of the population is looked for.
    is_of_losses
        Whether it is a function of losses alone, and so the same in modes that are one under other
        names.
    """

    name: ClassVar[str]
    columns: ClassVar[tuple[Column, ...]] = ()
    Values: ClassVar[type | None] = None
    Kept: ClassVar[type | None] = None
    needs_independent_chains: ClassVar[bool] = False
    needs_optimum: ClassVar[bool] = False

    @property
    def is_of_losses(self) -> bool:
        """As above."""
        return True

    # -- of one dataset, traced -----------------------------------------------------------

    def traced(self) -> Quantity:
        """Return what a program is compiled for: the quantity without what only the host needs.

        Two audits whose quantities differ in nothing else share a compilation.
        """
        return self

    def of_pair(self, pair: PairView) -> PyTree[Array] | None:
        """Compare a dataset's draws with those of the dataset with one group replaced."""

    def per_dataset(self, view: View) -> Any:
        """Reduce the draws of one dataset to ``Values``."""

    def keep(self, view: View) -> Any:
        """Reduce the draws of one dataset to ``Kept``.

        In a program of its own, which runs for the first datasets alone: neither pilots nor later
        ones pay for it.
        """

    # -- what is asked for ------------------------------------------------------------------

    def resolved(self, spec: AuditSpec, learnt: Mapping[str, Quantity]) -> Sequence[Quantity]:
        """Fill in what was left to the audit; refuse what cannot be had.

        Parameters
        ----------
        spec
            What is to be sampled.
        learnt
            Everything that was asked for, by name.

        Returns
        -------
        Sequence[Quantity]
            What is learnt in place of this: as a rule this alone.

        Raises
        ------
        ValueError
            If the quantity does not exist for such a posterior, population or sampler.
        """
        del spec, learnt
        return (self,)

    @property
    def num_kept(self) -> int:
        """Datasets of which ``Kept`` is wanted."""
        return 0

    @property
    def num_stored(self) -> int:
        """Datasets of which ``Kept`` is worth storing: more may be wanted another time."""
        return self.num_kept

    def least_pairs(self, choice: str) -> int:
        """Pairs of a dataset that are sampled at least where this estimator leads.

        Of the datasets of which ``Kept`` is wanted, where there are no ``Values``.
        """
        del choice
        return 0

    def identity(self) -> Any:
        """Return what a block of values depends on, as plain JSON."""
        return None

    def request(self, settings: AuditSpec) -> Any:
        """Return what the columns depend on beside the blocks, as plain JSON."""
        del settings

    def settings(self) -> dict[str, Any]:
        """Describe what was asked for in plain numbers and strings, for a report."""
        return {}

    # -- of all datasets, on the host -----------------------------------------------------

    def fitted(self, values: Any, is_kept: Bool[np.ndarray, " datasets"]) -> Any:
        """``Values`` of many datasets after what is fitted over them, such as control variates."""
        del is_kept
        return values

    def means(self, result: GammaResult) -> Means:
        """Columns that are means over datasets: one number for each dataset."""
        del result
        return {}

    def curves(self, result: GammaResult) -> Curves:
        """Return functions of something else than gamma, such as a profile over epsilon."""
        del result
        return {}

    def finish(self, result: GammaResult, row: Row) -> tuple[Row, list[Warned]]:
        """Further columns, and a caution for everything that a reader must be warned of.

        ``row`` holds every mean, and what quantities before this one found.
        """
        del result, row
        return {}, []

    def by_row(self, results: Sequence[GammaResult]) -> tuple[RowTable, ...]:
        """Return what it finds of single rows of a table, for each gamma; () for nothing."""
        del results
        return ()

    def of_rows(self, result: GammaResult, table: RowTable) -> list[Warned]:
        """Say what is wrong with what :meth:`by_row` found at one gamma."""
        del result, table
        return []

    def cautions(self, settings: AuditSpec) -> list[Warned]:
        """Say what is wrong with the report as a whole, whatever gamma."""
        del settings
        return []

    def notes(self, settings: AuditSpec, rows: Sequence[Row]) -> list[str]:
        """Say what a finished report is conditional on, a sentence each."""
        del settings, rows
        return []

    # -- beyond a single dataset or gamma -------------------------------------------------

    def rehearse(self, settings: AuditSpec) -> None:
        """Compile what will be needed after the sweep, beside its first program."""

    def explore(self, sweep: Explored) -> Sequence[Any]:
        """Look at all gammas after the sweep; a finding each, that ``Result.found`` then holds."""
        return [None] * len(sweep.results)


@runtime_checkable
class Controls(Protocol):
    """Numbers of mean zero of every dataset, beside those of its draws."""

    def make(self, count: int) -> None:
        """Make them for the first datasets, where they are not made yet."""

    def of(self, gamma: float, count: int) -> Float[np.ndarray, "count controls"] | None:
        """Return those of the first datasets at a gamma; None where they are not made."""
        ...


class LeadingQuantity(Quantity):
    """The quantity that a sweep is steered by: its error is what ``rel_error`` is about.

    It may have several estimators; pilots choose one for every gamma.
    """

    def choose(self, pilots: Any, settings: AuditSpec) -> str:
        """Name of the estimator to take, by ``Values`` of pilot datasets."""
        raise NotImplementedError

    def reconsider(self, values: Any, choice: str, settings: AuditSpec) -> str | None:
        """Name of another estimator that finished datasets ask for; None: stay."""
        raise NotImplementedError

    def values_of(
        self, values: Any, choice: str, settings: AuditSpec
    ) -> Float[np.ndarray, " datasets"]:
        """Every dataset's estimate."""
        raise NotImplementedError

    def needs_pairs(self, choice: str, settings: AuditSpec) -> bool:
        """Whether this estimator compares draws of replaced posteriors, in every dataset."""
        del choice, settings
        return True

    def num_pairs(self, choice: str, settings: AuditSpec, pilots: Callable[[int], Any]) -> int:
        """Decide how many replaced posteriors to sample for each dataset."""
        raise NotImplementedError

    def controls(self, settings: AuditSpec, tuned: Sequence[Tuned]) -> Controls | None:
        """Return control variates that need no draws, of all gammas; None for none."""
        del settings, tuned
        return None

    def refined(
        self,
        values: Float[np.ndarray, " datasets"],
        controls: Float[np.ndarray, "datasets controls"],
    ) -> Float[np.ndarray, " datasets"]:
        """Make estimates less variable with them."""
        del controls
        return values


# Named tuples of what quantities leave behind, by the quantities' names.

_MAKING = threading.RLock()


def _made_once(make: Callable[..., Any]) -> Callable[..., Any]:
    """Cache a type: threads that ask at once, as `functools.cache` lets them, would have two."""
    known = cache(make)

    @wraps(make)
    def kind(quantities: tuple[Quantity, ...]) -> Any:
        with _MAKING:
            return known(quantities)

    return kind


@_made_once
def values_kind(quantities: tuple[Quantity, ...]) -> Any:
    """Named tuple of the quantities' ``Values``, by name."""
    fields = [(q.name, q.Values) for q in quantities if q.Values]
    return _picklable(NamedTuple("Values", fields), values_kind, quantities)


@_made_once
def kept_kind(quantities: tuple[Quantity, ...]) -> Any:
    """Named tuple of the quantities' ``Kept``, by name; None where a dataset is not kept."""
    fields = [(q.name, q.Kept | None) for q in quantities if q.Kept and q.num_kept]
    return _picklable(NamedTuple("Kept", fields), kept_kind, quantities)


@_made_once
def block_kind(quantities: tuple[Quantity, ...]) -> Any:
    """:class:`Block` with the fields of these quantities, for reading it back from a file."""
    kept = kept_kind(quantities)
    fields = [("health", Health), ("values", values_kind(quantities)), ("kept", kept | None)]
    return NamedTuple("Block", fields)


def _picklable(kind: Any, make: Callable[..., Any], quantities: tuple[Quantity, ...]) -> Any:
    """Let values of a named tuple that no module has go to other processes and come back."""
    kind.__reduce__ = lambda self: (_made, (make, quantities, tuple(self)))
    return kind


def _made(
    make: Callable[..., Any], quantities: tuple[Quantity, ...], values: tuple[Any, ...]
) -> Any:
    return make(quantities)(*values)


# A sweep: what to sample, and what to learn from it.


@dataclass(frozen=True, kw_only=True)
class Settings(AuditSpec):
    """What is asked for, the quantity that steers the sweep, and the others beside it."""

    leading: LeadingQuantity
    others: tuple[Quantity, ...] = ()

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """All quantities, the leading one first."""
        return (self.leading, *self.others)

    @property
    def traced(self) -> tuple[Quantity, ...]:
        """What of the quantities a program is compiled for."""
        spec = (q for q in self.quantities if q.Values or q.num_kept)
        return tuple(q.traced() for q in spec)

    @property
    def num_kept(self) -> dict[str, int]:
        """First datasets that quantities want ``Kept`` of, by their names."""
        return {q.name: q.num_kept for q in self.quantities if q.Kept and q.num_kept}

    @property
    def num_stored(self) -> dict[str, int]:
        """Those of which it is worth storing."""
        return {q.name: q.num_stored for q in self.quantities if q.Kept and q.num_kept}

    def num_paired(self, choice: str, is_stored: bool) -> int:
        """First datasets that pairs are sampled for, where this estimator leads."""
        if self.leading.needs_pairs(choice, self):
            return sys.maxsize
        counts = self.num_stored if is_stored else self.num_kept
        wanted = [q for q in self.quantities if q.least_pairs(choice)]
        # What has values of every dataset has them of its pairs.
        return max((sys.maxsize if q.Values else counts.get(q.name, 0) for q in wanted), default=0)

    def fitted(self, summary: Summary) -> Summary:
        """Fit over the datasets what quantities fit, such as shares of control variates."""
        good, values = is_believed(summary), summary.values
        named = {q.name: q for q in self.quantities}
        found = (named[name].fitted(getattr(values, name), good) for name in values._fields)
        return summary._replace(values=type(values)(*found))

    def describe(self) -> dict[str, Any]:
        """Plain numbers and strings, for the saved report."""
        found = super().describe()
        for quantity in self.quantities:
            found |= quantity.settings()
        return found


def identities(quantities: Sequence[Quantity]) -> dict[str, Any]:
    """Return what blocks of these quantities depend on, by name; of a user's own, its code."""
    found = {}
    for quantity in quantities:
        value, code = quantity.identity(), own_code(type(quantity))
        is_own = not type(quantity).__module__.startswith("gibbs_dp.")
        found[quantity.name] = [repr(quantity), code, value] if is_own else value
    return {name: value for name, value in found.items() if value is not None}
