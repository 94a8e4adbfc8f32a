"""Kinds of information beside the mutual one, by name, and their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

from gibbs_dp.results.table import Column

# Kinds of information that an audit can be asked for beside the mutual one.

InformationName = Literal["alpha", "leakage", "tv", "conditional", "membership"]
NAMES: tuple[InformationName, ...] = get_args(InformationName)


def check_names(names: Sequence[str]) -> tuple[InformationName, ...]:
    """Check kinds of information."""
    given: Any = names
    if isinstance(given, str):
        raise ValueError(f"names: give a list of names, such as ({given!r},), not a text.")
    for name in given:
        if name not in NAMES:
            known = ", ".join(map(repr, NAMES[:-1]))
            raise ValueError(f"names: {name!r} is not {known} or {NAMES[-1]!r}.")
    return tuple(name for name in NAMES if name in given)


# Columns of further information.

# Orders of Sibson's information.
ORDERS = (2, 8)
# Probability that tails give away.
DELTA = 0.05

_IN_MEAN = "in mean over datasets, so meant with its error"


def _of_order(a: int) -> tuple[Column, ...]:
    return (
        Column(
            f"alpha_information_{a}_lower",
            f"Lower bound of Sibson's alpha-mutual information of order {a} between dataset and "
            f"draw, {_IN_MEAN}: that of the datasets compared, at most the log of their number.",
            "nats",
        ),
        Column(
            f"alpha_information_{a}_upper",
            f"Upper bound of the same, {_IN_MEAN}: the Rényi divergence of half the datasets from "
            "what the other half guesses. Absent where its error is as large.",
            "nats",
        ),
        Column(
            f"generalization_upper_alpha_{a}",
            f"Upper bound of the generalization error from alpha_information_{a}_upper: sqrt(2 "
            "sigma^2 I / n).",
            "loss",
        ),
        Column(
            f"generalization_tail_alpha_{a}",
            f"What the gap of risks stays below with probability {1 - DELTA:.0%} over dataset and "
            f"draw, from alpha_information_{a}_upper (Esposito, Gastpar & Issa 2021).",
            "loss",
        ),
    )


ALPHA = tuple(column for a in ORDERS for column in _of_order(a))
LEAKAGE = (
    Column(
        "leakage_lower",
        "Lower bound of maximal leakage from dataset to draw (Issa, Wagner & Kamath 2020), "
        f"{_IN_MEAN}: that of the datasets compared, at most the log of their number; it grows "
        "with their number.",
        "nats",
    ),
    Column(
        "leakage_upper",
        "Upper bound of maximal leakage, without error: n gamma times the range of the loss, or "
        "the log of the number of candidates.",
        "nats",
    ),
    Column("leakage_upper_from", "Which of the two it is."),
    Column(
        "generalization_upper_leakage",
        "Upper bound of the generalization error from leakage_upper: sqrt(2 sigma^2 I / n).",
        "loss",
    ),
    Column(
        "generalization_tail_leakage",
        f"What the gap of risks stays below with probability {1 - DELTA:.0%} over dataset and "
        "draw, from leakage_upper (Esposito, Gastpar & Issa 2021).",
        "loss",
    ),
)
TV = (
    Column(
        "t_information_lower",
        "Lower bound of the total variation between dataset and draw together and apart, "
        f"{_IN_MEAN}: the advantage of a test that half the datasets set and the others pass.",
    ),
    Column("t_information_upper", f"Upper bound of the same, {_IN_MEAN}."),
    Column(
        "generalization_upper_t",
        "Upper bound of the generalization error: t_information_upper times the range of the loss.",
        "loss",
    ),
)
JENSEN_SHANNON = Column(
    "jensen_shannon",
    "Mean Jensen-Shannon divergence between posteriors with one example replaced: estimate with "
    "its bias removed to second order, too small from about one nat of on_average_kl on. At most "
    "log 2 and a quarter of on_average_kl.",
    "nats",
)
CONDITIONAL = (
    Column(
        "conditional_information_lower",
        "Lower bound of the conditional mutual information by supersamples (Steinke & Zakynthinou "
        f"2020), {_IN_MEAN}: n times what a draw says about which of two examples was used. Of a "
        "Gibbs posterior the evaluated information, through losses alone, is the same.",
        "nats",
    ),
    Column(
        "conditional_information_upper",
        "Upper bound of the same: the least of n jensen_shannon (an estimate), n on_average_kl / "
        "4 in its place where the KL is large, mutual_information_upper and n log 2.",
        "nats",
    ),
    Column("conditional_information_upper_from", "Which of them it is."),
    Column(
        "generalization_upper_conditional",
        "Upper bound of the generalization error of a loss with a known range: range sqrt(2 I / "
        "n), I the conditional_information_upper.",
        "loss",
    ),
)
MEMBERSHIP = (
    Column(
        "membership_advantage_lower",
        "Advantage, true less false positives, of an attack that sees one draw and one example and "
        "knows none of the others: log odds from other datasets, at a threshold of 0 set "
        f"beforehand. {_IN_MEAN.capitalize()}, a lower bound of the best such attacker's.",
    ),
    Column(
        "membership_auc_lower",
        f"Area under the curve of the same log odds: a lower bound of the best, {_IN_MEAN}.",
    ),
    Column(
        "membership_advantage_upper",
        "Upper bound of the best such attacker's advantage, that is of the total variation between "
        f"one example and draw together and apart, {_IN_MEAN}; as good as the normalizer ratios.",
    ),
    Column(
        "generalization_upper_membership",
        "Upper bound of the generalization error: membership_advantage_upper times the range of "
        "the loss.",
        "loss",
    ),
)
COLUMNS = (*ALPHA, *LEAKAGE, *TV, *CONDITIONAL, *MEMBERSHIP)
