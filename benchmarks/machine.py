"""What a benchmark ran on, and where its figures go."""

from __future__ import annotations

import json
import math
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("gibbs-dp", "jax", "jaxlib", "numpyro", "blackjax", "numpy")


def describe():
    """Processor, cores, devices and versions."""
    import jax

    import gibbs_dp

    versions = {"gibbs-dp": gibbs_dp.__version__}
    for name in PACKAGES[1:]:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "devices": [device.device_kind for device in jax.devices()],
        "python": platform.python_version(),
        "versions": versions,
    }


def _processor():
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _path(name, out):
    folder = RESULTS if out is None else Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.json"


def rows_of_others(name, column, values, out=None):
    """Rows of an earlier run, but for those that this one measures again.

    A row of another processor says so: that of the file is the latest run's.
    """
    path = _path(name, out)
    if not path.exists():
        return []
    found = json.loads(path.read_text())
    before, now = found["machine"]["processor"], _processor()
    said = {"processor": before} if before != now else {}
    return [said | _numbers(row) for row in found["rows"] if row[column] not in values]


def settings_of_others(name, out=None):
    """Return settings of an earlier run; empty where there was none."""
    path = _path(name, out)
    return json.loads(path.read_text())["settings"] if path.exists() else {}


def _numbers(row):
    return {k: float(v) if v in ("inf", "-inf", "nan") else v for k, v in row.items()}


def save(name, rows, settings, out=None):
    """Write rows, settings and machine as JSON; return the path."""
    path = _path(name, out)
    found = {"machine": describe(), "settings": settings, "rows": rows}
    text = json.dumps(_plain(found), indent=1, allow_nan=False)
    path.write_text(text + "\n")
    return path


def _plain(value):
    """Numbers, strings and containers of them as JSON can hold them; infinity is a string."""
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    number = float(value)
    return number if math.isfinite(number) else str(number)


def show(rows):
    """Print rows as a table."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_cell(row.get(name)) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    for line in [names, *cells]:
        print("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))


def _cell(value):
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
