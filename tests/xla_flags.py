"""Options of XLA with which tests compile sooner."""

import os
import subprocess
import sys

# Compiling is most of what the tests do: the least optimized code is the sooner run. Of programs
# that are compiled in parts side by side, every part costs more work.
FLAGS = (
    "--xla_backend_optimization_level=0",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
)


def jax_starts_with(flags):
    """Whether JAX starts: XLA aborts the whole process for a flag that it does not know."""
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    probe = (sys.executable, "-c", "import jax; jax.devices()")
    return subprocess.run(probe, env=environment, capture_output=True).returncode == 0


def quick_flags(given, wanted=FLAGS, starts_with=jax_starts_with):
    """Add to the flags `given` those that this jaxlib knows: they come and go between versions.

    A flag that is given stays as it is, so that processes that inherit the result ask nothing.
    """
    names = [flag.partition("=")[0] for flag in given.split()]
    new = [flag for flag in wanted if flag.partition("=")[0] not in names]
    if new and not starts_with(" ".join((given, *new))):
        new = [flag for flag in new if starts_with(f"{given} {flag}")]
    return " ".join((given, *new)).strip()


def compile_quickly(programs):
    """Set what processes are to inherit: quick flags, and a folder of programs that they share."""
    os.environ["XLA_FLAGS"] = quick_flags(os.environ.get("XLA_FLAGS", ""))
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(programs)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.3"
