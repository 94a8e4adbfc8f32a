"""The audit of one posterior from what ArviZ, PyMC, NumPyro or Stan keep of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from gibbs_dp import io
from gibbs_dp._cautions import AuditWarning, warns
from gibbs_dp._extras import require
from gibbs_dp.information.checks import refuse_missing_labels
from gibbs_dp.one_dataset.log_likelihood import (
    add_groups,
    audit_log_likelihood,
    audit_table,
    checked,
    checked_gamma,
    checked_labels,
)
from gibbs_dp.one_dataset.report import OneDatasetReport

if TYPE_CHECKING:
    import xarray as xr


# Log-likelihoods of several variables, put together by the examples that they are of.

CHAIN, DRAW = "chain", "draw"
Examples = Literal["shared", "separate"]
HOW: tuple[Examples, ...] = ("shared", "separate")
REMEDY = (
    "give examples='shared' if an example has a factor in each variable, examples='separate' if "
    "each variable is of other examples, or choose one by var_names"
)


class Columns(NamedTuple):
    """A column for each thing that may be removed, and what it is called."""

    values: Float[np.ndarray, "chain draw column"]
    names: list[Any]


def choose(held: xr.Dataset, var_names: Sequence[str] | None) -> list[xr.DataArray]:
    """Take the variables that are asked for, or all of them, chains and draws first."""
    every = [str(name) for name in held.data_vars]
    wanted = every if var_names is None else list(var_names)
    unknown = [name for name in wanted if name not in every]
    if unknown or not wanted:
        what = f"there is no {unknown[0]!r}" if unknown else "nothing is named"
        raise ValueError(
            f"var_names: {what} in log_likelihood; it has {', '.join(every) or 'no variables'}."
        )
    twice = [name for name in wanted if wanted.count(name) > 1]
    if twice:
        raise ValueError(f"var_names: {twice[0]!r} is there twice, and would count twice.")
    chosen = [held[name] for name in wanted]
    for variable in chosen:
        if not {CHAIN, DRAW} <= set(variable.dims) or variable.ndim < 3:
            raise ValueError(
                f"var_names: {variable.name!r} has the dimensions "
                f"{', '.join(map(str, variable.dims))}; chain, draw and one of examples are needed."
            )
        if variable.dtype.kind != "f":
            raise ValueError(
                f"var_names: {variable.name!r} holds {variable.dtype}, and no real numbers."
            )
    return [v.transpose(CHAIN, DRAW, ...) for v in chosen]


def put_together(
    variables: Sequence[xr.DataArray], group: str | None, examples: Examples | None
) -> Columns:
    """Add variables of the same examples, by dimension and label, or lay others side by side."""
    if examples not in (None, *HOW):
        raise ValueError(f"examples: must be 'shared', 'separate' or None, got {examples!r}.")
    if len(variables) == 1:
        return _columns(variables[0], group)
    if examples == "separate":
        return _side_by_side(variables, group)
    if group is not None:
        return _by_label(variables, [_columns(v, group) for v in _without_gaps(variables)], group)
    return _columns(_added(variables, is_told=examples == "shared"), None)


def _dims(variable: xr.DataArray) -> tuple[str, ...]:
    return tuple(str(name) for name in variable.dims[2:])


def _added(variables: Sequence[xr.DataArray], is_told: bool) -> xr.DataArray:
    """Add variables whose cells are of the same examples."""
    first, *others = variables
    total = first
    for variable in others:
        if set(_dims(variable)) == set(_dims(first)):
            _refuse_gaps(first, variable, is_told)
            one, two = total, variable
        elif not is_told:
            raise ValueError(
                f"var_names: {_over(first)} and {_over(variable)}, which need not be the same "
                f"examples: {REMEDY}."
            )
        else:
            one, two = _matched(total, variable)
        one, two = _without_gaps([one, two])
        total = (one + two.transpose(*one.dims)).rename(first.name)
    return total


def _over(variable: xr.DataArray) -> str:
    sizes = ", ".join(f"{dim} ({variable.sizes[dim]})" for dim in _dims(variable))
    return f"{variable.name!r} is over {sizes}"


def _matched(one: xr.DataArray, two: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Match dimensions of other names, in order: by label where both have labels, else by place."""
    import xarray as xr

    ours = [dim for dim in _dims(one) if dim not in _dims(two)]
    theirs = [dim for dim in _dims(two) if dim not in _dims(one)]
    if len(ours) != len(theirs):
        raise ValueError(
            f"examples: {_over(one)} and {_over(two)}, so that their numbers cannot be paired; "
            "give the dimension or coordinate that tells examples by group, or choose one by "
            "var_names."
        )
    for dim, other in zip(ours, theirs, strict=True):
        have_labels = [_has_labels(v, d) for v, d in ((one, dim), (two, other))]
        labels = [_ticks(v, d) for v, d in ((one, dim), (two, other))]
        if not all(have_labels) and one.sizes[dim] != two.sizes[other]:
            raise ValueError(
                f"examples: {_over(one)} and {_over(two)}, with no labels to tell which are the "
                "same; give both dimensions coordinates, or choose a variable by var_names."
            )
        if all(have_labels):
            if not set(labels[0]) & set(labels[1]):
                raise ValueError(
                    f"examples: {_over(one)} and {_over(two)}, with no label in common "
                    f"({labels[0][0]!r}, ...; {labels[1][0]!r}, ...); give examples='separate', "
                    "or the same labels for the same examples."
                )
            if any(len(set(found)) < len(found) for found in labels):
                raise ValueError(
                    f"examples: {_over(one)} and {_over(two)}, with labels that occur twice; give "
                    f"group={other!r} to add what has one label, or labels that are unique."
                )
        else:
            labels[1] = labels[0]
        two = two.drop_vars([n for n, c in two.coords.items() if other in c.dims])
        two = two.rename({other: dim}).assign_coords({dim: labels[1]})
        one = one.drop_vars([n for n, c in one.coords.items() if n != dim and dim in c.dims])
        one = one.assign_coords({dim: labels[0]})
    if all(one.indexes[d].equals(two.indexes[d]) for d in ours):
        return one, two
    order = {dim: list(dict.fromkeys([*_ticks(one, dim), *_ticks(two, dim)])) for dim in ours}
    filled = [v.reindex(order) for v in xr.align(one, two, join="outer")]
    return filled[0], filled[1]


