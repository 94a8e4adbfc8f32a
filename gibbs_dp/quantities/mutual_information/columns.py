"""Columns of mutual information, and how they are drawn."""

from __future__ import annotations

from gibbs_dp.engine.quantity import Column, Style

COLUMNS = (
    Column(
        "mutual_information_lower",
        "Lower bound (contrastive) of the mutual information between dataset and draw; at most the "
        "log of the datasets compared.",
        "nats",
        "MI >=",
        Style("mutual information, lower bound", "#0072B2", "-", "^", "information"),
    ),
    Column("mutual_information_lower_from", "Where the lower bound comes from."),
    Column(
        "mutual_information_upper",
        "Upper bound of the mutual information between dataset and draw: the least of several, "
        "chosen on one half of the datasets and measured on the other.",
        "nats",
        "MI <=",
        Style("mutual information, upper bound", "#D55E00", "-", "v", "information"),
    ),
    Column("mutual_information_upper_from", "Which of the upper bounds was the least."),
    Column(
        "lautum_information",
        "Lautum information between dataset and draw: KL divergence from the product of their laws "
        "to the joint one.",
        "nats",
        style=Style("lautum information", "#CC79A7", ":", "o", "information"),
    ),
    Column(
        "individual_information",
        "Mutual information between one example and the draw.",
        "nats",
    ),
    Column(
        "generalization_lower",
        "Lower bound of the generalization error from the mutual information (Wang, Lei & Fienberg "
        "2016, Corollary 10): information over n gamma.",
        "loss",
        style=Style("I / (n gamma)", "#0072B2", "-", "^", "generalization"),
    ),
    Column(
        "generalization_upper",
        "Upper bound of the generalization error from the mutual information, for a sigma^2-"
        "subgaussian loss: sqrt(2 sigma^2 I / n); with b, for a subexponential one.",
        "loss",
        "gen <=",
        Style("√(2σ² I / n)", "#D55E00", "-", "v", "generalization"),
    ),
    Column(
        "generalization_upper_individual",
        "The same from the information of single examples (Bu, Zou & Veeravalli 2020).",
        "loss",
        style=Style("√(2σ² I(θ; z))", "#E69F00", "--", "v", "generalization"),
    ),
    Column("sigma", "Subgaussian parameter of the loss.", "loss"),
    Column("sigma_from", "Where sigma comes from."),
)
