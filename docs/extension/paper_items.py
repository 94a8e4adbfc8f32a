"""Every result of the source papers, and what shows it: a list that the tests run."""

from dataclasses import dataclass

WANG = "Wang, Lei & Fienberg (2016), on-average KL-privacy"
RAKHLIN = "Rakhlin, lecture 20; Russo & Zou; Bu et al."
DWORK_ROTH = "Dwork & Roth (2014), and Bassi's notes"
DWORK = "Dwork et al. (2015), the reusable holdout"
ZHAO = "Zhao (2019); Yang, Sato & Nakagawa (2015): Bayesian DP"
CHAUDHURI = "Chaudhuri, Imola & Machanavajjhala (2019), capacity-bounded DP"
GIBBS_DP = "Worst-case privacy of Gibbs posteriors"


@dataclass(frozen=True)
class Item:
    """One result of one paper, and one way to see it.

    ``checks``: names of checks of `gibbs-dp verify` begin so; ``command``: runs, with ``quick`` for
    small counts where these do not matter; ``code``: an expression of ``gdp`` that is true.
    """

    paper: str
    result: str
    checks: str = ""
    command: str = ""
    quick: str = ""
    code: str = ""

    @property
    def shown_by(self):
        """What a reader runs, as Markdown."""
        if self.checks:
            return f"`gibbs-dp verify`: {self.checks}"
        return f"`{self.command or self.code}`"


