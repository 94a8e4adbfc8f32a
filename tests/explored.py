"""Reports whose numbers are closed forms: two normals apart, as a pair of posteriors would be."""

import numpy as np
from scipy.stats import norm

import gibbs_dp as gdp
from gibbs_dp.estimators.privacy_loss import EPSILONS

GAMMAS = (0.03, 0.3, 3.0, 30.0)
WARNING = "gamma=3: only {} of {} did. [failed-datasets]"


def apart(gamma, scale=0.02):
    """How many standard deviations: the KL of the pair is ``scale * gamma``."""
    return np.sqrt(2 * scale * gamma)


def tpr(fpr, gamma, scale=0.02):
    """The best attacker's true positive rate (Neyman & Pearson)."""
    return norm.cdf(norm.ppf(fpr) + apart(gamma, scale))


def advantage(gamma, scale=0.02):
    return 2 * norm.cdf(apart(gamma, scale) / 2) - 1


def risk(gamma):
    return 0.17 + 0.15 / (1 + 5 * gamma)


def row_of(gamma, scale):
    kl, best, epsilon = scale * gamma, advantage(gamma, scale), 4 * gamma
    return {
        **{"gamma": gamma, "n": 30, "group_size": 1, "num_datasets": 256},
        **{"on_average_kl": kl, "on_average_kl_se": 0.01 * kl},
        **{"on_average_kl_low": 0.982 * kl, "on_average_kl_high": 1.021 * kl},
        **{"on_average_tv": best, "on_average_tv_se": 0.012 * best},
        **{"population_risk": risk(gamma), "population_risk_se": 0.0014},
        **{"dp_epsilon": epsilon, "attack_advantage_limit": float(np.tanh(epsilon / 2))},
        **{"failed_datasets": 0, "trust": "checked: two routes."},
    }


def profile_of(gamma, scale):
    m = apart(gamma, scale)
    above = norm.sf(EPSILONS, m**2 / 2, m)
    below = norm.sf(EPSILONS, -(m**2) / 2, m)
    delta = above - np.exp(EPSILONS) * below
    parts = {"epsilon": EPSILONS, "delta": delta, "delta_se": 0.01 * delta}
    return {"privacy_profile": parts | {"above": above, "excess": above - below}}


def rows_of_table(gamma, count=12):
    costs = np.linspace(2.0, 0.1, count) * 0.02 * gamma
    return {
        "row": np.arange(100, 100 + count),
        "ranked_by": costs,
        **{"on_average_kl": 0.9 * costs, "on_average_kl_se": 0.1 * costs},
        **{"advantage": 0.5 * costs, "advantage_se": 0.05 * costs},
        **{"num_datasets": np.full(count, 40), "tail_flag": np.zeros(count, bool)},
    }


def make_report(gammas=GAMMAS, scale=0.02, warnings=(WARNING,), exposes=False, **settings):
    """An audit of the closed forms."""
    return gdp.Report(
        tuple(row_of(gamma, scale) for gamma in gammas),
        {"loss": "Squared", "n": 30, **settings},
        tuple(warnings),
        ("a note.",),
        curves=tuple(profile_of(gamma, scale) for gamma in gammas),
        row_tables=tuple(rows_of_table(gamma) for gamma in gammas) if exposes else (),
    )
