"""Colours: on terminals, by everybody's variables, and never in JSON or files."""

import io
import json

import pytest

import gibbs_dp as gdp
from gibbs_dp.cli import output
from gibbs_dp.cli.main import main

CODE = "\x1b["


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "PYTHON_COLORS", "TERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("environment", "on_terminal", "in_file"),
    [
        ({}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, True, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
        ({"PYTHON_COLORS": "0", "FORCE_COLOR": "1"}, False, False),
        ({"PYTHON_COLORS": "1", "NO_COLOR": "1"}, True, True),
    ],
)
def test_who_decides(environment, on_terminal, in_file):
    assert output.is_colored(Terminal(), environment) == on_terminal
    assert output.is_colored(io.StringIO(), environment) == in_file


def test_a_closed_stream_has_no_colours():
    closed = io.StringIO()
    closed.close()
    assert not output.is_colored(closed, {})


def test_only_the_words_that_begin_a_line_are_coloured():
    text = "gamma  WARNING\nWARNING  a WARNING\nnote     error: x\nIDEALIZED: of exact draws"
    shown = output.marked(text, Terminal())
    yellow, end = output.YELLOW, output.RESET
    assert shown == (
        f"gamma  WARNING\n{yellow}WARNING{end}  a WARNING\nnote     error: x\n"
        f"{yellow}IDEALIZED:{end} of exact draws"
    )
    assert output.marked("gibbs-dp: error: no", Terminal()).startswith(
        f"{output.RED}gibbs-dp: error:"
    )
    assert output.marked(text, io.StringIO()) == text


def colored(text, start):
    return f"{start}{text}{output.RESET}"


def test_errors_and_headings(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["nothing"]) == 2
    assert capsys.readouterr().err.startswith(colored("gibbs-dp: error:", output.RED))
    assert main(["audit", "--help"]) == 0
    helped = capsys.readouterr().out
    assert helped.startswith(colored("usage:", output.BOLD) + " gibbs-dp audit PROBLEM [options]")
    assert colored("how to sample:", output.BOLD) in helped
    assert main([]) == 0
    assert colored("examples:", output.BOLD) in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    main(["audit", "--help"])
    plain = capsys.readouterr().out
    for code in (output.BOLD, output.RESET):
        helped = helped.replace(code, "")
    assert plain == helped


def test_a_refused_option_is_described_without_colours(monkeypatch, capsys):
    """The message is cut out of argparse's usage, which must hold no codes."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    words = ["release", "--range", "age", "9"]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "--range: give it as --range COLUMN LOW HIGH." in error
    assert error.count(CODE) == 2


def test_json_and_files_have_no_colours(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    words = ["calibrate", "private-mean", "--pure-epsilon", "1", "--adjacency", "replace-one"]
    assert main([*words, "--json", "--out", str(tmp_path)]) == 0
    seen = capsys.readouterr()
    assert json.loads(seen.out)["adjacency"] == "replace-one"
    assert CODE not in seen.out + (tmp_path / "calibration.json").read_text()


def test_warnings_of_a_printed_report(monkeypatch, capsys):
    report = gdp.Report(({"gamma": 1.0},), {}, ("bad.",), ("fine.",))
    output.show(report.summary())
    plain = capsys.readouterr().out
    assert plain == str(report) + "\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    output.show(report.summary())
    assert colored("WARNING", output.YELLOW) + "  bad." in capsys.readouterr().out
    assert CODE not in str(report)
    output.warn(["bad."], quiet=False)
    assert capsys.readouterr().err == colored("warning:", output.YELLOW) + " bad.\n"
