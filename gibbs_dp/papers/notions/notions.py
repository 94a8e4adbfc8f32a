"""All notions of privacy: over gamma on one problem, in a table, and what implies what."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gibbs_dp import io
from gibbs_dp.exact import FiniteChannel, FiniteProblem, ordered_datasets
from gibbs_dp.exact import notions as finite
from gibbs_dp.exact.notions import worst_group_divergence
from gibbs_dp.information import bounds
from gibbs_dp.information.divergences import batched
from gibbs_dp.papers.notions.implications import (
    FAMILIES,
    ArrowRecord,
    MissingRecord,
    check_arrows,
    check_missing,
)
from gibbs_dp.papers.notions.measures import NOTIONS, Curves, curves, order_records
from gibbs_dp.papers.on_average_kl.counterexamples import max_information_of_one_law
from gibbs_dp.papers.on_average_kl.verify import FIXTURE_N, fixture
from gibbs_dp.papers.tables import Row
from gibbs_dp.papers.verify.check import Record, counterexample, inequality

# Checks of the table of notions: post-processing, composition, groups.

SOURCE = "random channels"
NUM_PAIRS = 6
# A smaller divergence says nothing of a bound.
SMALL = 1e-9
# Notions that add when the second algorithm satisfies its own for every output of the first.
ADAPTIVE = ("dp", "zcdp", "renyi", "kl", "approx", "tv", "personalized")
# Notions for which that is not enough; they add when the second ignores the first.
NOT_ADAPTIVE = ("random", "on_average", "mutual")


def _random_law(rng: np.random.Generator, *shape: int) -> np.ndarray:
    scale = 10 ** rng.uniform(-1, 0.5)
    weight = np.exp(scale * rng.normal(size=shape))
    return np.asarray(weight / weight.sum(axis=-1, keepdims=True))


def _closest(name: str, cases: list[tuple[float, float]]) -> Record:
    """Record of the case with the least room, failing if any fails."""
    left, right = max(cases, key=lambda case: case[0] - case[1])
    return inequality(name, SOURCE, left, right, 1e-7)


def _tightest(name: str, cases: list[tuple[float, float]]) -> Record:
    """Record of the case whose left side is the largest share of its right one, but for zeros."""
    seen = [case for case in cases if case[0] > SMALL]
    left, right = max(seen, key=lambda case: case[0] / max(case[1], SMALL))
    return inequality(name, SOURCE, left, right, 1e-7)


def closure_records() -> list[Record]:
    """Post-processing of every notion, composition of all but two."""
    rng = np.random.default_rng(1)
    processed: dict[str, list[tuple[float, float]]] = {key: [] for key in NOTIONS}
    independent: dict[str, list[tuple[float, float]]] = {key: [] for key in NOTIONS}
    adaptive: dict[str, list[tuple[float, float]]] = {key: [] for key in ADAPTIVE}
    for i in range(NUM_PAIRS):
        n, probs = 1 + i % 2, rng.dirichlet(np.ones(2))
        first = FiniteChannel(_random_law(rng, 2**n, 3), probs, n)
        second = FiniteChannel(_random_law(rng, 2**n, 2), probs, n)
        kernel = _random_law(rng, 2**n, 3, 2)
        given = [FiniteChannel(kernel[:, w], probs, n) for w in range(3)]
        coarse = first.post_process(_random_law(rng, 3, 2))
        both, chained = first.then(second.probabilities), first.then(kernel)
        for key, notion in NOTIONS.items():
            alone = notion.measure(first)
            processed[key].append((notion.measure(coarse), alone))
            independent[key].append((notion.measure(both), alone + notion.measure(second)))
            if key in adaptive:
                worst = max(notion.measure(channel) for channel in given)
                adaptive[key].append((notion.measure(chained), alone + worst))
    # These two do not compose: see `composition_counterexamples`.
    del independent["generalization"], independent["max"]
    parts = (
        ("post-processing", processed),
        ("composition", independent),
        ("adaptive composition", adaptive),
    )
    return [
        _closest(f"{what}: {NOTIONS[key].title}", cases)
        for what, found in parts
        for key, cases in found.items()
    ]


def composition_counterexamples() -> list[Record]:
    """Where composition fails: two notions always, three more when it is adaptive."""
    bits = ordered_datasets(3, 2)
    # Parities of three and of two bits say nothing about one bit; together they reveal it.
    all_three, first_two = (np.eye(2)[bits[:, :k].sum(axis=1) % 2] for k in (3, 2))
    generalization = NOTIONS["generalization"].measure
    parities = [FiniteChannel(law, [0.5, 0.5], 3) for law in (all_three, first_two)]
    together = parities[0].then(first_two)
    records = [
        counterexample(
            "generalization adds under composition",
            "parities of three and of two bits",
            generalization(together),
            generalization(parities[0]) + generalization(parities[1]),
        ),
        max_information_of_one_law()[0],
    ]
    # A keeps the value half of the time; B then says whether A did. For every fixed output B is
    # about one rare value, so it reveals little; for A's actual output it reveals all.
    num = 20
    uniform = np.full(num, 1 / num)
    first = FiniteChannel(0.5 * np.eye(num) + 0.5 / num, uniform, 1)
    hit = np.where(np.eye(num, dtype=bool), 0.999, 0.001)
    # For random DP, A itself is loud for every pair: start from noise that is not.
    quiet = FiniteChannel(0.02 * np.eye(num) + 0.98 / num, uniform, 1)
    kernel = np.stack([hit, 1 - hit], axis=2)
    given = [FiniteChannel(kernel[:, w], uniform, 1) for w in range(num)]
    for key in NOT_ADAPTIVE:
        notion, start = NOTIONS[key], quiet if key == "random" else first
        worst = max(notion.measure(channel) for channel in given)
        records.append(
            counterexample(
                f"adaptive composition: {notion.title}",
                "is theta the example?",
                notion.measure(start.then(kernel)),
                notion.measure(start) + worst,
            )
        )
    return records


def group_records() -> list[Record]:
    """Check what groups of two lose at most, and that KL-privacy promises them nothing."""
    rng = np.random.default_rng(2)
    cases: dict[str, list[tuple[float, float]]] = {"dp": [], "tv": [], "zcdp": [], "random": []}
    for _ in range(NUM_PAIRS):
        channel = FiniteChannel(_random_law(rng, 8, 3), rng.dirichlet(np.ones(2)), 3)
        pairs = list(channel.replacements([0, 1]))
        c = NOTIONS["random"].measure(channel)
        loss, mass = finite.random_dp_law(pairs)
        cases["dp"].append((finite.worst(pairs, batched.max_divergence), 2 * channel.dp_epsilon()))
        cases["tv"].append((finite.worst(pairs, batched.total_variation), 2 * channel.tv_privacy()))
        cases["zcdp"].append((finite.zcdp(pairs), 4 * channel.zcdp()))
        cases["random"].append((float(mass[loss > 2 * c].sum()), 2 * c))
    factor = {"dp": "2 eps", "tv": "2 TV", "zcdp": "4 rho", "random": "2 eps for all but 2 omega"}
    records = [
        _closest(f"groups of two: {NOTIONS[key].title}, {factor[key]}", found)
        for key, found in cases.items()
    ]
    token = np.array([1e-7, 1e-3, 1e-2])[ordered_datasets(2, 2).sum(axis=1)]
    rare = FiniteChannel(np.column_stack([token, 1 - token]), [0.5, 0.5], 2)
    two = finite.worst(rare.replacements([0, 1]), batched.kl)
    name = "groups of two cost at most 2 KL-privacy"
    records.append(counterexample(name, "a rare token", two, 2 * rare.kl_privacy()))
    return records + approximate_group_records()


def group_delta(epsilon: float, delta: float, group_size: int) -> float:
    """``delta`` of ``k`` people at ``k epsilon``: ``delta (e^(k eps) - 1) / (e^eps - 1)``.

    A step from one person to the next costs ``e^eps`` times what the steps before it cost
    (Vadhan 2017, Lemma 2.2, where it is bounded by ``k e^(k eps) delta``).

    >>> group_delta(0.0, 0.1, 3), round(group_delta(1.0, 0.01, 2), 6)
    (0.30000000000000004, 0.037183)
    """
    if epsilon == 0:
        return group_size * delta
    return delta * math.expm1(group_size * epsilon) / math.expm1(epsilon)


def approximate_group_records() -> list[Record]:
    """Check how (eps, delta)-DP grows with groups, by exact hockey sticks."""
    rng = np.random.default_rng(3)
    cases: dict[int, list[tuple[float, float]]] = {2: [], 3: []}
    for _ in range(NUM_PAIRS):
        channel = FiniteChannel(_random_law(rng, 8, 3), [0.5, 0.5], 3)
        loss = rng.normal(size=(4, 2))
        table = FiniteProblem(loss, [0.5, 0.5], np.full(4, 0.25)).table(rng.uniform(0.2, 2.0), 4)
        for epsilon in (0.0, 0.1, 0.5, 1.0):
            for k, found in cases.items():
                one, group = (
                    max(
                        finite.worst(channel.replacements(who), _stick(c))
                        for who in itertools.combinations(range(3), size)
                    )
                    for size, c in ((1, epsilon), (k, k * epsilon))
                )
                found.append((group, group_delta(epsilon, one, k)))
                one = worst_group_divergence(table, 1, _stick(epsilon))
                group = worst_group_divergence(table, k, _stick(k * epsilon))
                found.append((group, group_delta(epsilon, one, k)))
    growth = "k eps, delta (e^(k eps) - 1)/(e^eps - 1)"
    records = [
        _tightest(f"groups of {k}: {NOTIONS['approx'].title}, {growth}", found)
        for k, found in cases.items()
    ]
    name = f"groups under Gaussian noise: {NOTIONS['approx'].title}, {growth}"
    normal = [
        (bounds.delta_from_gdp(k * mu, k * c), group_delta(c, bounds.delta_from_gdp(mu, c), k))
        for mu in (0.1, 0.5, 1.0, 2.0)
        for c in (0.05, 0.5, 1.0)
        for k in (2, 3, 10)
    ]
    records.append(_tightest(name, normal))
    alone, three = bounds.delta_from_gdp(1.0, 1.0), bounds.delta_from_gdp(3.0, 3.0)
    name = "groups of three cost at most (3 eps, 3 delta)"
    return [*records, counterexample(name, "Gaussian noise", three, 3 * alone)]


def _stick(epsilon: float) -> batched.Divergence:
    return functools.partial(batched.hockey_stick, g=math.exp(epsilon))


def property_records() -> list[Record]:
    """Run every check of this file."""
    return [*closure_records(), *composition_counterexamples(), *group_records()]


# Which notion implies which, decided for every ordered pair from arrows and counterexamples.

Verdict = Literal["self", "arrow", "implied", "counterexample", "refuted", "open"]
Pair = tuple[str, str]


def reachable(names: Sequence[str], arrows: Iterable[Pair]) -> set[Pair]:
    """Pairs ``(a, b)`` with a path from ``a`` to ``b``, each notion reaching itself.

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


