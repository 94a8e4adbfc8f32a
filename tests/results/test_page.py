"""Results as pages that stand alone: what they say, and what a stranger's names cannot do."""

import re

import numpy as np
import pytest
from html_pages import seen

import gibbs_dp as gdp
from gibbs_dp._cautions import Caution
from gibbs_dp.auditing.report_data import FAILED_DATASETS
from gibbs_dp.privacy.releases.release import Release
from gibbs_dp.results import page

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'>\x1b[2J$x_{"
ROW = {
    **{"gamma": 0.5, "n": 200, "group_size": 1, "num_datasets": 64, "on_average_kl": 0.0067},
    **{"on_average_kl_se": 0.0001, "on_average_kl_low": 0.0065, "on_average_kl_high": 0.0069},
}
SCHEMA = gdp.privacy.Schema(
    {EVIL: gdp.privacy.Levels(["a", EVIL])}, EVIL + "y", gdp.privacy.Positive(EVIL)
)


def make_report(rows=(ROW,), warnings=(), notes=(), **settings):
    return gdp.Report(tuple(rows), {"loss": "Squared", "n": 200, **settings}, warnings, notes)


def make_guarantee(**changed):
    given = {"epsilon": 1.0, "delta": 1e-6, "assumptions": ("it rests.",), "zcdp": 0.125}
    return gdp.Guarantee("replace-one", "exact draw", 2, 0.5, **given | changed)


def make_draws(shape=(3,), count=1000):
    rng = np.random.default_rng(1)
    return gdp.Draws(
        theta=rng.normal(size=(4, count, *shape)),
        log_density=np.zeros((4, count)),
        accept_rate=np.full(4, 0.9),
        is_stuck=np.zeros(4, bool),
        gamma=2.0,
        settings={"kernel": EVIL},
    )


def make_one_dataset(unit="patient", examples=30):
    rng = np.random.default_rng(2)
    # Normal data with a known mean's posterior: no weight is heavy.
    z, theta = rng.normal(size=examples), rng.normal(size=(4, 200, 1)) / examples**0.5
    values = -0.5 * (z - theta - z.mean()) ** 2
    return gdp.audit_log_likelihood(values, names=[f"{unit} {i}" for i in range(examples)])


def make_release(theta=None):
    given = np.arange(4.0).reshape(2, 2) if theta is None else theta
    return Release(given, make_guarantee(), 7)


@pytest.fixture
def saved(tmp_path):
    """Writes a result's page and reads it as a browser would."""

    def save(result, *arguments, **more):
        path = tmp_path / "page.html"
        result.to_html(path, *arguments, **more)
        assert [p.name for p in tmp_path.iterdir()] == ["page.html"]
        return seen(path.read_bytes().decode("utf-8"))

    return save


MAKERS = {
    "report": make_report,
    "one dataset": make_one_dataset,
    "draws": make_draws,
    "guarantee": make_guarantee,
    "release": make_release,
}


@pytest.mark.parametrize("name", MAKERS)
def test_every_page_stands_alone_and_says_what_it_does_not_promise(saved, name):
    found = saved(MAKERS[name](), f"<title> {EVIL}", [EVIL, "a sentence."])
    assert found.verdict.endswith(".")
    assert "What it does not promise" in found.headings
    assert "Settings and versions" in found.headings
    assert gdp.__version__ in found.text
    assert "alert(1)" in found.headings[0]
    assert "a sentence." in found.text
    assert "\x1b" not in found.text


@pytest.mark.parametrize("name", MAKERS)
def test_the_same_result_has_the_same_bytes(tmp_path, name):
    result = MAKERS[name]()
    for file in ("one.html", "two.HTM"):
        result.to_html(tmp_path / file)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.HTM").read_bytes()


@pytest.mark.parametrize("name", MAKERS)
def test_other_names_and_folders_are_refused_and_nothing_is_left(tmp_path, name):
    table = tmp_path / "patients.csv"
    table.write_text("kept")
    with pytest.raises(ValueError, match=r"is no name of a page; let it end in \.html\.$"):
        MAKERS[name]().to_html(table)
    with pytest.raises(FileNotFoundError):
        MAKERS[name]().to_html(tmp_path / "nowhere" / "page.html")
    assert table.read_text() == "kept"
    assert list(tmp_path.iterdir()) == [table]


