"""What every page of results must be."""

import re
from html.parser import HTMLParser

# Elements without an end, of HTML.
VOID = {"meta", "br", "img"}
LOADS = {"script", "link", "img", "iframe", "object", "embed", "base", "form", "input", "a"}


class Seen(HTMLParser):
    """Tags and texts of a page; every tag must be closed, and no identifier come twice."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.ids, self.links, self.rows = [], [], [], [], []
        self.text, self.styles, self.headings, self.verdict = "", "", [], ""
        self.feed(text)
        self.close()
        assert not self.open
        assert len(self.ids) == len(set(self.ids))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.append(tag)
        self.ids += [value for name, value in attributes if name == "id"]
        self.links += [v for k, v in attributes if k in ("src", "href", "xlink:href", "srcset")]
        assert not [name for name in given if name.startswith("on")]
        if tag not in VOID:
            self.open.append((tag, given))
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        tag, given = self.open[-1] if self.open else ("", {})
        if tag == "style":
            self.styles += data
            return
        self.text += data
        if tag in ("td", "th"):
            self.rows[-1].append(data)
        if tag in ("h1", "h2"):
            self.headings.append(data)
        if "verdict" in given.get("class", ""):
            self.verdict += data


def seen(text):
    """Check that a page stands alone, and return what is in it."""
    assert text.startswith("<!DOCTYPE html>")
    assert '<meta charset="utf-8">' in text[:200]
    found = Seen(text)
    assert not LOADS & set(found.tags)
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in found.links)
    local = {link[1:] for link in found.links if link.startswith("#")}
    local |= set(re.findall(r"url\(#([^)]+)\)", text))
    assert local <= set(found.ids)
    assert "http" not in text.replace("http-equiv", "")
    assert "@import" not in found.styles
    assert "url(" not in found.styles
    assert "�" not in text or "�" in found.text
    assert {"prefers-color-scheme: dark", "@media print"} <= {
        mark for mark in ("prefers-color-scheme: dark", "@media print") if mark in found.styles
    }
    return found
