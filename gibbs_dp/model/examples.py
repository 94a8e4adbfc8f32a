"""Examples: pytrees of arrays with a leading axis, checked."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree

from gibbs_dp.information.checks import refuse_masked
from gibbs_dp.model.charts import is_spread


def as_examples(data: PyTree, name: str = "data", is_copied: bool = False) -> PyTree:
    """Turn a pytree of array-likes into JAX arrays, checked: same length, not empty, finite.

    ``is_copied``: on CPUs JAX may share the memory of an array of NumPy's, which its owner may
    change; what keeps examples beyond a call copies them.
    """
    _check_examples(data, name)
    return jax.tree.map(partial(_to_default_float, is_copied=is_copied), data)


def as_host_examples(data: PyTree) -> PyTree:
    """Check and convert examples as :func:`as_examples` does, but to NumPy arrays."""
    _check_examples(data, "data")
    dtype = jnp.result_type(float)

    def convert(leaf: Any) -> np.ndarray:
        array = np.asarray(leaf)
        return array.astype(dtype) if array.dtype.kind == "f" else array

    return jax.tree.map(convert, data)


def _check_examples(data: PyTree, name: str) -> None:
    leaves = jax.tree.leaves(data)
    if not leaves:
        raise ValueError(f"{name}: it holds no arrays; give a pytree of arrays.")
    lengths = set()
    for leaf in leaves:
        refuse_masked(name, leaf)
        array = leaf if is_spread(leaf) else np.asarray(leaf)
        if array.dtype.kind not in "fiub":
            told = f"{name}: values of type {array.dtype} are not numbers; encode them"
            if hasattr(leaf, "columns"):
                told += ", as gibbs_dp.audit_table(frame, target=...) does a data frame's columns"
            raise ValueError(f"{told}.")
        if array.ndim == 0:
            raise ValueError(
                f"{name}: every array needs a leading axis of examples; got a scalar. A list is "
                "taken for as many arrays: give numpy.asarray(list)."
            )
        lengths.add(array.shape[0])
        if array.dtype.kind in "iu" and not is_spread(leaf):
            held = np.iinfo(jnp.zeros((), int).dtype)
            if array.size and not held.min <= array.min() <= array.max() <= held.max:
                raise ValueError(
                    f"{name}: whole numbers beyond {held.max:,} do not fit JAX's {held.dtype}; "
                    "give them as floating-point numbers."
                )
        if array.dtype.kind == "f":
            bad = int((~(jnp if is_spread(leaf) else np).isfinite(array)).sum())
            if bad:
                raise ValueError(f"{name}: {bad} values are NaN or infinite; drop or impute them.")
    if len(lengths) > 1:
        raise ValueError(f"{name}: arrays of different lengths {sorted(lengths)}; they must agree.")
    if lengths == {0}:
        raise ValueError(f"{name}: it is empty; give at least one example.")


def _to_default_float(leaf: Any, is_copied: bool) -> Array:
    if is_spread(leaf):
        is_float = jnp.issubdtype(leaf.dtype, jnp.floating)
        return leaf.astype(jnp.result_type(float)) if is_float else leaf
    array = np.array(leaf) if is_copied else np.asarray(leaf)
    if array.dtype.kind == "f":
        return jnp.asarray(array, dtype=jnp.result_type(float))
    return jnp.asarray(array)


def num_examples(data: PyTree) -> int:
    """Length of the leading axis."""
    return int(jax.tree.leaves(data)[0].shape[0])


# Data sets larger than a machine: rows spread over the devices of many processes.

AXIS = "examples"


def shard_examples(data: PyTree) -> PyTree:
    """Spread examples over all devices, every process giving the rows that it holds.

    ``gibbs_dp.sample`` takes the result as it takes any data: each device evaluates the losses of
    its own rows, and JAX sums their gradients. Call ``jax.distributed.initialize()`` first, and
    run the same program in every process; the draws are then the same in all of them. For a sweep
    over many data sets this is the wrong tool: those are independent, see
    :class:`gibbs_dp.Store`.

    Parameters
    ----------
    data
        This process's examples, a pytree whose leaves have leading axis ``rows``: equally many in
        every process, a multiple of its devices. All processes' rows, in the order of their
        numbers, are the data set.

    Returns
    -------
    PyTree
        JAX arrays of the whole data set; no process holds all of it.

    Raises
    ------
    ValueError
        If the rows cannot be spread evenly, or are no examples.

    Examples
    --------
    >>> import numpy as np
    >>> shard_examples(np.arange(6.0).reshape(3, 2)).shape  # one process, one device
    (3, 2)
    """
    from jax.experimental import multihost_utils  # for this alone

    local = as_host_examples(data)
    rows, num_devices = num_examples(local), jax.local_device_count()
    counts = np.atleast_1d(multihost_utils.process_allgather(np.asarray(rows))).tolist()
    if len(set(counts)) > 1 or rows % num_devices:
        raise ValueError(
            f"data: processes hold {counts} rows and this one has {num_devices} devices; give "
            "every process equally many rows, a multiple of its devices."
        )
    mesh = Mesh(np.array(jax.devices()), (AXIS,), axis_types=(AxisType.Auto,))
    spread = NamedSharding(mesh, PartitionSpec(AXIS))
    return jax.tree.map(lambda a: jax.make_array_from_process_local_data(spread, a), local)
