"""The base of results: text, table and page from what a result says of itself."""

from dataclasses import dataclass

import numpy as np
import pytest
from html_pages import seen

from gibbs_dp.io import DamagedFileError
from gibbs_dp.results import page
from gibbs_dp.results.base import ResultWithPage, damage_named, sentences
from gibbs_dp.results.table import MOST_LINES, Column, Heading, Style, TextTable, with_error


@dataclass(frozen=True, repr=False)
class Numbers(ResultWithPage):
    """A result of a test: numbers, and what is to be said of them."""

    values: tuple[int, ...]
    told: tuple[tuple[str, str], ...] = ()

    def _head(self):
        return f"{len(self.values)} numbers"

    def _table(self, most=None):
        lines = [[str(value), "<b>"] for value in self.values[:most]]
        headings = [Heading("value", "A <number>."), Heading("in words", is_text=True)]
        return TextTable(headings, lines, len(self.values) - len(lines), "values")

    def _remarks(self):
        return list(self.told)

    def _page(self, title, about):
        of = page.section("What it is of", page.bullets(about))
        table = page.section("Numbers", self._table())
        return page.Page(title or "Numbers", self._head(), "They are numbers.", (of, table))


def test_text_has_head_table_and_remarks_and_no_control_characters():
    found = Numbers((1, 22), (("WARNING", "odd\nat\x1b[2J once."), ("assumed", "even.")))
    assert str(found) == found.summary()
    assert found.summary().splitlines() == [
        "2 numbers",
        "value in words",
        "    1 <b>",
        "   22 <b>",
        "WARNING  odd at�[2J once.",
        "assumed  even.",
    ]
    assert repr(found) == "Numbers(2 numbers)"


def test_notebooks_see_the_first_lines_their_meaning_and_what_is_warned_of():
    text = Numbers(tuple(range(MOST_LINES + 7)), (("WARNING", "<i>"), ("note", "n")))._repr_html_()
    assert text.count("&lt;b&gt;") == MOST_LINES
    assert "<em>… and 7 more values</em>" in text
    assert 'title="A &lt;number&gt;."' in text
    assert "<li><strong>WARNING</strong> &lt;i&gt;</li><li>note: n</li>" in text
    assert "more values" not in Numbers((1,))._repr_html_()


def test_a_page_is_made_of_the_same_table(tmp_path):
    Numbers((1, 22)).to_html(tmp_path / "numbers.html", about=["a test."])
    found = seen((tmp_path / "numbers.html").read_text())
    assert found.headings == ["Numbers", "What it is of", "Numbers"]
    assert found.rows == [["value", "in words"], ["1", "<b>"], ["22", "<b>"]]
    with pytest.raises(ValueError, match=r"is no name of a page; let it end in \.html\.$"):
        Numbers(()).to_html(tmp_path / "numbers.csv")


def test_whatever_is_wrong_inside_a_file_is_one_sentence_that_names_it():
    def read(found):
        with damage_named("a.nc", "is a damaged sum"):
            return sentences(found["n"])

    assert read({"n": '["fine"]'}) == ("fine",)
    with pytest.raises(DamagedFileError, match=r"^path: 'a.nc' is a damaged sum \('n'\)\.$"):
        read({})
    with pytest.raises(DamagedFileError, match=r"\(its warnings or notes are no texts\)\.$"):
        read({"n": '["fine", 5]'})


def test_a_column_is_the_same_after_a_file():
    column = Column("risk", "A mean.", "loss", "risk", Style("risk", "#000000", panel="risk"))
    assert Column.from_plain(column.plain()) == column
    for damaged in (None, {"name": "risk"}, column.plain() | {"meaning": 5}):
        with pytest.raises(ValueError, match="column"):
            Column.from_plain(damaged)


def test_values_are_shown_to_a_twentieth_of_their_error():
    """Rounding is at the second digit of the error: half of one there, at most."""
    rng = np.random.default_rng(0)
    for size, share in zip(
        10 ** rng.uniform(-9, 9, 300), 10 ** rng.uniform(-5, 1, 300), strict=True
    ):
        shown, error = (float(word) for word in with_error(-size, share * size).split(" ± "))
        assert abs(shown + size) <= 0.0501 * share * size
        assert error == pytest.approx(share * size, rel=0.051)
