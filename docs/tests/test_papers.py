"""Everything that the page on papers says can be seen, is seen."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest
from page_blocks import ROOT

import gibbs_dp as gdp
from gibbs_dp.cli.main import main
from gibbs_dp.papers.verify.verify import verify

sys.path.insert(0, str(ROOT / "docs" / "extension"))

from paper_items import ITEMS

COMMANDS = {(item.command, item.quick): item for item in ITEMS if item.command}


@pytest.fixture(scope="module")
def checks():
    return verify(sampled=False)


def test_every_item_has_one_way_to_see_it():
    for item in ITEMS:
        assert sum(map(bool, (item.checks, item.command, item.code))) == 1, item
        assert not item.quick or item.command
    assert len({(item.paper, item.result) for item in ITEMS}) == len(ITEMS)


def test_checks_are_there_and_hold(checks):
    for item in ITEMS:
        if item.checks:
            found = [check for check in checks if check.name.startswith(item.checks)]
            assert found, f"no check begins with {item.checks!r}"
            assert all(check.holds for check in found), item


@pytest.mark.parametrize(
    "item", COMMANDS.values(), ids=[item.command for item in COMMANDS.values()]
)
def test_commands_run(item, tmp_path, capsys):
    words = shlex.split(f"{item.command} {item.quick} --quiet")
    assert words[0] == "gibbs-dp"
    assert main([*words[1:], "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip()
    assert any(tmp_path.iterdir())


def test_figure_2_has_the_numbers_that_the_command_prints():
    """To a tenth of a standard error, as other instructions (AVX2 alone) change 0.01 of one.

    Chains at the kink of the private mean go other ways on each machine: with AVX2 alone values
    move by 0.31 standard errors (root mean square of the gammas, 0.78 at most), of which this
    allows four and a half. In a process of its own, as from a shell: what is compiled quickly for
    tests rounds differently too.
    """
    page = (ROOT / "docs" / "papers.md").read_text().partition("**Figure 2**")[2]
    number = r"([\d.e+-]+)"
    row = rf"^\|(.*?)\| {number} \| {number} ± {number} \| {number} \| {number} \| {number} \|$"
    shown = [one.groups() for one in re.finditer(row, page, re.MULTILINE)]
    command = [sys.executable, "-m", "gibbs_dp.cli.main", "figure2", "--json", "--quiet"]
    shell = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run(command, capture_output=True, text=True, env=shell, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    panels = list(dict.fromkeys(one["panel"] for one in rows))
    printed = {(panels.index(one["panel"]), one["gamma"]): one for one in rows}
    panel = -1
    assert len(shown) == 11
    for title, gamma, value, se, exact, z, epsilon in shown:
        panel += bool(title.strip())
        found = printed[panel, float(gamma)]
        reach = 1.4 if panel == 0 else 0.1
        assert abs(float(value) - found["on_average_kl"]) < reach * found["on_average_kl_se"]
        assert float(se) == pytest.approx(found["on_average_kl_se"], rel=0.1)
        assert float(exact) == pytest.approx(found["on_average_kl_exact"], rel=1e-5)
        assert float(z) == pytest.approx(found["z"], abs=reach + 0.05)
        assert float(epsilon) == pytest.approx(found["dp_epsilon"], rel=0.01)


@pytest.mark.parametrize("code", [item.code for item in ITEMS if item.code])
def test_expressions_are_true(code):
    assert eval(code, {"gdp": gdp})
