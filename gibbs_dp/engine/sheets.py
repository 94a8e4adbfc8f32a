"""Sheets of datasets x gammas on an accelerator: compiled ahead, measured, unpacked."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree, UInt32

from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp._jaxlib.devices import is_accelerator
from gibbs_dp.engine.executor import IN_FLIGHT
from gibbs_dp.engine.jobs import Sheet
from gibbs_dp.engine.memory import check_memory
from gibbs_dp.engine.program import sheet_program
from gibbs_dp.engine.quantity import kept_kind, values_kind
from gibbs_dp.engine.settings import Settings
from gibbs_dp.engine.summary import Block

# All that a block leaves behind as one array of words: one copy brings it home.


@on_default_backend
def pack(values: PyTree[Array]) -> UInt32[Array, "block gammas words"]:
    """Lay numbers and truth values, ``[block, gammas, ...]``, out in words, bit for bit."""
    return jnp.concatenate([_words(leaf) for leaf in jax.tree.leaves(values)], axis=2)


def unpack(
    words: UInt32[np.ndarray, "block gammas words"], like: PyTree[Any]
) -> PyTree[np.ndarray]:
    """Read back what :func:`pack` laid out.

    Parameters
    ----------
    words
        What it returned.
    like
        What it was given, or anything of these shapes and types.

    Returns
    -------
    PyTree[np.ndarray]
        Copies.
    """
    start, found = 0, []
    leaves, structure = jax.tree.flatten(like)
    for leaf in leaves:
        count = math.prod(leaf.shape[2:]) * max(1, leaf.dtype.itemsize // 4)
        part = np.ascontiguousarray(words[..., start : start + count])
        values = part.astype(bool) if leaf.dtype == bool else part.view(leaf.dtype)
        found.append(values.reshape(leaf.shape))
        start += count
    return jax.tree.unflatten(structure, found)


def _words(leaf: Array) -> UInt32[Array, "block gammas words"]:
    is_truth = leaf.dtype == bool
    words = leaf.astype(jnp.uint32) if is_truth else jax.lax.bitcast_convert_type(leaf, jnp.uint32)
    return words.reshape(*leaf.shape[:2], -1)


class Sheets:
    """The compiled programs of one audit's sheets."""

    def __init__(
        self, settings: Settings, on_compile: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        self.settings, self._on_compile = settings, on_compile
        self._compiled: dict[Any, Any] = {}
        self._lock = threading.Lock()

    def begin(self, sheet: Sheet, device: jax.Device, at_once: int) -> Block:
        """Start a sheet, ``at_once`` datasets at a time.

        Raises
        ------
        TooLargeError
            If the program is larger than the device.
        """
        s, first = self.settings, sheet.jobs[0]
        kinds = values_kind(s.traced), kept_kind(s.traced)
        static = (s.posterior, s.sampler, sheet.plan, s.traced, at_once)
        program = sheet_program(device.platform)
        arguments = jax.device_put(
            (s.population, first.roots, first.numbers, stacked(sheet)), device
        )
        name = (sheet.name, at_once, device)
        if sheet.path and not is_accelerator(device.platform):
            # Plainly called: no memory is to be measured, and compiling ahead would put users'
            # populations together from placeholders.
            if name not in self._compiled:
                with self._lock:  # as below
                    if name not in self._compiled:
                        with self._on_compile():
                            found = program(*static, *arguments, kinds=kinds)
                        self._compiled[name] = program
                        return found
            return program(*static, *arguments, kinds=kinds)
        if name not in self._compiled:
            with self._lock:  # two threads that meet a new program must not both compile it
                if name not in self._compiled:
                    with self._on_compile():
                        compiled, run = program.compiled(*static, *arguments, kinds=kinds)
                    check_memory(compiled, device, IN_FLIGHT)
                    self._compiled[name] = run
        return self._compiled[name](*arguments)


def home(sheet: Sheet, found: Block) -> tuple[Block, ...]:
    """Bring what a sheet found from the device, a block for each of its jobs."""
    whole = unpack(np.asarray(pack(found)), found)
    places = list(range(len(sheet.jobs)))
    if sheet.path:
        gammas = [float(inputs.gamma) for inputs in sheet.path]
        places = [gammas.index(float(job.inputs.gamma)) for job in sheet.jobs]
    return tuple(jax.tree.map(lambda a, i=i: np.ascontiguousarray(a[:, i]), whole) for i in places)


def stacked(sheet: Sheet) -> PyTree[np.ndarray]:
    """Stack the inputs of a sheet's jobs, the last ones again where the program is for more."""
    inputs = list(sheet.path) or [job.inputs for job in sheet.jobs]
    inputs += inputs[-1:] * (sheet.width - len(inputs))
    return jax.tree.map(lambda *a: np.stack(a), *inputs)
