"""Claims about attackers hold on random channels and problems, and wrong formulas are caught."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gibbs_dp import exact
from gibbs_dp.exact.attacker import FinitePairs
from gibbs_dp.papers.on_average_kl import verify_attacker
from gibbs_dp.papers.on_average_kl.attackers import (
    GaussianPairs,
    gaussian_mean_attacker,
    laplace_attacker,
    private_mean_attacker,
)
from gibbs_dp.papers.on_average_kl.verify import fixture
from gibbs_dp.papers.on_average_kl.verify_attacker import (
    attacker_records,
    conditional_records,
    membership_records,
    privacy_losses,
    processed_records,
    profile_integral,
)

SEEDS = st.integers(0, 2**32 - 1)


def failures(records):
    return {record.name for record in records if not record.holds}


def random_channel(rng, n):
    """A channel on bits, anywhere between very private and not at all."""
    table = rng.dirichlet(np.ones(3), size=2**n) ** rng.choice([0.02, 0.2, 1.0])
    table /= table.sum(axis=1, keepdims=True)
    return exact.FiniteChannel(table, rng.dirichlet(np.ones(2)), n)


def losses(channel):
    pairs = [pair for i in range(channel.n) for pair in channel.replacements([i])]
    return np.unique(np.concatenate([(p.log_p - p.log_q).ravel() for p in pairs])).tolist()


@settings(max_examples=8, deadline=None)
@given(SEEDS, st.integers(1, 2))
def test_claims_on_random_channels(seed, n):
    rng = np.random.default_rng(seed)
    channel = random_channel(rng, n)
    assert not failures(attacker_records(channel.attacker(), turns=losses(channel), tolerance=1e-6))
    assert not failures(processed_records(channel, rng.dirichlet(np.ones(2), size=3)))


@settings(max_examples=8, deadline=None)
@given(SEEDS, st.floats(0.05, 4.0), st.integers(1, 4))
def test_claims_on_random_problems(seed, gamma, n):
    rng = np.random.default_rng(seed)
    problem = exact.FiniteProblem(
        rng.normal(size=(3, 3)), rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3))
    )
    assert not failures(membership_records(problem, gamma, n))
    assert not failures(conditional_records(problem, gamma, n))


@settings(max_examples=8, deadline=None)
@given(SEEDS, st.floats(0.05, 4.0))
def test_profile_is_below_worst_case_and_integrates_to_the_kl(seed, gamma):
    rng = np.random.default_rng(seed)
    problem = exact.FiniteProblem(
        rng.normal(size=(4, 2)), rng.dirichlet(np.ones(2)), rng.dirichlet(np.ones(4))
    )
    attacker, eps = problem.attacker(gamma, 3), [0.0, 0.2, 1.0, 3.0]
    worst = problem.privacy_curve(gamma, 3, eps, adjacency="replace-one")
    assert np.all(attacker.privacy_profile(eps) <= worst + 1e-12)
    integral = profile_integral(attacker, privacy_losses(problem, gamma, 3).tolist())
    assert integral == pytest.approx(problem.on_average_kl(gamma, 3), rel=1e-8, abs=1e-12)


@pytest.mark.trust(but=["GaussianPairs"])
@pytest.mark.parametrize("pairs", [FinitePairs, GaussianPairs])
def test_the_vertical_roc_passed_as_pooled_is_caught(pairs, monkeypatch):
    monkeypatch.setattr(pairs, "true_positive_rate", pairs.vertical_true_positive_rate)
    case = {FinitePairs: fixture().attacker(3.0, 4)}.get(
        pairs, gaussian_mean_attacker(5.0, 30, 1, 1.0)
    )
    assert "max (pooled(a) - a) = E TV" in failures(attacker_records(case))
    assert "reference value of pooled AUC" not in failures(
        verify_attacker.fixture_attacker_checks()
    )


def test_the_area_of_a_pair_passed_as_pooled_is_caught(monkeypatch):
    monkeypatch.setattr(FinitePairs, "auc", FinitePairs.auc_per_pair)
    assert "reference value of pooled AUC" in failures(verify_attacker.fixture_attacker_checks())


def without_normalizer(problem, gamma, n):
    """Pairs whose log ratio lacks the posteriors' normalizers: bare delta."""
    loss = problem.loss_matrix
    weight, log_p, log_q = [], [], []
    for pair in problem.table(gamma, n).replacements():
        delta = gamma * (loss[:, pair.other] - loss[:, pair.value])
        weight.append(pair.log_weight)
        log_p.append(pair.log_p)
        log_q.append(pair.log_p - delta)
    return FinitePairs(*map(np.concatenate, (weight, log_p, log_q)))


def test_a_log_ratio_without_its_normalizer_is_caught():
    problem = fixture()
    wrong = exact.Attacker.of(without_normalizer(problem, 1.0, 4))
    found = failures(attacker_records(wrong, turns=privacy_losses(problem, 1.0, 4).tolist()))
    assert "E H_c = 1 - c + c E H_{1/c}" in found


def test_the_sign_of_the_normalizer():
    # L = delta + log E_p e^-delta; with a minus it is off by twice log C'/C, unless C = C'.
    loss = fixture().loss_matrix
    delta = loss[:, 2] - loss[:, 1]
    weights = [np.exp(-loss[:, rows].sum(axis=1)) for rows in ([1, 0, 0, 2], [2, 0, 0, 2])]
    p, q = (weight / weight.sum() for weight in weights)
    right, normalizer = np.log(p / q), np.log(p @ np.exp(-delta))
    assert right == pytest.approx(delta + normalizer, abs=1e-12)
    ratio = np.log(weights[1].sum() / weights[0].sum())
    assert right - (delta - normalizer) == pytest.approx(np.full(5, 2 * ratio), abs=1e-12)
    assert abs(ratio) > 0.2


def test_a_perturbed_profile_is_caught(monkeypatch):
    right = FinitePairs.hockey_stick
    monkeypatch.setattr(FinitePairs, "hockey_stick", lambda self, e: 1.0001 * right(self, e))
    problem = fixture()
    found = failures(attacker_records(problem.attacker(1.0, 4)))
    assert {"eps_KL = int d(eps) (1 + e^-eps) deps", "d(0) = E TV"} <= found


EXTREMES = {
    "nearly no privacy loss": (lambda: gaussian_mean_attacker(1e-6, 30, 1000, 1.0), ()),
    "nothing private": (lambda: gaussian_mean_attacker(1.0, 30, 1000, 1.0), ()),
    "far apart": (lambda: private_mean_attacker(1e4, 100), (400.0,)),
    "hardly apart": (lambda: private_mean_attacker(1e-3, 100), (4e-5,)),
    "the same": (lambda: laplace_attacker(0.0), ()),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_claims_hold_at_extremes(name):
    make, turns = EXTREMES[name]
    assert not failures(attacker_records(make(), turns=turns, tolerance=1e-6))


def test_a_structured_loss_that_is_a_sum():
    problem = fixture()
    same = exact.StructuredProblem(
        lambda counts: counts @ problem.loss_matrix.T, problem.data_probs, problem.prior_probs
    )
    attacker, single = same.attacker(1.0, 4), same.membership(1.0, 4)
    assert attacker.attack_auc == problem.attacker(1.0, 4).attack_auc
    assert single.advantage == problem.membership(1.0, 4).advantage
