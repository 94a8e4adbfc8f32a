"""Programs of tests that are over give back their memory mappings."""

import subprocess
import sys
from pathlib import Path

import pytest
from memory_maps import MAPS, share_taken

COUNT = """
import jax, jax.numpy as jnp
from memory_maps import MAPS, forget_programs

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
    here = Path(__file__).parent
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=True)
    compiled, left = map(int, done.stdout.split())
    assert compiled >= 20
    assert left < compiled / 4
