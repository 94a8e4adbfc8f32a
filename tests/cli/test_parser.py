"""Natural mistakes on the command line: one line each, that says what to type instead."""

import sqlite3
import zipfile

import h5py
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gibbs_dp as gdp
from gibbs_dp._options import Option
from gibbs_dp.cli import COMMANDS
from gibbs_dp.cli.main import main
from gibbs_dp.cli.output import UsageError
from gibbs_dp.cli.parser import (
    Parser,
    add_options,
    is_meant_as_number,
    nearest,
    number_remedy,
    split_name,
)
from gibbs_dp.problems.registry import PROBLEMS

# Refused by the library, when the command line was understood.
STOP = ("--num-datasets", "0")
UNDERSTOOD = "num_datasets: must be an integer of at least 2, got 0"
MEAN = ("audit", "gaussian-mean")
ILL = ("audit", "--target", "ill")
RELEASE = ("release", "--data", "t.csv", "--target", "ill", "--label", "0", "1", "--ledger", "l")
RELEASE += ("--adjacency", "replace-one", "--pure-epsilon", "1")
EXCEL = "it is an Excel file; in Excel, Save As > CSV UTF-8"

CASES = [
    # Lists and repeated options.
    ((*MEAN, "--gammas", "0.1", "--gammas", "1", *STOP), UNDERSTOOD),
    ((*ILL, "t.csv", "--features", "age", "--features", "dose", *STOP), UNDERSTOOD),
    ((*MEAN, "--n", "10", "--n", "20"), "--n: it is given twice; give it once"),
    ((*MEAN, "--seed=1", "--seed", "2"), "--seed: it is given twice; give it once"),
    ((*MEAN, "--out", "a", "--out", "b"), "--out: it is given twice; give it once"),
    ((*ILL, "t.csv", "--data", "t.csv"), "--data: it is given twice, as 't.csv' too"),
    (("calibrate", "private-mean", "--pure-epsilon", "1", "--pure-epsilon", "2"), "given twice"),
    (("release", "--data", "a.csv", "--data", "b.csv"), "--data: it is given twice"),
    (("figure2", "--num-datasets", "4", "--num-datasets", "8"), "given twice"),
    # Numbers as some people write them.
    ((*MEAN, "--gammas", "0.1,1,10"), "separate numbers by spaces: 0.1 1 10."),
    (("audit", "--gammas", "0.1,1,10", "gaussian-mean"), "separate numbers by spaces: 0.1 1 10."),
    ((*MEAN, "--gammas=0.1,1"), "separate numbers by spaces: 0.1 1."),
    ((*MEAN, "--gammas", "[0.1,1]"), "separate numbers by spaces: 0.1 1."),
    ((*MEAN, "--gammas", "[0.1,", "1]"), "separate numbers by spaces: 0.1 1."),
    ((*MEAN, "--gammas", "0.1; 1"), "separate numbers by spaces: 0.1 1."),
    ((*MEAN, "--gammas", "0,5"), "0 5, or give a decimal point: 0.5."),
    ((*MEAN, "--prior-scale", "0,5"), "--prior-scale: '0,5' is not a number; give a decimal point"),
    ((*MEAN, "--n", "1,000"), "leave out the separators: 1000."),
    ((*MEAN, "--n", "10k"), "write it out: 10000."),
    ((*MEAN, "--n", "2.5"), "'2.5' is not a whole number; give a whole number."),
    ((*MEAN, "--n", "1e30"), "it is too large"),
    ((*MEAN, "--n", "50%"), "give a count"),
    ((*MEAN, "--rel-error", "5%"), "give the share: 0.05."),
    ((*MEAN, "--gammas", "1/2"), "write it out: 0.5."),
    ((*MEAN, "--gammas", "10^3"), "write it as 1e3."),
    ((*MEAN, "--n", "\u2212" + "5"), "type -5."),
    ((*MEAN, "--n", "\u201c100\u201d"), "type 100."),
    (
        (*RELEASE, "--range", "age", "\u22123", "3"),
        "--range: 'age' needs two numbers, got \u22123 3; type -3.",
    ),
    ((*MEAN, "--gammas", "\u20180.1\u2019"), "type 0.1."),
    ((*MEAN, "--n", "1e3", *STOP), UNDERSTOOD),
    ((*MEAN, "--n=100.0", *STOP), UNDERSTOOD),
    # Options.
    ((*MEAN, "--gamma=0.1"), "no option --gamma here; did you mean --gammas?"),
    (("sample", "gaussian-mean", "--gammas", "1"), "did you mean --gamma?"),
    ((*MEAN, "-n", "100"), "no option -n here; did you mean --n?"),
    ((*MEAN, "-o", "x"), "did you mean --out?"),
    ((*MEAN, "--num_datasets", "5"), "did you mean --num-datasets?"),
    ((*MEAN, "--datasets", "5"), "did you mean --num-datasets"),
    ((*MEAN, "--num-dataset", "5"), "did you mean --num-datasets?"),
    ((*MEAN, "--epsilon", "1"), "no option --epsilon here; gibbs-dp calibrate"),
    ((*MEAN, "--delta", "1"), "no option --delta here; gibbs-dp attack, gibbs-dp calibrate"),
    ((*MEAN, "--zzz"), "--help lists the options."),
    (("calibrate", "gaussian-mean", "--eps", "1"), "did you mean --epsilon?"),
    (("release", "--gammas", "1"), "no option --gammas here"),
    (("verify", "--jsn"), "no option --jsn here; did you mean --json?"),
    ((*MEAN, "\u2013n", "100"), "type --n."),
    ((*MEAN, "\u2014n", "100"), "type --n."),
    ((*MEAN, "\u201c--n\u201d", "100"), "type --n."),
    ((*MEAN, "--n", "=", "100"), "--n: leave out the spaces around '='"),
    ((*MEAN, "--n=", "100"), "--n: leave out spaces around '='"),
    ((*MEAN, "--out", "=", "x"), "--out: leave out the spaces around '='"),
    ((*MEAN, "--json", "true"), "--json: it takes no value; leave out 'true'."),
    ((*MEAN, "--json=true"), "--json: it takes no value; leave out 'true'."),
    ((*MEAN, "--json=false"), "--json: it takes no value; leave out --json."),
    ((*MEAN, "--float64", "1"), "--float64: it takes no value; leave out '1'."),
    ((*MEAN, "--num-datasets"), "give it as --num-datasets NUM_DATASETS."),
    # Names.
    (("audit", "gausian-mean"), "did you mean gaussian-mean?"),
    (("audit", "Gaussian_Mean"), "did you mean gaussian-mean?"),
    (("audit", "gaussian", "mean"), "did you mean gaussian-mean?"),
    (("audit", "help"), "'gibbs-dp audit --help' says"),
    (("audit", "0.1,1"), "give a number after its option"),
    (("audti", "gaussian-mean"), "did you mean 'gibbs-dp audit'?"),
    (("AUDIT",), "did you mean 'gibbs-dp audit'?"),
    (("gaussian-mean",), "did you mean 'gibbs-dp audit gaussian-mean'?"),
    (("t.csv", "--target", "ill"), "did you mean 'gibbs-dp audit t.csv'?"),
    (("help", "audt"), "did you mean 'audit'?"),
    (("-v",), "did you mean --version?"),
    (("--n", "100", "gaussian-mean"), "choose one of demo, audit"),
    (("figure2", "gaussian-mean"), "'gibbs-dp figure2' takes options only"),
    ((*ILL[:1], "t.csv", "--target", "Ill"), "did you mean 'ill'? It has age, dose, ill."),
    ((*ILL, "t.csv", "--features", "agee"), "did you mean 'age'?"),
    (("audit", "t.csv"), "target: table needs it (column to predict); give target= (--target)."),
    # Files.
    ((*ILL, "absent.csv"), "no file 'absent.csv'; give the path of one"),
    ((*ILL, "tt.csv"), "no file 'tt.csv'; did you mean 't.csv'?"),
    ((*ILL, "nowhere/t.csv"), "no folder 'nowhere' either"),
    ((*ILL, "folder"), "'folder' is a folder; give the path of one file in it."),
    (("audit", "result.nc"), "gibbs-dp audit --idata result.nc"),
    (("sample", "result.nc"), "'gibbs-dp result.nc' says what may be done"),
    (("audit", "mine.py"), "give --with mine.py, and the name"),
    (("audit", "store"), "'gibbs-dp merge store' makes its report"),
    (("merge", "t.csv"), "'t.csv' is no store"),
    ((*ILL, "t.txt", *STOP), UNDERSTOOD),
    ((*ILL, "t.csv.gz", *STOP), UNDERSTOOD),
    ((*ILL, "t.xlsx"), EXCEL),
    ((*ILL, "--data", "t.xls"), EXCEL),
    ((*ILL, "renamed.csv"), EXCEL),
    ((*ILL, "t.pkl"), "it is a pickle; save the table as CSV"),
    ((*ILL, "t.json"), "it is a JSON file; save the table as CSV (in Python: pandas.read_json"),
    ((*ILL, "t.jsonl"), "it is a JSON file"),
    ((*ILL, "t.html"), "it is a page of HTML"),
    ((*ILL, "t.dat"), "is a Parquet file; let its name end in .parquet"),
    ((*ILL, "--data", "t.h5"), "it is an HDF5 or NetCDF file"),
    ((*ILL, "t.npy"), "it is an array that NumPy saved"),
    ((*ILL, "t.npz"), "it is arrays that NumPy saved"),
    ((*ILL, "t.db"), "it is a database"),
    ((*ILL, "t.dta"), "it is a Stata file"),
    ((*ILL, "wide.csv"), "it is in UTF-16 (Excel's 'Unicode text'); save it as CSV UTF-8."),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(20, 60, 30), "dose": rng.normal(size=30)})
    frame["ill"] = rng.integers(0, 2, 30)
    for name in ("t.csv", "t.txt", "t.csv.gz"):
        frame.to_csv(folder / name, index=False)
    frame.to_csv(folder / "wide.csv", index=False, encoding="utf-16")
    frame.to_parquet(folder / "t.dat")
    frame.to_pickle(folder / "t.pkl")
    frame.to_json(folder / "t.json")
    frame.to_json(folder / "t.jsonl", orient="records", lines=True)
    frame.to_html(folder / "t.html")
    frame.to_stata(folder / "t.dta")
    np.save(folder / "t.npy", frame.to_numpy())
    np.savez(folder / "t.npz", frame.to_numpy())
    for name in ("t.xlsx", "renamed.csv"):
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr("[Content_Types].xml", "<x/>")
            archive.writestr("xl/workbook.xml", "<x/>")
    (folder / "t.xls").write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(range(256)))
    with h5py.File(folder / "t.h5", "w") as file:
        file["a"] = np.zeros(3)
    connection = sqlite3.connect(folder / "t.db")
    connection.execute("create table t (age, ill)")
    connection.commit()
    connection.close()
    (folder / "folder").mkdir()
    (folder / "store").mkdir()
    (folder / "store" / "request.json").write_text("{}")
    return folder


