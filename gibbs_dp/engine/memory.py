"""How many datasets are worked on at once, and what happens where memory does not hold them."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import jax

from gibbs_dp._cautions import Caution

Result = TypeVar("Result")

# Of a device's memory, what two programs in flight may take together.
SHARE_OF_MEMORY = 0.9

OUT_OF_MEMORY = Caution(
    "out-of-memory",
    "memory did not hold {size} datasets at once; {smaller} are taken from here on.",
    "A program needed more memory than the device has, or than other programs left of it. The "
    "numbers are not affected: the same datasets are sampled in smaller parts.",
    "Nothing, unless it is slow: a smaller block_size, fewer num_ghosts or num_samples need less.",
)


class SmallerBlocksWarning(UserWarning):
    """Memory ran out, and fewer datasets are worked on at once."""


class TooLargeError(Exception):
    """A compiled program would take more memory than its device has."""


class NoRoomError(MemoryError):
    """Memory does not hold a single dataset."""


class Room:
    """Remembers, by the programs' names, how many datasets were found to fit."""

    def __init__(self) -> None:
        self._fitting: dict[Any, int] = {}
        self._lock = threading.Lock()

    def fit(self, name: Any, size: int, run: Callable[[int], Result]) -> Result:
        """Call ``run`` with ``size`` datasets at once; with half of them where memory runs out.

        Raises
        ------
        NoRoomError
            If a single dataset does not fit.
        jax.errors.JaxRuntimeError
            For anything else that goes wrong on a device.
        """
        while True:
            with self._lock:
                size = min(size, self._fitting.get(name, size))
            try:
                return jax.block_until_ready(run(size))
            except (TooLargeError, MemoryError, jax.errors.JaxRuntimeError) as error:
                if not _is_out_of_memory(error):
                    raise
                if size == 1:
                    reason = str(error).rstrip(".") or "nothing more is known"
                    raise NoRoomError(
                        f"memory: it does not hold one dataset at a time ({reason}); ask for fewer "
                        "num_samples, num_chains or num_ghosts, or a smaller n."
                    ) from error
            self._halve(name, size)

    def _halve(self, name: Any, size: int) -> None:
        with self._lock:
            if self._fitting.get(name, size) < size:
                return  # another thread was told, too
            self._fitting[name] = smaller = size // 2
        text = OUT_OF_MEMORY(size=size, smaller=smaller)
        warnings.warn(text, SmallerBlocksWarning, stacklevel=3)


def check_memory(compiled: Any, device: jax.Device, num_in_flight: int) -> None:
    """Refuse a compiled program that is larger than its device, where both tell their sizes.

    Raises
    ------
    TooLargeError
        With both sizes.
    """
    limit = (device.memory_stats() or {}).get("bytes_limit")
    found = compiled.memory_analysis()
    if limit is None or found is None:
        return
    needed = num_in_flight * (found.temp_size_in_bytes + found.output_size_in_bytes)
    needed += found.argument_size_in_bytes
    if needed > SHARE_OF_MEMORY * limit:
        raise TooLargeError(f"a program needs {needed:,} bytes of the device's {limit:,}.")


def _is_out_of_memory(error: Exception) -> bool:
    is_told = isinstance(error, (TooLargeError, MemoryError))
    return is_told or "RESOURCE_EXHAUSTED" in str(error)
