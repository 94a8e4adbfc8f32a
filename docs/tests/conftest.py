import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from arviz_note import leave_note  # noqa: E402
from xla_flags import compile_quickly  # noqa: E402

# Set before JAX starts. Pages share programs, and workers do.
compile_quickly(ROOT / "docs" / "build" / "programs")

import matplotlib as mpl  # noqa: E402

mpl.use("Agg")
leave_note()
