"""Tables for the sums of a comparison, from log densities in NumPy."""

import jax.numpy as jnp
import numpy as np

from gibbs_dp.estimators import ConsistencySums, ContrastSums
from gibbs_dp.estimators.table_sums import DensityTable, Swaps, layout_of


def table_of(layout, log_density, owner, is_draw=None):
    """A table of log densities, a column per dataset that did not fail, as draws' losses."""
    wide = np.zeros((log_density.shape[0], layout.datasets.size))
    wide[:, layout.position] = -log_density
    return DensityTable(
        jnp.asarray(wide, jnp.float32),
        jnp.asarray(layout.position[owner]),
        jnp.asarray(np.ones(owner.size, bool) if is_draw is None else is_draw),
        jnp.zeros(layout.datasets.size),
        jnp.asarray(layout.is_used),
        jnp.ones(()),
    )


def contrast_of(log_density, owner, draws=1, log_swap=None, block=None):
    """Estimates from a table, a block of rows at a time."""
    layout = layout_of(np.ones(log_density.shape[1], bool))
    sums, size = ContrastSums(layout, draws), block or owner.size
    for start in range(0, owner.size, size):
        rows = slice(start, start + size)
        swaps = None
        if log_swap is not None:
            gain = np.zeros((owner[rows].size, layout.datasets.size))
            gain[:, layout.position] = -log_swap[rows]
            swaps = Swaps(jnp.zeros(gain.shape, jnp.float32), jnp.asarray(gain, jnp.float32))
        sums.add(table_of(layout, log_density[rows], owner[rows]), swaps)
    return sums.result()


def correction_of(log_density, se, block=None):
    """Corrections of log normalizers, a block of rows at a time."""
    layout = layout_of(np.ones(log_density.shape[1], bool))
    checks, size = ConsistencySums(layout), block or log_density.shape[0]
    for start in range(0, log_density.shape[0], size):
        part = log_density[start : start + size]
        # Whose draws they are does not matter here.
        checks.add(table_of(layout, part, np.zeros(part.shape[0], int)))
    return checks.correction(se)
