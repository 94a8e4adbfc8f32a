"""The Ladder: an attack that climbs a plain leaderboard and not this one; its promise; refusals."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from gibbs_dp import holdout


def boosting_attack(losses, board):
    """Blum & Hardt's attack: submit coin tosses, let those that were scored as better vote."""
    scores = [board.submit(one) for one in losses]
    improved = np.diff([math.inf, *scores]) < 0
    return scores, improved


def test_coin_tosses_climb_a_plain_leaderboard_and_not_the_ladder():
    rng = np.random.default_rng(0)
    n, k = 2000, 1000
    losses = rng.integers(0, 2, (k, n)).astype(float)
    means = losses.mean(axis=1)
    vote = (losses[means < 0.5].mean(axis=0) > 0.5).astype(float)
    # Told every score, the analyst finds a "classifier": each of those that did better adds
    # sqrt(2/pi)/sqrt(n), against sqrt(k/2) of noise.
    gained = norm.sf(math.sqrt(2 / math.pi) * math.sqrt((means < 0.5).sum() / n))
    assert abs(vote.mean() - gained) < 0.03
    assert vote.mean() < 0.4
    for step in (0.05, None):
        board = holdout.Ladder(step)
        scores, improved = boosting_attack(losses, board)
        assert min(scores) >= 0.5 - 0.05
        kept = losses[improved]
        told = board.submit((kept.mean(axis=0) > 0.5).astype(float))
        assert told >= 0.44


def test_a_real_improvement_moves_the_score():
    rng = np.random.default_rng(1)
    losses = (rng.uniform(size=(5, 4000)) < np.array([0.5, 0.4, 0.45, 0.2, 0.1])[:, None]) * 1.0
    for step in (0.02, None):
        board = holdout.Ladder(step)
        scores = [board.submit(one) for one in losses]
        best = np.minimum.accumulate([0.5, 0.4, 0.45, 0.2, 0.1])
        # Rounding, and 4.5 standard errors of a mean: false alarm 4e-5 each.
        assert np.abs(np.array(scores) - best).max() < 0.01 + 4.5 * 0.5 / math.sqrt(4000)


def test_the_promise_is_the_theorem_at_its_best_step():
    n, k, beta = 100_000, 1000, 0.05

    def tail(epsilon, step):  # Blum & Hardt 2015, Theorem 3.1
        return math.exp(-2 * epsilon**2 * n + (1 / step + 2) * math.log(4 * k / step) + 1)

    step, error = holdout.ladder_promise(n, k, beta=beta)
    assert tail(error - step, step) == pytest.approx(beta)
    for other in (0.8 * step, 1.25 * step):
        assert tail(error - other, other) > beta


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: holdout.Ladder(0.0), "step must lie"),
        (lambda: holdout.Ladder(0.1).submit([0.5, 1.5]), r"losses must be a vector"),
        (lambda: holdout.Ladder(0.1).submit([]), "losses must be a vector"),
        (lambda: holdout.ladder_promise(100, 0), "num_submissions must"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_other_rows_are_refused():
    board = holdout.Ladder(0.1)
    board.submit([0.5, 0.5])
    with pytest.raises(ValueError, match="3 rows, but 2 before"):
        board.submit([0.5, 0.5, 0.5])
