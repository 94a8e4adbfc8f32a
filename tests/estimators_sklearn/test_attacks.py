"""An attack on some routes: the claim stands, and a copy with eight times the gamma is caught."""

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NUM_DRAWS, LEVEL = 3000, 1e-4


@pytest.mark.trust(but="mean, pure")
@pytest.mark.parametrize(
    "name", ["direction", "gaussian", "posterior: Huber on a ball", "mean, pure", "median, pure"]
)
def test_no_attack_exceeds_the_claim_and_a_broken_copy_is_caught(name, monkeypatch):
    """A right release exceeds its claim here at most once in 5,000 runs; noise is not seeded."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    attacks = importlib.import_module("private_attacks")
    delta, draw = next((delta, draw) for route, delta, draw in attacks.routes() if route == name)
    assert attacks.lower_bound(*draw(NUM_DRAWS, 1.0), delta, LEVEL) <= attacks.EPSILON
    assert attacks.lower_bound(*draw(NUM_DRAWS, attacks.TOO_LARGE), delta, LEVEL) > attacks.EPSILON
