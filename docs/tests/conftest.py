import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from xla_flags import quick_flags  # noqa: E402

# Set before JAX starts. Pages share programs, and workers do.
os.environ["XLA_FLAGS"] = quick_flags(os.environ.get("XLA_FLAGS", ""))
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(ROOT / "docs" / "build" / "programs")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.3"

import matplotlib as mpl  # noqa: E402

mpl.use("Agg")