def _is_missing(variable: xr.DataArray) -> Bool[np.ndarray, "*axes"]:
    """Cells without a number in any draw, as xarray leaves them where a label is missing."""
    values = variable.to_numpy()
    if not np.isnan(values[0, 0]).any():
        return np.zeros(values.shape[2:], bool)
    return np.asarray(np.isnan(values).all(axis=(0, 1)))


def _gaps(
    variables: Sequence[xr.DataArray],
) -> Iterator[tuple[xr.DataArray, Bool[np.ndarray, "*axes"], bool]]:
    """For each variable, its cells that are missing but in another; whether no others are there."""
    missing = [_is_missing(v) for v in variables]
    for i, variable in enumerate(variables):
        gaps = np.zeros_like(missing[i])
        is_apart = False
        for j, other in enumerate(variables):
            if j == i or set(_dims(other)) != set(_dims(variable)):
                continue
            axes = [_dims(other).index(dim) for dim in _dims(variable)]
            there = ~missing[j].transpose(axes)
            gaps |= missing[i] & there
            is_apart |= not (~missing[i] & there).any()
        yield variable, gaps, is_apart


def _refuse_gaps(first: xr.DataArray, second: xr.DataArray, is_told: bool) -> None:
    for variable, gaps, is_apart in _gaps([first, second]):
        other = second if variable is first else first
        if is_apart:
            raise ValueError(
                f"var_names: {_over(first)} and {_over(second)}, but no example has numbers in "
                "both; give examples='separate' if each variable is of other examples, or choose "
                "one by var_names."
            )
        if gaps.any() and not is_told:
            which = np.array(_names(variable), object)[np.flatnonzero(gaps)[0]]
            raise ValueError(
                f"var_names: {variable.name!r} has no number for {int(gaps.sum())} of the "
                f"examples of {other.name!r}, the first {which!r}: {REMEDY}."
            )


def _without_gaps(variables: Sequence[xr.DataArray]) -> list[xr.DataArray]:
    """Put zeros, which add nothing, where a variable lacks what another one has."""
    import xarray as xr

    found = []
    for variable, gaps, _ in _gaps(variables):
        is_there = xr.DataArray(~gaps, dims=_dims(variable))
        filled = variable.where(is_there, 0.0).transpose(*variable.dims)
        found.append(filled if gaps.any() else variable)
    return found


def _by_label(variables: Sequence[xr.DataArray], found: Sequence[Columns], group: str) -> Columns:
    """Add groups of one label, wherever they have factors."""
    first = set(found[0].names)
    for variable, other in zip(variables[1:], found[1:], strict=True):
        if not first & set(other.names):
            raise ValueError(
                f"group: {variables[0].name!r} and {variable.name!r} have no {group} in common "
                f"({found[0].names[0]!r}, ...; {other.names[0]!r}, ...); give examples='separate' "
                "if these are other groups, or one label for one group."
            )
    names = [name for columns in found for name in columns.names]
    return _grouped(np.concatenate([c.values for c in found], axis=2), names)


