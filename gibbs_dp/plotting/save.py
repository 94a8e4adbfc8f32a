"""Pictures in files."""

from __future__ import annotations

import os
from pathlib import Path

from matplotlib.figure import Figure

from gibbs_dp.io import atomic_write
from gibbs_dp.plotting.style import styled

FORMATS = ("svg", "png")


def save(figure: Figure, stem: str | os.PathLike[str]) -> list[Path]:
    """Write a picture as SVG and as PNG, each whole or not at all; no date is in it.

    Parameters
    ----------
    figure
        What to write.
    stem
        Folder and name, without an ending.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    stem = Path(stem)
    paths = [stem.parent / f"{stem.name}.{ending}" for ending in FORMATS]
    for path, ending in zip(paths, FORMATS, strict=True):
        metadata = {"Date": None} if ending == "svg" else None
        with styled(), atomic_write(path) as temporary:
            figure.savefig(temporary, format=ending, metadata=metadata)
    return paths
