"""Names, units and meanings of what a report of one posterior has."""

from __future__ import annotations

from typing import NamedTuple


class Meaning(NamedTuple):
    """What a number is.

    Attributes
    ----------
    unit
        Empty for a plain number.
    text
        A sentence.
    title
        In printed tables; empty for numbers that they do not show.
    """

    unit: str
    text: str
    title: str = ""


AVERAGES: dict[str, Meaning] = {
    "on_average_kl": Meaning(
        "nats",
        "Replace-one KL on average: n - 1 of the examples, and another of them in the place of "
        "one; the mean over all such pairs of datasets, exact up to the draws.",
        "on-average KL (replace one)",
    ),
    "generalization_error": Meaning(
        "nats per example",
        "On-average KL over gamma: expected negative log-likelihood of a fresh example minus that "
        "of a training example, under draws.",
        "generalization error",
    ),
    "on_average_kl_shortcut": Meaning(
        "nats",
        "The same for n examples to second order in gamma: gamma^2 times the sum over examples of "
        "the variance over draws of the log-likelihood less the mean of all examples, over n - 1.",
        "  by variances, n examples",
    ),
    "remove_one_kl": Meaning(
        "nats",
        "Mean over examples of the KL of the posterior to the one without the example.",
        "KL to the posterior without one",
    ),
    "add_one_kl": Meaning(
        "nats",
        "Mean over examples of the KL of the posterior without the example to the one with it.",
        "KL from the posterior without one",
    ),
    "advantage": Meaning(
        "",
        "Largest true positive minus false positive rate of whoever guesses from one draw which "
        "of two examples was in the data, knowing the others: total variation, a mean over pairs.",
        "attacker's advantage (replace one)",
    ),
    "remove_one_advantage": Meaning(
        "",
        "The same for whether an example was in the data at all; a mean over examples.",
        "attacker's advantage (remove one)",
    ),
    "elpd_loo": Meaning(
        "nats",
        "Expected log predictive density, leaving one out. Its standard error is that of ArviZ "
        "1.x and of the R package loo.",
        "elpd_loo",
    ),
    "p_loo": Meaning("", "Effective number of parameters by leaving one out.", "p_loo"),
    "p_waic": Meaning(
        "",
        "Sum over examples of the variance of their log-likelihood over draws.",
        "p_waic",
    ),
    "k_hat_max": Meaning("", "Largest tail shape of the weights.", "largest k_hat"),
    "num_high_k_hat": Meaning("", "Examples whose k_hat is above the limit."),
}

EXAMPLES: dict[str, Meaning] = {
    "exposure": Meaning(
        "nats",
        "Mean KL to the posterior with another example in its place; its mean over examples is "
        "on_average_kl.",
    ),
    "remove_one_kl": Meaning("nats", "KL of the posterior to the one without the example."),
    "add_one_kl": Meaning("nats", "KL of the posterior without the example to the one with it."),
    "advantage": Meaning("", "Total variation to the posterior with another one in its place."),
    "remove_one_advantage": Meaning("", "Total variation to the posterior without the example."),
    "exposure_first_half": Meaning("nats", "The exposure by half of the draws: for ranking."),
    "exposure_second_half": Meaning("nats", "The exposure by the other half: for reporting."),
    "elpd_loo": Meaning("nats", "Log predictive density of the example by the others."),
    "p_loo": Meaning("", "Log predictive density with it less that without it."),
    "p_waic": Meaning("", "Variance of its log-likelihood over draws."),
    "k_hat": Meaning("", "Tail shape of the weights that remove it."),
}


def describe(name: str, meanings: dict[str, Meaning]) -> dict[str, str]:
    """Return attributes of a variable in a file: what it is, and its unit.

    Parameters
    ----------
    name
        Of a number; ``_se``, ``_mcse``, ``_low`` and ``_high`` belong to another one.
    meanings
        Of the averages, or of the examples.

    Returns
    -------
    dict
        Of texts.

    Examples
    --------
    >>> describe("advantage_mcse", AVERAGES)["description"][:26]
    'Monte Carlo error of: Larg'
    """
    for ending, words in ENDINGS.items():
        if name not in meanings and name.endswith(ending):
            meaning = meanings[name.removesuffix(ending)]
            return _attributes(meaning.unit, f"{words} of: {meaning.text}")
    return _attributes(meanings[name].unit, meanings[name].text)


ENDINGS = {
    "_mcse": "Monte Carlo error",
    "_se": "Standard error over examples and draws",
    "_low": "Lower end of a 95% interval",
    "_high": "Upper end of a 95% interval",
}


def _attributes(unit: str, text: str) -> dict[str, str]:
    return {"description": text} | ({"units": unit} if unit else {})
