"""Compiled programs that are in nobody's way give back their memory mappings."""

import importlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp._jaxlib import memory_maps
from gibbs_dp._jaxlib.memory_maps import MAPS, make_room, share_taken

COUNT = """
import jax, jax.numpy as jnp
from gibbs_dp._jaxlib.memory_maps import MAPS, forget_programs

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


@pytest.mark.skipif(not MAPS.exists(), reason="only Linux lists a process's mappings")
def test_forgotten_programs_give_back_their_mappings():
    # Their functions live on here, as the library's do: what JAX compiled for them must not.
    command = [sys.executable, "-c", COUNT]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    compiled, left = map(int, done.stdout.split())
    assert compiled >= 20
    assert left < compiled / 4


def test_room_is_made_only_where_there_is_little(monkeypatch):
    forgot = []
    monkeypatch.setattr(memory_maps, "forget_programs", lambda: forgot.append(1))
    monkeypatch.setattr(memory_maps, "share_taken", lambda: 0.7)
    assert not make_room()
    assert not forgot
    monkeypatch.setattr(memory_maps, "share_taken", lambda: 0.71)
    assert make_room()
    assert forgot


def numbers(key, n):
    return jax.random.normal(key, (n,))


@pytest.mark.parametrize(
    ("module", "call"),
    [
        ("gibbs_dp.auditing.api", lambda p: gdp.audit(p, numbers, 4, 1.0, progress=False)),
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
