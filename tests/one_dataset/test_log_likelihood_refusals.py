"""Arrays that are no log-likelihoods of draws: one sentence each."""

import numpy as np
import pytest

import gibbs_dp as gdp

GOOD = -np.random.default_rng(0).random((4, 100, 6))
RAGGED = [GOOD[0], GOOD[1, :90]]
OBJECTS = np.empty(2, object)
OBJECTS[:] = RAGGED


def spoilt(value):
    found = GOOD.copy()
    found[1, 2, 3] = value
    return found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((GOOD[0],), r"three axes \[chain, draw, example\], got shape \(100, 6\); add the axis"),
        (
            (GOOD[:, :, None],),
            r"shape \(4, 100, 1, 6\); .*length 1 .*array.reshape\(4, 100, -1",
        ),
        ((GOOD[..., None],), r"shape \(4, 100, 6, 1\); .* of length 1 .*array.reshape\(4, 100, -1"),
        ((GOOD[None],), r"shape \(1, 4, 100, 6\); leave out the first axis, of length 1, as array"),
        ((GOOD[0, :1],), r"shape \(1, 6\); add the axis of chains as array"),
        (
            (np.stack([GOOD, GOOD], 2),),
            r"an example, as array.reshape\(4, 100, -1\), or",
        ),
        ((RAGGED,), r"its 2 chains differ in shape \(draws: 100, 90\).*cut them to the shortest"),
        ((tuple(RAGGED),), "its 2 chains differ in shape"),
        ((OBJECTS,), r"its 2 chains differ in shape \(draws: 100, 90\)"),
        ((GOOD.transpose(1, 0, 2),), r"100 chains of 4 draws are too few.*got shape \(100, 4, 6\)"),
        ((GOOD[:1, :60],), "1 chains of 60 draws are too few"),
        ((GOOD[:, :, :2],), "there are 2 examples, and at least 3 are needed"),
        ((spoilt(np.nan),), r"1 numbers are NaN or infinite, the first at \[1, 2, 3\]"),
        ((spoilt(-np.inf),), r"1 numbers are NaN or infinite, the first at \[1, 2, 3\]"),
        ((spoilt(-1e200),), r"1e\+200 is its largest size"),
        ((GOOD.astype(str),), "must be an array of numbers"),
        ((GOOD.astype(complex),), "must be an array of numbers"),
        ((GOOD, -1.0), "gamma: must be a positive number, got -1.0"),
        ((GOOD, np.nan), "gamma: must be a positive number, got nan"),
        (
            (GOOD, 1.0, ["a"]),
            r"groups: give one label for each of the 6 examples, got shape \(1,\)",
        ),
        ((GOOD, 1.0, list("aabbbb")), "there are 2 groups, and at least 3 are needed"),
        ((GOOD, 1.0, None, ["a"]), "names: give one label for each of the 6 examples"),
        ((GOOD, 1.0, list("abcdef"), list("abcdef")), "names: groups are called by their labels"),
    ],
)
def test_they_are_refused_in_a_sentence(arguments, message):
    with pytest.raises(ValueError, match=message) as error:
        gdp.audit_log_likelihood(*arguments)
    assert "\n" not in str(error.value)


def test_chains_may_come_as_a_list():
    found, plain = gdp.audit_log_likelihood(list(GOOD)), gdp.audit_log_likelihood(GOOD)
    assert found.averages == plain.averages


def test_integers_and_half_precision_are_taken():
    """As any array that NumPy reads: log-likelihoods of PyTorch are often of half precision."""
    assert gdp.audit_log_likelihood(GOOD.astype(np.float16))["on_average_kl"] > 0
    assert gdp.audit_log_likelihood((10 * GOOD).astype(int))["on_average_kl"] > 0
