"""NetCDF through xarray and h5netcdf: arrays and JSON text, nothing that executes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gibbs_dp.io.atomic import atomic_write

if TYPE_CHECKING:
    import xarray as xr


def save_netcdf(dataset: xr.Dataset | xr.DataTree, path: str | os.PathLike[str]) -> None:
    """Write a dataset or tree to NetCDF-4, whole or not at all.

    Raises
    ------
    OSError
        If the folder is missing or cannot be written, or the disk is full.
    """
    with atomic_write(path) as temporary:
        dataset.to_netcdf(temporary, engine="h5netcdf")


def load_netcdf(path: str | os.PathLike[str], kind: str) -> Any:
    """Read a file that :func:`save_netcdf` wrote, checking its ``gibbs_dp_kind`` attribute.

    Returns the ``xarray.Dataset``, or the ``xarray.DataTree`` where there are groups.

    Raises
    ------
    ValueError
        If the file is missing, is not NetCDF, or holds something else.
    """
    import xarray as xr  # slow to import

    if not Path(path).is_file():
        raise ValueError(f"path: there is no file {os.fspath(path)!r}.")
    try:
        tree = xr.open_datatree(path, engine="h5netcdf")
        with tree:
            found = tree.attrs.get("gibbs_dp_kind")
            loaded = tree.load()
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(
            f"path: {os.fspath(path)!r} is not a readable NetCDF file ({first})."
        ) from error
    if found != kind:
        raise ValueError(
            f"path: {os.fspath(path)!r} does not hold a gibbs_dp {kind} "
            f"(its kind is {found or 'unknown'})."
        )
    return loaded if loaded.children else loaded.to_dataset()
