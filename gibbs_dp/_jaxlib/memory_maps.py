"""Room for compiled programs.

Linux allows a process some 65,000 memory mappings. Each program that XLA compiles takes 3 to 15 of
them, more with newer versions (seen with jaxlib 0.7.2 to 0.10.2), for as long as JAX keeps it; a
first audit takes a thousand. Where none is left, XLA's compiler ends the process.
"""

from __future__ import annotations

import gc
from pathlib import Path

import jax

MAPS, LIMIT = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
# What is left beside it is room for a dozen audits of several modes, with mutual information.
MOST_TAKEN = 0.7


def share_taken(maps: Path = MAPS, limit: Path = LIMIT) -> float:
    """Share of the mappings allowed that is taken; 0 on systems that do not tell."""
    try:
        with maps.open("rb") as lines:
            return sum(1 for _ in lines) / int(limit.read_text())
    except (OSError, ValueError):
        return 0.0


def forget_programs() -> None:
    """Drop everything that JAX has compiled: it is compiled again when it is needed."""
    jax.clear_caches()
    gc.collect()


def make_room(most_taken: float = MOST_TAKEN) -> bool:
    """Forget what was compiled where little room is left for more; return whether that was so."""
    if share_taken() <= most_taken:
        return False
    forget_programs()
    return True
