"""``--exposure``: the rows of a file by their numbers there, in JSON and in files."""

import numpy as np
import pandas as pd
import pytest


@pytest.mark.trust
def test_rows_of_a_file_are_listed_and_saved(run, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    frame = pd.DataFrame({"x": x, "y": x + rng.normal(size=40)})
    frame.loc[[3, 20], "x"] = np.nan
    frame.loc[30, "y"] = 12.0
    path, out = tmp_path / "t.csv", tmp_path / "out"
    frame.to_csv(path, index=False)
    words = ("--data", path, "--target", "y", "--loss", "squared", "--missing", "drop", "--n", 10)
    words += ("--gammas", 0.1, "--num-datasets", 64, "--num-information", 0)
    ran = run("audit", *words, "--exposure", "--json", "--out", out)
    assert ran.status == 0
    (row,) = ran.rows
    assert len(row["exposure"]) == 10
    assert row["exposure"][0]["row"] == 30
    saved = pd.read_csv(out / "exposure.csv")
    assert sorted(saved["row"]) == sorted(set(range(40)) - {3, 20})
    assert list(saved["row"][:10]) == [found["row"] for found in row["exposure"]]
    names = {"audit.nc", "audit.png", "audit.svg", "exposure.csv", "exposure.png", "exposure.svg"}
    assert {p.name for p in out.iterdir()} == names


def test_what_is_no_table_is_refused(run):
    ran = run("audit", "gaussian-mean", "--exposure")
    assert ran.status == 2
    assert "exposure: only rows of a table can be told apart" in ran.err
