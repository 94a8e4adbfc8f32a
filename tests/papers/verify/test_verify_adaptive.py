"""Rows of `gibbs-dp verify` on mechanisms, Bayesian DP and capacity: they hold, and can fail."""

import dataclasses

import jaxtyping
import pytest

import gibbs_dp as gdp
from gibbs_dp.papers import bayesian_dp, capacity
from gibbs_dp.papers.bayesian_dp import verify as verify_bayesian
from gibbs_dp.papers.bayesian_dp.bdp import QuiltProfile
from gibbs_dp.papers.capacity import verify as verify_capacity
from gibbs_dp.papers.capacity import verify as verify_table
from gibbs_dp.papers.reusable_holdout import sparse
from gibbs_dp.papers.reusable_holdout import verify as verify_mechanisms
from gibbs_dp.papers.verify import verify
from gibbs_dp.privacy.mechanisms import (
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    ReportNoisyMax,
)


@pytest.fixture(autouse=True, scope="module")
def without_type_checks():
    """Thousands of integrals: the checks of types would take most of the time."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def failures(records):
    return {record.name for record in records if not record.holds}


def test_every_lemma_and_theorem_is_among_them():
    lemmas = verify_bayesian.bayesian_checks()
    theorems = verify_capacity.capacity_checks()
    mechanisms = verify_mechanisms.mechanism_checks()
    assert not failures([*lemmas, *theorems, *mechanisms])
    named = " ".join(check.name + check.source for check in lemmas)
    for word in ("Lemma 1", "Lemma 2", "Lemma 3", "Lemma 4", "Theorem 1", "Theorems 1, 2"):
        assert word in named
    assert "Theorem 3" in named
    named = " ".join(check.name + check.source for check in theorems)
    for word in ("post-processing", "convexity", "parallel", "sequential", "Theorem 5"):
        assert word in named
    assert {"Theorem 6: |E gen| <= 8 sqrt(eps)", "Theorem 7: IPM <= 8 sqrt(KL)"} <= {
        check.name for check in theorems
    }
    # What is printed and false has a counterexample, and what holds beside it.
    for checks, least in ((lemmas, 8), (theorems, 15), (mechanisms, 25)):
        assert sum(check.relation == "not <=" for check in checks) >= least
        assert sum(check.relation != "not <=" for check in checks) > least


def test_networks_are_left_out_only_where_networkx_is_missing(monkeypatch):
    said = []
    rooms = [name for name in vars(verify) if name.endswith("_checks")]
    for name in rooms:
        monkeypatch.setattr(verify, name, lambda *a, name=name: said.append((name, *a)) or [])
    verify.verify(sampled=False)
    monkeypatch.setattr(verify, "find_spec", lambda name: None)
    told = []
    verify.verify(sampled=False, say=told.append)
    assert [entry for entry in said if entry[0] == "bayesian_checks"] == [
        ("bayesian_checks", True),
        ("bayesian_checks", False),
    ]
    assert any("leaving out networks" in line for line in told)


def test_too_little_noise_is_caught(monkeypatch):
    right = sparse.sparse_pure
    monkeypatch.setattr(sparse, "sparse_pure", lambda eps, *a, **k: right(1.01 * eps, *a, **k))
    found = failures(verify_mechanisms.sparse_records(1, 1.0))
    assert "sparse vector, as published: loss <= proven" in found


@pytest.mark.parametrize(
    ("owner", "name", "factor", "statement"),
    [
        (LaplaceMechanism, "scale", 0.99, "Laplace mechanism: loss = epsilon"),
        (ReportNoisyMax, "scale", 0.8, "report noisy max, Lap(2/epsilon), replace-one"),
        (ExponentialMechanism, "temperature", 0.9, "exponential mechanism: attained"),
    ],
)
def test_smaller_noise_of_a_mechanism_is_caught(monkeypatch, owner, name, factor, statement):
    right = getattr(owner, name).fget
    monkeypatch.setattr(owner, name, property(lambda self: factor * right(self)))
    every = [*verify_mechanisms.additive_records(), *verify_mechanisms.selection_records()]
    assert statement in failures(every)


def test_wrong_deltas_and_guarantees_are_caught(monkeypatch):
    right = GaussianMechanism.delta
    monkeypatch.setattr(GaussianMechanism, "delta", lambda self, eps: 0.999 * right(self, eps))
    assert "Gaussian mechanism: delta(1)" in failures(verify_mechanisms.additive_records())
    monkeypatch.setattr(verify_mechanisms, "composed_pure_dp", lambda k, eps, delta: 10.0)
    assert len(failures(verify_mechanisms.thresholdout_records())) == 2
    whole = gdp.Thresholdout.guarantee

    def too_small(self):
        figures = {name: 0.9 * whole(self).epsilon for name in ("epsilon", "pure_epsilon")}
        return dataclasses.replace(whole(self), **figures)

    monkeypatch.setattr(gdp.Thresholdout, "guarantee", too_small)
    found = failures(verify_mechanisms.thresholdout_records())
    assert "Thresholdout: loss <= 2 B/(sigma n)" in found


def test_bounds_of_bayesian_dp_that_are_too_small_are_caught(monkeypatch):
    (chain, *_) = verify_bayesian.chains().values()
    right = QuiltProfile.bdp_epsilon
    monkeypatch.setattr(QuiltProfile, "bdp_epsilon", lambda self, eps: 0.5 * right(self, eps))
    found = failures(verify_bayesian.lemma_records(chain))
    assert {f"Lemma {k}: leakage <= quilts" for k in (2, 3, 4)} <= found


def test_the_unconditional_influence_is_caught(monkeypatch):
    blind = bayesian_dp.quilt_profile
    monkeypatch.setattr(
        verify_bayesian,
        "bdp_epsilon",
        lambda eps, model, **k: blind(model, **k, knows_others=False).bdp_epsilon(eps),
    )
    assert "Lemma 2 with the supremum over K" in failures(verify_bayesian.influence_records())
    right = verify_bayesian.max_influence
    monkeypatch.setattr(
        verify_bayesian, "max_influence", lambda law, i, q, k: right(law, i, q, frozenset())
    )
    found = failures(verify_bayesian.influence_records())
    assert "Lemma 4: influence = enumeration" in found
    assert any("no moral graph" in name for name in found)


def test_tails_for_independent_rows_and_small_max_information_are_caught(monkeypatch):
    printed = bayesian_dp.printed_fixed_tail
    monkeypatch.setattr(
        verify_bayesian, "chain_tail", lambda chain, tau: printed(chain.length, tau)
    )
    found = failures(verify_bayesian.concentration_records())
    assert found == {"chain: 2 exp(-2 n tau^2 (1-l)/(1+l))"}
    monkeypatch.setattr(
        verify_bayesian, "dp_max_information_bits_eighth", lambda n, epsilon, beta: 0.1 * epsilon
    )
    (chain, *_) = verify_bayesian.chains().values()
    assert "Theorem 3: max-information of BDP" in failures(verify_bayesian.lemma_records(chain))


def test_printed_bounds_in_the_place_of_valid_ones_are_caught():
    regime = capacity.laplace_regime(0.2, 3.0)
    wrong = regime._replace(valid=regime.printed)
    assert len(failures(verify_table.renyi_records(wrong))) == 1
    silent = regime._replace(verdict="holds")
    assert len(failures(verify_table.renyi_records(silent))) == 1


@pytest.mark.parametrize(
    ("module", "name", "records", "statement"),
    [
        (verify_table, "laplace_linear_kl", "kl_records", "KL, Laplace, linear"),
        (verify_table, "gaussian_kl_of_shift", "kl_records", "KL, Gaussian, linear"),
        (
            verify_table,
            "laplace_unrestricted_kl",
            "kl_records",
            "KL, Laplace, unrestricted",
        ),
    ],
)
def test_a_perturbed_closed_form_is_caught(monkeypatch, module, name, records, statement):
    right = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *a: 1.001 * right(*a))
    assert statement in failures(getattr(module, records)(1.0))


def test_wrong_composition_and_theorems_are_caught(monkeypatch):
    scaled = {
        "sequential": (0.9, "sequential composition, KL: <= bound"),
        "parallel": (0.9, "parallel composition, KL: <= bound"),
        "mixture": (0.9, "convexity, KL: <= bound"),
        "post_process": (0.1, "post-processing by a square"),
    }
    for name, (factor, _) in scaled.items():
        right = getattr(verify_capacity, name)

        def wrong(*a, right=right, factor=factor):
            found = right(*a)
            return dataclasses.replace(found, value=factor * found.value)

        monkeypatch.setattr(verify_capacity, name, wrong)
    found = failures(r for seed in range(3) for r in verify_capacity.property_records(seed))
    assert {statement for _, statement in scaled.values()} <= found
    monkeypatch.setattr(verify_capacity, "generalization_from_kl", lambda bound: 0.001)
    weak = capacity.ipm_from_kl
    monkeypatch.setattr(
        verify_capacity,
        "ipm_from_kl",
        lambda bound: dataclasses.replace(weak(bound), value=0.05 * weak(bound).value),
    )
    assert len(failures(verify_capacity.theorem_records(0))) == 2


def test_a_matrix_mechanism_that_ignores_adjacency_is_caught(monkeypatch):
    monkeypatch.setattr(capacity.MatrixMechanism, "pure_dp", lambda self, adjacency: self.eps)
    found = failures(verify_capacity.matrix_records(0.5))
    assert found == {
        "matrix mechanism, tree: DP, replace-one",
        "matrix mechanism, single counts: DP, replace-one",
    }