GAMMAS = tuple(float(g) for g in np.geomspace(0.01, 30.0, 25))
COLUMNS = (
    "title",
    "over_datasets",
    "over_outputs",
    "composition",
    "post_processing",
    "groups",
    "generalization",
)


@dataclass(frozen=True)
class Notions:
    """Everything that the pictures and tables show."""

    gammas: tuple[float, ...]
    n: int
    curves: Curves
    order: list[Record]
    arrows: list[ArrowRecord]
    missing: list[MissingRecord]
    properties: list[Record]
    verdicts: dict[Pair, Verdict]

    @property
    def failures(self) -> list[str]:
        """What does not hold, a line each, undecided pairs included."""
        named = [*self.order, *self.properties]
        found = [f"{record.name} [{record.source}]" for record in named if not record.holds]
        found += [f"{r.start} => {r.end} [{r.formula}]" for r in self.arrows if not r.holds]
        found += [f"{r.start} =/=> {r.end} [{r.family}]" for r in self.missing if not r.holds]
        undecided = [pair for pair, verdict in self.verdicts.items() if verdict == "open"]
        return found + [f"{a} => {b} is open" for a, b in undecided]

    def parts(self) -> dict[str, list[Row]]:
        """Rows by kind."""
        records = (*self.order, *self.properties)
        return {
            "notion": notion_rows(),
            "implication": implication_rows(self),
            "property": [record._asdict() for record in records],
            "curve": [
                {"gamma": gamma, **{name: float(v[i]) for name, v in self.curves.items()}}
                for i, gamma in enumerate(self.gammas)
            ],
        }


