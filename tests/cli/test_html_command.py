"""``--html`` of commands: where it is written, when it is refused, and what is in it."""

from pathlib import Path

import numpy as np
import pytest
from html_pages import seen

import gibbs_dp as gdp

AUDIT = (
    *("audit", "linear-regression", "--theta-bound", 2, "--n", 20, "--gammas", 1),
    *("--num-datasets", 32, "--num-information", 0, "--num-warmup", 30, "--num-samples", 10),
)
EVIL = "<script>alert(1)</script>"
REPLACE = ("--adjacency", "replace-one")
SECRET = "31337.25"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def page(path):
    return seen(Path(path).read_text(encoding="utf-8"))


@pytest.mark.trust
def test_an_audit_writes_its_page_beside_what_it_prints(run, here):
    ran = run(*AUDIT, "--html", "new/folder/audit.html")
    assert ran.status == 0
    assert ran.out.splitlines()[-1] == "saved new/folder/audit.html"
    found = page("new/folder/audit.html")
    assert found.headings[0] == "Audit of linear-regression"
    assert found.verdict.startswith("One draw gives away 0.0")
    assert found.verdict.endswith("; the worst case allows 32.")
    assert "y = x + noise, both uniform on (-1, 1)" in found.text
    assert found.tags.count("svg") >= 2


@pytest.mark.trust
def test_a_hostile_table_is_text_on_every_page(run, here):
    rng = np.random.default_rng(3)
    rows = [f'{x:.3f},"{EVIL}{i % 2}",{"yn"[i % 3 > 0]}' for i, x in enumerate(rng.normal(size=60))]
    name = "$x_{&lt;b&gt;.csv"
    Path(name).write_text("\n".join([f'"{EVIL}",level,"{EVIL}y"', *rows]))
    table = ("--data", name, "--target", f"{EVIL}y")
    few = ("--num-warmup", 20, "--num-samples", 10)
    counts = ("--gammas", 1, "--num-datasets", 32, "--num-information", 0, *few)
    assert run("audit", *table, *counts, "--html", "a.html", "--out", "a").status == 0
    found = page("a.html")
    assert found.headings[0] == "Audit of $x_{&lt;b&gt;"
    assert f"of {EVIL}y on 2 features." in found.text
    assert sorted(p.name for p in Path("a").iterdir()) == ["audit.nc", "audit.png", "audit.svg"]
    assert run("sample", *table, "--num-samples", 30, "--html", "s.html").status == 0
    assert f"target '{EVIL}y': n -> 0, y -> 1." in page("s.html").text


def test_a_file_of_draws_has_a_page_and_json_stays_json(run, here):
    file = Path(__file__).parents[1] / "one_dataset" / "pymc.nc"
    ran = run("audit", "--idata", file, "--json", "--html", "i.html")
    assert [row["n"] for row in ran.rows] == [12]
    found = page("i.html")
    assert found.headings[0] == "Audit of pymc.nc"
    assert str(file.parent) not in found.text


def refused(run, *words):
    ran = run(*words)
    assert (ran.status, ran.out) == (2, "")
    return ran.error


