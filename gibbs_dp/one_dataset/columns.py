"""What a report of one posterior has: names, units and meanings, and what it may be warned of."""

from __future__ import annotations

from collections.abc import Mapping

from gibbs_dp._cautions import Caution
from gibbs_dp.results.table import Column

AVERAGES = {
    column.name: column
    for column in (
        Column(
            "on_average_kl",
            "Replace-one KL on average: n - 1 of the examples, and another of them in the place "
            "of one; the mean over all such pairs of datasets, exact up to the draws.",
            "nats",
            "on-average KL (replace one)",
        ),
        Column(
            "generalization_error",
            "On-average KL over gamma: expected negative log-likelihood of a fresh example minus "
            "that of a training example, under draws.",
            "nats per example",
            "generalization error",
        ),
        Column(
            "on_average_kl_shortcut",
            "The same for n examples to second order in gamma: gamma^2 times the sum over "
            "examples of the variance over draws of the log-likelihood less the mean of all "
            "examples, over n - 1.",
            "nats",
            "  by variances, n examples",
        ),
        Column(
            "remove_one_kl",
            "Mean over examples of the KL of the posterior to the one without the example.",
            "nats",
            "KL to the posterior without one",
        ),
        Column(
            "add_one_kl",
            "Mean over examples of the KL of the posterior without the example to the one with it.",
            "nats",
            "KL from the posterior without one",
        ),
        Column(
            "advantage",
            "Largest true positive minus false positive rate of whoever guesses from one draw "
            "which of two examples was in the data, knowing the others: total variation, a mean "
            "over pairs.",
            "",
            "attacker's advantage (replace one)",
        ),
        Column(
            "remove_one_advantage",
            "The same for whether an example was in the data at all; a mean over examples.",
            "",
            "attacker's advantage (remove one)",
        ),
        Column(
            "elpd_loo",
            "Expected log predictive density, leaving one out. Its standard error is that of "
            "ArviZ 1.x and of the R package loo.",
            "nats",
            "elpd_loo",
        ),
        Column(
            "p_loo",
            "Effective number of parameters by leaving one out.",
            "",
            "p_loo",
        ),
        Column(
            "p_waic",
            "Sum over examples of the variance of their log-likelihood over draws.",
            "",
            "p_waic",
        ),
        Column(
            "k_hat_max",
            "Largest tail shape of the weights.",
            "",
            "largest k_hat",
        ),
        Column(
            "num_high_k_hat",
            "Examples whose k_hat is above the limit.",
        ),
    )
}
"""Numbers of all examples together; those with a title are in the printed table."""

EXAMPLES = {
    column.name: column
    for column in (
        Column(
            "exposure",
            "Mean KL to the posterior with another example in its place; its mean over examples "
            "is on_average_kl.",
            "nats",
        ),
        Column(
            "remove_one_kl",
            "KL of the posterior to the one without the example.",
            "nats",
        ),
        Column(
            "add_one_kl",
            "KL of the posterior without the example to the one with it.",
            "nats",
        ),
        Column(
            "advantage",
            "Total variation to the posterior with another one in its place.",
        ),
        Column(
            "remove_one_advantage",
            "Total variation to the posterior without the example.",
        ),
        Column(
            "exposure_first_half",
            "The exposure by half of the draws: for ranking.",
            "nats",
        ),
        Column(
            "exposure_second_half",
            "The exposure by the other half: for reporting.",
            "nats",
        ),
        Column(
            "elpd_loo",
            "Log predictive density of the example by the others.",
            "nats",
        ),
        Column(
            "p_loo",
            "Log predictive density with it less that without it.",
        ),
        Column(
            "p_waic",
            "Variance of its log-likelihood over draws.",
        ),
        Column(
            "k_hat",
            "Tail shape of the weights that remove it.",
        ),
    )
}
"""A number an example."""

HIGH_K_HAT = Caution(
    "high-k-hat",
    "k_hat is above {limit:.2f} for {count} of {total} ({which}): the posterior without one of "
    "them is too far away to be reached by weights; their figures are too small, as a rule.",
    "The draws hardly go where the posterior without such an example is, so weights cannot tell "
    "what removing it does. Averages contain these examples.",
    "Draw more, fit the model again without the examples named, or take gibbs_dp.audit, which "
    "samples every dataset.",
)
CHAINS_DISAGREE = Caution(
    "likelihood-r-hat",
    "R-hat of the log-likelihoods reaches {worst:.3f}: the chains disagree (several modes, or too "
    "short), and so may all numbers below.",
    "Chains of one posterior have not mixed with each other. Above 1.01 ArviZ and Stan warn too.",
    "Draw longer chains with more warmup. Where R-hat stays above 1.1, chains sit in different "
    "modes.",
)
FEW_EFFECTIVE = Caution(
    "likelihood-few-effective-draws",
    "the log-likelihoods have only {fewest:.0f} effective draws of {total:,}; draw more.",
    "Everything here is a mean over draws, and as noisy as with so few independent ones. The "
    "jackknife's errors are rough then.",
    "Draw longer chains.",
)
ROUTES_DISAGREE = Caution(
    "shortcut-disagrees",
    "on-average KL is {weights:.4g} by weights and {shortcut:.4g} by variances, which agree where "
    "KL is so small: single examples dominate, or the draws are not of this posterior.",
    "For a small KL both routes estimate one number, the second up to terms of third order in "
    "gamma.",
    "Look at the largest k_hat and at the most exposed examples; check gamma, and that each "
    "example's log-likelihood has no prior or other example's term in it.",
)
CAUTIONS = (HIGH_K_HAT, CHAINS_DISAGREE, FEW_EFFECTIVE, ROUTES_DISAGREE)


def describe(name: str, meanings: Mapping[str, Column]) -> dict[str, str]:
    """Return attributes of a variable in a file: what it is, and its unit.

    Examples
    --------
    >>> describe("advantage_mcse", AVERAGES)["description"][:26]
    'Monte Carlo error of: Larg'
    """
    for ending, words in ENDINGS.items():
        if name not in meanings and name.endswith(ending):
            column = meanings[name.removesuffix(ending)]
            return _attributes(column.unit, f"{words} of: {column.meaning}")
    return _attributes(meanings[name].unit, meanings[name].meaning)


ENDINGS = {
    "_mcse": "Monte Carlo error",
    "_se": "Standard error over examples and draws",
    "_low": "Lower end of a 95% interval",
    "_high": "Upper end of a 95% interval",
}


def _attributes(unit: str, text: str) -> dict[str, str]:
    return {"description": text} | ({"units": unit} if unit else {})
