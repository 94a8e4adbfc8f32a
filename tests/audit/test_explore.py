"""The page on which one moves gamma: its numbers are the report's, and no stranger's text runs."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import explored
import numpy as np
import pytest

import gibbs_dp as gdp
from gibbs_dp.auditing import explore
from gibbs_dp.io import json_row
from gibbs_dp.results import page

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'>\x1b[2J\u2028"
# Bytes that an explorer adds to a page: its code and style, and what a gamma's numbers take.
MOST_CODE, MOST_A_GAMMA = 50_000, 16_000


class Seen(HTMLParser):
    """Elements with their attributes, and the scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts, self.styles, self.open = [], [], [], ("", {})
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.open = tag, dict(attributes)
        self.elements.append(self.open)

    def handle_endtag(self, tag):
        self.open = "", {}

    def handle_data(self, data):
        tag, given = self.open
        if tag == "script":
            self.scripts.append((given, data))
        if tag == "style":
            self.styles.append(data)


def data_of(report):
    """What the script of a report's page is given."""
    return json.loads(json.dumps(explore.explorer_data({"audit": report}), allow_nan=False))


@pytest.fixture
def explored_page(tmp_path):
    """Writes a page; returns its text, what a parser sees of it, and its data."""

    def save(result, **more):
        path = tmp_path / "page.html"
        result.explore(path, **more)
        text = path.read_bytes().decode("utf-8")
        seen = Seen(text)
        (given, data), (_, code) = seen.scripts
        assert given == {"type": "application/json", "id": "explorer-data"}
        return text, seen, json.loads(data), code

    return save


def test_numbers_are_those_of_the_report():
    report = explored.make_report()
    data = data_of(report)
    assert data["gammas"] == list(explored.GAMMAS)
    (found,) = data["reports"]
    assert found["rows"] == [json_row(row) for row in report.rows]
    kl = found["measures"]["on_average_kl"]
    assert kl["value"] == report["on_average_kl"].tolist()
    assert kl["low"] == report["on_average_kl_low"].tolist()
    assert kl["high"] == report["on_average_kl_high"].tolist()
    risk = found["measures"]["population_risk"]
    np.testing.assert_allclose(risk["low"], explored.risk(report["gamma"]) - 1.96 * 0.0014)
    best = explored.advantage(report["gamma"])
    np.testing.assert_allclose(found["measures"]["right"]["value"], 100 * (1 + best) / 2)
    np.testing.assert_allclose(found["measures"]["advantage"]["value"], 100 * best)
    np.testing.assert_allclose(found["measures"]["advantage"]["high"], 100 * best * 1.02352)
    assert found["measures"]["epsilon"]["value"] == [4 * g for g in explored.GAMMAS]
    assert found["measures"]["epsilon"]["low"] == [None] * 4
    assert data["table"]["headings"][:2] == ["gamma", "on-average KL"]
    assert [line[0] for line in data["table"]["lines"]] == ["0.03", "0.3", "3", "30"]


def test_the_roc_is_that_of_two_normals_beside_what_epsilon_allows():
    found = data_of(explored.make_report())["reports"][0]["roc"]
    for gamma, roc in zip(explored.GAMMAS, found, strict=True):
        fpr, tpr, allowed = (np.array(roc[name], float) for name in ("fpr", "tpr", "allowed"))
        # Between its thresholds the curve is a cubic's.
        np.testing.assert_allclose(tpr, explored.tpr(fpr, gamma), atol=2e-3)
        errors = explored.make_report([gamma]).attack_roc(fpr)["tpr_se"].to_numpy()
        band = np.maximum(tpr - 1.96 * errors, fpr), np.minimum(tpr + 1.96 * errors, 1.0)
        np.testing.assert_allclose([roc["low"], roc["high"]], band, atol=1e-4)
        inside = fpr[(fpr > 0) & (fpr < 1)]
        assert inside.min() < 1e-3
        bound = np.minimum(np.exp(4 * gamma) * fpr, 1 - np.exp(-4 * gamma) * (1 - fpr))
        np.testing.assert_allclose(allowed, np.minimum(bound, 1.0), rtol=1e-4)


