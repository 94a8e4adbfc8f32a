"""Small attacks on claims of privacy: none is exceeded, and every broken copy is caught.

The large ones, of 20,000 runs and with the smallest violation that is seen, are in
`benchmarks/claims.py`.
"""

import importlib
from pathlib import Path

import jaxtyping
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NUM_RUNS, LEVEL = 2000, 1e-4
# Claims that so few runs can tell from their broken copies, and whose laws no test elsewhere has.
CHEAP = {
    "claims_correlated": ["sum of Gaussian rows, Bayesian DP"],
    "claims_chains": ["chain, composition of clipped steps"],
}


@pytest.fixture(autouse=True)
def without_type_checks():
    """Thousands of runs: the checks of types would take most of the time."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize(("file", "name"), [(f, n) for f, names in CHEAP.items() for n in names])
def test_no_attack_exceeds_a_claim_and_broken_copies_are_caught(file, name, monkeypatch):
    """A right release exceeds its claim here at most once in 5,000 runs; noise is not seeded."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    cases = importlib.import_module(file).cases()
    case = next(case for case in cases if case.name == name)
    assert case.at_least(NUM_RUNS, level=LEVEL) <= case.epsilon
    assert case.broken
    for what, copy in case.broken.items():
        assert case.at_least(NUM_RUNS, copy, LEVEL) > case.epsilon, what
