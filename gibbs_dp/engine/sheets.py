"""Sheets of datasets x gammas on an accelerator: compiled ahead, measured, unpacked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from gibbs_dp._jaxlib.devices import is_accelerator
from gibbs_dp.engine.executor import IN_FLIGHT
from gibbs_dp.engine.jobs import Sheet
from gibbs_dp.engine.kinds import kept_kind, values_kind
from gibbs_dp.engine.memory import check_memory
from gibbs_dp.engine.packing import pack, unpack
from gibbs_dp.engine.program import sheet_program
from gibbs_dp.engine.settings import Settings
from gibbs_dp.engine.summary import Block


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
