"""A certificate as people see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gibbs_dp.results.table import counted, plain

BOUNDS = ("catoni", "linear", "maurer", "mcallester")
HEADINGS = {
    "gamma": "gamma",
    "empirical_risk": "emp. risk",
    "kl": "KL to prior",
    "log_normalizer": "log C",
    **{name: name for name in BOUNDS},
}
MEANINGS = {
    "gamma": "Inverse temperature; it multiplies the total loss.",
    "empirical_risk": "Mean loss on the data, units of the loss.",
    "kl": "Divergence of the posterior from the prior, nats.",
    "log_normalizer": "Log of the prior mean of exp(-gamma L), nats.",
    "catoni": "Catoni's bound on the risk, units of the loss.",
    "linear": "The linear form of Catoni's bound, units of the loss.",
    "maurer": "Maurer's bound, by the KL of Bernoulli laws, units of the loss.",
    "mcallester": "McAllester's bound, by a square root, units of the loss.",
}
# Letters of a sampler's name.
WIDTH = 60


def cells(rows: Sequence[Mapping[str, float]]) -> list[list[str]]:
    """Return the printed table, a list a gamma."""
    return [[_cell(row, name) for name in HEADINGS] for row in rows]


def probability(delta: float) -> str:
    """Write ``1 - delta``, which is never 1.

    Examples
    --------
    >>> probability(0.05), probability(1e-9)
    ('0.95', '1 - 1e-09')
    """
    return f"{1 - delta:g}" if delta >= 1e-5 else f"1 - {delta:g}"


def one_line(
    best: Mapping[str, float], settings: Mapping[str, Any], warnings: Sequence[str]
) -> str:
    """Say what is certified, in a line."""
    name, low_high = settings["bound"], settings["loss_range"]
    parts = [
        f"risk at most {best[name]:.4g} at gamma={best['gamma']:g} ({name})",
        f"with probability {probability(settings['delta'])}",
        f"losses in [{low_high[0]:g}, {low_high[1]:g}]",
        counted(int(settings["n"]), "example"),
    ]
    parts += [counted(len(warnings), "warning")] if warnings else []
    return ", ".join(parts)


def assumptions(settings: Mapping[str, Any], is_exact: bool, num_gammas: int) -> tuple[str, ...]:
    """Say what the numbers rest on."""
    low, high = settings["loss_range"]
    found = [
        "examples are independent draws of one law, and a fresh example is one more.",
        f"every loss that this law allows, at every parameter of the prior, is in [{low:g}, "
        f"{high:g}], as declared; the data were checked, the law cannot be.",
        "the prior, the gammas, the loss range, delta, which bound counts and "
        f"{'the points' if is_exact else 'the key'} were chosen without these data.",
    ]
    if num_gammas > 1:
        paid = "catoni and linear pay" if is_exact else "every bound pays"
        free = "; maurer and mcallester hold for all gammas anyway" if is_exact else ""
        found.append(f"{paid} for {num_gammas} gammas: delta / {num_gammas} each{free}.")
    if is_exact:
        found.append(f"the posterior is that on {settings['of']}, summed in double precision.")
        return tuple(found)
    kernel = plain(str(settings["kernel"]), WIDTH)
    return (
        *found,
        f"the particles ({kernel}) ran along a path frozen before, so that their normalizer is "
        "unbiased; its error needs no allowance, as the bounds' proofs take its mean, and "
        "1 - delta is the probability over data and particles together.",
        "all four bounds hold for a draw from these weighted particles, whose empirical risk has "
        "no error; catoni and linear also hold for the posterior itself, maurer and mcallester "
        "for it only up to the Monte Carlo errors shown.",
    )


def _cell(row: Mapping[str, float], name: str) -> str:
    error = row.get(f"{name}_se", 0.0)
    told = f"{row[name]:g}" if name == "gamma" else f"{row[name]:.4g}"
    return f"{told} ± {error:.1g}" if error > 0 else told
