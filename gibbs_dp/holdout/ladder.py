"""The Ladder: a leaderboard that many submissions cannot climb (Blum & Hardt 2015)."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from gibbs_dp.holdout.state import Held, Stateful
from gibbs_dp.information import checks

# Its score, and the losses of the submission that set it.
Board = tuple[float, Float[np.ndarray, " best"] | None]


class Ladder(Stateful):
    """Answers a submission with the best loss so far, and moves only for a real improvement.

    With a step ``eta``: a submission whose holdout loss is below the last score by more than
    ``eta`` sets the score to its loss rounded to a multiple of ``eta``. Without one (the
    parameter-free form): by more than ``s/sqrt(n)``, ``s`` the standard deviation over rows of the
    difference to the last submission that moved the score, rounded to a multiple of ``1/n``.

    For accuracy queries, hand in errors (1 - accuracy). No noise is added and nothing here is
    differentially private: the promise is about the score alone (`ladder_promise`).

    There is one board: many copies of it, each asked what the others are not, would tell more than
    is promised. So a copy, by ``copy``, ``pickle`` or in a forked process, scores nothing. The same
    submissions in the same order put a new board where this one is.

    Parameters
    ----------
    step
        ``eta`` in ``(0, 1)``; None for the parameter-free form.

    Raises
    ------
    ValueError
        If the step is not in ``(0, 1)``.

    Examples
    --------
    >>> board = Ladder(step=0.1)
    >>> board.submit([1, 0, 0, 0]), board.submit([0.9, 0, 0, 0]), board.submit([0, 0, 0, 0])
    (0.2, 0.2, 0.0)
    """

    def __init__(self, step: float | None = None) -> None:
        self.step = None if step is None else checks.unit_interval("step", step, open_left=True)
        self._held = Held()
        self._held.open.append((math.inf, None))

    @property
    def score(self) -> float:
        """The score on the board; infinite before the first submission, and of a copy."""
        held = self._held
        return math.inf if held.is_lost or not held.open else float(held.open[-1][0])

    def submit(self, losses: ArrayLike) -> float:
        """Score a submission.

        Parameters
        ----------
        losses
            Of the submission on every row of the holdout, in [0, 1], ``[rows]``.

        Returns
        -------
        float
            The score on the board, a loss.

        Raises
        ------
        ValueError
            If losses are outside [0, 1], their number is not that of the first submission, or this
            is a copy of a board.
        """
        checks.refuse_masked("losses", losses)
        found = np.asarray(losses, dtype=np.float64)
        if found.ndim != 1 or found.size == 0 or not np.all((found >= 0) & (found <= 1)):
            raise ValueError("losses must be a vector of numbers in [0, 1], one a row; rescale it.")
        held = self._held
        if held.is_lost:
            raise ValueError(
                "ladder: this is a copy of a board (or its process was forked), and the promise is "
                "of one board; submit to the original, or submit everything again, in order, to a "
                "new Ladder."
            )
        with held.lock:
            board = held.open[-1]
            held.open[-1] = board = _moved(board, found, self.step)
        return float(board[0])


def _moved(board: Board, found: Float[np.ndarray, " rows"], step: float | None) -> Board:
    """Score and best losses after one more submission."""
    score, best = board
    if best is not None and found.size != best.size:
        raise ValueError(
            f"losses: {found.size} rows, but {best.size} before; score every submission on the "
            "same rows."
        )
    needed = step
    if needed is None:
        spread = 0.0 if best is None else float(np.std(found - best))
        needed = spread / math.sqrt(found.size)
    # A first submission always sets the score.
    if best is None or found.mean() < score - needed:
        grain = step or 1 / found.size
        return round(float(found.mean()) / grain) * grain, found.copy()
    return board


def ladder_promise(n: int, num_submissions: int, *, beta: float = 0.05) -> tuple[float, float]:
    """Find the step with the best promise: ``(eta, epsilon + eta)``, kept with ``1 - beta``.

    For ``k`` adaptive submissions on independent rows the score is ever off the best true loss by
    more than ``epsilon + eta`` with probability at most
    ``exp(-2 epsilon^2 n + (1/eta + 2) ln(4 k/eta) + 1)`` (Blum & Hardt 2015, Theorem 3.1).

    Parameters
    ----------
    n, num_submissions
        Rows, and adaptive submissions.
    beta
        Failure probability.

    Returns
    -------
    step, error
        ``eta`` and ``epsilon + eta``.

    Examples
    --------
    >>> step, error = ladder_promise(100_000, 1000)
    >>> round(step, 4), round(error, 4)
    (0.0256, 0.0754)
    """
    checks.unit_interval("beta", beta, open_left=True)
    checks.count("n", n)
    checks.count("num_submissions", num_submissions)

    def error(step: float) -> float:
        exponent = (1 / step + 2) * math.log(4 * num_submissions / step) + 1 - math.log(beta)
        return step + math.sqrt(exponent / (2 * n))

    def slope(log_step: float) -> float:
        return error(math.exp(log_step + 1e-5)) - error(math.exp(log_step - 1e-5))

    low, high = math.log(1e-6), math.log(0.999)
    step = math.exp(brentq(slope, low, high)) if slope(high) > 0 else 0.999
    return step, error(step)
