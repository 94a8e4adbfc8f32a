"""Compiling for a GPU on a machine without one, and reading what the compiler made.

XLA's CUDA plugin compiles against a description of the device; nothing is run. It wants
NVIDIA's compiler and libraries, in a folder of their own: see ``INSTALL``.
"""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import NamedTuple

INSTALL = (
    "python -m pip install --target DIR --no-deps jax-cuda13-plugin==V jax-cuda13-pjrt==V "
    "nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-crt nvidia-cuda-nvrtc nvidia-cuda-runtime "
    "nvidia-nvjitlink nvidia-cuda-cupti nvidia-cublas nvidia-cusolver nvidia-cusparse nvidia-cufft "
    "nvidia-cudnn-cu13 nvidia-nccl-cu13 nvidia-nvshmem-cu13   # V: the version of jax; 4 GB"
)

H100 = {
    "threads_per_block_limit": 1024,
    "threads_per_warp": 32,
    "shared_memory_per_block": 48 * 2**10,
    "shared_memory_per_core": 228 * 2**10,
    "threads_per_core_limit": 2048,
    "core_count": 132,
    "fpus_per_core": 128,
    "block_dim_limit_x": 2**31 - 1,
    "block_dim_limit_y": 2**16 - 1,
    "block_dim_limit_z": 2**16 - 1,
    "memory_bandwidth": 3_352_320_000_000,
    "l2_cache_size": 50 * 2**20,
    "clock_rate_ghz": 1.98,
    "device_memory_size": 84_942_979_072,
    "shared_memory_per_block_optin": 227 * 2**10,
    "cuda_compute_capability": {"major": 9},
    "registers_per_core_limit": 2**16,
    "registers_per_block_limit": 2**16,
}
H100_NAME = "NVIDIA H100 80GB HBM3"
# Operations that launch nothing.
FREE = {
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "while", "call",
    "partition-id", "replica-id", "opt-barrier", "conditional",
}  # fmt: skip
# Operations that touch a part of their first operand.
IN_PART = {"dynamic-slice", "gather", "dynamic-update-slice"}
BYTES = {"pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2, "s32": 4, "u32": 4,
         "f32": 4, "s64": 8, "u64": 8, "f64": 8}  # fmt: skip


def is_installed(folder):
    """Whether a folder has the plugin and NVIDIA's compiler."""
    return (Path(folder) / "jax_plugins").is_dir() and any(
        Path(folder).glob("nvidia/cu*/bin/ptxas")
    )


def prepare(folder):
    """Tell JAX, which must not have been imported, where the plugin is."""
    toolkit = next(iter(Path(folder).resolve().glob("nvidia/cu*/bin/ptxas"))).parents[1]
    # Nothing can be timed here, so nothing is tuned.
    flags = f"--xla_gpu_autotune_level=0 --xla_gpu_cuda_data_dir={toolkit}"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"
    os.environ["PATH"] = f"{toolkit / 'bin'}{os.pathsep}{os.environ['PATH']}"
    os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"
    sys.path.insert(0, str(Path(folder).resolve()))


def description(figures, name):
    """Write a device's figures as the text that XLA reads."""
    lines = []
    for key, value in figures.items():
        if isinstance(value, dict):
            inner = " ".join(f"{k}: {v}" for k, v in value.items())
            lines.append(f"  {key} {{ {inner} }}")
        else:
            lines.append(f"  {key}: {value}")
    body = "\n".join(lines)
    dnn = "dnn_version_info { major: 9 minor: 12 patch: 0 }"
    text = f'gpu_device_info {{\n{body}\n}}\nplatform_name: "CUDA"\n{dnn}\n'
    return text + f'device_description_str: "{name}"\n'


def placement(figures=H100, name=H100_NAME):
    """Return the sharding of a device that is only described."""
    import jax
    from jax.experimental import topologies
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    found = topologies.get_topology_desc(
        platform="cuda",
        topology_name="described",
        topology="1x1x1",
        target_config=description(figures, name),
    )
    jax.config.update("jax_platforms", "cpu")
    return NamedSharding(Mesh(found.devices, ("x",)), PartitionSpec())


def compile_for(place, function, arguments):
    """Compile a function of arrays; return the program and the seconds of tracing and compiling."""
    import jax

    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), arguments)
    begin = time.perf_counter()
    lowered = jax.jit(function, in_shardings=place, out_shardings=place).lower(*shapes)
    traced = time.perf_counter()
    program = lowered.compile()
    return program, traced - begin, time.perf_counter() - traced


class Instruction(NamedTuple):
    """One line of a compiled program: what it does, to what, called from where in the source."""

    name: str
    kind: str
    shape: str
    operands: tuple[str, ...]
    called: dict
    trips: int | None
    source: str


class Loop(NamedTuple):
    """A loop: rounds (None: unknown, the host asks), where it is from, its body, and its depth."""

    trips: int | None
    source: str
    body: str
    depth: int


