"""Types are checked in the first calls of every file of tests, and again in the next."""

import numpy as np
import pytest
import typecheck
from jaxtyping import Float, jaxtyped


@jaxtyped(typechecker=typecheck.first_calls)
def total(values: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]) -> float:
    return float(values @ weights) if values.size == weights.size else "none"


@pytest.mark.parametrize("_", range(2))
def test_enough_calls_are_checked_and_a_new_file_begins_anew(_):
    typecheck.check_again()
    one, two = np.ones(1), np.ones(2)
    with pytest.raises(TypeError):
        total(one, two)
    for _ in range(typecheck.ENOUGH):
        assert total(two, two) == 2.0
    assert total(one, two) == "none"  # no longer checked
    typecheck.check_again()
    with pytest.raises(TypeError):
        total(one, two)
