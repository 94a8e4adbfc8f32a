"""Columns of the attacker, and where they cannot be believed."""

from __future__ import annotations

from gibbs_dp._cautions import Caution
from gibbs_dp.results.table import Column, Style

FPRS = {"attack_tpr_1pct": 0.01, "attack_tpr_01pct": 0.001}
"""False positive rates that true positive rates have columns for."""

RENYI = ("on_average_renyi_2", "on_average_renyi_8")

COLUMNS = (
    Column(
        "on_average_tv",
        "Advantage (true positive minus false positive rate) of the best attacker who knows every "
        "example but one, sees one draw, and guesses which of two examples was in the data: total "
        "variation of the two posteriors, averaged over datasets and replaced examples. Nobody "
        "does better on average; for any one person it may be more.",
        "",
        "advantage",
        Style("attacker's advantage", "#0072B2", "-", "o", "attack"),
    ),
    Column(
        "attack_auc",
        "Area under this attacker's ROC, with one threshold on the privacy loss for all datasets "
        "and replaced examples (pooled): the chance to order a draw with and one without the "
        "example rightly.",
    ),
    Column(
        "attack_auc_per_pair",
        "The same with a ROC for each dataset and replaced example, averaged.",
    ),
    Column(
        "attack_tpr_1pct",
        "True positive rate of the pooled attack where 1% of its alarms on draws without the "
        "example are false.",
        style=Style("true positives at 1% false ones", "#D55E00", "--", "s", "attack"),
    ),
    Column(
        "attack_tpr_01pct",
        "The same at 0.1% false positives.",
    ),
    Column(
        "on_average_renyi_2",
        "Rényi divergence of order 2 of the two posteriors, averaged; no Rényi DP.",
        "nats",
    ),
    Column("on_average_renyi_8", "The same of order 8.", "nats"),
    Column(
        "renyi_tail_flag",
        "Orders whose divergence rests on so few draws, or datasets, that it is likely to be too "
        "small, or may be infinite: none, 2, 8, or 2 and 8. The number is a lower bound then.",
    ),
    Column(
        "attack_estimator",
        "Where these columns come from: one-sided (draws of the posterior), two-sided (draws of "
        "replaced posteriors too), or an exact sum.",
    ),
    Column(
        "attack_advantage_limit",
        "Largest advantage that dp_epsilon allows against anybody, whatever the data: "
        "tanh(epsilon / 2).",
        style=Style("largest advantage under DP epsilon", "0.4", "-.", "x", "attack"),
    ),
)

ATTACK_TOO_WEAK = Caution(
    "attack-too-weak",
    "at an on-average KL of {kl:.2g} nats draws of one posterior do not tell how well an attacker "
    "does: on_average_tv and the columns beside it are too small; use estimator='two-sided'.",
    "The attacker's numbers need the density of the posterior with another example, and draws of "
    "the posterior itself do not reach where that one is.",
    "Leave the estimator 'auto', or learn gdp.OnAverageKL('two-sided'), which samples the other "
    "posteriors too; or look at smaller gammas.",
)
RENYI_LOWER_BOUND = Caution(
    "renyi-lower-bound",
    "on_average_renyi_2 and on_average_renyi_8 are lower bounds and may be infinite: the privacy "
    "losses of some pair fall by a factor of e every {tail:.1f} nats only; use on_average_kl, "
    "on_average_tv or the privacy profile.",
    "A Rényi divergence of order a is a mean of exp((a - 1) loss), which does not exist where "
    "losses have a tail that falls more slowly than that rises. One replaced example that does so "
    "makes the mean infinite, and any number of draws gives a finite one.",
    "Rely on the columns that always exist; look at smaller gammas; or use a loss or a domain with "
    "bounds, which bound every loss of privacy.",
)
