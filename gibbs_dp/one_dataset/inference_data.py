"""The audit of one posterior from what ArviZ, PyMC, NumPyro or Stan keep of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from gibbs_dp import io
from gibbs_dp._extras import require
from gibbs_dp.one_dataset.api import audit_log_likelihood, audit_table
from gibbs_dp.one_dataset.checks import checked, checked_gamma, checked_labels
from gibbs_dp.one_dataset.report import OneDatasetReport

if TYPE_CHECKING:
    import xarray as xr

GROUP, CHAIN, DRAW = "log_likelihood", "chain", "draw"
STAN = "log_lik"
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
        Variables of the group to use. By default all, which must then have one shape, as each
        example has a factor in each: their log-likelihoods are added.
    group
        What is removed as a whole: a dimension, such as "school", over all others of which
        log-likelihoods are added; a coordinate along the only dimension of examples, or a list with
        a label for each of them. By default every single number is of an example of its own.
    gamma
        Inverse temperature of the posterior that was sampled. By default 1; draws of this library
        (:meth:`Draws.to_arviz`) say what theirs is.

    Returns
    -------
    OneDatasetReport
        With the examples' coordinates for names.

    Raises
    ------
    ValueError
        If there is no such group, variable or dimension, if variables differ in shape, if the file
        is damaged or in another format, and as :func:`gibbs_dp.audit_log_likelihood` does.

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
    chosen = _chosen(held, names)
    first = chosen[0]
    table, dims = _table(chosen)
    if is_tempered:
        table = table / power
    labels: Sequence[Any] | np.ndarray | None = None
    if isinstance(group, str) and group in dims:
        place = dims.index(group)
        others = tuple(2 + k for k in range(len(dims)) if k != place)
        table, dims = table.sum(axis=others, dtype=np.float64), (group,)
        unit = "group"
    elif group is not None:
        labels = _coordinate(first, dims, group) if isinstance(group, str) else group
        unit = "group"
    else:
        unit = "example"
    table = table.reshape(*table.shape[:2], -1)
    if labels is not None:
        report = audit_log_likelihood(table, power, groups=labels)
    else:
        names_of = checked_labels("data", _names(first, dims), table.shape[2])
        report = audit_table(checked(table), power, names_of, unit)
    variables = [str(variable.name) for variable in chosen]
    return replace(report, settings=report.settings | {"variables": variables})


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


def _chosen(held: xr.Dataset, var_names: Sequence[str] | None) -> list[xr.DataArray]:
    """Take the variables that are asked for, or all of them."""
    every = [str(name) for name in held.data_vars]
    wanted = every if var_names is None else list(var_names)
    unknown = [name for name in wanted if name not in every]
    if unknown or not wanted:
        what = f"there is no {unknown[0]!r}" if unknown else "nothing is named"
        raise ValueError(
            f"var_names: {what} in log_likelihood; it has {', '.join(every) or 'no variables'}."
        )
    chosen = [held[name] for name in wanted]
    for variable in chosen:
        if not {CHAIN, DRAW} <= set(variable.dims) or variable.ndim < 3:
            raise ValueError(
                f"var_names: {variable.name!r} has the dimensions "
                f"{', '.join(map(str, variable.dims))}; chain, draw and one of examples are needed."
            )
    ordered = [v.transpose(CHAIN, DRAW, ...) for v in chosen]
    if len({v.shape for v in ordered}) > 1:
        shapes = ", ".join(f"{v.name} {v.shape[2:]}" for v in ordered)
        raise ValueError(
            f"var_names: the variables differ in shape ({shapes}), so their numbers are not of the "
            "same examples; choose one."
        )
    return ordered


def _table(
    chosen: Sequence[xr.DataArray],
) -> tuple[Float[np.ndarray, "chain draw *axes"], tuple[str, ...]]:
    """Add the variables; return the names of the axes after chain and draw."""
    table = chosen[0].to_numpy()
    for variable in chosen[1:]:
        table = table + variable.to_numpy()
    if table.dtype.kind != "f":
        raise ValueError(f"var_names: {chosen[0].name!r} holds {table.dtype}, and no real numbers.")
    return table, tuple(str(name) for name in chosen[0].dims[2:])


def _coordinate(variable: xr.DataArray, dims: tuple[str, ...], name: str) -> list[Any]:
    if len(dims) == 1 and name in variable.coords and variable.coords[name].dims == dims:
        return variable.coords[name].to_numpy().tolist()
    raise ValueError(
        f"group: {name!r} is no dimension of the examples ({', '.join(dims)}) and no coordinate "
        "along the only one; give one of these, or a label for every example."
    )


def _names(variable: xr.DataArray, dims: tuple[str, ...]) -> list[Any]:
    """Call examples by their coordinates, or by their places."""
    if len(dims) > 1:
        axes = [_ticks(variable, dim) for dim in dims]
        shape = tuple(len(axis) for axis in axes)
        cells = ([axis[i] for axis, i in zip(axes, at, strict=True)] for at in np.ndindex(shape))
        return [",".join(map(str, cell)) for cell in cells]
    return _ticks(variable, dims[0])


def _ticks(variable: xr.DataArray, dim: str) -> list[Any]:
    if dim in variable.coords:
        values = variable.coords[dim].to_numpy()
        return values.tolist() if values.dtype.kind in "iu" else values.astype(str).tolist()
    return list(range(variable.sizes[dim]))
