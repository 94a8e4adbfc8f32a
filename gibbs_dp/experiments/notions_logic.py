"""Which notion implies which, decided for every ordered pair from arrows and counterexamples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

Verdict = Literal["self", "arrow", "implied", "counterexample", "refuted", "open"]
Pair = tuple[str, str]


def reachable(names: Sequence[str], arrows: Iterable[Pair]) -> set[Pair]:
    """Pairs ``(a, b)`` with a path from ``a`` to ``b``, each notion reaching itself.

    Examples
    --------
    >>> sorted(reachable("abc", [("a", "b"), ("b", "c")]) - {(x, x) for x in "abc"})
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    found = {(name, name) for name in names} | set(arrows)
    for middle in names:
        found |= {
            (a, b) for a in names for b in names if (a, middle) in found and (middle, b) in found
        }
    return found


def decide(
    names: Sequence[str], arrows: Sequence[Pair], missing: Sequence[Pair]
) -> dict[Pair, Verdict]:
    """Decide every ordered pair of notions.

    A counterexample ``s`` without ``e`` refutes ``a => b`` whenever ``s => a`` and ``b => e``,
    since the three together would give ``s => e``.

    Parameters
    ----------
    names
        The notions.
    arrows, missing
        Pairs with an inequality, and pairs with a counterexample.

    Returns
    -------
    dict
        The verdict of every ordered pair; "open" where neither decides it.

    Raises
    ------
    ValueError
        If a counterexample contradicts the arrows.

    Examples
    --------
    >>> verdicts = decide("abc", [("a", "b"), ("b", "c")], [("c", "b")])
    >>> verdicts["a", "c"], verdicts["c", "a"], verdicts["b", "a"]
    ('implied', 'refuted', 'open')
    """
    implied = reachable(names, arrows)
    refuted = {
        (a, b)
        for s, e in missing
        for a in names
        for b in names
        if (s, a) in implied and (b, e) in implied
    }
    if implied & refuted:
        a, b = sorted(implied & refuted)[0]
        raise ValueError(f"contradiction: {a} => {b} is both implied and refuted; check both.")
    verdicts: dict[Pair, Verdict] = {}
    for a in names:
        for b in names:
            verdicts[a, b] = (
                "self"
                if a == b
                else "arrow"
                if (a, b) in arrows
                else "implied"
                if (a, b) in implied
                else "counterexample"
                if (a, b) in missing
                else "refuted"
                if (a, b) in refuted
                else "open"
            )
    return verdicts
