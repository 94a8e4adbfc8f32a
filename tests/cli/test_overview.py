"""What ``gibbs-dp`` says without a command."""

import shlex

import pytest

from gibbs_dp.cli import COMMANDS, load
from gibbs_dp.cli.main import EXAMPLES, main


class ParsedError(Exception):
    """Parsing is over."""


def test_without_arguments_it_shows_three_examples_then_the_commands(capsys):
    assert main([]) == 0
    bare = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == bare
    examples, commands = bare.partition("examples:\n")[2].split("commands:\n")
    assert len(EXAMPLES) == 3
    assert all(f"\n  gibbs-dp {words}\n" in examples for _, words in EXAMPLES)
    assert all(f"\n  {name} " in "\n" + commands for name in COMMANDS)
    assert max(map(len, bare.splitlines())) <= 90


@pytest.mark.parametrize("words", [words for _, words in EXAMPLES])
def test_examples_are_understood_as_printed(words, monkeypatch):
    def stop(parsed):
        raise ParsedError

    command, *rest = shlex.split(words)
    function, _ = load(command)
    monkeypatch.setattr(f"gibbs_dp.cli.{COMMANDS[command].module}.start_session", stop)
    with pytest.raises(ParsedError):
        function(rest)


def test_the_quick_example_runs_as_printed(run):
    words = next(words for _, words in EXAMPLES if words.startswith("calibrate"))
    ran = run(*shlex.split(words))
    assert ran.status == 0
    assert ran.out.startswith("gamma = ")
