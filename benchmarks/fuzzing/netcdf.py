"""Reports, draws and others' NetCDF files: HDF5 that is harmed, edited, or points elsewhere."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np

from fuzzing.guarantees import DEEP, ODD, replaced
from fuzzing.harm import harmed
from fuzzing.verdict import Case, Failure, not_a_sentence

SECRET = "a line of a file that is nobody's business"
SCRIPT = "<script>alert(1)</script>"
TEXTS = (
    *("\x1b]0;owned\x07", SCRIPT, "x" * 70_000, "\u202etxt", "a\nb", "", "\x00", "é" * 300),
    *("[]", "{}", "5", "NaN", '["\\u001b[2J"]', f'["{SCRIPT}"]', '{"n": 1e999}', '{"n": 10}'),
)


def prepare_report(folder: Path, is_small: bool) -> bytes:
    """Save a report."""
    import gibbs_dp as gdp

    rows = (
        {"gamma": 0.1, "on_average_kl": 1.5e-4, "on_average_kl_se": 2e-6, "estimator": "one-sided"},
        {"gamma": 9.0, "on_average_kl": 1.5, "on_average_kl_se": 0.02, "estimator": "two-sided"},
    )
    values = tuple({"on_average_kl": np.linspace(0.0, row["gamma"], 5)} for row in rows)
    gdp.Report(rows, {"n": 10}, ("a warning.",), ("a note",), values).save(folder / "report.nc")
    return (folder / "report.nc").read_bytes()


def prepare_draws(folder: Path, is_small: bool) -> bytes:
    """Save draws."""
    from gibbs_dp.sampling.draws import Draws

    draws, still = np.linspace(-1.0, 1.0, 20).reshape(2, 5, 2), np.zeros(2, bool)
    theta = {"a": draws, "b": draws[..., 0]}
    Draws(theta, draws[..., 0], 1.0 + still, still, 2.0, {"num_warmup": 5}).save(
        folder / "draws.nc"
    )
    return (folder / "draws.nc").read_bytes()


def prepare_one(folder: Path, is_small: bool) -> bytes:
    """Save a report on one posterior."""
    import gibbs_dp as gdp

    table = np.random.default_rng(0).normal(size=(2, 50, 5))
    gdp.audit_log_likelihood(table, 0.5, names=list("abcde")).save(folder / "one.nc")
    return (folder / "one.nc").read_bytes()


def prepare_foreign(folder: Path, is_small: bool) -> bytes:
    """Write what xarray writes of a sampled posterior, compressed."""
    import xarray as xr

    table = np.random.default_rng(1).normal(size=(2, 50, 5))
    held = xr.Dataset(
        {"y": (("chain", "draw", "obs"), table)}, {"obs": list("abcde"), "chain": [0, 1]}
    )
    path = folder / "fit.nc"
    settings = {"y": {"zlib": True, "shuffle": True, "fletcher32": True}}
    held.to_netcdf(path, group="log_likelihood", engine="h5netcdf", encoding=settings)
    return path.read_bytes()


def make(rng: Random, base: bytes) -> Case:
    """Harm the bytes, or edit the file with HDF5; a failed edit leaves what there was."""
    content = base
    if rng.randrange(5) < 2:
        held = io.BytesIO(base)
        try:
            with h5py.File(held, "r+") as file:
                for _ in range(rng.choice((1, 1, 2))):
                    _EDITS[rng.randrange(len(_EDITS))](rng, file)
            content = held.getvalue()
        except (OSError, ValueError, KeyError, TypeError, RuntimeError):
            content = harmed(rng, base)
        if rng.randrange(5):
            return Case(content, "f.nc")
    return Case(harmed(rng, content), "f.nc")


def judge_report(case: Case, folder: Path) -> bool:
    """Load a report, show it, and save it again."""
    import gibbs_dp as gdp

    found = gdp.load_report(_written(case, folder))
    gammas = [row["gamma"] for row in found.rows]
    again = folder / "again.nc"
    _shown(str(found), found._repr_html_())
    found.save(again)
    if [row["gamma"] for row in gdp.load_report(again).rows] != gammas and gammas == gammas:
        raise Failure("it is another report after it was saved again")
    return True


def judge_draws(case: Case, folder: Path) -> bool:
    """Load draws, and show them."""
    import gibbs_dp as gdp

    found = gdp.load_draws(_written(case, folder))
    if np.shape(found.log_density)[:1] != np.shape(found.accept_rate)[:1]:
        raise Failure("its draws do not fit together")
    _shown(repr(found), "")
    return True


def judge_one(case: Case, folder: Path) -> bool:
    """Load a report on one posterior, and show it."""
    import gibbs_dp as gdp

    found = gdp.load_one_dataset_report(_written(case, folder))
    _shown(str(found), found._repr_html_())
    return True


def judge_foreign(case: Case, folder: Path) -> bool:
    """Audit a posterior from a file; its numbers are below a checksum."""
    import gibbs_dp as gdp

    found = gdp.audit_inference_data(str(_written(case, folder)))
    _shown(str(found), found._repr_html_())
    return True


def _written(case: Case, folder: Path) -> Path:
    Path("secret").write_text(SECRET)  # where links of the file point: beside the program
    path = folder / case.name
    path.write_bytes(case.content)
    return path


def _shown(text: str, html: str) -> None:
    for line in text.splitlines():
        wrong = not_a_sentence(line) if line.strip() else ""
        if wrong and "characters" not in wrong:
            raise Failure(f"it is shown so that it {wrong}")
    if SECRET in text + html:
        raise Failure("it shows a line of another file")
    if SCRIPT in html:
        raise Failure("its page runs a program")


def _place(rng: Random, file: Any) -> Any:
    groups = [file, *(held for held in file.values() if isinstance(held, h5py.Group))]
    return groups[rng.randrange(len(groups))]


def _dataset(rng: Random, file: Any) -> tuple[Any, str]:
    place = _place(rng, file)
    names = [name for name, held in place.items() if isinstance(held, h5py.Dataset)]
    return place, names[rng.randrange(len(names))]


def _attribute(rng: Random, file: Any) -> None:
    owner = file if rng.randrange(2) else file[list(file)[rng.randrange(len(file))]]
    names = list(owner.attrs) or ["settings"]
    name = names[rng.randrange(len(names))]
    value: Any = rng.choice((*TEXTS, 5, np.nan, np.arange(3), np.zeros(0), b"\xff\xfe", True))
    if name in owner.attrs:
        del owner.attrs[name]
    if rng.randrange(6):
        owner.attrs[name] = value


def _settings(rng: Random, file: Any) -> None:
    """Put odd values into the JSON of an attribute."""
    names = [name for name in ("settings", "warnings", "notes") if name in file.attrs]
    name = names[rng.randrange(len(names))]
    held = json.loads(file.attrs[name])
    replaced(rng, held)
    if isinstance(held, list):
        held.append(rng.choice(TEXTS))
    text = json.dumps(held, default=str)
    file.attrs[name] = rng.choice(DEEP) if rng.randrange(15) == 0 else text[:60_000]


def _values(rng: Random, file: Any) -> None:
    place, name = _dataset(rng, file)
    shape = place[name].shape
    del place[name]
    values: Any = (
        *(np.full(shape, np.nan), np.full(shape, np.inf), np.full(shape, 1e308), np.zeros(shape)),
        *(
            np.zeros(shape, ">f4"),
            np.zeros(shape, "i8"),
            np.zeros(shape, "u1"),
            np.zeros(shape, "c16"),
        ),
        *(np.zeros((*shape, 2)), np.zeros(shape[1:]), np.zeros(0), "text", ["a", SCRIPT]),
        *(np.full(shape, -1.0), np.full(shape, b"\x1b[31m")),
    )
    place[name] = values[rng.randrange(len(values))]


def _rename(rng: Random, file: Any) -> None:
    place, name = _dataset(rng, file)
    names = (SCRIPT, "\x1b[31m", "a" * 3000, "..", "ü", "a_per_dataset", "x_curve_y", "row")
    place.move(name, names[rng.randrange(len(names))])


def _away(rng: Random, file: Any) -> None:
    place, name = _dataset(rng, file)
    del place[name]
    match rng.randrange(7):
        case 0:
            file_of = [("secret", 0, h5py.h5f.UNLIMITED)]
            place.create_dataset(name, (2,), "f8", external=file_of)
        case 1:
            place[name] = h5py.ExternalLink("/dev/zero", "y")
        case 2:
            place[name] = h5py.SoftLink("/")
        case 3:
            place.create_dataset(name, (10**9,), "f8", chunks=(10**6,), compression="gzip")
        case 4:
            place.create_dataset(name, (10**12,), "f8")
        case 5:
            place.create_dataset(name, (10**6,), h5py.string_dtype(length=8000))
        case _:
            place[name] = file["/"]


def _more(rng: Random, file: Any) -> None:
    place = _place(rng, file)
    for k in range(rng.choice((1, 20))):
        place[f"more {k}"] = rng.choice(ODD[10:16]) if rng.randrange(2) else np.arange(2.0)


_EDITS: tuple[Callable[[Random, Any], None], ...] = (
    *(_attribute, _settings, _values, _values, _rename, _away, _away, _more),
)
