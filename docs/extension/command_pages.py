"""The command line, as its own help shows it."""

import contextlib
import io
import os

from gibbs_dp.cli import COMMANDS
from gibbs_dp.cli.main import main
from pages import write_page


def help_of(*words):
    """What ``gibbs-dp ... --help`` prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = main([*words, "--help"])
    if status != 0:
        raise RuntimeError(f"gibbs-dp {' '.join(words)} --help: exit status {status}")
    return out.getvalue().rstrip()


def page():
    """All commands."""
    parts = ["```none\n" + help_of() + "\n```\n"]
    for name, (summary, *_) in COMMANDS.items():
        parts.append(f"## gibbs-dp {name}\n\n{summary[0].upper()}{summary[1:]}.\n")
        parts.append("```none\n" + help_of(name) + "\n```\n")
    return "\n".join(parts)


def write(app):
    os.environ |= {"COLUMNS": "88", "NO_COLOR": "1"}
    write_page(app, "commands.txt", page())


def setup(app):
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
