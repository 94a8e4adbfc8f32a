import math

import pytest

from gibbs_dp import io


def test_rows_of_a_csv_file_keep_infinity_and_leave_gaps(tmp_path):
    path = tmp_path / "rows.csv"
    io.save_rows(path, [{"a": 1.5, "b": math.inf}, {"a": None, "c": "x, y"}])
    assert path.read_text() == 'a,b,c\n1.5,inf,\n,,"x, y"\n'


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(OSError, match="missing"):
        io.save_rows(tmp_path / "missing" / "rows.csv", [{"a": 1}])
    assert not list(tmp_path.iterdir())