def test_a_page_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    make_guarantee().to_html(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        make_report().to_html(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_verdict_of_a_report_is_one_sentence_with_both_ends(saved):
    one = saved(make_report([{**ROW, "dp_epsilon": 32.0}])).verdict
    assert one == (
        "One draw gives away 0.0067 ± 0.0001 nats about an example on average at gamma = 0.5; the "
        "worst case allows 32."
    )
    wide = {**ROW, "gamma": 9.0, "on_average_kl": 0.25, "on_average_kl_se": 0.01}
    both = saved(make_report([wide, ROW], warnings=("odd.",))).verdict
    assert both == (
        "One draw gives away 0.0067 ± 0.0001 nats about an example on average at gamma = 0.5 and "
        "0.25 ± 0.01 at gamma = 9; no bound of the worst case is known (1 warning below)."
    )
    endless = saved(make_report([{**ROW, "dp_epsilon": np.inf, "group_size": 3}])).verdict
    assert "about a group of 3 examples" in endless
    assert endless.endswith("; the worst case has no bound.")
    for rows in ((), ({**ROW, "on_average_kl": float("nan")},)):
        assert saved(make_report(rows)).verdict.startswith("What a draw gives away could not be")


def test_a_report_has_its_table_pictures_intervals_settings_and_notes(saved):
    rows = [ROW, {**ROW, "gamma": 2.0, "on_average_kl": 0.5, "dp_epsilon": 3.0}]
    found = saved(make_report(rows, notes=("a note.",), versions={"jax": "9.9"}, seed=7))
    assert found.rows[:4] == [
        ["gamma", "0.5", "2"],
        ["on-average KL", "0.00670(10)", "0.50000(10)"],
        ["95% interval", "[0.00650, 0.00690]", "[0.00650, 0.00690]"],
        ["DP eps", "-", "3"],
    ]
    many = saved(make_report([{**ROW, "gamma": float(g)} for g in range(7)]))
    assert many.rows[0][:3] == ["gamma", "on-average KL", "95% interval"]
    assert many.rows[7][:3] == ["6", "0.00670(10)", "[0.00650, 0.00690]"]
    assert ["seed", "7"] in found.rows
    assert ["versions", "jax 9.9"] in found.rows
    assert found.tags.count("svg") == 1
    assert "DP epsilon (worst case)" in found.text
    assert "a note." in found.text
    assert "as confidential as the table" not in found.text
    of_table = saved(make_report(rows, population="Table"))
    assert "as confidential as the table" in of_table.text


def test_warnings_come_with_their_meaning_and_remedy(saved):
    caution = FAILED_DATASETS
    told = caution(failed=1, total=2, why="stuck")
    found = saved(make_report(warnings=(told, "of a stranger [unknown]")))
    assert found.headings[1] == "Warnings: read these first"
    place = found.text.index(told)
    assert place < found.text.index(caution.meaning) < found.text.index(caution.remedy)
    assert found.text.index("of a stranger [unknown]") > place
    kind = Caution("cold", "only {d} degrees.", "It is cold.", "Heat.")
    many = page.warned([kind(d=i) for i in range(page.MOST_ROWS + 5)], [kind])
    assert "… and 5 more." in many.parts[-1]


def test_a_strangers_report_runs_nothing_and_hides_nothing(saved):
    settings = {"loss": EVIL, EVIL: EVIL, "versions": {EVIL: EVIL}, "population": "Table"}
    found = saved(make_report(warnings=(EVIL,), notes=(EVIL,), **settings), EVIL, [EVIL])
    assert not {"script", "img"} & set(found.tags)
    assert found.text.count("<script>alert(1)</script>") >= 6
    odd = saved(make_one_dataset(EVIL))
    assert not {"script", "img"} & set(odd.tags)
    assert "alert(1)" in odd.text


def test_one_dataset_names_the_most_exposed_and_calls_them_sensitive(saved):
    report = make_one_dataset()
    found = saved(report)
    listed = [row[0] for row in found.rows if row[0].startswith("patient ")]
    assert listed == list(report.most_exposed(10).index)
    assert "The most exposed examples (sensitive)" in found.headings
    assert all(text in found.text for text in report.assumptions)
    assert found.tags.count("svg") == 2
    assert "as confidential as the data" in found.text


def test_thousands_of_points_are_an_image_inside_the_page(saved):
    found = saved(make_one_dataset(examples=2500))
    assert found.tags.count("image") >= 1
    assert any(link.startswith("data:") for link in found.links)
    assert found.tags.count("use") < 500


def test_draws_have_every_coordinate_and_an_end(saved):
    found = saved(make_draws((60,)))
    assert [row[0] for row in found.rows[1:61]] == [f"theta[{i}]" for i in range(60)]
    assert found.verdict.startswith("The chains agree: R-hat is at most")
    stuck = make_draws((2,))
    stuck.is_stuck[0] = True
    assert saved(stuck).verdict.startswith("Do not trust these draws before reading")


def test_a_release_shows_the_draws_the_promise_and_what_was_declared(saved):
    found = saved(make_release(), schema=SCHEMA)
    assert ["parameter", "draw 1", "draw 2"] in found.rows
    assert ["intercept", "0", "2"] in found.rows
    rules = dict(row for row in found.rows if len(row) == 2)
    assert rules["intercept"] == "1"
    assert any("alert(1)" in name for name in rules)
    assert rules["neighbours"] == "replace-one"
    assert rules["delta"] == "1e-06"
    assert rules["charge in the ledger"] == "7"
    assert {"it rests.", make_guarantee().caveats[0]} <= set(re.split(r"\n+", found.text))
    assert found.verdict == (
        "Replacing any one record changes the chance of whatever is released by a factor of at "
        "most 2.72 (epsilon = 1), but for a probability of 1e-06 (delta); this holds for exact "
        "draws, which a Markov chain's draws only approximate."
    )


def test_a_page_of_a_release_without_a_schema_has_numbered_parameters(saved):
    found = saved(make_release(np.ones((60, 2, 3))))
    assert ["theta[1,2]", *["1"] * 50] in found.rows
    assert "10 further draws not shown." in found.text
    assert "How its numbers follow from a record" not in found.headings


def test_a_guarantee_of_nothing_says_so(saved):
    found = saved(make_guarantee(epsilon=float("inf"), delta=0.0))
    assert found.verdict.startswith("No finite epsilon bounds what one record changes")
    assert saved(make_guarantee(epsilon=50.0, delta=0.0)).verdict.count("e^50") == 1
