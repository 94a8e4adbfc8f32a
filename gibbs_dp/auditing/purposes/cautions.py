"""What a gamma found for a purpose may be warned of."""

from __future__ import annotations

from gibbs_dp._cautions import Caution

MINIMUM_AT_END = Caution(
    "minimum-at-end",
    "the {what} is least at gamma={gamma:.4g}, an end of the gammas looked at ({low:.4g} to "
    "{high:.4g}): the least of all may lie beyond.",
    "No minimum was enclosed. For many models the risk goes on falling, ever less, as gamma grows.",
    "Look at the curve; give gammas=(low, ..., high) that reach further. Where the curve is level "
    "there, the smallest gamma that is not told from the best is as good and more private: "
    "gamma_low.",
)
NEAR_CERTAINTY = Caution(
    "near-certainty",
    "an advantage of {value:.5g} ± {value_se:.2g} is so near 1 that a few pairs of examples decide "
    "how near: gamma={gamma:.4g} may be far off.",
    "Nearly all pairs of posteriors are told apart without doubt. What is left rests on the few "
    "that are alike, too few for a standard error to be believed.",
    "Give a smaller attack_advantage, or raise num_datasets until 1 - attack_advantage is many "
    "standard errors.",
)
FLAT_CURVE = Caution(
    "flat-curve",
    "the {what} hardly depends on gamma around {gamma:.4g}, within its errors; gammas from "
    "{low:.4g} to {high:.4g} are not told from each other.",
    "The curve is level, or too noisy to see where it bends: gamma has no error bar but a range.",
    "Raise num_datasets. If the range matters little, take the end of it that is more private: the "
    "smallest gamma.",
)
