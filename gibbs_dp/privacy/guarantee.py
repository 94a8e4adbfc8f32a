"""What a release promises, with everything that the promise rests on."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from gibbs_dp.information import checks
from gibbs_dp.information.bounds import approximate_draw
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.io.files import printable, shown
from gibbs_dp.privacy.dependent_rows import NO_PURE
from gibbs_dp.privacy.dependent_rows import PREFIX as BAYESIAN
from gibbs_dp.privacy.figures import ABSOLUTE, NOT_COVERED, RELATIVE, check_figures, round_up
from gibbs_dp.results import page
from gibbs_dp.results.base import ResultWithPage
from gibbs_dp.results.page import Page, Section
from gibbs_dp.results.table import block, counted, facts, remarks

# Mechanisms of this library, and how the sentence "this holds ..." ends for each.
HOLDS = {
    "exact draw": "for exact draws, which a Markov chain's draws only approximate",
    "approximate draw": "if the draws are as close to exact ones as is declared",
    "proven draw": "for draws whose distance from exact ones is proven",
    "chain": "for the chain that was run, converged or not",
    "direct draw": "for draws made from a law that is known in closed form",
}
FINITE_PRECISION = (
    "finite precision: floating-point arithmetic does not have the laws that are assumed here "
    "(Mironov 2012); nothing is hardened against attacks on the lowest bits."
)
CURRENCIES = {"pure_epsilon": "pure epsilon", "zcdp": "zCDP rho", "gdp": "Gaussian DP mu"}
# What is kept of the exact draws that others are near to.
EXACT_FIGURES = ("epsilon", "delta", *CURRENCIES)
IDEALIZED = "of exact draws; the draws of a Markov chain are approximate"
# A delta from which on a caveat says what it allows.
LARGE_DELTA = 0.01


def caveats_of_delta(delta: float) -> tuple[str, ...]:
    """Say what a large delta allows; nothing of a small one."""
    if delta < LARGE_DELTA:
        return ()
    return (
        f"delta = {delta:.3g}: a mechanism that publishes every record with this probability "
        "meets it, too; a delta should be far below one over the number of records.",
    )


@dataclass(frozen=True)
class Guarantee(ResultWithPage):
    """A differential-privacy guarantee and its assumptions; numbers in nats.

    Whoever reads it may use any of its figures, so they must be of one release: a mechanism that
    says nothing of itself, and figures that contradict each other, are refused when it is made.

    Parameters
    ----------
    adjacency
        Which datasets count as neighbours.
    mechanism
        "exact draw": holds for draws of the posterior itself, which a Markov chain only
        approximates. "approximate draw": the same plus a total variation that is declared; "proven
        draw": plus one that is proven, unless it has pure DP by itself. "chain": holds
        for the chain that was run, converged or not. "direct draw": of a posterior whose law is
        known in closed form, drawn from it without a chain. Any other name: a mechanism of your
        own, which ``holds`` explains.
    num_draws
        Draws that it covers together.
    gamma
        Inverse temperature; None for a mechanism of your own that has none.
    epsilon, delta
        ``(epsilon, delta)``-DP; ``epsilon`` is infinite where there is none.
    pure_epsilon, zcdp, gdp
        The same release in other currencies: pure DP, ``rho`` of zero-concentrated DP, ``mu`` of
        Gaussian DP; None where it has none.
    renyi
        Pairs ``(order, value)`` of the Rényi curve; empty where there is none.
    assumptions
        What must be true for it to hold.
    caveats
        What it does not cover.
    total_variation
        Distance of the draws' law from the posterior; of "approximate draw" and "proven draw" only.
    bayesian_epsilon
        Bayesian DP under a declared law of dependent rows, nats: against an adversary who knows
        any other rows. None where no law was declared (all else is DP, about datasets that differ
        in one row), infinite where the release has none.
    holds
        Of a mechanism of your own only: how the sentence "this holds ..." ends, "for ...".
    exact
        Guarantee of the exact draws that these are within ``total_variation`` of; None where it is
        not known. Its Gaussian or zero-concentrated DP is what adds up over releases, beside the
        total variation: `compose` and ledgers use it.

    Examples
    --------
    >>> g = Guarantee("replace-one", "exact draw", 1, 1.0, epsilon=1.0, delta=0.0, pure_epsilon=1.0)
    >>> print(g.summary().splitlines()[0])
    (1, 0)-DP, replace-one neighbours, 1 draw at gamma = 1
    >>> g.within_total_variation(1e-6).mechanism
    'approximate draw'
    """

    adjacency: Adjacency
    mechanism: str
    num_draws: int
    gamma: float | None
    epsilon: float
    delta: float
    pure_epsilon: float | None = None
    zcdp: float | None = None
    gdp: float | None = None
    renyi: tuple[tuple[float, float], ...] = ()
    assumptions: tuple[str, ...] = ()
    caveats: tuple[str, ...] = (FINITE_PRECISION,)
    total_variation: float | None = None
    bayesian_epsilon: float | None = None
    holds: str | None = None
    exact: Guarantee | None = None

    def __post_init__(self) -> None:
        checks.adjacency(self.adjacency)
        self._check_mechanism()
        checks.count("num_draws", self.num_draws)
        if self.gamma is not None:
            checks.nonnegative("gamma", self.gamma)
        others = {name: getattr(self, name) for name in CURRENCIES}
        for name, value in others.items():
            if value is not None:
                checks.nonnegative(name, value)
        check_figures(self.epsilon, self.delta, **others, has_more=bool(self.renyi))
        for order, value in self.renyi:
            checks.positive("renyi (an order)", order)
            checks.nonnegative("renyi (a value)", value, allow_infinite=True)
        for name in ("assumptions", "caveats"):
            texts = getattr(self, name)
            if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
                raise ValueError(f"{name} must be a tuple of sentences, got {checks.shown(texts)}.")
        self._check_bayesian()
        self._check_total_variation()

    def _check_mechanism(self) -> None:
        name = self.mechanism
        for field, text in (("mechanism", name), ("holds", self.holds)):
            is_line = isinstance(text, str) and text.isprintable() and bool(text.strip())
            if not (is_line or (field == "holds" and text is None)):
                raise ValueError(f"{field} must be one line of text, got {checks.shown(text)}.")
        if (name in HOLDS) == (self.holds is not None):
            raise ValueError(
                f"mechanism: {checks.shown(name)} must be one of {', '.join(map(repr, HOLDS))}, or "
                "another name, whose holds says for what it holds."
            )
        if name in HOLDS and self.gamma is None:
            raise ValueError(f"gamma: a guarantee of {name!r} has one; give it.")

    @property
    def scope(self) -> str:
        """For what it holds: ends the sentence "this holds ..."."""
        return HOLDS[self.mechanism] if self.holds is None else self.holds

    def _check_bayesian(self) -> None:
        if self.bayesian_epsilon is None:
            return
        found = checks.nonnegative("bayesian_epsilon", self.bayesian_epsilon, allow_infinite=True)
        if found < math.inf and not (found + ABSOLUTE) * (1 + RELATIVE) >= self._pure():
            raise ValueError(
                f"bayesian_epsilon: it is {found:.6g}, but an adversary who knows all other rows "
                f"learns as much as pure DP lets through ({self._pure():.6g}); give the figures of "
                "one release."
            )

    def _pure(self) -> float:
        """Pure DP: as it is stated, or by a delta of 0."""
        if self.pure_epsilon is not None:
            return self.pure_epsilon
        return self.epsilon if self.delta == 0 else math.inf

    def _check_total_variation(self) -> None:
        total, is_approximate = self.total_variation, self.mechanism == "approximate draw"
        is_proven = self.mechanism == "proven draw"
        if (total is not None) != is_approximate and not is_proven:
            raise ValueError(
                "total_variation: it is of an 'approximate draw', which must state it, and of a "
                "'proven draw'; use Guarantee.within_total_variation."
            )
        if total is None:
            if self.exact is not None:
                raise ValueError("exact: it belongs to a total_variation; leave it out.")
            return
        checks.nonnegative("total_variation", total)
        if self.renyi or any(getattr(self, name) is not None for name in CURRENCIES):
            raise ValueError(
                "total_variation: approximate draws have (epsilon, delta)-DP alone; leave out "
                f"{', '.join((*CURRENCIES, 'renyi'))}."
            )
        if math.isinf(self.epsilon):
            return
        if (exact := self.exact) is not None:
            mine = (self.adjacency, self.num_draws, self.gamma)
            is_mine = (exact.adjacency, exact.num_draws, exact.gamma) == mine
            if not (is_mine and exact.is_idealized and exact.epsilon <= self.epsilon):
                raise ValueError(
                    "exact: it must be of as many exact draws at the same gamma, for the same "
                    "neighbours, with no larger epsilon; give the figures of one release."
                )
        before = 0.0 if exact is None else exact.delta
        lost = approximate_draw(self.epsilon, before, total_variation=self.distance).delta
        if lost > self.delta * (1 + RELATIVE):
            raise ValueError(
                f"total_variation: {total:g} a draw costs a delta of {lost:.6g} at epsilon = "
                f"{self.epsilon:.6g}, and delta is {self.delta:g}; give the figures of one release."
            )

    @property
    def distance(self) -> float:
        """Total variation of all draws together from exact ones, rounded up; 0 without one."""
        if not self.total_variation:
            return 0.0
        return min(1.0, round_up(Fraction(self.total_variation) * self.num_draws))

    @property
    def is_idealized(self) -> bool:
        """Whether it holds for exact draws only, which no Markov chain makes."""
        return self.mechanism == "exact draw"

    def within_total_variation(self, total_variation: float) -> Guarantee:
        """Guarantee draws whose law is within ``tau`` of an exact draw's, for *every* dataset.

        ``m`` such draws are within ``m tau`` of ``m`` exact ones: ``(epsilon, delta + (1 +
        e^epsilon) m tau)``-DP. Pure, zero-concentrated, Gaussian and Bayesian DP are lost; what
        the exact draws have of them is kept in ``exact``.

        Parameters
        ----------
        total_variation
            ``tau`` of one draw; it is declared, never measured.

        Returns
        -------
        Guarantee
            Of as many approximate draws.

        Raises
        ------
        ValueError
            Unless this is a guarantee of exact draws, and when the sum reaches 1.
        """
        if self.mechanism != "exact draw":
            raise ValueError(
                f"total_variation: it applies to a guarantee of exact draws, not to one of "
                f"{self.mechanism!r}; leave it out."
            )
        checks.nonnegative("total_variation", total_variation)
        total, delta = min(1.0, self.num_draws * total_variation), 1.0
        if math.isfinite(self.epsilon):
            delta = approximate_draw(self.epsilon, self.delta, total_variation=total).delta
        figures = {name: getattr(self, name) for name in (*EXACT_FIGURES, "renyi")}
        exact = Guarantee(
            self.adjacency, self.mechanism, self.num_draws, self.gamma, caveats=(), **figures
        )
        if not delta < 1:
            raise ValueError(
                f"total_variation: {total_variation:g} leaves no guarantee at epsilon="
                f"{self.epsilon:g}; make the chain closer or epsilon smaller."
            )
        text = (
            f"the law of each draw is within total variation {total_variation:g} of the posterior "
            "for every dataset of the domain (declared, not measured)"
        )
        kept = [a.removeprefix("exact draws; ") for a in self.assumptions]
        caveats = self.caveats
        if self.bayesian_epsilon is not None:
            kept = [a for a in kept if not a.startswith(BAYESIAN)]
            caveats = (*(c for c in caveats if not c.startswith(BAYESIAN)), NO_PURE)
        return replace(
            self,
            mechanism="approximate draw",
            delta=delta,
            pure_epsilon=None,
            zcdp=None,
            gdp=None,
            renyi=(),
            assumptions=(*kept, text),
            caveats=caveats,
            total_variation=total_variation,
            bayesian_epsilon=None if self.bayesian_epsilon is None else math.inf,
            exact=exact,
        )

    @property
    def all_caveats(self) -> tuple[str, ...]:
        """What it does not cover, and what a large delta allows.

        >>> Guarantee("replace-one", "direct draw", 1, 1.0, 1.0, 0.5).all_caveats[-1][:45]
        'delta = 0.5: a mechanism that publishes every'
        """
        return (*self.caveats, *caveats_of_delta(self.delta))

    def summary(self) -> str:
        """Return the promise, then one line for every assumption and caveat."""
        others = [f"{text} {value:.6g}" for text, value in self._currencies()]
        lines = [self._head(), *(["also " + ", ".join(others)] if others else [])]
        if said := self._exact_in_words():
            lines.append(
                f"adds up  {said}, within total variation {self.total_variation:.3g} a draw"
            )
        if self.is_idealized:
            lines.append(f"IDEALIZED: {IDEALIZED}")
        if self.holds is not None:
            lines.append(f"holds    {self.holds}")
        lines += [f"assumes  {text}" for text in self.assumptions]
        lines += [f"caveat   {text}" for text in self.all_caveats]
        return "\n".join(lines)

    def _head(self) -> str:
        draws = "1 draw" if self.num_draws == 1 else f"{self.num_draws} draws"
        head = f"({self.epsilon:.6g}, {self.delta:.6g})-DP, {self.adjacency} neighbours"
        if self.gamma is not None:
            head += f", {draws} at gamma = {self.gamma:.6g}"
        elif self.num_draws > 1:
            head += f", {draws}"
        if self.bayesian_epsilon is None:
            return head
        return f"{head}; {self.bayesian_epsilon:.6g}-Bayesian DP of dependent rows"

    def _currencies(self) -> list[tuple[str, float]]:
        named = ((text, getattr(self, name)) for name, text in CURRENCIES.items())
        return [(text, value) for text, value in named if value is not None]

    def _exact_in_words(self) -> str:
        """Figures that add up over releases, of the exact draws that these are near to."""
        if self.exact is None:
            return ""
        return ", ".join(f"{text} {value:.6g}" for text, value in self.exact._currencies())

    def __repr__(self) -> str:
        kind = self.mechanism + ", idealized" * self.is_idealized
        rests = f"{counted(len(self.assumptions), 'assumption')}, " + counted(
            len(self.all_caveats), "caveat"
        )
        return f"Guarantee({self._head()}, {kind}, {rests})"

    def _repr_html_(self) -> str:
        figures = [(f"{text}", f"{value:.6g}") for text, value in self._currencies()]
        if self.total_variation is not None:
            figures.append((NAMES["total_variation"], f"{self.total_variation:g}"))
        if said := self._exact_in_words():
            figures.append((NAMES["exact"], said))
        told = [("IDEALIZED", IDEALIZED)] * self.is_idealized
        told += [("holds", self.holds)] if self.holds is not None else []
        told += [("assumes", text) for text in self.assumptions]
        told += [("caveat", text) for text in self.all_caveats]
        head = [("mechanism", self.mechanism), *figures]
        return block(self._head(), facts(head), remarks(told))

    def _page(self, title: str | None, about: Iterable[str]) -> Page:
        return guarantee_page(self, title, about)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings; what is absent is left out, infinity is ``"inf"``."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        told = {k: v for k, v in found.items() if v not in (None, ()) and k != "renyi"}
        if self.exact is not None:
            told["exact"] = {k: v for k, v in self.exact.to_dict().items() if k in EXACT_FIGURES}
        return {k: "inf" if v == math.inf else v for k, v in told.items()}


# A guarantee as a page: what is public of it.

TITLE = "A privacy guarantee"
NAMES = {
    "adjacency": "neighbours",
    "mechanism": "mechanism",
    "num_draws": "draws",
    "gamma": "gamma (inverse temperature)",
    "epsilon": "epsilon",
    "delta": "delta",
    "pure_epsilon": "pure epsilon",
    "bayesian_epsilon": "Bayesian DP epsilon, for the declared law of the rows",
    "zcdp": "zCDP rho",
    "gdp": "Gaussian DP mu",
    "total_variation": "total variation of draws from exact ones",
    "exact": "the exact draws have",
}
CHANGED = {
    "replace-one": "Replacing any one record",
    "add-remove": "Adding or removing any one record",
}
NO_PROMISE = (
    "The guarantee is about what one record changes. It does not hide what the data say as a "
    "whole, and a group of people loses more than one of them.",
    "Whatever else is released from the same data adds up; a ledger adds what is charged to it.",
    "It holds under the assumptions above, none of which is checked on the data, and for nothing "
    "else that is computed from them.",
)


def guarantee_page(promise: Guarantee, title: str | None = None, about: Iterable[str] = ()) -> Page:
    """Say a guarantee on a page."""
    before = page.section("What it is of", page.bullets(about))
    sections = (before, *promise_sections(promise), page.settings({}))
    is_void = any(text.startswith(NOT_COVERED) for text in promise.caveats)
    said = promise_in_words(promise)
    if is_void:
        said += " It does NOT cover what was taken from the data: see the caveats."
    return Page(title or TITLE, _what(promise), said, sections, is_warned=is_void)


def promise_in_words(promise: Guarantee) -> str:
    """Say in one sentence what is promised, for people who do not know epsilon.

    >>> promise_in_words(Guarantee("replace-one", "chain", 1, 0.5, epsilon=1.0, delta=1e-6))
    'Replacing any one record changes the chance of whatever is released by a factor of at most \
2.72 (epsilon = 1), but for a probability of 1e-06 (delta); this holds for the chain that was run, \
converged or not.'
    """
    epsilon, delta, holds = promise.epsilon, promise.delta, promise.scope
    if not math.isfinite(epsilon):
        return f"No finite epsilon bounds what one record changes; what is stated holds {holds}."
    factor = f"{math.exp(epsilon):.3g}" if epsilon < 20 else f"e^{epsilon:.6g}"
    but = f", but for a probability of {delta:.6g} (delta)" if delta else ""
    return (
        f"{CHANGED[promise.adjacency]} changes the chance of whatever is released by a "
        f"factor of at most {factor} (epsilon = {epsilon:.6g}){but}; this holds {holds}."
    )


def _what(promise: Guarantee) -> str:
    draws = counted(promise.num_draws, "draw")
    at = "" if promise.gamma is None else f" at gamma = {promise.gamma:.6g}"
    return f"{promise.adjacency} neighbours, {draws}{at}"


def promise_sections(promise: Guarantee, more: Iterable[str] = ()) -> tuple[Section, ...]:
    """Say figures, assumptions and caveats on a page, and what is not promised."""
    stated = promise.to_dict() | {"exact": promise._exact_in_words()}
    figures = [(name, page.told(stated[key])) for key, name in NAMES.items() if stated.get(key)]
    return (
        page.section("What is promised", page.facts(figures)),
        page.section("What it rests on", page.bullets(promise.assumptions)),
        page.section("Caveats", page.bullets(promise.all_caveats)),
        page.section("What it does not promise", page.bullets([*NO_PROMISE, *more])),
    )


# Guarantees from files: what ``gibbs-dp release`` wrote, or anybody's ``to_dict``.


REQUIRED = ("adjacency", "mechanism", "num_draws", "epsilon", "delta")
TEXTS, LISTS = ("adjacency", "mechanism", "holds"), ("assumptions", "caveats")
# Characters of one text.
LONGEST = 1000
# Beyond these floating-point numbers skip whole ones.
MOST_DRAWS = 2**53


def load_guarantee(path: str | os.PathLike[str]) -> Guarantee:
    """Read the guarantee in a JSON file.

    Parameters
    ----------
    path
        ``release.json`` of ``gibbs-dp release --out``, the lines of its ``--json``, or
        ``Guarantee.to_dict()`` as JSON.

    Returns
    -------
    Guarantee
        As it was; a Rényi curve is not kept in files.

    Raises
    ------
    ValueError
        If there is no guarantee in the file.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> import json, tempfile
    >>> g = Guarantee("replace-one", "exact draw", 1, 1.0, epsilon=1.0, delta=0.0, pure_epsilon=1.0)
    >>> path = Path(tempfile.mkdtemp()) / "guarantee.json"
    >>> _ = path.write_text(json.dumps(g.to_dict()))
    >>> load_guarantee(path) == g
    True
    """
    text = Path(path).read_text(encoding="utf-8")
    for words in (text, *text.splitlines()):
        try:
            found = json.loads(words)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and set(REQUIRED) <= found.keys():
            return guarantee_from_dict(found)
    raise ValueError(
        f"guarantee: {os.fspath(path)!r} holds none; give release.json of 'gibbs-dp release', or "
        "Guarantee.to_dict() as JSON."
    )


def guarantee_from_dict(found: Mapping[str, Any]) -> Guarantee:
    """Make a guarantee of what `gibbs_dp.Guarantee.to_dict` returned; other entries are left alone.

    >>> g = Guarantee("add-remove", "chain", 2, 1.0, epsilon=float("inf"), delta=0.0, zcdp=0.5)
    >>> guarantee_from_dict(g.to_dict()) == g
    True
    """
    missing = [name for name in REQUIRED if name not in found]
    if missing:
        raise ValueError(f"guarantee: it has no {missing[0]!r}; give all of {', '.join(REQUIRED)}.")
    values: dict[str, Any] = {}
    for name in (f.name for f in fields(Guarantee)):
        if name not in found or name in ("renyi", "exact"):
            continue
        if name in LISTS:
            values[name] = _texts(name, found[name])
        elif name in TEXTS:
            (values[name],) = _texts(name, [found[name]])
        else:
            values[name] = _number(name, found[name])
    try:
        checks.adjacency(values["adjacency"])
        if "exact" in found:
            values["exact"] = _exact_of(values, found["exact"])
        return Guarantee(**{"caveats": (), "gamma": None} | values)
    except ValueError as error:
        raise ValueError(f"guarantee: {error}") from None


def _exact_of(values: Mapping[str, Any], found: Any) -> Guarantee:
    """Make the guarantee of the exact draws, whose figures alone are in files."""
    if not isinstance(found, Mapping) or not {"epsilon", "delta"} <= set(found) <= set(
        EXACT_FIGURES
    ):
        raise ValueError("its 'exact' holds no figures as Guarantee.to_dict() has them.")
    figures: dict[str, Any] = {name: _number(name, value) for name, value in found.items()}
    common = (values["adjacency"], "exact draw", values["num_draws"], values.get("gamma"))
    return Guarantee(*common, caveats=(), **figures)


def _texts(name: str, value: Any) -> tuple[str, ...]:
    is_list = isinstance(value, (list, tuple)) and all(isinstance(text, str) for text in value)
    if not is_list or any(len(text) > LONGEST or printable(text) != text for text in value):
        raise ValueError(
            f"guarantee: its {name!r} is {shown(repr(value), 60)}, which is no text as "
            "Guarantee.to_dict() has it."
        )
    return tuple(value)


def _number(name: str, value: Any) -> int | float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    is_count = name == "num_draws"
    if math.isnan(number) or (is_count and not (number.is_integer() and number < MOST_DRAWS)):
        what = "whole number" if is_count else "number"
        raise ValueError(
            f"guarantee: its {name!r} is {shown(repr(value), 60)}, which is no {what}."
        )
    return int(number) if is_count else number
