import gc
import os
import sys

from arviz_note import leave_note
from xla_flags import quick_flags

# Set before JAX starts; `tests/cli/test_process.py` runs a program without it.
os.environ["XLA_FLAGS"] = quick_flags(os.environ.get("XLA_FLAGS", ""))
# Of processes that tests start; of this one, which may have imported NumPy already, below.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import jax.numpy as jnp
import matplotlib as mpl
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits
from typecheck import check_again

mpl.use("Agg")
leave_note()
# Processes that test side by side share the cores, on which idle threads of BLAS would spin.
threadpool_limits(1, user_api="blas")

# The same examples in every run of `make test`; others in every `make trust`, which asks for it.
# What fails is printed with the line that repeats it.
settings.register_profile("fixed", derandomize=True, print_blob=True)
settings.register_profile("random", derandomize=False, print_blob=True)
settings.load_profile("fixed")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leaves in `make test` what a mark ``trust(but=...)`` names; a GPU has no tests of CPUs."""
    for item in items:
        mark = item.get_closest_marker("of_cpus")
        if mark is not None and jax.default_backend() != "cpu":
            item.add_marker(pytest.mark.skip(reason=f"of CPUs: {mark.args[0]}"))
        for mark in [m for m in item.own_markers if m.name == "trust"]:
            but = mark.kwargs.get("but", [])
            kept = [but] if isinstance(but, str) else but
            if hasattr(item, "callspec") and item.callspec.id in kept:
                item.own_markers.remove(mark)


def pytest_collection_finish():
    """What is imported stays: the garbage collector need not look through it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def room_for_programs():
    """Makes room when the programs of earlier files leave little."""
    from gibbs_dp._jaxlib.compile import make_room

    make_room(0.5)


@pytest.fixture(autouse=True, scope="module")
def types_are_checked_again():
    """Checks the first calls of this file, whatever earlier ones called."""
    check_again()


@pytest.fixture(autouse=True)
def figures_are_closed():
    """Pyplot keeps all that are plotted once some test of this process has imported it."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture(autouse=True)
def single_precision_afterwards():
    """Whatever ran `--float64` in this process: it is no other test's."""
    yield
    if jax.config.jax_enable_x64:
        jax.config.update("jax_enable_x64", False)


@pytest.fixture(autouse=True)
def folder_of_programs_afterwards():
    """A command sets one for its process: programs kept there know nothing of what tests patch."""
    before = jax.config.jax_compilation_cache_dir
    yield
    if jax.config.jax_compilation_cache_dir != before:
        jax.config.update("jax_compilation_cache_dir", before)


# gibbs_dp is imported where it is used: old versions of jaxtyping begin to check types only after
# this file was read.
@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    """Runs a test in single and in double precision."""
    from gibbs_dp._jaxlib.precision import precision

    with precision(request.param == "float64"):
        yield request.param


@pytest.fixture(name="precision")
def precision_fixture(dtype):
    """Runs a test in both precisions; the value is the default dtype."""
    return jnp.dtype(dtype)


@pytest.fixture
def float64():
    """Runs a test in double precision."""
    from gibbs_dp._jaxlib.precision import precision

    with precision(True):
        yield