@pytest.mark.parametrize(("words", "told"), CASES, ids=[" ".join(words) for words, _ in CASES])
def test_a_mistake_is_told_with_its_remedy(words, told, files, capsys, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    monkeypatch.chdir(files)
    assert main(words) == 2
    out, error = capsys.readouterr()
    assert out == ""
    *_, line = error.splitlines()  # after notes on a table
    assert line.startswith("gibbs-dp: error: ")
    assert told in line
    assert len(line) < 400


def test_python_is_told_the_same_of_a_file(files):
    for name in ("t.xlsx", "renamed.csv"):
        with pytest.raises(ValueError, match=r"it is an Excel file.*pandas\.read_excel"):
            gdp.problems.build_problem("table", data=files / name, target="ill")
    schema = gdp.privacy.Schema({"age": gdp.privacy.Range(0.0, 100.0)})
    with pytest.raises(ValueError, match="it is an Excel file"):
        gdp.privacy.read_table(files / "renamed.csv", schema)


@pytest.mark.parametrize(
    "header", ["[age],[ill]", "{age},ill", "<5,ill", "CDF,ORC", "PAR1,ill", "PK,ill", "%PDF,ill"]
)
def test_a_header_that_looks_odd_is_one(header, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(header + "\n" + "1,0\n2,1\n" * 9)
    target = header.partition(",")[2]
    assert f" of {target} on 1 " in (
        gdp.problems.build_problem("table", data=path, target=target).description
    )


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_lists_in_pieces_are_lists(numbers):
    """However the numbers are spread over repeated options."""
    option = Option("gammas", "float", "", is_list=True)
    words = [word for number in numbers for word in ("--gammas", repr(number))]
    parser = Parser()
    add_options(parser, [option], "all")
    name, rest = split_name(["problem", *words], [option])
    assert name == "problem"
    assert parser.parse_args(rest).gammas == numbers


@given(st.lists(st.integers(-(10**6), 10**6), min_size=2, max_size=4), st.sampled_from(",;"))
def test_lists_with_separators_are_told_with_spaces(numbers, mark):
    word = mark.join(map(str, numbers))
    told = number_remedy(word, "float", is_list=True)
    assert told.startswith("; separate numbers by spaces: " + " ".join(map(str, numbers)))
    assert is_meant_as_number(word)


def test_no_name_is_taken_for_a_number():
    assert not [name for name in (*PROBLEMS, *COMMANDS) if is_meant_as_number(name)]
    for command in COMMANDS:
        assert nearest(command, COMMANDS) == command


OPTIONS = (
    Option("gammas", "float", "", is_list=True),
    Option("features", "str", "", is_list=True),
    Option("out", "str", ""),
    Option("json", "flag", ""),
)


@pytest.mark.parametrize(
    "words",
    [
        ["mean", "--gammas", "0.1", "1"],
        ["--gammas", "0.1", "1", "mean"],
        ["--json", "mean", "--gammas", "0.1", "1"],
        ["--out", "mean", "mean"],
        ["--gammas=1", "mean"],
        ["--gammas", "-1", "nan", "1e-3", "mean"],
        ["mean", "--features", "a", "b"],
    ],
)
def test_the_name_is_found_wherever_it_stands(words):
    name, rest = split_name(words, OPTIONS)
    at = len(words) - 1 - words[::-1].index("mean")
    assert name == "mean"
    assert rest == words[:at] + words[at + 1 :]


def test_there_may_be_no_name():
    assert split_name(["--features", "a", "b", "--json"], OPTIONS)[0] is None


def test_two_names_are_refused():
    with pytest.raises(UsageError, match="'b' is unexpected after 'a'"):
        split_name(["a", "--json", "b"], OPTIONS)
    with pytest.raises(UsageError, match="'linear-regression' is unexpected after 'a'"):
        split_name(["a", "--gammas", "0.1", "linear-regression"], OPTIONS)


def test_a_word_among_numbers_is_no_second_name():
    with pytest.raises(UsageError, match="--gammas: 'b' is not a number; give one"):
        split_name(["a", "--gammas", "0.1", "b"], OPTIONS)
