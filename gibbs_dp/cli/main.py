"""The ``gibbs-dp`` program: finds the command, and turns every failure into one line."""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from gibbs_dp._cautions import told_elsewhere
from gibbs_dp._version import __version__
from gibbs_dp.cli import COMMANDS, load, output, session
from gibbs_dp.cli.output import UsageError, one_line
from gibbs_dp.cli.parser import unknown_command

SUCCESS, FAILURE, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

# Run as printed: nothing but the package is needed.
EXAMPLES = (
    (
        "privacy and generalization over gamma, with a picture",
        "audit linear-regression --out results",
    ),
    ("draws from one posterior", "sample gaussian-mean --dim 2 --gamma 1"),
    (
        "how small gamma must be for a worst-case guarantee",
        "calibrate private-mean --pure-epsilon 1 --adjacency replace-one",
    ),
)


def main(
    arguments: Sequence[str] | None = None, *, ready: Callable[[], None] = lambda: None
) -> int:
    """Run a command; return 0 on success, 2 on bad input, 130 on Ctrl-C, 1 on anything unexpected.

    ``ready`` is called when all is imported: from then on Ctrl-C may raise.
    """
    if arguments is None:  # a program, which needs its imports until it ends
        gc.freeze()
    given = list(sys.argv[1:] if arguments is None else arguments)
    is_debug = "--debug" in given
    try:
        token = session.when_ready.set(ready)
        try:
            with told_elsewhere():  # commands print them
                status = _dispatch(given)
        finally:
            session.when_ready.reset(token)
        sys.stdout.flush()
    except KeyboardInterrupt as interrupt:
        return _interrupted(str(interrupt), is_debug)
    except Exception as error:
        if _came_of_an_interrupt(error):
            return _interrupted("", is_debug)
        if isinstance(error, (ValueError, OSError, MemoryError)):
            return _say(f"error: {one_line(error)}", BAD_INPUT, is_debug)
        hint = "" if is_debug else " (--debug shows where)"
        text = f"error: unexpected {type(error).__name__}: {one_line(error)}{hint}"
        return _say(text, FAILURE, is_debug)
    return status


def _say(text: str, status: int, is_debug: bool) -> int:
    if is_debug:
        traceback.print_exc()
    output.log(f"gibbs-dp: {text}")
    return status


def _interrupted(told: str, is_debug: bool) -> int:
    return _say(f"interrupted: {told or 'nothing more was saved.'}", INTERRUPTED, is_debug)


def _came_of_an_interrupt(error: BaseException | None) -> bool:
    """Return whether an error is of a Ctrl-C: compiled modules raise one while being imported."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def _dispatch(given: list[str]) -> int:
    position = next((i for i, word in enumerate(given) if not word.startswith("-")), None)
    if "--version" in given[:position]:
        output.emit(f"gibbs-dp {__version__}")
        return SUCCESS
    if position is None:
        if not given or not {"-h", "--help"}.isdisjoint(given):
            output.write(output.headed(overview(), sys.stdout), sys.stdout)
            return SUCCESS
        if not {"-v", "-V"}.isdisjoint(given):
            raise UsageError("there is no option -v here; did you mean --version?")
        raise UsageError(f"no command is given; choose one of {', '.join(COMMANDS)}.")
    command = given[position]
    is_alone = {*given} <= {command, "--quiet", "--debug"}
    if command not in COMMANDS and is_alone and Path(command).is_file():
        from gibbs_dp.cli.saved import next_steps

        output.emit(next_steps(command))
        return SUCCESS
    if command not in COMMANDS:
        from gibbs_dp.problems.registry import PROBLEMS

        raise UsageError(unknown_command(command, COMMANDS, PROBLEMS))
    run, _ = load(command)
    try:
        # Commands that check something return 1 when it does not hold; the others return None.
        return run(given[:position] + given[position + 1 :]) or SUCCESS
    except SystemExit as done:  # argparse leaves this way after --help
        if done.code:
            raise UsageError("the command line could not be understood.") from None
        return SUCCESS


def overview() -> str:
    """Three examples, then the commands, a line each."""
    examples = "\n".join(f"  # {what}\n  gibbs-dp {words}" for what, words in EXAMPLES)
    listing = "\n".join(f"  {name:<16}{summary}" for name, (summary, *_) in COMMANDS.items())
    return (
        "usage: gibbs-dp COMMAND [options]\n\n"
        "Privacy and generalization of Gibbs posteriors.\n\n"
        f"examples:\n{examples}\n"
        "  # your own table\n"
        "  gibbs-dp audit --data FILE.csv --target COLUMN\n\n"
        f"commands:\n{listing}\n\n"
        "'gibbs-dp COMMAND --help' shows a command's options; 'gibbs-dp --version' the version."
    )


if __name__ == "__main__":
    sys.exit(main())