COMMANDS = {
    "audit": AUDIT,
    "sample": ("sample", "gaussian-mean"),
    "idata": ("audit", "--idata", "no.nc"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_bad_path_is_refused_in_a_sentence_before_the_work(run, here, monkeypatch, command):
    words = COMMANDS[command]
    Path("file").touch()
    Path("d.html").mkdir()
    table = Path("patients.csv")
    table.write_text("kept")

    def fail(*_, **__):
        raise AssertionError

    monkeypatch.setattr("gibbs_dp.cli.audit.make_problem", fail)
    monkeypatch.setattr("gibbs_dp.cli.sample.make_problem", fail)
    told = refused(run, *words, "--html", "patients.csv")
    assert told == "--html: 'patients.csv' is no name of a page; let it end in .html."
    assert table.read_text() == "kept"
    assert refused(run, *words, "--html", "d.html").startswith("--html: 'd.html' is a folder")
    told = refused(run, *words, "--html", "file/a.html")
    assert told.startswith("--html: cannot write 'file/a.html' (")
    assert told.endswith("give a file in a folder that you may write to.")


@pytest.mark.trust
def test_a_disk_that_is_full_at_the_end_is_told_with_what_is_finished(run, here, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gibbs_dp.io.files.os.fsync", full)
    ran = run("sample", "gaussian-mean", "--num-samples", 50, "--html", "a.html")
    assert ran.status == 2
    assert "theta" in ran.out
    assert ran.error == (
        "--html: cannot write 'a.html' (No space left on device); everything else is finished and "
        "printed above."
    )
    assert list(here.iterdir()) == []


@pytest.mark.trust
def test_processes_that_share_a_store_make_no_page_and_merge_does(run, here):
    store = ("--store", "s", "--num-processes", 2, "--process-id", 0)
    told = refused(run, *AUDIT, *store, "--html", "a.html")
    assert told.startswith("--html: none of several processes makes the report; leave it out and ")
    assert told.endswith("run 'gibbs-dp merge s --html a.html' at the end.")
    assert run(*AUDIT, "--store", "t", "--html", "a.html").status == 0
    assert "html" not in Path("t/request.json").read_text()
    assert run("merge", "t", "--html", "b.html").status == 0
    assert Path("a.html").read_bytes() == Path("b.html").read_bytes()


RELEASE = (
    *("release", "--data", "t.csv", "--target", "ill", *REPLACE, "--ledger", "l", "--pure-epsilon"),
    *(1, "--theta-ball", 2, "--accept", "exact-draw", "float-arithmetic", "--range", "age", 0, 100),
    *("--range", "dose", 0, 50000, "--levels", "city", EVIL, "Oslo", "--label", "no", "yes"),
)


@pytest.fixture
def table(run, here):
    """A private table, one record of which would be known anywhere."""
    rows = [f"{20 + i},{10 * i},{EVIL if i % 2 else 'Oslo'},{'yn'[i % 2]}" for i in range(40)]
    rows = [row.replace(",y", ",yes").replace(",n", ",no") for row in rows]
    Path("t.csv").write_text(
        "\n".join(["age,dose,city,ill", f"77.125,{SECRET},Atlantis,yes", *rows])
    )
    run("ledger", "create", "--ledger", "l", *REPLACE, "--epsilon", 5)


def charges():
    return list(gdp.Ledger("l").charges())


@pytest.mark.trust
def test_the_page_of_a_release_has_what_is_public_and_no_record(run, table):
    ran = run(*RELEASE, "--html", "r.html")
    assert ran.status == 0
    found = page("r.html")
    draws = dict(found.rows[1:5])
    printed = ran.out.splitlines()[0]
    assert printed.startswith(f"intercept {draws['intercept']}  age ")
    assert f"city={EVIL}" not in draws  # the first level has no indicator
    assert list(draws) == ["intercept", "age", "dose", "city=Oslo"]
    assert "ill is 'yes' with probability 1 / (1 + exp(-s))" in found.text
    assert "Logistic loss; prior: flat on a ball of radius 2." in found.text
    text = Path("r.html").read_text()
    for private in (SECRET, "77.125", "Atlantis", "t.csv"):
        assert private not in text
    numbers = [cell for row in found.rows for cell in row[1:]]
    allowed = {"1", "0", "replace-one", "exact draw", "0.125", "0.03125", "0.623893"}
    plain = {x for x in numbers if x.replace(".", "").replace("-", "").isdigit()}
    assert plain - allowed <= set(printed.split())


@pytest.mark.trust
def test_a_page_that_cannot_be_written_costs_no_budget(run, table, monkeypatch):
    for bad in ("t.csv", "t.csv/r.html", "."):
        assert refused(run, *RELEASE, "--html", bad).startswith("--html: ")

    def no_room(path, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(Path, "write_bytes", no_room)
        told = refused(run, *RELEASE, "--html", "r.html")
    assert told.startswith("--html: cannot write 'r.html' (No space left on device)")
    # A name that the folder has room for, and the temporary file beside it has not.
    told = refused(run, *RELEASE, "--html", "r" * 245 + ".html")
    assert "(File name too long)" in told
    Path("old.html").write_text("kept")
    Path("l").rename("m")
    assert "l" in refused(run, *RELEASE, "--html", "old.html")
    assert Path("old.html").read_text() == "kept"
    Path("m").rename("l")
    assert sorted(p.name for p in Path().iterdir()) == ["l", "old.html", "t.csv"]
    assert charges() == []
    assert SECRET in Path("t.csv").read_text()
    assert run(*RELEASE, "--html", "r.html").status == 0
    assert len(charges()) == 1
