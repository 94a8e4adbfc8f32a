"""Compiled programs give back their memory mappings; options of XLA that tests compile with."""

import importlib
import itertools
import os
import platform
import subprocess
import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
import pytest
from xla_flags import FLAGS, quick_flags

import gibbs_dp as gdp
from gibbs_dp._jaxlib import compile as compiling
from gibbs_dp._jaxlib import program_cache
from gibbs_dp._jaxlib.compile import MAPS, make_room, share_taken
from gibbs_dp._jaxlib.devices import key_of
from gibbs_dp._jaxlib.precision import precision

COUNT = """
import jax, jax.numpy as jnp
from gibbs_dp._jaxlib.compile import MAPS, forget_programs

def taken():
    return len(MAPS.read_text().splitlines())

start = jax.jit(jnp.sin)(jnp.ones(2)).block_until_ready()
before = taken()
kept = [jax.jit(lambda x, k=k: jnp.sin(x) @ jnp.cos(x) * k) for k in range(20)]
for program in kept:
    program(jnp.ones(5)).block_until_ready()
compiled = taken()
forget_programs()
print(compiled - before, taken() - before)
"""


def test_share_taken(tmp_path):
    maps, limit = tmp_path / "maps", tmp_path / "limit"
    maps.write_text("one\ntwo\nthree\n")
    limit.write_text("12\n")
    assert share_taken(maps, limit) == 0.25
    assert share_taken(tmp_path / "none", limit) == 0.0


def test_of_options_those_that_this_xla_has_are_used():
    has = ("xla_backend_optimization_level", 1)
    assert compiling.known_of((has, ("xla_there_is_no_such_option", True))) == (has,)
    assert compiling.known_of((has,)) == (has,)
    assert compiling.known_of(()) == ()


SEEDS = [0, 1, 7**11, 2**31, 2**32 - 1]
LONG_SEEDS = [-1, 2**32 + 5, -(2**40), 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("dtype", ["float32", "float64"], indirect=True)
def test_keys_of_seeds_are_those_of_jax_and_all_bits_count(dtype):
    def words(key):
        return tuple(jax.random.key_data(key).tolist())

    for seed in SEEDS:
        assert key_of(seed).dtype == jax.random.key(seed).dtype
        assert words(key_of(seed)) == words(jax.random.key(seed))
    with precision(True):
        theirs = [words(jax.random.key(seed)) for seed in LONG_SEEDS]
    assert [words(key_of(seed)) for seed in LONG_SEEDS] == theirs
    with jax.default_prng_impl("rbg"):
        assert key_of(3).dtype == jax.random.key(3).dtype


@pytest.mark.skipif(not MAPS.exists(), reason="only Linux lists a process's mappings")
@pytest.mark.parametrize("has_folder", [False, True])
def test_what_is_asked_for_its_shapes_is_not_traced_again_to_be_run(
    has_folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(program_cache, "folder", lambda: tmp_path if has_folder else None)
    calls = []

    def double(x, power):
        calls.append(power)
        return {"found": 2.0 * x**power, "is_positive": x > 0}

    doubled = compiling.Program(double, ("power",), "cpu", is_quick=False)
    x = jnp.arange(3.0)
    shapes = doubled.shapes(x, 3)
    assert {name: (a.shape, a.dtype) for name, a in shapes.items()} == {
        "found": ((3,), x.dtype),
        "is_positive": ((3,), bool),
    }
    assert doubled(x, 3)["found"].tolist() == [0.0, 2.0, 16.0]
    assert calls == [3]


def test_forgotten_programs_give_back_their_mappings():
    # Their functions live on here, as the library's do: what JAX compiled for them must not.
    command = [sys.executable, "-c", COUNT]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    compiled, left = map(int, done.stdout.split())
    assert compiled >= 20
    assert left < compiled / 4


def test_room_is_made_only_where_there_is_little(monkeypatch):
    forgot = []
    monkeypatch.setattr(compiling, "forget_programs", lambda: forgot.append(1))
    seconds, taken = itertools.count(), [0.7, 0.71]
    monkeypatch.setattr(compiling, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    monkeypatch.setattr(compiling, "share_taken", lambda: taken.pop(0))
    assert not make_room()
    assert not forgot
    assert make_room()
    assert forgot


def test_one_look_at_the_room_does_for_a_second(monkeypatch):
    looks = []
    monkeypatch.setattr(compiling, "time", SimpleNamespace(monotonic=lambda: 1e9 + 0.5))
    monkeypatch.setattr(compiling, "share_taken", lambda: looks.append(1) or 0.1)
    assert not make_room()
    assert not make_room(0.2)
    assert len(looks) == 1


RETURN = """
import numpy as np
from pathlib import Path
from gibbs_dp._jaxlib.compile import return_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

kept = [np.ones(8_000) for _ in range(4_000)]  # 256 MB, in pieces that the allocator keeps
full, top = resident(), kept.pop()
kept.clear()
freed = resident()
return_memory()
print(full, freed, resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators return it alone")
def test_freed_memory_is_returned_to_the_system():
    command = [sys.executable, "-c", RETURN]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    full, freed, left = map(int, done.stdout.split())
    assert freed > full - 100e6  # else there is nothing to test
    assert left < full - 200e6


def numbers(key, n):
    return jax.random.normal(key, (n,))


@pytest.mark.parametrize(
    ("module", "call"),
    [
        ("gibbs_dp.auditing.audit", lambda p: gdp.audit(p, numbers, 4, 1.0, progress=False)),
        ("gibbs_dp.sampling.sample", lambda p: gdp.sample(p, jnp.zeros(4))),
    ],
    ids=["audit", "sample"],
)
def test_audits_and_samples_make_room_first(module, call, monkeypatch):
    class AskedError(Exception):
        pass

    def asked():
        raise AskedError

    monkeypatch.setattr(importlib.import_module(module), "make_room", asked)
    posterior = gdp.GibbsPosterior(lambda theta, z: (theta - z) ** 2, dist.Normal(0.0, 1.0))
    with pytest.raises(AskedError):
        call(posterior)


# Tests start with whatever options the installed jaxlib has.

KNOWN = "--xla_backend_optimization_level=0"


@pytest.mark.trust(but=["--xla_cpu_enable_fast_math=false"])
@pytest.mark.parametrize("given", ["", "--xla_cpu_enable_fast_math=false"])
def test_a_flag_that_jaxlib_does_not_know_is_left_out(given):
    # By really starting JAX, which dies for the second flag.
    found = quick_flags(given, (KNOWN, "--xla_option_that_never_was=1"))
    assert found == f"{given} {KNOWN}".strip()


def test_flags_that_are_inherited_are_neither_repeated_nor_asked_for_again():
    def never(flags):
        raise AssertionError(flags)

    known = [flag for flag in FLAGS if flag in os.environ["XLA_FLAGS"]]
    assert KNOWN in known
    assert (
        quick_flags("--xla_a=1 " + " ".join(FLAGS), starts_with=never).count("--") == len(FLAGS) + 1
    )
    assert quick_flags(f"{KNOWN[:-1]}3", (KNOWN,), never) == f"{KNOWN[:-1]}3"
