"""The paper about the software has the form that the Journal of Open Source Software asks for."""

import json
import re
from datetime import datetime
from pathlib import Path

import pytest

import gibbs_dp

yaml = pytest.importorskip("yaml")

ROOT = Path(gibbs_dp.__file__).parents[1]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
FOLDER = ROOT / "docs" / "paper"
SECTIONS = [
    *("Summary", "Statement of need", "State of the field", "Method", "Software design"),
    *("Research impact statement", "Quality control", "Acknowledgements", "References"),
]
# What says where a work appeared, of which an entry needs one.
PLACES = {"journal", "booktitle", "eprint", "url"}


def paper():
    return (FOLDER / "paper.md").read_text(encoding="utf-8")


def body():
    return paper().split("---\n", 2)[2]


def results(name):
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())["rows"]


def entries():
    """Fields of every work in the bibliography, by its key."""
    text = (FOLDER / "paper.bib").read_text(encoding="utf-8")
    found = re.findall(r"^@(\w+)\{(\w+),\n(.*?)^\}$", text, re.MULTILINE | re.DOTALL)
    assert len(found) == text.count("\n@") + 1 == len({key for _, key, _ in found})
    return {
        key: dict(re.findall(r"^  (\w+) *= \{(.*)\},?$", fields, re.MULTILINE))
        for _, key, fields in found
    }


def test_the_header_is_complete_and_says_what_the_citation_says():
    header = yaml.safe_load(paper().split("---\n")[1])
    assert header["title"] == CITATION["title"]
    names = [one["name"] for one in CITATION["authors"]]
    assert [one["name"] for one in header["authors"]] == names
    known = {str(one["index"]) for one in header["affiliations"]}
    assert all(one["name"] for one in header["affiliations"])
    for author in header["authors"]:
        assert set(str(author["affiliation"]).replace(" ", "").split(",")) <= known
    assert len(header["tags"]) >= 3
    assert datetime.strptime(header["date"], "%d %B %Y").year >= 2026
    assert (FOLDER / header["bibliography"]).is_file()


def test_its_sections_and_length_are_those_that_are_asked_for():
    assert re.findall(r"^# (.*)$", body(), re.MULTILINE) == SECTIONS
    words = re.sub(r"\$\$.*?\$\$", "", body(), flags=re.DOTALL).split()
    assert 1000 <= len(words) <= 1700
    assert body().rstrip().endswith("# References")  # which is filled in


def test_what_is_cited_is_in_the_bibliography_and_nothing_else_is():
    assert set(re.findall(r"@(\w+)", body())) == set(entries())
    for key, fields in entries().items():
        assert {"author", "title", "year"} <= set(fields), key
        assert PLACES & set(fields), key
        assert re.fullmatch(r"[a-z]+" + fields["year"], key)
        assert all(text.count("{") == text.count("}") for text in fields.values()), key


def test_it_cites_what_the_citation_file_cites():
    titles = {re.sub(r"[{}]", "", one["title"]).lower() for one in entries().values()}
    assert {one["title"].lower() for one in CITATION["references"]} <= titles


def test_its_pictures_are_there_and_stand_by_themselves():
    pictures = re.findall(r"\n\n!\[([^\]]+)\]\(([^)]+)\)\n\n", body())
    assert len(pictures) == body().count("![") == 2
    for caption, path in pictures:
        assert len(caption) > 40
        assert (FOLDER / path).is_file()


def test_its_numbers_are_those_that_were_measured():
    coverage = [r["coverage"] for r in results("report_coverage") if r["column"] == "on_average_kl"]
    ends = f"{min(coverage):.1%} to {max(coverage):.1%} of 500 audits".replace(".0%", "%")
    assert ends in body()
    best = [row for row in results("attack_measured") if row["attacker"] == "optimal"]
    apart = max(abs(row["z"]) for row in best)
    told = " ".join(body().split())
    assert f"At all {len(best)} temperatures of the second picture" in told
    assert f"within {apart:.1f} standard errors" in told
    for page in ("index.md", "papers.md"):
        found = re.search(r"(\d+) of \1 checks", (ROOT / "docs" / page).read_text())
        assert f"all of its {int(found[1]):,} checks hold" in told
    claims = results("claims")
    assert all(row["holds"] and row["broken_are_caught"] for row in claims)
