"""What the audit of one posterior may be warned of."""

from __future__ import annotations

from gibbs_dp._cautions import Caution

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