ITEMS = (
    # -- on-average KL-privacy ------------------------------------------------------------
    Item(
        WANG, "Gibbs posteriors minimize gamma E L + KL to the prior", "gamma E L + KL(q || prior)"
    ),
    Item(
        WANG,
        "any other law costs its KL to the posterior more",
        "any other law: KL(q || posterior)",
    ),
    Item(WANG, "Theorem 4: on-average KL is gamma gen", "Theorem 4: eps_KL = gamma gen"),
    Item(WANG, "Theorem 4 with a density and atoms", "a density and atoms: Theorem 4"),
    Item(WANG, "maximum entropy with a density and atoms", "a density and atoms: the least found"),
    Item(WANG, "Theorem 4 needs independent examples", "Theorem 4 in a Markov chain"),
    Item(WANG, "Remark 1: structured losses, k ghosts", "Remark 1: 2 ghosts"),
    Item(WANG, "Remark 1: dependent examples, all replaced", "Remark 1, dependent examples"),
    Item(WANG, "Remark 2: colder need not generalize worse", "gen falls with gamma"),
    Item(WANG, "Lemma 5: post-processing", "Lemma 5"),
    Item(WANG, "Lemma 6: small groups", "Lemma 6: 2 ghosts"),
    Item(WANG, "Lemma 6 needs a sum of losses", "two ghosts cost at most 2 eps_KL"),
    Item(WANG, "Corollary 7: all n replaced", "Lemma 6: 6 ghosts"),
    Item(WANG, "composition lemma", "composition lemma"),
    Item(WANG, "several draws add up", "two draws cost 2 eps_KL"),
    Item(
        WANG,
        "composition with eps_2 for every fixed theta fails",
        "composition with eps_2 for every fixed theta",
    ),
    Item(WANG, "Lemma 9: n eps_KL is I plus lautum information", "Lemma 9: E KL"),
    Item(WANG, "Corollary 10: I / (n gamma) is at most gen", "Corollary 10: I / (n gamma) <= gen"),
    Item(WANG, "Corollary 10: gen is at most its root", "Corollary 10: gen <= sqrt"),
    Item(WANG, "Corollary 10, both sides", "I <= 2 n gamma^2 sigma^2"),
    Item(
        WANG,
        "Corollary 10 of subexponential losses",
        code="gdp.information.bounds.gibbs_mutual_information(10, 0.5, sigma=0.5, b=1.6) > 1.25",
    ),
    Item(WANG, "the ladder of notions, groups, missing arrows", command="gibbs-dp notions"),
    Item(WANG, "Figure 2", command="gibbs-dp figure2", quick="--num-datasets 64 --gammas 1 10"),
    # -- information and generalization ----------------------------------------------------
    Item(RAKHLIN, "KL is at most the max divergence", "KL-privacy <= DP eps"),
    Item(RAKHLIN, "hockey stick and total variation", "1 - g (1 - TV) <= E_g"),
    Item(
        RAKHLIN,
        "hockey stick and approximate max divergence",
        "E_{e^eps} <= delta at eps = D_inf^delta",
    ),
    Item(RAKHLIN, "I is at most erasure information", "I(W; S) <= I^-(W; S)"),
    Item(RAKHLIN, "uniform KL stability", "I^- <= n sup KL"),
    Item(RAKHLIN, "average KL stability", "I^- <= n E KL"),
    Item(RAKHLIN, "on-average KL stability", "I^- <= n eps_KL"),
    Item(RAKHLIN, "total variation stability", "T^- <= n sup TV"),
    Item(RAKHLIN, "generalization from T-information", "gen <= range T^- / n"),
    Item(RAKHLIN, "generalization of the Gibbs algorithm", "gen <= gamma Delta^2 / 2"),
    Item(RAKHLIN, "information of the Gibbs algorithm", "I^- <= n gamma^2 Delta^2 / 2"),
    Item(RAKHLIN, "generalization of DP algorithms", "gen <= range (e^eps - 1)"),
    Item(RAKHLIN, "single examples (Bu, Zou & Veeravalli 2020)", "gen <= mean sqrt"),
    Item(RAKHLIN, "subexponential losses (Russo & Zou 2016)", "generalization_subexponential"),
    Item(RAKHLIN, "selection bias", "selection bias"),
    Item(RAKHLIN, "a selected mean", command="gibbs-dp holdout selection", quick="--repetitions 8"),
    # -- worst case ----------------------------------------------------------------------------
    Item(
        GIBBS_DP,
        "exponential mechanism, attained (McSherry & Talwar 2007)",
        "eps <= gamma R",
    ),
    Item(GIBBS_DP, "range of a loss (Dong, Durfee & Rogers 2020)", "kl_from_range: attained"),
    Item(GIBBS_DP, "zCDP of bounded range (Cesar & Rogers 2021)", "zcdp_from_range: attained"),
    Item(GIBBS_DP, "strong convexity (Gopi, Lee & Liu 2022)", "strongly_convex_gdp: attained"),
    Item(
        GIBBS_DP, "Langevin, last iterate (Bok, Su & Altschuler 2024)", "langevin_last_iterate_gdp"
    ),
    Item(
        GIBBS_DP, "advanced composition (Dwork, Rothblum & Vadhan 2010)", "advanced_composition: "
    ),
    # -- mechanisms ----------------------------------------------------------------------------
    Item(DWORK_ROTH, "Laplace mechanism", "Laplace mechanism: loss = epsilon"),
    Item(DWORK_ROTH, "Gaussian mechanism", "Gaussian mechanism: delta(1)"),
    Item(DWORK_ROTH, "exponential mechanism", "exponential mechanism: loss <= epsilon"),
    Item(DWORK_ROTH, "noise of bounded support is not private", "uniform noise is epsilon-DP"),
    Item(
        DWORK_ROTH, "report noisy max, add/remove", "report noisy max, Lap(1/epsilon), add/remove"
    ),
    Item(
        DWORK_ROTH,
        "report noisy max, replace-one, needs twice the noise",
        "report noisy max, Lap(1/epsilon), replace-one",
    ),
    Item(DWORK_ROTH, "sparse vector", "sparse vector, as published: loss <= proven"),
    Item(DWORK_ROTH, "its wrong variants", command="gibbs-dp holdout sparse"),
    Item(
        DWORK_ROTH,
        "approximate sparse vector, as printed and as accounted",
        command="gibbs-dp holdout sparse-approximate",
    ),
    Item(
        DWORK_ROTH,
        "choosing subsets by their maximum",
        command="gibbs-dp holdout maxima",
        quick="--repetitions 20",
    ),
    Item(DWORK_ROTH, "counting queries under one budget", command="gibbs-dp holdout accuracy"),
    # -- the reusable holdout ------------------------------------------------------------------
    Item(DWORK, "max-information of pure DP", "I_inf <= log2(e) eps n"),
    Item(DWORK, "approximate max-information, Theorem 20", "I_inf^beta, published"),
    Item(DWORK, "max-information adds, Lemma 14", "max-information adds, adaptive"),
    Item(DWORK, "Lemma 14 for one fixed law fails", "max-information adds for a fixed law"),
    Item(DWORK, "tails bound max-information, Lemma 18", "I_inf^beta <= quantile of the log ratio"),
    Item(DWORK, "adaptive statistical queries", "statistical_query_tail: "),
    Item(DWORK, "low-sensitivity queries", "low_sensitivity_tail"),
    Item(DWORK, "Thresholdout's wrong variants", "Thresholdout that answers past its budget"),
    Item(
        DWORK,
        "a holdout used many times",
        command="gibbs-dp holdout classifier",
        quick="--n 1000 --d 1000 --repetitions 4",
    ),
    Item(
        DWORK,
        "Theorem 25: an analyst who climbs on the answers",
        command="gibbs-dp holdout climb",
        quick="--repetitions 2",
    ),
    # -- dependent rows ------------------------------------------------------------------------
    Item(ZHAO, "Lemma 1, Theorem 1", "Lemma 1, Theorem 1"),
    Item(ZHAO, "Lemma 2: quilts", "Lemma 2: leakage <= quilts"),
    Item(ZHAO, "Lemma 2 needs the supremum over K", "Lemma 2 with unconditional influence"),
    Item(ZHAO, "quilts need the moral graph", "parents of a collider stay independent"),
    Item(ZHAO, "Lemma 3: blankets", "Lemma 3: leakage <= quilts"),
    Item(ZHAO, "Lemma 4: Markov chains", "Lemma 4: influence = enumeration"),
    Item(ZHAO, "Lemma 4, spectral form", "Lemma 4: exact <= spectral form"),
    Item(ZHAO, "Theorem 3: max-information", "Theorem 3: max-information of BDP"),
    Item(ZHAO, "Theorems 1, 2 as printed fail", "Theorems 1, 2: Hoeffding's tail of a fixed query"),
    Item(ZHAO, "a tail that holds (Fan, Jiang & Sun 2021)", "chain: 2 exp"),
    Item(ZHAO, "quilt mechanism (Song, Wang & Chaudhuri 2017)", "Markov quilt mechanism: loss"),
    Item(
        ZHAO,
        "Markov networks of any size",
        code="gdp.papers.bayesian_dp.MarkovNetwork"
        ".ising(__import__('networkx').path_graph(500), 0.2).bdp_epsilon(500, 0.01) < 0.1",
    ),
    Item(
        ZHAO,
        "who knows least learns most, rows that attract",
        "privacy is poorest for who knows least",
    ),
    Item(
        ZHAO,
        "who knows least learns most, rows of few values: not with little noise",
        "privacy is poorest for who knows least, two-valued rows, little noise",
    ),
    Item(
        ZHAO,
        "Figures 2, 3: attributes and rows that depend",
        command="gibbs-dp holdout correlated",
        quick="--n 400 --d 400 --repetitions 2",
    ),
    # -- adversaries of bounded capacity -------------------------------------------------------
    Item(CHAUDHURI, "KL of linear adversaries, Laplace", "KL, Laplace, linear"),
    Item(CHAUDHURI, "KL of linear adversaries, Gaussian", "KL, Gaussian, linear"),
    Item(CHAUDHURI, "Rényi bounds as printed fail", "Rényi, laplace, linear: as printed, orders"),
    Item(CHAUDHURI, "Rényi bounds that hold", "Rényi, laplace, linear: exact <= valid"),
    Item(CHAUDHURI, "Theorem 5: matrix mechanism", "Rényi, matrix mechanism, linear"),
    Item(CHAUDHURI, "post-processing", "post-processing by a square"),
    Item(CHAUDHURI, "convexity", "convexity, KL"),
    Item(CHAUDHURI, "sequential composition", "sequential composition, KL"),
    Item(CHAUDHURI, "parallel composition", "parallel composition, KL"),
    Item(CHAUDHURI, "Theorem 6: generalization", "Theorem 6: |E gen|"),
    Item(CHAUDHURI, "Theorem 6 needs its conditions", "Theorem 6 without its conditions"),
    Item(CHAUDHURI, "Theorem 7: integral probability metrics", "Theorem 7: IPM"),
    Item(CHAUDHURI, "thresholds as adversaries", "thresholds: KL is that of the best critic"),
    Item(CHAUDHURI, "linear classifiers as adversaries", "lines: KL is that of the best critic"),
    Item(
        CHAUDHURI,
        "Figure 1, both mechanisms; posteriors seen by critics; an analyst",
        command="gibbs-dp capacity",
        quick="--num-datasets 32 --gammas 1",
    ),
)
