"""ArviZ's note of its daily warning: processes that import it at once fight over it."""

import datetime
import tempfile
from contextlib import suppress
from pathlib import Path


def leave_note():
    """Say that ArviZ has warned today, as it does itself, but under a name of this process's own.

    Its own is one for all: the file that one process has renamed is not there for the other.
    """
    try:
        from platformdirs import user_cache_dir
    except ImportError:  # what takes notes has it
        return
    folder = Path(user_cache_dir("arviz", "arviz"))
    with suppress(OSError):  # then ArviZ says what is wrong
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as note:
            note.write(datetime.date.today().isoformat())
        Path(note.name).replace(folder / "daily_warning")