def _side_by_side(variables: Sequence[xr.DataArray], group: str | None) -> Columns:
    """Lay the columns of all variables side by side, without what only others have."""
    found = []
    for variable, gaps, _ in _gaps(variables):
        cells = _columns(variable, None)
        keep = np.flatnonzero(~gaps.ravel())
        columns = Columns(cells.values[:, :, keep], [cells.names[i] for i in keep])
        if group is not None:
            every = _labels(variable, group)
            columns = _grouped(columns.values, [every[i] for i in keep])
        found.append(columns)
    names = [name for columns in found for name in columns.names]
    if len(set(map(str, names))) < len(names):
        pairs = zip(variables, found, strict=True)
        names = [f"{variable.name}:{name}" for variable, c in pairs for name in c.names]
    return Columns(np.concatenate([c.values for c in found], axis=2), names)


def _grouped(values: Float[np.ndarray, "chain draw column"], labels: list[Any]) -> Columns:
    refuse_missing_labels("group", labels)
    sums, kept = add_groups(values, checked_labels("group", labels, len(labels)))
    return Columns(sums, kept.tolist())


def _columns(variable: xr.DataArray, group: str | None) -> Columns:
    """Return a variable's cells, or what they are by group."""
    values = variable.to_numpy()
    dims = _dims(variable)
    if group is not None and group in dims:
        place = dims.index(group)
        others = tuple(2 + k for k in range(len(dims)) if k != place)
        if others:
            values = values.sum(axis=others, dtype=np.float64)
        return Columns(values, _ticks(variable, group))
    values = values.reshape(*values.shape[:2], -1)
    if group is None:
        return Columns(values, _names(variable))
    return _grouped(values, _labels(variable, group))


def _labels(variable: xr.DataArray, group: str) -> list[Any]:
    """Return the label of every cell."""
    dims = _dims(variable)
    if group in dims:
        place, ticks = dims.index(group), _ticks(variable, group)
        return [ticks[at[place]] for at in np.ndindex(variable.shape[2:])]
    if len(dims) == 1 and group in variable.coords and variable.coords[group].dims == dims:
        found: list[Any] = variable.coords[group].to_numpy().tolist()
        return found
    raise ValueError(
        f"group: {group!r} is no dimension of the examples of {variable.name!r} "
        f"({', '.join(dims)}) and no coordinate along the only one; give one of these, or a label "
        "for every example."
    )


def _names(variable: xr.DataArray) -> list[Any]:
    """Call examples by their coordinates, or by their places."""
    dims = _dims(variable)
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


def _has_labels(variable: xr.DataArray, dim: str) -> bool:
    """Whether there is more than the places that ArviZ numbers where it knows no labels."""
    return _ticks(variable, dim) != list(range(variable.sizes[dim]))


GROUP, STAN = "log_likelihood", "log_lik"
MISSING = (
    "it has no group log_likelihood{has}; PyMC adds it by pm.compute_log_likelihood(idata), "
    "NumPyro by az.from_numpyro(mcmc, log_likelihood=True), Stan by a generated quantity "
    "log_lik that az.from_cmdstanpy(fit, log_likelihood='log_lik') is told of."
)


@warns(lambda _: AuditWarning)
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
        (:meth:`Draws.to_arviz`) say what theirs is, the group alone too.
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
    power, is_tempered = _gamma(gamma, {**held.attrs, **marks})
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
    """Take the inverse temperature that is given, or that of draws of this library."""
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


def _check_rows(paths: Sequence[Path]) -> None:
    """Raise a ValueError where a file of CmdStan's has a broken row, or chains differ in length."""
    lengths = []
    for path in paths:
        with path.open("rb") as file:
            counts = [line.count(b",") for line in file if line.strip() and line[:1] != b"#"]
        wrong = next((i for i, count in enumerate(counts) if count != counts[0]), None)
        if wrong is not None:
            raise ValueError(
                f"path: {os.fspath(path)!r} is damaged: row {wrong} has {counts[wrong] + 1} "
                f"numbers for {counts[0] + 1} columns."
            )
        lengths.append(len(counts))
    other = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
    if other is not None:
        raise ValueError(
            f"path: chains of different lengths: {os.fspath(paths[0])!r} has {lengths[0] - 1} "
            f"draws, {os.fspath(paths[other])!r} {lengths[other] - 1}; was one cut off?"
        )


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
    _check_rows(paths)
    try:
        data = arviz.from_cmdstan(list(map(os.fspath, paths)), log_likelihood=wanted)
        found = data[GROUP]
    except Exception as error:  # whatever ArviZ makes of other files
        raise ValueError(
            f"path: ArviZ finds no {', '.join(wanted)} in {os.fspath(paths[0])!r} "
            f"({io.reason(error)}); name the generated quantity by var_names."
        ) from error
    return found
