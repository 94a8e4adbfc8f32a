"""Every code block of README and of the documentation runs, and prints what the page shows."""

from pathlib import Path

import jax
import pandas as pd
import pytest
from page_blocks import ROOT, compare, run_page, same

from gibbs_dp.privacy.releases import release

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    # The same draws in every run.
    monkeypatch.setattr(release, "secret_key", lambda: jax.random.key(0))
    names = run_page(page)
    if page.stem == "release":
        # A draw at this gamma is right for 72% of the rows (median; under 60% for one draw in
        # 1,000), and for 28% if labels are flipped.
        assert (pd.read_csv("results/predictions.csv")["prediction"] == names["ill"]).mean() > 0.6


def test_a_wrong_page_is_caught(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = Path("page.md")
    page.write_text("```python\nx = 2.0\nprint('x is', x)\n```\n\n```text\nx is 2.01\n```\n")
    assert run_page(page)["x"] == 2.0
    page.write_text(page.read_text().replace("2.01", "2.5"))
    with pytest.raises(AssertionError, match=r"x is 2\.5"):
        run_page(page)
    page.write_text("```console\n$ gibbs-dp --version\ngibbs-dpp 0.1.0\n```\n")
    with pytest.raises(AssertionError, match="gibbs-dpp"):
        run_page(page)
    page.write_text("```sh\nmake nothing\n```\n")
    with pytest.raises(AssertionError, match="make nothing"):
        run_page(page)


def test_numbers_agree_within_their_errors():
    assert same("kl 0.100 ± 0.004 nats", "kl 0.103 ± 0.003 nats")
    assert not same("kl 0.100 ± 0.001 nats", "kl 0.110 ± 0.001 nats")
    assert not same("kl 0.1 nats", "kl 0.1 bits")
    assert same("kl 0.100(4) nats", "kl 0.103(3) nats")
    assert same("kl 1.00(4)e-07 nats", "kl 1.03(3)e-07 nats")
    assert not same("kl 0.100(1) nats", "kl 0.110(1) nats")
    assert not same("kl 1.00(1)e-07 nats", "kl 1.00(1)e-06 nats")
    assert same("1,000 rows ...", "1000 rows and more")
    with pytest.raises(AssertionError, match="not shown"):
        compare("one\n", "one\ntwo\n", "here")
    compare("...\ntwo\n", "one\ntwo\n", "here")
    compare("note     one two\n", "note     one\n         two\n", "here")
    with pytest.raises(AssertionError, match="row one two"):
        compare("row one two\n", "row one\n         two\n", "here")
