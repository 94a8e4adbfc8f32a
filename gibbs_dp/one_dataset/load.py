"""Reports of one posterior read back from files, which may come from anyone."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from gibbs_dp import io
from gibbs_dp.one_dataset.columns import AVERAGES, EXAMPLES
from gibbs_dp.one_dataset.report import KIND, OneDatasetReport

MEAN = "mean_"
# What a report cannot be shown without, and of what type it is.
SETTINGS = {
    "gamma": float,
    "n": int,
    "unit": str,
    "num_chains": int,
    "num_samples": int,
    "k_hat_limit": float,
}


def load_one_dataset_report(path: str | os.PathLike[str]) -> OneDatasetReport:
    """Read a report that :meth:`OneDatasetReport.save` wrote; runs no code from the file.

    Only what the file itself holds is read, and no more bytes than it has: links to other files,
    virtual and compressed arrays are refused.

    Raises
    ------
    ValueError
        If the file is missing or no such report; :class:`gibbs_dp.io.DamagedFileError`, one of
        them, if it is damaged or not as :meth:`OneDatasetReport.save` writes it.
    """
    contents = io.load_netcdf(path, KIND)
    try:
        settings = io.parse_json(contents.attributes["settings"], dict)
        warnings = io.parse_json(contents.attributes["warnings"], list)
        if not all(isinstance(text, str) for text in warnings):
            raise ValueError("its warnings are no texts")
        names = _names(contents.coordinates["example"])
        averages, examples = _numbers(contents.variables, names.size)
        _check_settings(settings, names.size)
    except (KeyError, ValueError) as error:
        raise io.DamagedFileError(
            f"path: {os.fspath(path)!r} is a damaged report ({io.reason(error)})."
        ) from error
    return OneDatasetReport(averages, examples, names, settings, tuple(warnings))


def _names(found: np.ndarray) -> np.ndarray:
    if found.ndim != 1 or not found.size or found.dtype.kind not in "iO":
        raise ValueError("its examples have no names")
    return found.astype(str) if found.dtype.kind == "O" else found.astype(np.int64)


def _numbers(
    variables: dict[str, np.ndarray], size: int
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    averages, examples = {}, {}
    for name, values in variables.items():
        if values.dtype.kind != "f":
            raise ValueError(f"{name!r} holds no numbers")
        if name.startswith(MEAN) and values.shape == ():
            averages[name.removeprefix(MEAN)] = float(values)
        elif values.shape == (size,):
            examples[name] = values
        else:
            raise ValueError(f"{name!r} has not one number for every example")
    missing = {*AVERAGES, "on_average_kl_low", "on_average_kl_high"} - averages.keys()
    missing |= {*EXAMPLES, "exposure_mcse"} - examples.keys()
    if missing:
        raise ValueError(f"{min(missing)!r} is missing")
    return averages, examples


def _check_settings(settings: dict[str, Any], size: int) -> None:
    for name, kind in SETTINGS.items():
        value = settings[name]
        allowed = (int, float) if kind is float else (kind,)
        if not isinstance(value, allowed) or isinstance(value, bool):
            raise ValueError(f"its setting {name!r} is no {kind.__name__}")
    variables = settings.get("variables", [])
    if not isinstance(variables, list):
        raise ValueError("its setting 'variables' is no list")
    if settings["n"] != size or not settings["gamma"] > 0:
        raise ValueError("its settings and its numbers do not belong together")
