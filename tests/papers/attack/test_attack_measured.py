"""Advantage, ROC and their errors, from scores whose laws are known."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import gibbs_dp as gdp
from gibbs_dp.engine.plan import Inputs, Plan
from gibbs_dp.engine.view import PairView
from gibbs_dp.papers.attack.result import plot_attack
from gibbs_dp.papers.attack.rows import allowed, measure, roc, threshold_between
from gibbs_dp.papers.attack.trial import AttackTrial
from gibbs_dp.sampling.kernels.base import make_schedule
from gibbs_dp.sampling.sampler import ChainDraws
from gibbs_dp.sampling.target import Target

REPEATS, COUNT, MU = 300, 2000, 1.0


@pytest.fixture(scope="module")
def repeated():
    """Attacks on two normals a distance MU apart, many times."""
    rng = np.random.default_rng(11)
    found = []
    for _ in range(REPEATS):
        coin = rng.random(COUNT) < 0.5
        found.append(measure(MU * coin + rng.normal(size=COUNT), coin, MU / 2))
    return found


TRUTH = {
    "advantage": 2 * stats.norm.cdf(MU / 2) - 1,
    "success_rate": stats.norm.cdf(MU / 2),
    "auc": stats.norm.cdf(MU / math.sqrt(2)),
    "tpr_1pct": stats.norm.sf(stats.norm.isf(0.01) - MU),
}


@pytest.mark.parametrize("name", TRUTH)
def test_values_and_errors_are_right(repeated, name):
    # 4 standard errors (6 in 100,000), and a share of the rate's own bias at 1%; the spread of 300
    # repeats is within 4 of its own errors, 16%, of the mean standard error, and 10% more.
    values = np.array([getattr(row, name) for row in repeated])
    errors = np.array([getattr(row, f"{name}_se") for row in repeated])
    slack = 0.03 * TRUTH[name] if name == "tpr_1pct" else 0.0
    assert abs(values.mean() - TRUTH[name]) < 4 * values.std() / REPEATS**0.5 + slack
    assert values.std() == pytest.approx(errors.mean(), rel=0.26)


def test_equal_scores_are_one_step():
    fpr, tpr = roc(np.zeros(3), np.zeros(5))
    assert (fpr.tolist(), tpr.tolist()) == ([0.0, 1.0], [0.0, 1.0])
    coin = np.array([True, False] * 500)
    found = measure(np.zeros(1000), coin, 0.0)
    assert (found.advantage, found.auc, found.tpr_1pct) == (0.0, 0.5, 0.01)
    assert found.advantage_se > 0


def test_too_few_trials_say_nothing():
    coin = np.array([True, False] * 50)
    assert math.isnan(measure(np.arange(100.0), coin, 50.0).tpr_1pct)
    assert math.isnan(measure(np.arange(3.0), np.ones(3, bool), 0.0).advantage)
    assert threshold_between(np.zeros(0), np.zeros(0, bool)) == 0.0


def test_the_computed_roc_is_that_of_the_pairs():
    # One pair of normals: L is normal with mean +-MU^2/2 and variance MU^2.
    rng = np.random.default_rng(4)
    centre = np.array([[MU**2 / 2], [-(MU**2) / 2]])
    ratios = centre + MU * rng.normal(size=(4000, 2, 4))
    found = allowed(np.abs(np.tanh(ratios / 2)).mean(axis=(1, 2)), ratios)
    assert abs(found.on_average_tv - TRUTH["advantage"]) < 4 * found.on_average_tv_se
    assert abs(found.attack_auc - TRUTH["auc"]) < 4 * found.attack_auc_se < 0.01
    assert abs(found.attack_tpr_1pct - TRUTH["tpr_1pct"]) < 4 * found.attack_tpr_1pct_se < 0.03


def test_the_total_variation_of_a_pair_that_is_not_symmetric():
    """Three points, each drawn as often as its law says: ratios and total variation are exact."""
    tenths = np.array([[4, 5, 1], [1, 1, 8]])
    log_ratio = np.log(tenths[0] / tenths[1])
    posterior = gdp.GibbsPosterior(lambda t, z: z * t[0], gdp.Flat(gdp.supports.real(1)))
    one, zero = jnp.ones(()), jnp.zeros(1)
    # The loss of the new example, 1, less that of the old one, 0, is theta: up to a constant L.
    base, replaced = (
        ChainDraws.of(
            Target(posterior, z, one),
            jnp.tile(
                jnp.asarray(np.repeat(log_ratio + 2.0, often), jnp.float32)[:, None], (3, 1, 1)
            ),
        )
        for z, often in zip((jnp.zeros(1), jnp.ones(1)), tenths, strict=True)
    )
    inputs = Inputs(one, make_schedule((1.0, 1), 0, 0), 1, zero, jnp.asarray(False), *[zero] * 6)
    trial = AttackTrial().of_pair(
        PairView(
            posterior=posterior,
            plan=Plan(1, 1, 1, 3, 10),
            inputs=inputs,
            train=jnp.zeros(1),
            ghosts=jnp.ones(1),
            key=jax.random.key(1),
            old=jnp.asarray(0),
            new=jnp.asarray(0),
            base=base,
            replaced=replaced,
        )
    )
    # |.4 - .1| + |.5 - .1| + |.1 - .8|, halved; of the first posterior's draws alone it is 0.651.
    assert float(trial.total_variation) == pytest.approx(0.7, abs=1e-5)
    assert np.abs(log_ratio - float(trial.optimal)).min() < 1e-5


def test_pairs_that_are_far_apart_do_not_overflow():
    far = np.tile([1e3, -1e3], (40, 1)).reshape(40, 2, 1)
    found = allowed(np.ones(40), far)
    assert found.attack_auc == 1.0
    assert found.attack_tpr_1pct == 1.0


def test_what_is_computed_at_a_single_gamma_is_seen():
    shown = {"advantage": 0.2, "on_average_tv": 0.25, "tpr_1pct": 0.05, "attack_tpr_1pct": 0.06}
    row = {"gamma": 2.0, "attacker": "optimal", "dp_advantage": 0.9, "dp_tpr_1pct": 0.5}
    row |= shown | {f"{name}_se": 0.01 for name in shown}
    row |= {"dp_epsilon": 3.0, "shown_epsilon": 0.5, "on_average_kl": 0.1}
    *rates, nats = plot_attack([row]).axes
    heights = {line.get_label(): line.get_ydata().tolist() for line in nats.get_lines()}
    assert heights["DP epsilon allows"] == [3.0]
    assert heights["optimal attack, epsilon at least"] == [0.5]
    assert heights["on-average KL"] == [0.1]
    for axes in rates:
        lines = {line.get_label(): line for line in axes.get_lines()}
        for label in ("best possible, computed", "DP epsilon allows"):
            assert lines[label].get_marker() == "_", label
    longer = plot_attack([row, row | {"gamma": 4.0}]).axes[0].get_lines()
    assert {line.get_label(): line for line in longer}[label].get_marker() == "None"