def test_a_sentence_says_nats_and_odds_and_tiles_the_rest():
    (found,) = data_of(explored.make_report())["reports"]
    # 0.02 * 3 nats; normals 0.3464 apart are told in 56.88% of the cases.
    assert found["told"][2] == (
        "gamma = 3: one draw gives away 0.0600 ± 0.0006 nats about an example, on average. Someone "
        "who knows everyone else and sees the draw guesses right 56.88 times in 100 which of two "
        "examples was in the data; a coin is right 50 times."
    )
    odds, kl, risk, worst = found["tiles"][2]
    assert (odds["value"], odds["lines"][-1]) == ("56.88", "95% interval 56.71 to 57.04.")
    assert (kl["value"], kl["lines"][-1]) == ("0.0600", "95% interval 0.0589 to 0.0613.")
    assert risk["value"] == "0.1794"
    assert risk["lines"][-1] == "Least of the audited: 0.1710 ± 0.0014 at gamma = 30."
    assert worst["value"] == "12"
    assert "100 right guesses in 100" in worst["lines"][0]
    # tanh(0.06): rounded up, as it is a bound.
    assert "53 right guesses" in found["tiles"][0][3]["lines"][0]


def test_what_was_not_audited_is_said():
    bare = {"gamma": 2.0, "on_average_kl": 0.02, "group_size": 3}
    endless = {**bare, "gamma": 8.0, "on_average_kl": float("nan"), "dp_epsilon": np.inf}
    (found,) = data_of(gdp.Report((bare, endless), {}))["reports"]
    assert found["told"][0].endswith("0.02 nats about a group of 3 examples, on average.")
    assert found["told"][1] == "gamma = 8: what a draw gives away could not be estimated."
    first, second = found["tiles"]
    # Pinsker: sqrt(0.02 / 2) = 0.1.
    assert first[0]["value"] == "at most 55"
    assert first[2]["value"] == second[1]["value"] == "not known"
    assert first[3]["value"] == second[3]["value"] == "anything"
    assert "no domain was declared" in first[3]["lines"][0]
    assert "infinite" in second[3]["lines"][0]
    assert found["measures"]["epsilon"]["value"] == [None, "inf"]
    assert found["roc"] == [None, None]
    for rows in ((), ({"gamma": float("nan")},)):
        with pytest.raises(ValueError, match="it has no row, so that there is nothing to explore"):
            data_of(gdp.Report(rows, {}))


def test_rows_in_any_order_keep_their_curves_and_tables():
    gammas = (3.0, 0.03, 30.0, 0.3)
    shuffled = data_of(explored.make_report(gammas, exposes=True))
    assert shuffled == data_of(explored.make_report(exposes=True))
    titles = [table["title"] for table in shuffled["reports"][0]["exposed"]]
    assert titles[2] == "most exposed rows at gamma = 3 (10 of 12)"
    assert shuffled["reports"][0]["exposed"][2]["lines"][0][0] == "100"


def test_warnings_are_of_their_gamma_or_of_all():
    told = ("of all. [sensitive-rows]", explored.WARNING, "gamma=7: of none here.")
    (found,) = data_of(explored.make_report(warnings=told))["reports"]
    assert [w["gamma"] for w in found["warnings"]] == [None, 3.0, None]
    assert found["warnings"][1]["more"][1].startswith("What to do: Improper: give a proper prior.")
    assert found["warnings"][2]["more"] == []


def test_several_reports_are_compared_gamma_by_gamma(explored_page):
    other = explored.make_report(explored.GAMMAS[1:], scale=0.03, warnings=())
    both = gdp.compare({"mine": explored.make_report(), EVIL: other})
    text, seen, data, _ = explored_page(both)
    names = [report["name"] for report in data["reports"]]
    assert names[0] == "mine"
    assert "\x1b" not in names[1]
    assert data["gammas"] == list(explored.GAMMAS)
    assert data["reports"][1]["gammas"] == list(explored.GAMMAS[1:])
    lines = data["differences"]
    first = lines["lines"][lines["gammas"].index(3.0)]
    assert first[0] == "on_average_kl"
    assert first[2:5] == ["0.09", "0.06", "0.0300(11)"]  # sqrt(0.0009^2 + 0.0006^2)
    assert data["table"]["headings"][0] == "report"
    assert len(data["table"]["lines"]) == 7
    assert "everything below it is of mine alone." in text
    assert len([tag for tag, _ in seen.elements if tag == "script"]) == 2


def test_without_scripts_it_is_the_page_of_the_report(explored_page, tmp_path):
    report = explored.make_report(exposes=True)
    about = {"title": "<b>", "about": ["a sentence."]}
    text, seen, _, code = explored_page(report, **about)
    report.to_html(tmp_path / "plain.html", **about)
    plain = (tmp_path / "plain.html").read_text(encoding="utf-8")
    (section,) = [given for tag, given in seen.elements if given.get("id") == "explorer"]
    assert "hidden" in section
    data = re.search(r"<script type=.*?</script>\n", text)[0]
    shipped = explore._shipped("explore.html"), explore._shipped("explore.css")
    for own in (*shipped, data, f"<script>{code}</script>\n"):
        assert text.count(own) == 1
        text = text.replace(own, "")
    policy = re.compile(r'(<meta http-equiv="Content-Security-Policy" content=")[^"]*')
    text, plain = (policy.sub(r"\1", page) for page in (text, plain))
    assert text == plain.replace("and runs nothing", "and sends nothing")


