"""What a private table is declared to hold, and the domain that follows from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gibbs_dp.io.files import reason, shown
from gibbs_dp.model.domain import Domain
from gibbs_dp.privacy.columns import Column, Date, Levels, Number, Positive, Range

INTERCEPT = "intercept"


@dataclass(frozen=True)
class Schema:
    """Features and label of a private table, each declared without looking at it.

    Parameters
    ----------
    features
        Column name to declaration: `Range`, `Levels`, `Positive`, `Date` or `Number`. They become
        the features in this order.
    target
        Column of the label; None for a table without one.
    label
        Its declaration, with ``target``: ``Levels(["no", "yes"])`` or ``Positive("yes")`` for
        classes, ``Number(low, high)``, ``Range(low, high)`` or `Date` for numbers.
    x_bound
        Largest norm of a feature vector, the 1 of the intercept included; longer ones are
        shortened to it by the release. By default what the declarations allow: the root of the
        sum of 1 for the intercept, 1 for each `Range`, `Levels`, `Positive` and `Date` column,
        and the square of the larger end of each `Number`. Needed where a `Number` has no ends.
    intercept
        Begin each feature vector with a 1.

    Raises
    ------
    ValueError
        If something is missing, two features share a name, or the bound is not positive.

    Examples
    --------
    >>> schema = Schema(
    ...     {"age": Range(0.0, 100.0), "smoker": Levels(["no", "yes"])}, "ill", Positive("yes")
    ... )
    >>> schema.names
    ('intercept', 'age', 'smoker=yes')
    >>> schema.domain
    Domain(x_bound=1.7320508075688772, y_range=(0.0, 1.0), theta_bound=None)
    """

    features: Mapping[str, Column]
    target: str | None = None
    label: Column | None = None
    x_bound: float | None = None
    intercept: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", dict(self.features))
        if not self.features:
            raise ValueError("features: there are none; declare at least one column.")
        declared: list[tuple[str, str, Any]] = [("features", *c) for c in self.features.items()]
        declared += [("label", str(self.target), self.label)] * (self.label is not None)
        for argument, name, column in declared:
            if not isinstance(column, Column):
                raise ValueError(
                    f"{argument}: declare {name!r} by a column such as Range(0, 100) or "
                    f'Levels(["no", "yes"]), got {type(column).__name__}.'
                )
        if (self.target is None) != (self.label is None):
            raise ValueError("label: give it together with target, the column that it declares.")
        if self.target in self.features:
            raise ValueError(f"features: {self.target!r} is the target; leave it out.")
        twice = [name for name in self.names if self.names.count(name) > 1]
        if twice:
            raise ValueError(f"features: two would be called {twice[0]!r}; rename a column.")
        if self.x_bound is not None and not (self.x_bound > 0 and math.isfinite(self.x_bound)):
            raise ValueError(f"x_bound: must be positive and finite, got {self.x_bound:g}.")
        if self.x_bound is None:
            free = [name for name, column in self.features.items() if math.isinf(column.norm)]
            if free:
                raise ValueError(
                    f"x_bound: {free[0]!r} is a number without bounds; declare its range, or "
                    "x_bound, the largest norm of a feature vector."
                )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the entries of a feature vector, and so of the parameters."""
        own = (name for key, column in self.features.items() for name in column.names(key))
        return (*((INTERCEPT,) if self.intercept else ()), *own)

    @property
    def norm(self) -> float:
        """Largest norm of a feature vector that the declared columns allow."""
        return math.hypot(float(self.intercept), *(c.norm for c in self.features.values()))

    @property
    def domain(self) -> Domain:
        """Bounds for a release: the smaller of ``x_bound`` and `norm`, and the label's range."""
        bound = self.norm if self.x_bound is None else min(self.x_bound, self.norm)
        if self.label is None:
            return Domain(x_bound=bound)
        return Domain(x_bound=bound, y_range=self.label.label_range)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are read, the target last."""
        return (*self.features, *(() if self.target is None else (self.target,)))

    def rules(self) -> dict[str, str]:
        """How each entry of a feature vector follows from a record, in words.

        >>> Schema({"age": Range(20.0, 70.0), "dose": Number()}, x_bound=9.0).rules()
        {'intercept': '1', 'age': '(age - 20) / 50, moved into [0, 1]', 'dose': 'dose'}
        """
        own = [rule for key, column in self.features.items() for rule in column.rules(key)]
        return dict(zip(self.names, [*(["1"] if self.intercept else []), *own], strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as JSON, with the bound that holds."""
        return {
            "features": {name: column.to_dict() for name, column in self.features.items()},
            "target": self.target,
            "label": None if self.label is None else self.label.to_dict(),
            "x_bound": self.domain.x_bound,
            "intercept": self.intercept,
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Schema:
        """Read what `to_dict` wrote, such as ``schema`` in ``release.json``.

        Raises
        ------
        ValueError
            If it is not a schema.

        Examples
        --------
        >>> schema = Schema({"age": Range(0.0, 100.0)}, "ill", Levels(["no", "yes"]))
        >>> Schema.from_dict(schema.to_dict()).rules() == schema.rules()
        True
        """
        try:
            label = saved["label"]
            return cls(
                {str(name): _column(column) for name, column in saved["features"].items()},
                saved["target"],
                None if label is None else _column(label),
                float(saved["x_bound"]),
                bool(saved["intercept"]),
            )
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(
                f"saved: it is not what Schema.to_dict wrote ({type(error).__name__}: "
                f"{reason(error)})."
            ) from error


def _column(saved: Mapping[str, Any]) -> Column:
    kind = saved["kind"]
    if kind == Number.kind:
        low, high = saved["low"], saved["high"]
        return Number(
            -math.inf if low is None else float(low), math.inf if high is None else float(high)
        )
    if kind == Range.kind:
        return Range(float(saved["low"]), float(saved["high"]))
    if kind == Levels.kind:
        return Levels(saved["levels"])
    if kind == Positive.kind:
        return Positive(saved["level"])
    if kind == Date.kind:
        return Date(saved["first"], saved["last"], saved["spelled"])
    raise ValueError(f"saved: there is no column of kind {shown(repr(kind), 60)}.")
