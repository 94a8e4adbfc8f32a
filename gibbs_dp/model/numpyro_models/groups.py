"""Rows that belong to groups, with a whole group as the example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

IS_ROW = "is_row"


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of rows, padded to the same size.

    Parameters
    ----------
    name
        The argument that holds the number of a row's group. Groups are numbered by their place in
        the dataset: it is no part of an example.
    """

    name: str

    def pack(self, rows: dict[str, PyTree]) -> dict[str, PyTree]:
        """Put the rows of each group together.

        Parameters
        ----------
        rows
            Arguments by name, ``[rows, ...]``; one of them is the group's number.

        Returns
        -------
        dict
            The other arguments, ``[groups, most, ...]``, and ``is_row [groups, most]``: which of
            them are rows, and not copies that fill up.

        Raises
        ------
        ValueError
            If the numbers are not 0, 1, ... up to the last group.
        """
        labels = np.asarray(rows[self.name])
        if labels.ndim != 1 or labels.dtype.kind not in "iu" or labels.min() < 0:
            raise ValueError(
                f"group: {self.name!r} must hold the number of each row's group, 0, 1, 2, ..."
            )
        sizes = np.bincount(labels)
        if not sizes.all():
            raise ValueError(
                f"group: no row of {self.name!r} is in group {int(np.argmin(sizes))}; number "
                "them without gaps."
            )
        order = np.argsort(labels, kind="stable")
        begins = np.cumsum(sizes) - sizes
        place = np.arange(sizes.max())
        is_row = place < sizes[:, None]
        index = order[begins[:, None] + np.where(is_row, place, 0)]
        others = {k: v for k, v in rows.items() if k != self.name}
        packed: dict[str, Any] = jax.tree.map(lambda a: jnp.asarray(a)[index], others)
        return packed | {IS_ROW: jnp.asarray(is_row)}

    def rows(self, data: dict[str, PyTree]) -> dict[str, PyTree]:
        """Lay groups end to end, and number them."""
        count, most = data[IS_ROW].shape
        flat = {
            name: jax.tree.map(lambda a: a.reshape(count * most, *a.shape[2:]), part)
            for name, part in data.items()
            if name != IS_ROW
        }
        return flat | {self.name: jnp.repeat(jnp.arange(count), most)}

    def stacked(self, rows: dict[str, PyTree], data: dict[str, PyTree]) -> dict[str, PyTree]:
        """Put rows that were laid end to end back into their groups."""
        shape = data[IS_ROW].shape
        parts = {
            name: jax.tree.map(lambda a: a.reshape(*shape, *a.shape[1:]), part)
            for name, part in rows.items()
            if name != self.name
        }
        return parts | {IS_ROW: data[IS_ROW]}

    def sums(
        self, values: Float[Array, " rows"], data: dict[str, PyTree]
    ) -> Float[Array, " groups"]:
        """Add the values of every group's rows."""
        is_row = data[IS_ROW]
        return jnp.sum(jnp.where(is_row, values.reshape(is_row.shape), 0.0), axis=1)
