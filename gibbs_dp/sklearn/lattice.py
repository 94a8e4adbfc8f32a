"""Sums and noise on a lattice, so that the last bits of a release tell nothing (Mironov 2012).

What one row adds is rounded to multiples of ``2^-30`` before it is added, and noise, which never
saw the data, before it is added to the sum of whole numbers. The sum of both is then what rounding
the ideal release to the lattice would give, whatever the rows are: every multiple can be reached
from every table.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

FINENESS = 2**30


def on_lattice(values: Float[np.ndarray, "*shape"]) -> Int[np.ndarray, "*shape"]:
    """Round to whole numbers of lattice steps.

    >>> on_lattice(np.array([0.5]))
    array([536870912])
    """
    return np.rint(values * FINENESS).astype(np.int64)


def add_noise(
    total: Int[np.ndarray, " dim"], noise: Float[np.ndarray, " dim"]
) -> Float[np.ndarray, " dim"]:
    """Add noise to a sum of whole numbers of steps, exactly, and return it as a number.

    Parameters
    ----------
    total
        Sum of rows on the lattice.
    noise
        In the sum's units, not rounded yet.

    Returns
    -------
    array
        Multiples of ``2^-30``.

    Examples
    --------
    >>> add_noise(on_lattice(np.array([0.5, 0.25])), np.array([1.0, 2.0**-40]))
    array([1.5 , 0.25])
    """
    steps = [int(t) + int(e) for t, e in zip(total, np.rint(noise * FINENESS), strict=True)]
    return np.array([step / FINENESS for step in steps])
