"""Files beside the package: they can be read, and say what the package and the Makefile say."""

import re
import tomllib
from pathlib import Path

import pytest

import gibbs_dp

ROOT = Path(gibbs_dp.__file__).parents[1]
HOSTED = ROOT / ".github"
FORMS = sorted(f for f in (HOSTED / "ISSUE_TEMPLATE").glob("*.yml") if f.name != "config.yml")


def read(path):
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load(path.read_text())


def test_the_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (.*)$", text, re.MULTILINE)[1] == gibbs_dp.__version__
    license_ = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]
    assert re.search(r"^license: (.*)$", text, re.MULTILINE)[1] == license_


def test_the_citation_has_what_its_format_asks_for():
    found = read(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors", "abstract", "keywords"} <= set(found)
    assert found["cff-version"] == "1.2.0"
    assert "1605.02277" in found["references"][0]["url"]
    for reference in found["references"]:
        assert {"type", "title", "authors", "year"} <= set(reference)
        assert all(
            set(author) == {"family-names", "given-names"} for author in reference["authors"]
        )


def test_pre_commit_runs_what_make_lint_runs():
    hooks = read(ROOT / ".pre-commit-config.yaml")["repos"][0]["hooks"]
    run = {re.sub(r" --.*", "", hook["entry"].removeprefix(".venv/bin/")) for hook in hooks}
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    lines = [line.strip().removeprefix("$(BIN)/") for line in recipe.splitlines()]
    assert run == {re.sub(r" (--|\.).*", "", line) for line in lines}
    assert all(hook["language"] == "system" for hook in hooks)


def test_hosted_ci_calls_the_same_script_without_rights_or_secrets():
    path = HOSTED / "workflows" / "ci.yml"
    found = read(path)
    assert found["permissions"] == {"contents": "read"}
    for job in found["jobs"].values():
        assert 0 < job["timeout-minutes"] <= 180
        assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
        pythons = job["steps"][1]["with"]["python-version"].split()
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        named = [c.rpartition(" ")[2] for c in project["classifiers"] if ":: 3." in c]
        assert sorted(pythons) == sorted(named)
    assert "secrets" not in path.read_text()
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_forms_are_complete(path):
    form = read(path)
    assert form["name"]
    assert form["description"]
    fields = [part for part in form["body"] if part["type"] != "markdown"]
    names = [field["id"] for field in fields]
    assert len(set(names)) == len(names)
    assert all(field["attributes"]["label"] for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_issue_forms_are_there_and_send_vulnerabilities_elsewhere():
    assert {path.stem for path in FORMS} == {"bug", "wrong-number", "feature"}
    for name in ("bug", "wrong-number"):
        assert "SECURITY.md" in (HOSTED / "ISSUE_TEMPLATE" / f"{name}.yml").read_text()
    assert isinstance(read(HOSTED / "ISSUE_TEMPLATE" / "config.yml")["blank_issues_enabled"], bool)


def test_security_names_what_the_code_calls_its_limits():
    text = " ".join((ROOT / "SECURITY.md").read_text().split())
    for words in ("Guarantee", "ledger", "float-arithmetic", "IDEALIZED", "Threefry", "Mironov"):
        assert words in text
    assert not re.search(r"\S@\S+\.\w", text)  # no address is made up


def test_no_message_asks_an_index_for_this_package():
    """No index has it: messages name the packages that are missing."""
    assert not [p for p in (ROOT / "gibbs_dp").rglob("*.py") if "gibbs-dp[" in p.read_text()]
