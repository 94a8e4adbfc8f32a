"""The audit of one posterior from what ArviZ, PyMC, NumPyro or Stan keep of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gibbs_dp import io
from gibbs_dp._extras import require
from gibbs_dp.one_dataset.api import audit_log_likelihood, audit_table
from gibbs_dp.one_dataset.checks import checked, checked_gamma, checked_labels
from gibbs_dp.one_dataset.report import OneDatasetReport
from gibbs_dp.one_dataset.variables import CHAIN, DRAW, Examples, choose, put_together

if TYPE_CHECKING:
    import xarray as xr

GROUP, STAN = "log_likelihood", "log_lik"
MISSING = (
    "it has no group log_likelihood{has}; PyMC adds it by pm.compute_log_likelihood(idata), "
    "NumPyro by az.from_numpyro(mcmc, log_likelihood=True), Stan by a generated quantity "
    "log_lik that az.from_cmdstanpy(fit, log_likelihood='log_lik') is told of."
)


def audit_inference_data(
    data: Any,
    var_names: str | Sequence[str] | None = None,
    group: str | Sequence[Any] | np.ndarray | None = None,
    gamma: float | None = None,
    examples: Examples | None = None,
) -> OneDatasetReport:
    """Measure what one example changes in a posterior that ArviZ, PyMC, NumPyro or Stan sampled.

    The door of :func:`gibbs_dp.audit_log_likelihood` for objects with a group ``log_likelihood``
    over chains, draws and examples. Files are read without ArviZ, and nothing in them is run: only
    the group's own arrays, stored in the file itself without any compression but HDF5's own and
    expanding to at most 256 times what is stored.

    Parameters
    ----------
    data
        ``InferenceData`` of ArviZ 0.x, ``DataTree`` of 1.x, the group itself as a ``Dataset``, the
        path of a NetCDF-4 file, or a list of paths of CmdStan's CSV files, which ArviZ 0.x reads.
    var_names
        Variables of the group to use; by default all. Those over the same dimensions are added, by
        dimension and label and not by place: an example has a factor in each.
    group
        What is removed as a whole: a dimension, such as "school", over all others of which
        log-likelihoods are added; a coordinate along the only dimension of examples, or a list with
        a label for each of them. By default every single number is of an example of its own. Of
        several variables, what has one label is one group.
    gamma
        Inverse temperature of the posterior that was sampled. By default 1; draws of this library
        (:meth:`Draws.to_arviz`) say what theirs is.
    examples
        For variables over dimensions of other names, which need not be of the same examples:
        "shared" if an example has a factor in each, by their labels, or by their places where they
        have none; "separate" if each variable is of other examples, as with two arms of a trial.
        By default they are refused.

    Returns
    -------
    OneDatasetReport
        With the examples' coordinates for names.

    Raises
    ------
    ValueError
        If there is no such group, variable or dimension, if variables need not be of the same
        examples or have none in common, if the file is damaged or in another format, and as
        :func:`gibbs_dp.audit_log_likelihood` does.

    Examples
    --------
    >>> import xarray as xr
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=20)
    >>> theta = rng.normal(z.mean(), 20**-0.5, size=(4, 500, 1))
    >>> y = xr.DataArray(-0.5 * (theta - z) ** 2, dims=("chain", "draw", "person"))
    >>> tree = xr.DataTree.from_dict({"/log_likelihood": xr.Dataset({"y": y})})
    >>> audit_inference_data(tree)
    OneDatasetReport(20 examples, gamma 1, 4 chains of 500 draws)
    """
    names = [var_names] if isinstance(var_names, str) else var_names
    held, marks = _log_likelihood_of(data, names)
    power, is_tempered = _gamma(gamma, marks)
    if "dataset" in held.dims and is_tempered:
        raise ValueError(
            f"data: these are draws of {held.sizes['dataset']} datasets; audit one at a time."
        )
    chosen = choose(held, names)
    table, called = put_together(chosen, group if isinstance(group, str) else None, examples)
    if is_tempered:
        table = table / power
    if group is not None and not isinstance(group, str):
        report = audit_log_likelihood(table, power, groups=group)
    else:
        labels = checked_labels("data", called, table.shape[2])
        unit = "example" if group is None else "group"
        report = audit_table(checked(table), power, labels, unit)
    variables = [str(variable.name) for variable in chosen]
    told = {"variables": variables, "examples": examples}
    return replace(report, settings=report.settings | told)


def _gamma(given: float | None, marks: Mapping[Any, Any]) -> tuple[float, bool]:
    """Take the inverse temperature that is given, or that of draws of this library.

    These hold what was sampled with, gamma times the log-likelihood, which ArviZ needs.
    """
    known = marks.get("gamma") if marks.get("gibbs_dp_kind") == "draws" else None
    known = None if known is None else checked_gamma(known)
    if given is not None and known is not None and given != known:
        raise ValueError(f"gamma: these draws are of gamma {known:g}, got {given:g}; leave it out.")
    return checked_gamma(next((g for g in (given, known) if g is not None), 1.0)), known is not None


def _log_likelihood_of(
    data: Any, var_names: Sequence[str] | None
) -> tuple[xr.Dataset, Mapping[Any, Any]]:
    """Find the group, in whatever holds it, and the attributes of that."""
    import xarray as xr  # slow to import

    if isinstance(data, (str, os.PathLike)):
        path = Path(data)
        return (_from_cmdstan([path], var_names), {}) if path.suffix == ".csv" else _from_file(path)
    if isinstance(data, (list, tuple)) and data:
        return _from_cmdstan([Path(path) for path in data], var_names), {}
    if isinstance(data, xr.Dataset):
        return data, {}
    if isinstance(data, xr.DataTree):
        if GROUP not in data.children:
            raise ValueError(f"data: {MISSING.format(has=_has(list(data.children)))}")
        return data[GROUP].to_dataset(), data.attrs
    if not callable(getattr(data, "groups", None)):
        raise ValueError(
            "data: must be InferenceData, a DataTree, a Dataset, the path of a NetCDF-4 file or a "
            f"list of CmdStan's CSV files, got {type(data).__name__}."
        )
    if GROUP not in data.groups():
        raise ValueError(f"data: {MISSING.format(has=_has(list(data.groups())))}")
    return data[GROUP], getattr(data, "attrs", {})


def _has(groups: list[str]) -> str:
    return f" (it has {', '.join(map(str, groups))})" if groups else ""


def _from_file(path: Path) -> tuple[xr.Dataset, Mapping[Any, Any]]:
    import xarray as xr

    try:
        found, marks = io.read_group(path, GROUP, ("gibbs_dp_kind", "gamma"))
    except io.NoGroupError as error:
        has = _has(error.groups)
        raise ValueError(f"path: {os.fspath(path)!r}: {MISSING.format(has=has)}") from None
    is_label = {name: {CHAIN, DRAW}.isdisjoint(v.dims) for name, v in found.items()}
    arrays = {k: v for k, v in found.items() if not is_label[k] and v.dims != (k,)}
    labels = {k: v for k, v in found.items() if k not in arrays}
    try:
        return xr.Dataset(arrays, labels), marks
    except ValueError as error:
        raise io.DamagedFileError(
            f"path: {os.fspath(path)!r} is not a readable NetCDF-4 file ({io.reason(error)})."
        ) from error


def _from_cmdstan(paths: Sequence[Path], var_names: Sequence[str] | None) -> xr.Dataset:
    """Let ArviZ read CmdStan's files; the log-likelihood is ``log_lik`` unless it is named."""
    missing = next((path for path in paths if not path.is_file()), None)
    if missing is not None:
        raise ValueError(f"path: there is no file {os.fspath(missing)!r}.")
    arviz = require("arviz")
    if not hasattr(arviz, "from_cmdstan"):
        raise ValueError(
            f"data: ArviZ {arviz.__version__} reads no CSV of CmdStan; use az.from_cmdstanpy(fit, "
            "log_likelihood='log_lik') and pass what it returns, or install arviz<1."
        )
    wanted = [STAN] if var_names is None else list(var_names)
    try:
        data = arviz.from_cmdstan(list(map(os.fspath, paths)), log_likelihood=wanted)
        found = data[GROUP]
    except Exception as error:  # whatever ArviZ makes of other files
        raise ValueError(
            f"path: ArviZ finds no {', '.join(wanted)} in {os.fspath(paths[0])!r} "
            f"({io.reason(error)}); name the generated quantity by var_names."
        ) from error
    return found
