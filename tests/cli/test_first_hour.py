"""Mistakes of a first hour with a table: one sentence with the remedy, status 2, nothing lost."""

import h5py
import numpy as np
import pandas as pd
import pytest

import gibbs_dp as gdp
from gibbs_dp.cli.main import main

ILL = "audit patients.csv --target ill"
PRIVATE = "--target ill --ledger study.ledger --adjacency replace-one"
RELEASE = f"release --data patients.csv {PRIVATE}"
MEAN = "calibrate private-mean --adjacency replace-one"

# What is typed, and what the one line on stderr must hold.
MISTAKES = {
    # Finding the door.
    "adit patients.csv": "did you mean 'gibbs-dp audit'?",
    "patients.csv --target ill": "did you mean 'gibbs-dp audit patients.csv'?",
    "version": "did you mean 'gibbs-dp --version'?",
    "-h nonsense": "choose one of demo, audit",
    "nonsense -h": "choose one of demo, audit",
    "audit nonsense --help": "choose one of private-mean, linear-regression",
    "help me": "'gibbs-dp --help' lists commands.",
    "audit linear regression": "did you mean linear-regression?",
    # Naming the table and its column.
    "audit data.csv": "--data: there is no file 'data.csv'; did you mean 'date.csv'?",
    "audit patients.csv": "give target= (--target).",
    "audit patients.csv ill": "did you mean --target ill?",
    "audit patients.csv four.csv --target ill": "give one file.",
    "audit patients.csv --target Il": "did you mean 'ill'? It has age, dose, city, admitted, ill.",
    "audit patients.csv --label ill": "did you mean --target?",
    "audit patients.csv --y ill": "did you mean --target?",
    "audit patients.csv --target": "--target: give it as --target COLUMN.",
    "audit results --target ill": "data: 'results' is a folder; give the path of one file in it.",
    "audit https://example.org/patients.csv --target ill": "download it first, and give its path",
    "audit excel.xlsx --target ill": "in Excel, Save As > CSV UTF-8",
    "audit noname.csv --target ill": "the first line must hold the names of the columns",
    "audit empty.csv --target ill": "data: the file 'empty.csv' is empty.",
    "audit header.csv --target ill": "the table has no rows; give at least two.",
    "audit one.csv --target ill": "the table has one row; give at least two.",
    "audit twice.csv --target ill": "two columns are called 'age'; rename one.",
    "audit semicolon.csv --target ill": "give sep=';' (--sep ';').",
    "audit decimal.csv --target ill --sep ;": "give decimal=',' (--decimal ,)",
    "audit ragged.csv --target ill": "line 3 has 3 cells where the others have 2; quote cells",
    "audit nan.csv --target ill": "(--missing drop), fill the values in",
    "audit date.csv --target ill": "(--date admitted YYYY-MM-DD, and --date-format where",
    f"{ILL} --date admitted": "--date: give it as --date COLUMN DAY.",
    f"{ILL} --date-format DD/MM/YYYY": "name one (--date COLUMN DAY), or leave it.",
    f"{ILL} --features age,dose": "give several apart: age dose.",
    f"{ILL} --features": "--features: give it as --features COLUMN [COLUMN ...].",
    "audit four.csv --target ill --loss logistic": "recode it, or use another loss.",
    "audit patients.csv --target city --loss squared": "use the logistic or softmax loss.",
    f"{ILL} --loss logit": "did you mean logistic?",
    # Options.
    f"{ILL} --gama 1": "did you mean --gammas?",
    f"{ILL} --gamma=1,2": "did you mean --gammas?",
    f"{ILL} --gammas 1,2": "separate numbers by spaces: 1 2",
    f"{ILL} --gammas -1": "gammas: -1 is not a finite number >= 0.",
    f"{ILL} --epsilon 1": "gibbs-dp calibrate, gibbs-dp release or gibbs-dp ledger has it.",
    f"{ILL} --seed abc": "'abc' is not a whole number; give one.",
    f"{ILL} --output results": "did you mean --out?",
    f"{ILL} --delimiter ;": "did you mean --sep?",
    f"{ILL} --out patients.csv": "give a folder that you may write to",
    f"{ILL} --html page": "let it end in .html.",
    "sample gaussian-mean --gamma 1 2": "--gamma: it takes one number; leave out 2.",
    # What was saved.
    "show patients.csv": "'gibbs-dp audit patients.csv --target COLUMN --out results' makes one.",
    "compare audit.nc patients.csv": "'patients.csv' is a table, and no saved result",
    "show audit": "did you mean 'audit.nc'?",
    "show results": "'results' is a folder; did you mean 'results/inner.nc'?",
    "show other.nc": "draws of PyMC and Stan are audited by 'gibbs-dp audit --idata other.nc'.",
    "audit audit.nc": "'gibbs-dp audit.nc' says what may be done with what gibbs-dp saved.",
    "plot audit.nc --format jpg": "choose from",
    "plot audit.nc --out p.png --format svg": "'p.png' is no name of svg; leave one.",
    "export audit.nc": "--to: say for what: csv, json, latex or xlsx.",
    "export audit.nc --to csv --out results": "'results' is a folder; name a file in it.",
    "explore audit.nc --out page": "let it end in .html.",
    "predict patients.csv audit.nc": "is no release.json of 'gibbs-dp release'",
    # Privacy.
    f"{MEAN} --epsilon 0 --delta 1e-5": "pass a value above 0.",
    f"{MEAN} --epsilon 1 --delta 2": "delta must lie in (0, 1), got 2.0",
    "calibrate private-mean --pure-epsilon 1 --adjacency replace": "did you mean replace-one?",
    "release patients.csv --target ill": "did you mean --data patients.csv?",
    "release --data patients.csv --target ill": "'gibbs-dp ledger create --ledger FILE",
    f"{RELEASE} --pure-epsilon 1 --label no yes": "so give --range COLUMN LOW HIGH",
    f"{RELEASE} --pure-epsilon 1 --range age 0 99": "give --label ZERO ONE",
    f"{RELEASE} --label no yes --range age 0 99": "--pure-epsilon: say how private the draws are",
    f"{RELEASE} --epsilon 1 --label no yes --range age 0 99": "--delta: give it with --epsilon",
    "ledger create new.ledger": "did you mean create --ledger new.ledger?",
    "ledger create --ledger study.ledger --epsilon 1 --adjacency add-remove": "never overwritten",
    "attack --guarantee audit.nc": "--guarantee: 'audit.nc' is no text; name a JSON file.",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder as a new user may have it."""
    folder = tmp_path_factory.mktemp("home")
    rng = np.random.default_rng(0)
    days = pd.date_range("2020-01-01", periods=40)
    table = pd.DataFrame(
        {
            "age": rng.integers(20, 60, 40),
            "dose": rng.normal(size=40).round(3),
            "city": list("abcd") * 10,
            "admitted": rng.permutation(days.strftime("%Y-%m-%d")),
            "ill": ["no", "yes"] * 20,
        }
    )
    written = {
        "patients": table,
        "four": table.assign(ill=list("abcd") * 10),
        "header": table.iloc[:0],
        "one": table.iloc[:1],
        "nan": table.assign(dose=[np.nan] * 3 + [1.0, 2.0] * 18 + [3.0]),
        "date": table.assign(admitted=[f"{1 + k % 12}/{1 + k % 11}/2020" for k in range(40)]),
    }
    for name, frame in written.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    table.to_csv(folder / "noname.csv", index=False, header=False)
    table.to_csv(folder / "semicolon.csv", index=False, sep=";")
    table.to_csv(folder / "decimal.csv", index=False, sep=";", decimal=",")
    (folder / "empty.csv").touch()
    (folder / "twice.csv").write_text("age,age,ill\n1,2,yes\n3,4,no\n")
    (folder / "ragged.csv").write_text("age,ill\n1,yes\n2,no,3\n")
    (folder / "excel.xlsx").write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(99))
    with h5py.File(folder / "other.nc", "w") as file:
        file["x"] = np.zeros(3)
    row = {"gamma": 1.0, "n": 5, "on_average_kl": 0.5, "on_average_kl_se": 0.1, "dp_epsilon": 2.0}
    report = gdp.Report((row, row | {"gamma": 2.0}), {"n": 5, "loss": "squared"})
    (folder / "results").mkdir()
    for name in ("audit.nc", "results/inner.nc"):
        report.save(folder / name)
    gdp.Ledger.create(folder / "study.ledger", adjacency="replace-one", epsilon=1.0)
    return folder


def state(folder):
    """Every file and what it holds."""
    return {p: p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


@pytest.mark.parametrize("typed", MISTAKES)
def test_a_mistake_is_told_with_its_remedy(typed, files, capsys, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    monkeypatch.chdir(files)
    before = state(files)
    assert main(typed.split()) == 2
    out, error = capsys.readouterr()
    assert out == ""
    *_, line = error.splitlines()  # after notes on a table
    assert line.startswith("gibbs-dp: error: ")
    assert MISTAKES[typed] in line
    assert len(line) < 420
    assert state(files) == before


def test_a_picture_has_the_name_that_it_is_given(files, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["plot", str(files / "audit.nc"), "--out", "new/mine.pdf"]) == 0
    assert capsys.readouterr().out == "saved new/mine.pdf\n"
    assert (tmp_path / "new" / "mine.pdf").read_bytes().startswith(b"%PDF")


def test_days_are_found_where_one_spelling_has_one_meaning(files, capsys, monkeypatch):
    """The audit stops at its counts; the notes on the table come before."""
    monkeypatch.chdir(files)
    asked = ["audit", "patients.csv", "--target", "ill", "--num-datasets", "0"]
    assert main(asked) == 2
    assert "column 'admitted' is days since 2020-01-01." in capsys.readouterr().err
    assert main([*asked, "--date", "admitted", "2019-01-01"]) == 2
    assert "column 'admitted' is days since 2019-01-01." in capsys.readouterr().err
    assert main([*asked, "--categorical", "admitted"]) == 2
    assert "days since" not in capsys.readouterr().err
