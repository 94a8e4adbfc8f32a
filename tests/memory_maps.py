"""Room for compiled programs.

Linux allows a process some 65,000 memory mappings. Each program that XLA compiles takes 3 to 15 of
them, more with newer versions, for as long as JAX keeps it; a first audit takes a thousand. Where
none is left, XLA's compiler ends in a segmentation fault.
"""

import gc
from pathlib import Path

import jax

MAPS, LIMIT = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")


def share_taken(maps=MAPS, limit=LIMIT):
    """Share of the mappings allowed that is taken; 0 on systems that do not tell."""
    try:
        with maps.open("rb") as lines:
            return sum(1 for _ in lines) / int(limit.read_text())
    except OSError:
        return 0.0


def forget_programs():
    """Drop everything that JAX has compiled: it is compiled again when it is needed."""
    jax.clear_caches()
    gc.collect()
