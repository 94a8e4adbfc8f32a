"""A report of one posterior as people see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gibbs_dp.one_dataset.columns import AVERAGES
from gibbs_dp.results.table import counted

HEADINGS = ("", "value", "se", "mcse")
# Most exposed examples that a printed report names, and letters of each.
LISTED, WIDTH = 3, 40
EXPOSED = (
    "most exposed (nats; ranked by half of the draws, estimated from the other; sensitive): "
    "{listed}."
)


def rows(averages: Mapping[str, float]) -> list[list[str]]:
    """Return the printed table: title, value, standard error, Monte Carlo error."""
    return [
        [
            meaning.title,
            _number(averages[name]),
            *(_number(averages.get(f"{name}_{kind}")) for kind in ("se", "mcse")),
        ]
        for name, meaning in AVERAGES.items()
        if meaning.title
    ]


def one_line(settings: Mapping[str, Any], warnings: Sequence[str]) -> str:
    """Say what a report is of, in less than a line."""
    chains = counted(int(settings["num_chains"]), "chain")
    parts = [
        counted(int(settings["n"]), str(settings["unit"])),
        f"gamma {settings['gamma']:g}",
        f"{chains} of {counted(int(settings['num_samples']), 'draw')}",
    ]
    parts += [counted(len(warnings), "warning")] if warnings else []
    return ", ".join(parts)


def notes(averages: Mapping[str, float], settings: Mapping[str, Any]) -> list[str]:
    """Say how on-average KL is related to scores that people know."""
    n, gamma = settings["n"], settings["gamma"]
    power = "" if gamma == 1 else "gamma^2 "
    by_waic = gamma**2 * averages["p_waic"] / n
    return [
        f"{power}p_waic / n is {by_waic:.4g}: on-average KL to second order without the "
        "covariances between examples, which may be wrong by a third; the line 'by "
        "variances' has them.",
        f"95% interval of on-average KL for a population that the {settings['unit']}s are "
        f"independent draws of: {averages['on_average_kl_low']:.4g} to "
        f"{averages['on_average_kl_high']:.4g} nats.",
    ]


def assumptions(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Say what the numbers rest on."""
    unit, gamma = settings["unit"], settings["gamma"]
    power = "" if gamma == 1 else f" to the power gamma = {gamma:g}"
    found = [
        f"the draws are of the posterior proportional to the prior times the likelihood{power}, "
        "and chains have seen all of it.",
        f"the likelihood is a product over {unit}s, none of which is in the prior or in another's "
        "factor.",
        f"what is released is one draw; the figure is of this dataset with one {unit} left out and "
        "another replaced by it, an average and no worst-case guarantee.",
        f"weights reach the posterior without one {unit}: k_hat is below "
        f"{settings['k_hat_limit']:.2f}.",
    ]
    if len(variables := settings.get("variables", [])) > 1:
        listed = ", ".join(map(str, variables))
        found.append(
            f"each {unit} is of one variable only of {listed}."
            if settings.get("examples") == "separate"
            else f"{listed} have factors of the same {unit}s, which were added."
        )
    if gamma != 1:
        found.append(
            "elpd_loo and p_loo are of the tempered posterior's predictions, p_waic of its draws; "
            "the log-likelihoods that they add are not tempered."
        )
    return tuple(found)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if np.isfinite(value) else str(value)
