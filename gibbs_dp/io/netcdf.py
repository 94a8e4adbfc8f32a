"""NetCDF through xarray and h5netcdf: arrays and JSON text, nothing that executes."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from gibbs_dp.io.atomic import atomic_write
from gibbs_dp.io.damage import printable
from gibbs_dp.io.hdf5 import Contents, read_hdf5

if TYPE_CHECKING:
    import xarray as xr


def save_netcdf(dataset: xr.Dataset | xr.DataTree, path: str | os.PathLike[str]) -> None:
    """Write a dataset or tree to NetCDF-4, whole or not at all.

    HDF5 ends the process on a disk that is full, so it writes to memory, and Python to the disk.

    Raises
    ------
    OSError
        If the folder is missing or cannot be written, or the disk is full.
    """
    import h5netcdf
    import xarray as xr
    from xarray.backends import H5NetCDFStore

    content = io.BytesIO()
    nodes = [("/", dataset)]
    if not isinstance(dataset, xr.Dataset):
        nodes = [(node.path, node.to_dataset(inherit=False)) for node in dataset.subtree]
    with h5netcdf.File(content, "w") as written:
        for name, node in nodes:
            node.dump_to_store(H5NetCDFStore(written, group=name, mode="a"))
    with atomic_write(path) as temporary:
        temporary.write_bytes(content.getbuffer())


def load_netcdf(path: str | os.PathLike[str], kind: str) -> Contents:
    """Read a file that :func:`save_netcdf` wrote, checking its ``gibbs_dp_kind`` attribute.

    Returns
    -------
    Contents
        Arrays, attributes and groups.

    Raises
    ------
    ValueError
        If the file is missing or holds something else.
    DamagedFileError
        If it is not NetCDF, or not as :func:`save_netcdf` writes it: see :func:`read_hdf5`.
    """
    if not Path(path).is_file():
        raise ValueError(f"path: there is no file {os.fspath(path)!r}.")
    contents = read_hdf5(path)
    found = contents.attributes.get("gibbs_dp_kind")
    if found != kind:
        told = printable(str(found or "unknown")[:40])
        raise ValueError(
            f"path: {os.fspath(path)!r} does not hold a gibbs_dp {kind} (its kind is {told})."
        )
    return contents