class Compiled:
    """The computations of an optimized program, as text."""

    def __init__(self, text):
        self.parts, self.entry = {}, ""
        self._frames = _frames(text)
        part = None
        for line in text.splitlines():
            head = re.match(r"^(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{", line)
            if head:
                part = self.parts[head[2]] = []
                self.entry = head[2] if head[1] else self.entry
            given = re.match(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.*)$", line)
            if given and part is not None:
                part.append(self._instruction(*given.groups()))

    def _instruction(self, name, rest):
        kind = re.search(r"(?:^|[\]})] )\s*([a-z][\w\-]*)\(", rest)
        shape = rest[: kind.start(1)]
        operands = re.findall(r"%([\w.\-]+)", rest[kind.end() :].split("), ")[0])
        called = dict(re.findall(r"\b(body|condition|to_apply|calls)=%?([\w.\-]+)", rest))
        trips = re.search(r'known_trip_count":\{"n":"(\d+)"', rest)
        frame = re.search(r"stack_frame_id=(\d+)", rest)
        source = self._frames.get(int(frame[1]), "") if frame else ""
        known = int(trips[1]) if trips else None
        return Instruction(name, kind[1], shape, tuple(operands), called, known, source)

    def kernels(self, part):
        """Return what one run of a computation launches, its loops left out."""
        found = []
        for line in self.parts[part]:
            if line.kind == "call":
                found += self.kernels(line.called["to_apply"])
            elif line.kind not in FREE:
                found.append((part, line))
        return found

    def loops(self, part=None, depth=0):
        """Return all loops within a computation, outer ones first."""
        found = []
        for line in self.parts[part or self.entry]:
            if line.kind == "while":
                body = line.called["body"]
                found.append(Loop(line.trips, line.source, body, depth))
                found += self.loops(body, depth + 1)
            elif line.kind == "call":
                found += self.loops(line.called["to_apply"], depth)
        return found

    def per_round(self, loop, unknown):
        """Return kernels, host synchronizations and bytes of one round.

        Inner loops of unknown length are taken to have ``unknown`` rounds.
        """
        lines = self.kernels(loop.body)
        count = len(lines)
        traffic = sum(self.traffic(part, line) for part, line in lines)
        waits = 1 if loop.trips is None else 0
        waits += sum(line.kind == "conditional" for line in self.parts[loop.body])
        for inner in self.loops(loop.body):
            if inner.depth:
                continue
            rounds = unknown if inner.trips is None else inner.trips
            more = self.per_round(inner, unknown)
            count, traffic = count + rounds * more[0], traffic + rounds * more[2]
            waits += rounds * more[1] + (inner.trips is None)  # asked once more to end
        return count, waits, traffic

    def traffic(self, part, line):
        """Count the bytes that a kernel reads and writes, were nothing in a cache."""
        shapes = {other.name: other.shape for other in self.parts[part]}
        reads = [size(shapes.get(name, "")) for name in line.operands]
        writes = size(line.shape)
        if line.kind == "dynamic-update-slice":  # in place
            return 2 * reads[1]
        if line.kind != "fusion":
            return sum(reads) + writes
        inner = self.parts[line.called["calls"]]
        sizes = {other.name: size(other.shape) for other in inner}
        whole = sum(_read(other, inner) for other in inner if other.kind == "parameter")
        updates = [other for other in inner if other.kind == "dynamic-update-slice"]
        for other in updates:  # only the slice is written
            writes += sizes[other.operands[1]] - size(other.shape)
        return whole + max(0, writes)


def _read(given, lines):
    """Count the bytes that a fusion reads of what it is given."""
    users = []
    for line in lines:
        if given.name in line.operands:
            if line.kind == "bitcast":
                users += [(line.name, user) for user in lines if line.name in user.operands]
            else:
                users.append((given.name, line))
    total = 0
    for name, user in users:
        if user.operands[0] != name or user.kind not in IN_PART:
            return size(given.shape)
        # What is updated in place is not read.
        total += 0 if user.kind == "dynamic-update-slice" else size(user.shape)
    return total


def size(shape):
    """Count the bytes of a shape, or of all in a tuple."""
    total = 0
    for kind, extents in re.findall(r"\b([a-z]+\d*)\[([\d,]*)\]", shape):
        count = 1
        for extent in filter(None, extents.split(",")):
            count *= int(extent)
        total += BYTES.get(kind, 0) * count
    return total


def _frames(text):
    """Map a frame's number to the file and function it is in."""
    tables, name = {}, ""
    for line in text.splitlines():
        if line in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
            name = line
            tables[name] = {}
        elif name and (row := re.match(r"^(\d+) (.*)$", line)):
            tables[name][int(row[1])] = row[2]
        elif line:
            name = ""
    if "StackFrames" not in tables:
        return {}

    def number(row, field):
        return int(re.search(rf"{field}=(\d+)", row)[1])

    found = {}
    for frame, row in tables["StackFrames"].items():
        location = tables["FileLocations"][number(row, "file_location_id")]
        file = tables["FileNames"][number(location, "file_name_id")].strip('"')
        function = tables["FunctionNames"][number(location, "function_name_id")].strip('"')
        found[frame] = f"{'/'.join(Path(file).parts[-2:])}:{function.rpartition('.')[2]}"
    return found
