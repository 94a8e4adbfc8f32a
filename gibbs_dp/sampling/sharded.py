"""Data sets larger than a machine: rows spread over the devices of many processes."""

from __future__ import annotations

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from gibbs_dp.model.examples import as_host_examples, num_examples

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