def compare_notions(
    problem: FiniteProblem | None = None,
    n: int = FIXTURE_N,
    gammas: Sequence[float] = GAMMAS,
    say: io.Say = io.silent,
) -> Notions:
    """Compute the curves of one problem, and check every arrow and counterexample."""
    grid = tuple(float(g) for g in gammas)
    if not grid or not all(a < b for a, b in zip((0.0, *grid), grid, strict=False)):
        raise ValueError(f"gammas: must be positive and increasing, got {list(grid)}.")
    say("computing every notion over gamma")
    found = curves(problem if problem is not None else fixture(), grid, n)
    say("checking implications on random channels")
    arrows = check_arrows()
    say("searching for counterexamples")
    missing = check_missing()
    say("checking post-processing, composition and groups")
    properties = property_records()
    verdicts = decide(
        list(NOTIONS), [(r.start, r.end) for r in arrows], [(r.start, r.end) for r in missing]
    )
    order = order_records(found, grid)
    return Notions(grid, n, found, order, arrows, missing, properties, verdicts)


def notion_rows() -> list[Row]:
    """One row per notion: the table."""
    return [
        {"notion": key, **{column: getattr(notion, column) for column in COLUMNS}}
        for key, notion in NOTIONS.items()
    ]


def implication_rows(notions: Notions) -> list[Row]:
    """One row per ordered pair of notions: the verdict, and the numbers of the record behind it."""
    arrows = {(r.start, r.end): r for r in notions.arrows}
    missing = {(r.start, r.end): r for r in notions.missing}
    rows = []
    for (start, end), verdict in notions.verdicts.items():
        if start == end:
            continue
        row: Row = {"from": start, "to": end, "verdict": verdict}
        if (start, end) in arrows:
            arrow = arrows[start, end]
            row |= {"statement": arrow.formula, "source": arrow.source}
            row |= {"from_value": arrow.start_value, "to_value": arrow.end_value}
            row |= {"bound": arrow.bound, "holds": arrow.holds}
        elif (start, end) in missing:
            found = missing[start, end]
            case = f"{found.family} ({found.parameter:g}): {FAMILIES[found.family][2]}"
            row |= {"statement": case, "source": "search", "from_value": found.start_value}
            row |= {"to_value": found.end_value, "holds": found.holds}
        rows.append(row)
    return rows
