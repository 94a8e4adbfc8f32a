"""What users get wrong is said in one sentence."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

import gibbs_dp as gdp
from gibbs_dp.engine.datasets import check_key_is_used

HERE = Path(__file__).parent


def test_wrong_calls_are_one_sentence():
    paths = (
        str(Path(gdp.__file__).parents[1]),
        str(Path(__file__).parents[1]),
        os.environ.get("PYTHONPATH", ""),
    )
    done = subprocess.run(
        [sys.executable, HERE / "wrong_calls.py"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    said = json.loads(done.stdout)
    assert len(said) == 40
    for wanted, text in said.items():
        assert text.startswith(wanted.strip())
        assert "\n" not in text


@pytest.mark.parametrize(
    "draw",
    [
        lambda key, n: jax.random.bernoulli(key, 1e-9, (n, 1)),  # 0 in every draw
        jax.jit(lambda key, n: jax.random.normal(key, (n, 1)), static_argnums=1),
        lambda key, n: jax.lax.map(jax.random.normal, jax.random.split(key, n))[:, None],
    ],
)
def test_populations_that_use_their_key_are_let_through(draw):
    check_key_is_used(gdp.populations.Sampler(draw), jax.random.key(0), 5, 5)
