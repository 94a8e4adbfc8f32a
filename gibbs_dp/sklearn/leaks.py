"""Warnings of what a guarantee does not cover: bounds learnt from the data, fits done again.

Apart from the estimators, since these names are there without scikit-learn too.
"""

from __future__ import annotations

import warnings
from typing import Any


class PrivacyLeakWarning(UserWarning):
    """Something was taken from the data that the guarantee takes for public."""


class RepeatedFitWarning(UserWarning):
    """An estimator or its clones are fitted again: each fit on the same rows spends its target."""


def leak(sentence: str, leaks: list[str]) -> None:
    """Warn, and keep the sentence for the guarantee.

    >>> leaks = []
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     leak("bounds: taken from the data.", leaks)
    >>> leaks
    ['bounds: taken from the data.']
    """
    leaks.append(sentence)
    warnings.warn(sentence, PrivacyLeakWarning, stacklevel=5)


class Family:
    """Counts the fits of one estimator and of its clones, in this process."""

    def __init__(self) -> None:
        self.num_fits = 0

    def fitted(self) -> int:
        """Count one more fit."""
        self.num_fits += 1
        return self.num_fits

    def __deepcopy__(self, memo: Any) -> Family:
        return self


def warn_again(num_fits: int, epsilon: float, has_ledger: bool) -> None:
    """Say what fits beyond the first cost, unless a ledger counts them."""
    if num_fits < 2 or has_ledger:
        return
    warnings.warn(
        f"this is fit {num_fits} of one estimator and its clones: if all saw the same rows, they "
        f"spent {num_fits * epsilon:.6g} in epsilon together, not {epsilon:.6g} (cross-validation "
        "and grid searches fit many times). Choose settings on public data, or give a ledger.",
        RepeatedFitWarning,
        stacklevel=4,
    )