def hashed(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_policy_lets_its_own_script_and_style_run_and_nothing_else(explored_page):
    text, seen, _, code = explored_page(explored.make_report())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    rules = {rule.split()[0]: rule.split()[1:] for rule in policy.split(";")}
    assert rules["default-src"] == ["'none'"]
    assert rules["script-src"] == [hashed(code)]
    assert rules["style-src-elem"] == [hashed(*seen.styles)]
    assert rules["require-trusted-types-for"] == ["'script'"]
    assert rules["base-uri"] == rules["form-action"] == rules["trusted-types"] == ["'none'"]
    assert not {"connect-src", "script-src-attr", "frame-src"} & set(rules)
    assert text.index("Content-Security-Policy") < text.index("<title>") < text.index("<script")


def test_nothing_is_loaded_and_no_text_becomes_an_element(explored_page):
    text, seen, _, code = explored_page(explored.make_report())
    # The name of SVG elements, which no browser asks for.
    namespace = "http://www.w3.org/2000/svg"
    assert text.count(namespace) == 1
    assert "http" not in text.replace("http-equiv", "").replace(namespace, "")
    loading = {"src", "href", "srcset", "action", "data", "poster", "background"}
    links = [v for _, given in seen.elements for k, v in given.items() if k in loading]
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)
    assert not [k for _, given in seen.elements for k in given if k.startswith("on")]
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\(|fetch\(|XMLHttp"
        r"|WebSocket|import\(|srcdoc|DOMParser|sendBeacon|localStorage",
        code,
    )
    assert not re.search(r"</script|<!--", code, re.IGNORECASE)


def test_a_strangers_names_are_inert(explored_page, tmp_path):
    rows = tuple({**row, "trust": EVIL} for row in explored.make_report().rows)
    column = gdp.Column("mine", EVIL, "", EVIL)
    rows = tuple({**row, "mine": 1.0} for row in rows)
    settings = {"loss": EVIL, EVIL: EVIL, "num_releases": EVIL, "population": "Table"}
    told = (EVIL, f"gamma=3: {EVIL}")
    report = gdp.Report(rows, settings, told, (EVIL,), own_columns=(column,))
    text, seen, data, _ = explored_page(report, title=EVIL, about=[EVIL])
    assert len([tag for tag, _ in seen.elements if tag == "script"]) == 2
    assert not [tag for tag, _ in seen.elements if tag in ("img", "iframe", "a", "form")]
    raw = re.search(r'id="explorer-data">(.*)</script>', text)[1]
    assert not set("<>&") & set(raw)
    assert raw.isascii()
    # It is all there, as text, and with no control character.
    assert data["reports"][0]["warnings"][1]["text"].startswith(
        "gamma=3: </script><script>alert(1)"
    )
    assert "\x1b" not in json.dumps(data["reports"][0]["warnings"], ensure_ascii=False)
    assert "mine" in data["reports"][0]["rows"][0]


def test_its_size_is_small():
    own = sum(len(explore._shipped(f"explore.{kind}")) for kind in ("html", "css", "js"))
    assert own < MOST_CODE
    data = page.inert_json(explore.explorer_data({"audit": explored.make_report()}))
    assert len(data) < MOST_A_GAMMA * len(explored.GAMMAS)


def test_the_python_it_shows_prints_what_is_seen(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    report, other = explored.make_report(), explored.make_report(scale=0.03)
    report.save("audit.nc")
    other.save("other.nc")
    one = data_of(report)["python"][2]
    load = one.splitlines()[1]
    assert load == "report = gdp.load_report('audit.nc')  # as report.save wrote it"
    exec(one, {})
    assert re.search(r"on_average_kl +0\.06\n", capsys.readouterr().out)
    both = explore.explorer_data({"audit": report, "other": other})["python"][0]
    exec(both, {})
    assert re.search(r"on_average_kl +other +0\.0009\d* +0\.0006\d* ", capsys.readouterr().out)
    hostile = "x'); import os  # \n.nc"
    code = explore.explorer_data({"x": report}, {"x": hostile})["python"][0]
    assert len(code.splitlines()) == 4
    with pytest.raises(ValueError, match="path: there is no file"):
        exec(code, {})
