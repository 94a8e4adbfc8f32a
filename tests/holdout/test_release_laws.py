"""Every release against its exact law; each known-wrong copy is rejected by the same test.

Releases take their noise from the operating system, which has no seed. So the laws of whole runs
are tested with NumPy's noise in its place (fixed seeds, rejected below 1e-6: a correct release
passes forever), and the real source by itself, where a false alarm has probability 1e-7 a test.
"""

from fractions import Fraction

import jaxtyping
import numpy as np
import pytest
from scipy import stats
from sparse_laws import sparse_law

import gibbs_dp as gdp
from gibbs_dp.holdout import sparse_vector, thresholdout
from gibbs_dp.holdout.sparse_vector import SparseRun
from gibbs_dp.papers import bayesian_dp, capacity
from gibbs_dp.papers.bayesian_dp import networks
from gibbs_dp.papers.reusable_holdout.sparse import laplace_noise, noisy_max_law
from gibbs_dp.privacy import mechanisms, noise
from gibbs_dp.privacy.mechanisms import ReportNoisyMax

LIMIT, REAL_LIMIT = 1e-6, 1e-7
CLIENTS = (mechanisms, networks, sparse_vector, thresholdout)


@pytest.fixture(autouse=True)
def without_type_checks():
    """Thousands of runs: the checks of types would take most of the time."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def use_numpy(monkeypatch, seed, scale_of=lambda values, scale: scale):
    """Seeded noise of the same laws; ``scale_of`` makes a wrong copy."""
    rng = np.random.default_rng(seed)

    def laplace(values, scale):
        return values + rng.laplace(scale=scale_of(values, scale), size=values.shape)

    def gaussian(values, sigma):
        return values + rng.normal(scale=scale_of(values, sigma), size=values.shape)

    def number(value, scale):
        moved = rng.laplace(scale=scale_of(np.array([value], float), scale))
        return Fraction(float(value) + moved)

    def index(values, scale):
        return int(np.argmax(laplace(values, scale)))

    def gumbel(values, scale):
        return int(np.argmax(values + rng.gumbel(scale=scale_of(values, scale), size=values.shape)))

    for module in CLIENTS:
        for name, source in (
            ("laplace_release", laplace),
            ("gaussian_release", gaussian),
            ("add_laplace", number),
            ("argmax_release", index),
            ("exponential_release", gumbel),
        ):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, source)


def p_of_counts(found, law):
    """Chi-square p-value of outcomes against ``{outcome: probability}``; rare cells pooled."""
    counts = dict.fromkeys(law, 0)
    for outcome in found:
        counts[outcome] += 1  # an impossible outcome is a KeyError
    common = [outcome for outcome, p in law.items() if p * len(found) >= 10]
    observed = np.array([counts[o] for o in common] + [0.0])
    expected = np.array([law[o] * len(found) for o in common] + [0.0])
    observed[-1], expected[-1] = len(found) - observed.sum(), len(found) - expected.sum()
    keep = expected > 1e-6
    if observed[~keep].sum() > 0:
        return 0.0
    return float(
        stats.chisquare(observed[keep], expected[keep] * observed.sum() / expected.sum()).pvalue
    )


# -- what is released, many times, and its law's p-value -----------------------------------------

VALUES = np.array([0.0, 1.0, 3.0])
LAPLACE = gdp.privacy.LaplaceMechanism(3.0, 1.5, adjacency="replace-one")
GAUSS = gdp.privacy.GaussianMechanism(1.0, 2.0, adjacency="add-remove")
SELECT = gdp.privacy.ExponentialMechanism(1.0, 1.0, adjacency="replace-one")
TOP = ReportNoisyMax(1.0, 1.0, adjacency="replace-one")
TOP_OF_COUNTS = ReportNoisyMax(1.0, 1.0, adjacency="add-remove", is_monotone=True)
CHAIN = bayesian_dp.MarkovQuiltMechanism(
    bayesian_dp.MarkovChain([[0.7, 0.3], [0.3, 0.7]], 100), 1.0
)
SPARSE = gdp.holdout.Sparse(1.0, 2, 2.0, adjacency="replace-one")
ANSWERS = (-4.0, -4.0, 0.0, 0.0, 4.0)
SAME, OWN = (None,) * 5, (7.0, -50.0, None, 12.0, 0.5)  # thresholds of single queries


def p_of_numbers(mechanism, law):
    return lambda runs: float(stats.kstest(mechanism.release(np.zeros(runs)), law.cdf).pvalue)


def p_of_index(mechanism, law):
    law = dict(enumerate(law))
    return lambda runs: p_of_counts([mechanism.release(VALUES) for _ in range(runs)], law)


def sparse(runs, own=SAME):
    def one():
        run, said = SPARSE.start(7.0), []
        for value, threshold in zip(ANSWERS, own, strict=True):
            above = value + (7.0 if threshold is None else threshold)
            said.append(int(run.is_above(above, threshold=threshold)))
            if run.num_left == 0:
                break
        return tuple(said)

    law = sparse_law(
        ANSWERS, num_above=2, threshold_noise=laplace_noise(2.0), query_noise=laplace_noise(4.0)
    )
    return p_of_counts([one() for _ in range(runs)], law)


# Means on the two sets: gaps that lie around the threshold, in units of the noise.
SIGMA, T = 0.05, 0.3
HOLDOUT = np.array([0.1, 0.1, 0.3, 0.3, 0.5])


def holdout(runs):
    """Which queries are corrected, a sparse vector; and by how much, Laplace of scale sigma."""
    patterns, errors = [], []

    def phi(rows):  # train rows are 0, holdout rows 1
        return np.tile(HOLDOUT * rows[0], (len(rows), 1))

    for _ in range(runs):
        gate = gdp.Thresholdout(np.zeros(2), np.ones(2), threshold=T, sigma=SIGMA, budget=2)
        try:
            given = gate.query_batch(phi)
        except gdp.holdout.HoldoutSpentError as spent:
            given = spent.answers
        said = np.asarray(given.from_holdout, bool)
        patterns.append(tuple(said.astype(int).tolist()))
        errors.extend((np.asarray(given.values) - HOLDOUT[: len(said)])[said])
    law = sparse_law(
        tuple((HOLDOUT - T).tolist()),
        num_above=2,
        threshold_noise=laplace_noise(2 * SIGMA),
        query_noise=laplace_noise(4 * SIGMA),
    )
    noise_p = stats.kstest(errors, stats.laplace(scale=SIGMA).cdf).pvalue
    return 0.5 * min(p_of_counts(patterns, law), float(noise_p))


def holdout_one_by_one(runs):
    """The same noise through `query`, one query a run, far above the threshold."""
    errors = []
    for _ in range(runs):
        gate = gdp.Thresholdout(np.zeros(2), np.ones(2), threshold=0.0, sigma=1e-3, budget=1)
        errors.append(gate.query(lambda rows: rows) - 1.0)
    return float(stats.kstest(errors, stats.laplace(scale=1e-3).cdf).pvalue)


def matrix(runs):
    """``A = 2 I``: noise of scale 2 in the measurements, half of it in the answers."""
    one = capacity.MatrixMechanism(np.eye(runs), 2.0 * np.eye(runs), eps=0.5)
    return float(stats.kstest(one.release(np.zeros(runs)), stats.laplace(scale=2.0).cdf).pvalue)


def top(scale):
    return noisy_max_law(VALUES.tolist(), laplace_noise(scale))


EXPONENTIAL = np.exp(VALUES / 2) / np.exp(VALUES / 2).sum()
PATHS = {  # how it is released, runs with seeded noise, runs with the real one
    "Laplace": (p_of_numbers(LAPLACE, stats.laplace(scale=2.0)), 40_000, 1000),
    "Gaussian": (p_of_numbers(GAUSS, stats.norm(scale=2.0)), 40_000, 1000),
    "exponential": (p_of_index(SELECT, EXPONENTIAL), 2000, 300),
    "noisy max": (p_of_index(TOP, top(2.0)), 2000, 300),
    "monotone": (
        p_of_index(TOP_OF_COUNTS, top(1.0)),
        2000,
        300,
    ),
    "quilts": (p_of_numbers(CHAIN, stats.laplace(scale=CHAIN.scale)), 40_000, 1000),
    "sparse": (sparse, 8000, 200),
    "thresholds": (lambda runs: sparse(runs, OWN), 8000, 200),
    "holdout": (holdout, 2000, 200),
    "query": (holdout_one_by_one, 1000, 200),
}


@pytest.mark.parametrize("path", PATHS)
def test_a_release_has_its_law(path, monkeypatch):
    p_value, runs, few = PATHS[path]
    assert p_value(few) > REAL_LIMIT
    use_numpy(monkeypatch, seed=11)
    assert p_value(runs) > LIMIT


def test_a_matrix_mechanism_has_its_law(monkeypatch):
    assert matrix(150) > REAL_LIMIT
    monkeypatch.setattr(capacity.MatrixMechanism, "sensitivity", 0.5)
    assert matrix(500) < REAL_LIMIT  # near 1e-25; 150 runs miss it at times


def test_the_real_source_has_its_laws():
    runs, zeros = 10_000, np.zeros(10_000)
    for found, law in (
        (noise.laplace_release(zeros, 0.3), stats.laplace(scale=0.3)),
        (noise.gaussian_release(zeros, 0.3), stats.norm(scale=0.3)),
    ):
        assert stats.kstest(found, law.cdf).pvalue > REAL_LIMIT
        assert stats.kstest(1.3 * found, law.cdf).pvalue < REAL_LIMIT
        assert abs(stats.spearmanr(found[1:], found[:-1]).statistic) < 5.4 / np.sqrt(runs)  # 7e-8


# Known-wrong copies: which noise is how much too small, by its scale or by what it is added to.
def times(factor, of=None):
    return lambda values, scale: scale * factor if of is None or of(values, scale) else scale


def near(scale):
    return lambda values, found: abs(found - scale) < 1e-12


WRONG = {
    "Laplace": [times(0.25), times(0.9)],
    "Gaussian": [times(0.25), times(0.9)],
    "exponential": [times(0.25), times(4.0)],
    "noisy max": [times(0.25), times(0.5)],
    "monotone": [times(0.25), times(0.5)],
    "quilts": [times(0.25), times(0.9)],
    "sparse": [times(0.25), times(0.01, near(2.0)), times(0.25, near(4.0))],
    "holdout": [
        times(0.01),
        times(0.01, near(2 * SIGMA)),
        times(0.25, near(4 * SIGMA)),
        times(0.5, near(SIGMA)),
    ],
    "query": [times(0.01), times(0.01, near(1e-3)), times(0.5, near(1e-3))],
}


# Half or a quarter of the runs in which the right law is tested is enough to catch these.
SOON = {"holdout": 2, "sparse": 4, "exponential": 4, "noisy max": 2, "monotone": 2}


@pytest.mark.parametrize(("path", "index"), [(p, i) for p in WRONG for i in range(len(WRONG[p]))])
def test_less_noise_is_caught(path, index, monkeypatch):
    p_value, runs, _ = PATHS[path]
    use_numpy(monkeypatch, 12, WRONG[path][index])
    assert p_value(runs // SOON.get(path, 1)) < LIMIT


def test_a_threshold_that_is_not_redrawn_is_caught(monkeypatch):
    real = SparseRun._noisy_threshold

    def stale(self):
        return self.__dict__.setdefault("first", real(self))

    use_numpy(monkeypatch, 13)
    monkeypatch.setattr(SparseRun, "_noisy_threshold", stale)
    assert sparse(8000) < LIMIT


@pytest.mark.trust
def test_a_holdout_threshold_that_is_not_redrawn_is_caught(monkeypatch):
    real = gdp.Thresholdout._paid_round

    def stale(self, held):
        return self.__dict__.setdefault("first", real(self, held))

    use_numpy(monkeypatch, 14)
    monkeypatch.setattr(gdp.Thresholdout, "_paid_round", stale)
    assert holdout(6000) < LIMIT
