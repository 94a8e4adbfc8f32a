"""The base of results: what a class says of itself becomes text, a table, a page and a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gibbs_dp import io
from gibbs_dp.results.page import Page
from gibbs_dp.results.table import MOST_LINES, WIDTH, TextTable, block, remark_lines, remarks

Remarks = list[tuple[str, str]]
"""Sentences, each behind a word: WARNING, note, assumed."""


class Result:
    """A result: text, table and HTML; each fills in the methods with an underscore."""

    def _head(self) -> str:
        """Say in less than a line what it is of."""
        raise NotImplementedError

    def _table(self, most: int | None = None) -> TextTable:
        """Return its numbers as texts; at most so many lines."""
        raise NotImplementedError

    def _remarks(self) -> Remarks:
        """Return what stands below the table."""
        return []

    def _begin(self) -> list[str]:
        """Return lines above the printed table."""
        return [self._head()]

    def summary(self) -> str:
        """Return the numbers as a table, then warnings, notes and assumptions."""
        table = self._table().to_text()
        return "\n".join([*self._begin(), table, *remark_lines(self._remarks(), WIDTH)])

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._head()})"

    def _repr_html_(self) -> str:
        return block(repr(self), self._table(MOST_LINES), remarks(self._remarks()))


class ResultWithPage(Result):
    """A result that is a page, too."""

    def _page(self, title: str | None, about: Iterable[str]) -> Page:
        """Return the page."""
        raise NotImplementedError

    def to_html(
        self, path: str | os.PathLike[str], title: str | None = None, about: Iterable[str] = ()
    ) -> None:
        """Write a page for a browser in one file, whole or not at all; it loads nothing else.

        Parameters
        ----------
        path
            The file, which ends in ``.html``.
        title
            Its heading.
        about
            Sentences on what it is of, to be shown with it.

        Raises
        ------
        ValueError
            If the name does not end so.
        OSError
            If the folder cannot be written.
        """
        self._page(title, about).save(path)


class ResultWithExplorer(Result):
    """A result over gammas, which a page with an explorer shows, too."""

    def _explorer(
        self, title: str | None, about: Iterable[str], files: Mapping[str, str] | None = None
    ) -> Page:
        """Return the page; ``files`` are where reports are saved, by name."""
        raise NotImplementedError

    def explore(
        self, path: str | os.PathLike[str], title: str | None = None, about: Iterable[str] = ()
    ) -> None:
        """Write a page for a browser with an explorer on top, in one file; it loads nothing else.

        One moves gamma over what was audited and sees what a draw gives away, the risk, the worst
        case and the attacker's ROC; a limit is turned into a gamma, with its error. Nothing between
        audited gammas is shown as an estimate. A comparison shows its reports together. Below the
        explorer, and without scripts, it is the page of the (first) report.

        Parameters
        ----------
        path
            The file, which ends in ``.html``.
        title
            Its heading.
        about
            Sentences on what it is of, to be shown with it.

        Raises
        ------
        ValueError
            If the name does not end so, or a report has no row.
        OSError
            If the folder cannot be written.
        """
        self._explorer(title, about).save(path)


def sentences(text: Any) -> tuple[str, ...]:
    """Read warnings or notes from a file's attribute."""
    found = io.parse_json(text, list)
    if not all(isinstance(sentence, str) for sentence in found):
        raise ValueError("its warnings or notes are no texts")
    return tuple(found)


@contextmanager
def damage_named(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Turn whatever is wrong with a file's contents into one sentence that names the file."""
    try:
        yield
    except (KeyError, ValueError) as error:
        raise io.DamagedFileError(
            f"path: {os.fspath(path)!r} {what} ({io.reason(error)})."
        ) from error
