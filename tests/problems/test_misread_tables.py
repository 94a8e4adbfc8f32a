"""Tables that were read as something else than they say: refused now, or read rightly."""

import numpy as np
import pandas as pd
import pytest

from gibbs_dp.io.files import printable, shown
from gibbs_dp.io.text_tables import PLAIN
from gibbs_dp.problems.table import table

RNG = np.random.default_rng(3)
A, Y = RNG.normal(size=300), RNG.normal(size=300)


def written(path, header, rows):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def design(source, **options):
    return np.asarray(table(source, "y", loss="squared", **options).population.data[0])


@pytest.mark.parametrize("row", [0, 250])
def test_a_line_with_more_cells_than_the_header_is_refused_wherever_it_is(tmp_path, row):
    """A decimal comma in line 250 made 12,5 two cells, and the 5 was the target."""
    rows = list(zip(A, Y, strict=True))
    rows[row] = (12, 5, 1.5)
    with pytest.raises(
        ValueError,
        match=r"line 2(52)? has 3 cells where the others have 2|more cells than its header",
    ):
        design(written(tmp_path / "t.csv", "a,y", rows))


@pytest.mark.parametrize("extra", ["names", "ends"])
def test_names_of_rows_without_a_header_are_refused(tmp_path, extra):
    """As R's write.table writes them: the header is one name short."""
    rows = [
        (k, a, y) if extra == "names" else (a, y, "")
        for k, (a, y) in enumerate(zip(A, Y, strict=True))
    ]
    with pytest.raises(
        ValueError, match=r"has 3 cells where the others have 2|have more cells than its"
    ):
        design(written(tmp_path / "t.csv", "a,y", rows))


def test_two_columns_of_one_name_are_refused(tmp_path):
    with pytest.raises(ValueError, match="two columns are called 'a'"):
        design(written(tmp_path / "t.csv", "a,a,y", zip(A, A, Y, strict=True)))


@pytest.mark.parametrize("add", [2**63, 2**64, 10**20, -(10**20)])
def test_whole_numbers_beyond_64_bits_are_numbers(tmp_path, add):
    """They became a category each, without a word."""
    step = max(abs(add) // 10**9, 1)
    whole = [add + step * (k % 7) for k in range(300)]
    path = written(tmp_path / "t.csv", "a,y", zip(whole, Y, strict=True))
    expected = design(pd.DataFrame({"a": np.array(whole, float), "y": Y}))
    assert expected.shape == (300, 2)
    np.testing.assert_allclose(design(path), expected, rtol=1e-4)


@pytest.mark.parametrize("scale", [1e300, 1e200, 1e-320, 1e-200])
def test_a_spread_beyond_double_precision_is_refused_by_the_name_of_its_column(tmp_path, scale):
    with pytest.raises(ValueError, match="the numbers of column 'a' are too large or too close"):
        design(pd.DataFrame({"a": A * scale, "y": Y}))


def test_messages_hold_no_commands_of_terminals(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a\x1b[2J,b\x00\n1,2\n")
    with pytest.raises(ValueError, match="there is no column 'y'") as caught:
        design(path)
    assert str(caught.value).isprintable()
    assert printable("a\x1b\u202e\ud800\n") == "a\\x1b\\u202e\\ud800\n"
    assert shown("x" * 300, 5) == "xxxxx..."


def test_long_names_and_numbers_cost_nothing(tmp_path):
    with pytest.raises(ValueError, match="a column's name has 5000 characters"):
        design(written(tmp_path / "t.csv", "x" * 5000 + ",y", zip(A, Y, strict=True)))
    assert PLAIN.plain("9" * 5000) is None


def test_a_page_whose_checksum_is_wrong_is_refused(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    pq.write_table(
        pa.table({"a": A, "y": Y}),
        path,
        compression="none",
        use_dictionary=False,
        write_page_checksum=True,
    )
    plain = path.read_bytes()
    at = plain.index(A[100].tobytes())
    design(path)
    path.write_bytes(plain[: at + 6] + bytes([plain[at + 6] ^ 4]) + plain[at + 7 :])
    with pytest.raises(ValueError, match="cannot be read as a Parquet table"):
        design(path)


@pytest.mark.parametrize("first", ["950", "1.250"])
def test_points_between_groups_of_digits_are_no_decimal_marks_in_any_order(tmp_path, first):
    """A column that began with a whole number was read with points as decimal marks."""
    cells = [first, *(["950", "1.250", "3.500", "12.400"] * 10)]
    rows = [f"{cell};{k % 3}" for k, cell in enumerate(cells)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["price;y", *rows]) + "\n")
    truth = np.array([float(cell.replace(".", "")) for cell in cells])
    found = table(path, "y", decimal=",", thousands=".").population.data[0][:, 1]
    np.testing.assert_allclose(found, (truth - truth.mean()) / truth.std(), rtol=1e-6)
    with pytest.raises(ValueError, match=r"give thousands='\.' \(--thousands \.\)"):
        table(path, "y", decimal=",")


@pytest.mark.parametrize("odd", ["yes ", " "])
def test_blanks_make_no_third_class(tmp_path, odd):
    """The loss was softmax, of three classes, where two had a blank behind or a cell was one."""
    y = np.where(A > 0, "yes", "no").astype(object)
    y[5] = odd
    path = written(tmp_path / "t.csv", "a,y", zip(A, y, strict=True))
    for source in (path, pd.DataFrame({"a": A, "y": y})):
        assert table(source, "y", missing="drop").posterior.loss.name == "logistic"
    numbers = Y.astype(str).astype(object)
    numbers[7] = " "
    path = written(tmp_path / "n.csv", "a,y", zip(A, numbers, strict=True))
    found = table(path, "y", missing="drop")
    assert found.posterior.loss.name == "squared"
    assert len(found.population.data[1]) == 299


@pytest.mark.parametrize("has_holes", [False, True])
def test_flags_are_not_the_numbers_that_mean_missing(tmp_path, has_holes):
    """False is 0 for Python, and all rows with it were dropped."""
    flag = [None if has_holes and k == 9 else k % 3 == 0 for k in range(300)]
    frame = pd.DataFrame({"a": np.where(np.arange(300) % 10, A, 0), "flag": flag, "y": Y})
    frame.to_csv(tmp_path / "t.csv", index=False)
    for source in (tmp_path / "t.csv", frame):
        found = table(source, "y", loss="squared", na_values=["0"], missing="drop")
        assert len(found.population.data[1]) == 270 - has_holes


def test_a_column_without_a_name_is_a_feature_unless_it_is_the_first(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"{a},{k % 7}.0,{k % 2}" for k, a in enumerate(A)]
    path.write_text("\n".join(["a,,y", *rows]) + "\n")
    found = table(path, "y")
    assert found.population.data[0].shape == (300, 3)
    assert found.notes == ("target 'y': 0 -> 0, 1 -> 1.",)


def test_row_names_of_several_levels_are_no_features(tmp_path):
    """Pandas writes those without a name first, and of Parquet files last."""
    index = pd.MultiIndex.from_arrays([np.arange(300), np.arange(300) % 7])
    frame = pd.DataFrame({"a": A, "y": Y}, index=index)
    frame.to_csv(tmp_path / "t.csv")
    assert design(tmp_path / "t.csv").shape == (300, 2)
    plain = frame.reset_index(drop=True).assign(__index_level_0__=np.arange(300))
    assert design(plain).shape == (300, 2)
