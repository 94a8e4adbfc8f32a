"""All kinds of input."""

from __future__ import annotations

from fuzzing import (
    command_lines,
    guarantees,
    ledgers,
    netcdf,
    parquet,
    private_tables,
    stores,
    tables,
)
from fuzzing.verdict import Format

FORMATS: dict[str, Format] = {
    "CSV": Format(tables.prepare, tables.make, tables.judge, 0.2),
    "Parquet": Format(parquet.prepare, parquet.make, parquet.judge, 0.12),
    "private CSV": Format(private_tables.prepare, private_tables.make, private_tables.judge, 0.1),
    "stores": Format(stores.prepare, stores.make, stores.judge, 0.1),
    "reports": Format(netcdf.prepare_report, netcdf.make, netcdf.judge_report, 0.08),
    "draws": Format(netcdf.prepare_draws, netcdf.make, netcdf.judge_draws, 0.08),
    "reports on one posterior": Format(netcdf.prepare_one, netcdf.make, netcdf.judge_one, 0.04),
    "others' draws": Format(netcdf.prepare_foreign, netcdf.make, netcdf.judge_foreign, 0.04),
    "ledgers": Format(ledgers.prepare, ledgers.make, ledgers.judge, 0.08),
    "guarantees": Format(guarantees.prepare, guarantees.make, guarantees.judge, 0.04),
    "command lines": Format(command_lines.prepare, command_lines.make, command_lines.judge, 0.12),
}
