"""Membership of one example from one draw, the other examples unknown: an attack and its bounds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from gibbs_dp.estimators.average import Average
from gibbs_dp.estimators.left_out import Groups, groups_of, left_out

# Examples of other datasets that each draw is asked about.
NON_MEMBERS = 64
# Of sums of products that underflow: less than any that decides something.
_LEAST = 1e-290
_LARGEST_LOG = 300.0


class Membership(NamedTuple):
    """What one draw says about one example being among the data.

    Attributes
    ----------
    advantage
        True less false positives of the attack; in mean a lower bound of the best advantage.
    auc
        Of the attack's score; in mean a lower bound of the best area.
    pair_information
        Lower bound in mean of ``I(theta; U | z_0, z_1)`` in nats: which of two examples, a fair
        coin ``U`` says, was among the data.
    advantage_upper
        Upper bound of the best advantage.
    """

    advantage: Average
    auc: Average
    pair_information: Average
    advantage_upper: Average


class MembershipScores:
    """Accumulates log odds of membership, a block of draws at a time.

    For a draw ``theta`` and an example ``z`` the score is ``log mean_k p(theta | Z_k with z as its
    first example) / mean_k p(theta | Z_k)``, an estimate of ``log p(theta | z_i = z) / p(theta)``
    (Yeom et al. 2018 have the setting). Draw and example are of one half of the datasets, ``Z_k``
    of the other: whatever these and their normalizers are, the score is a rule found without them.
    So what is measured of it, at a threshold of 0 that was set beforehand, bounds
    the best attacker from below on average. What the rule's own luck does to it is of second
    order, as the rule is nearly the best, and not in the errors.

    A draw is asked about its own dataset's first example and about those of some other datasets.
    Given all these datasets it could have been drawn for any of them, so each counts as the member
    with its posterior's share of their mixture: the same mean as of the own example alone, with
    less noise.

    Parameters
    ----------
    gain
        What ``Z_k``'s log normalizer gains when its first example becomes that of ``Z_j``, nats.
    """

    def __init__(self, gain: Float[np.ndarray, "owners datasets"]) -> None:
        count = gain.shape[0]
        self.groups: Groups = groups_of(count)
        self._count = count
        # Even: the example's dataset is in the half of the draw's.
        asked = min(NON_MEMBERS, count // 2 - 1)
        shifts = 2 + 2 * (np.arange(asked) * (count // 2 - 1) // asked)
        self._shifts = np.concatenate([[0], shifts])
        self._gain = np.asarray(gain, np.float64)
        self._rows: list[_Scored] = []

    def add(
        self,
        log_density: Float[np.ndarray, "rows datasets"],
        log_likelihood: Float[np.ndarray, "rows datasets"],
        owner: Int[np.ndarray, " rows"],
    ) -> None:
        """Add draws.

        Parameters
        ----------
        log_density
            Of every dataset's posterior at every draw, up to a constant of the draw.
        log_likelihood
            Minus gamma times the loss of every draw on every dataset's first example.
        owner
            Dataset that each draw came from.
        """
        x, each = (np.asarray(a, np.float64) for a in (log_density, log_likelihood))
        for half in (0, 1):
            mine = owner % 2 == half
            if mine.any():
                self._rows.append(self._scored(x[mine], each[mine], owner[mine], half))

    def _scored(
        self,
        x: Float[np.ndarray, "rows datasets"],
        each: Float[np.ndarray, "rows datasets"],
        owner: Int[np.ndarray, " rows"],
        half: int,
    ) -> _Scored:
        """Score draws of one half by the datasets of the other."""
        rows, away = np.arange(owner.size), slice(1 - half, None, 2)
        x = x - x[rows, owner][:, None]
        after = log_product((x - each)[:, away], -self._gain[half::2, away].T) + each[:, half::2]
        before = np.logaddexp.reduce(x[:, away], axis=1)
        score = after - before[:, None]
        asked = self._asked(owner)
        of = asked // 2, rows[:, None]
        mixture = np.logaddexp.reduce(x[:, half::2], axis=1)
        size = x[0, half::2].size / x[0, away].size
        seen = score[of[1], of[0]]
        moved = np.abs(np.expm1(np.minimum(seen, _LARGEST_LOG)))
        moved *= 0.5 * size * np.exp(before - mixture)[:, None]
        return _Scored(owner, asked, x[of[1], asked], seen, moved)

    def _asked(self, owner: Int[np.ndarray, " rows"]) -> Int[np.ndarray, "rows asked"]:
        """Datasets whose examples a draw is asked about: its own, and others of its half."""
        fold = owner[:, None] % 2
        size = (self._count + 1 - fold) // 2
        return np.asarray(2 * ((owner[:, None] + self._shifts) // 2 % size) + fold)

    def result(self) -> Membership:
        """Rates of the attack, over draws and examples of all datasets, with their errors."""
        owner, asked, log_density, score, moved = (
            np.concatenate(part) for part in zip(*self._rows, strict=True)
        )
        keep, of = self.groups.keep, self.groups.of
        rows, group = keep[of[owner]], of[asked]
        size = asked.shape[1]
        # Of a draw's own example, the rate at which its dataset is drawn from the half's.
        share = np.full(size, (1.0 - 2.0 / self._count) / (size - 1))
        share[0] = 2.0 / self._count
        density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
        pairs = _PairSums(density, score, group, self.groups.count)
        order = _Order(score)
        curves = np.empty((4, rows.shape[1]))
        for c in range(rows.shape[1]):
            there = keep[group, c]
            row = rows[:, c] / np.sum(rows[:, c])
            count = np.sum(there, axis=1, keepdims=True)
            member = _shares(density * there) * row[:, None]
            anyone = there / count * row[:, None]
            # Anyone of so many may be the member.
            own = float(np.sum(row * (1.0 / count[:, 0])))
            curves[0, c] = np.sum((member - anyone)[score > 0]) / (1.0 - own)
            curves[1, c] = (order.area(member, anyone) - 0.5 * own) / (1.0 - own)
            curves[2, c] = np.sum(row * pairs.mean(c - 1))
            curves[3, c] = np.sum(row * np.sum(_shares(there * share) * moved, axis=1))
        return Membership(*(left_out(curve, self._count) for curve in curves))


class _Scored(NamedTuple):
    """Draws and the examples that each is asked about, the first of them its own."""

    owner: Int[np.ndarray, " rows"]
    asked: Int[np.ndarray, "rows asked"]
    log_density: Float[np.ndarray, "rows asked"]  # of the draw under their datasets
    score: Float[np.ndarray, "rows asked"]
    moved: Float[np.ndarray, "rows asked"]  # half the distance of densities, over the mixture's


def _shares(weights: Float[np.ndarray, "rows asked"]) -> Float[np.ndarray, "rows asked"]:
    total = np.sum(weights, axis=1, keepdims=True)
    return weights / np.where(total > 0, total, 1.0)


class _Order:
    """Scores in order, for areas under curves."""

    def __init__(self, score: Float[np.ndarray, "rows asked"]) -> None:
        flat = score.ravel()
        self._order = np.argsort(flat)
        ends = [np.searchsorted(flat[self._order], flat, side=s) for s in ("left", "right")]
        self._below, self._upto = ends

    def area(
        self, member: Float[np.ndarray, "rows asked"], other: Float[np.ndarray, "rows asked"]
    ) -> float:
        """Chance that a member's score is above another's, ties counted half."""
        sums = np.concatenate([[0.0], np.cumsum(other.ravel()[self._order])])
        half = 0.5 * (sums[self._below] + sums[self._upto])
        return float(np.sum(member.ravel() * half) / (np.sum(member) * sums[-1]))


class _PairSums:
    """``log 2 - log(1 + exp(score of another - score of a member))``, averaged over pairs.

    Either may be left out by its group: sums over pairs are kept by the group of the member, of
    the other, and of both where it is the same.
    """

    def __init__(
        self,
        density: Float[np.ndarray, "rows asked"],
        score: Float[np.ndarray, "rows asked"],
        group: Int[np.ndarray, "rows asked"],
        count: int,
    ) -> None:
        size = score.shape[1]
        as_member, as_other, both = (np.zeros((score.shape[0], count)) for _ in range(3))
        rows = np.arange(score.shape[0])
        for k in range(size):
            value = np.log(2.0) - np.logaddexp(0.0, score - score[:, k, None])
            value[:, k] = 0.0
            value *= density[:, k, None]
            as_member[rows, group[:, k]] += value.sum(axis=1)
            is_same = group == group[:, k, None]
            both[rows, group[:, k]] += np.sum(value * is_same, axis=1)
            for j in range(size):
                as_other[rows, group[:, j]] += value[:, j]
        self._total = as_member.sum(axis=1)
        self._without = as_member + as_other - both
        self._density, self._group = density, group

    def mean(self, left_out: int) -> Float[np.ndarray, " rows"]:
        """Of every row, over pairs none of which is in a group; -1: over all."""
        there = self._group != left_out
        total = self._total if left_out < 0 else self._total - self._without[:, left_out]
        weight = np.sum(self._density * there, axis=1) * (np.sum(there, axis=1) - 1.0)
        return total / np.where(weight > 0, weight, 1.0)


def log_product(
    a: Float[np.ndarray, "rows terms"], b: Float[np.ndarray, "terms columns"]
) -> Float[np.ndarray, "rows columns"]:
    """``log sum_t exp(a_rt + b_tc)``; sums that underflow stay finite.

    Parameters
    ----------
    a, b
        Logarithms; ``-inf`` for terms that are not there.

    Returns
    -------
    array
        At least -667 below the largest terms of ``a``'s row and ``b``'s column.

    Examples
    --------
    >>> round(float(log_product(np.zeros((1, 3)), np.zeros((3, 1)))[0, 0]), 6)  # log 3
    1.098612
    """
    top_a, top_b = a.max(axis=1, keepdims=True), b.max(axis=0, keepdims=True)
    sums = np.exp(a - top_a) @ np.exp(b - top_b)
    return np.asarray(np.log(np.maximum(sums, _LEAST)) + top_a + top_b)
