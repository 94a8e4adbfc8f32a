"""Draws from a file."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from gibbs_dp import io
from gibbs_dp.sampling.draws import Draws
from gibbs_dp.sampling.modes import Modes


def load_draws(path: str | os.PathLike[str]) -> Draws:
    """Read draws that :meth:`Draws.save` wrote; runs no code from the file.

    A single array comes back as an array and anything else as a dict of named leaves. Only what
    the file itself holds is read, and no more bytes than it has: links to other files, virtual
    and compressed arrays are refused.

    Raises
    ------
    ValueError
        If the file is missing or holds something else; :class:`gibbs_dp.io.DamagedFileError`, one
        of them, if it is damaged or not as :meth:`Draws.save` writes it.
    """
    contents = io.load_netcdf(path, "draws")
    try:
        leaves = contents.groups["posterior"].variables
        stats = contents.groups["sample_stats"].variables
        _check_shapes(leaves, stats)
        gamma = contents.attributes["gamma"]
        settings = io.parse_json(contents.attributes["settings"], dict)
        inflation = settings.get("variance_inflation")
        numbers = (gamma,) if inflation is None else (gamma, inflation)
        if not all(isinstance(x, (int, float)) for x in numbers):
            raise ValueError("gamma or variance_inflation is no number")
        if "modes" in settings:
            _check_modes(settings["modes"])
    except (KeyError, ValueError) as error:
        raise io.DamagedFileError(
            f"path: {os.fspath(path)!r} holds damaged draws ({io.reason(error)})."
        ) from error
    return Draws(
        theta=leaves["theta"] if set(leaves) == {"theta"} else leaves,
        log_density=stats["lp"],
        accept_rate=stats["acceptance_rate"],
        is_stuck=stats["stuck"].astype(bool),
        gamma=float(gamma),
        settings=settings,
    )


def _check_modes(found: Any) -> None:
    if not isinstance(found, dict):
        raise ValueError("what it says of other modes is no table")
    Modes.of_plain(found)


def _check_shapes(leaves: dict[str, np.ndarray], stats: dict[str, np.ndarray]) -> None:
    lead = stats["lp"].shape
    if stats["lp"].dtype.kind != "f" or len(lead) not in (2, 3) or min(lead) < 1 or not leaves:
        raise ValueError("its log densities are no table of chains and draws")
    for name, kinds in (("acceptance_rate", "f"), ("stuck", "bi")):
        if stats[name].shape != lead[:-1] or stats[name].dtype.kind not in kinds:
            raise ValueError(f"{name!r} has not one number for every chain")
    for name, leaf in leaves.items():
        if leaf.shape[: len(lead)] != lead or leaf.dtype.kind not in "fiu":
            raise ValueError(f"{name!r} has not one array of numbers for every draw")
