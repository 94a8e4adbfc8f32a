"""Gibbs posteriors minimize their objective; a law or a bound that is off is caught."""

import jax
import numpy as np
import pytest

from gibbs_dp.exact import FiniteProblem
from gibbs_dp.papers.notions import notions
from gibbs_dp.papers.on_average_kl import verify_max_entropy as verify
from gibbs_dp.papers.on_average_kl import verify_sampled as sampled
from gibbs_dp.papers.verify.check import Z_LIMIT
from gibbs_dp.problems.regression import logistic_regression
from gibbs_dp.sampling.sample import sample


def failures(records):
    return {record.name for record in records if not record.holds}


def test_the_objective_is_least_at_the_posterior():
    found = verify.max_entropy_checks()
    assert not failures(found)
    assert len({check.case for check in found}) == 10
    # Laws that are far away are among the others: the statement is not one of zeros.
    assert min(c.left for c in found if c.name.startswith("any other law")) > 1e-3


@pytest.mark.parametrize("factor", [0.999, 1.001])
def test_an_objective_of_another_temperature_is_caught(monkeypatch, factor):
    right = verify.objective
    monkeypatch.setattr(verify, "objective", lambda gamma, *rest: right(factor * gamma, *rest))
    found = failures(verify.finite_records(verify.fixture(), 1.0, 3, seed=0))
    assert "any other law: KL(q || posterior) above -log C" in found
    assert "the least found by search = -log C" in found


@pytest.mark.parametrize("gamma", [0.2, 1.0, 4.0])
def test_a_density_and_atoms_are_a_finite_problem_on_nodes(gamma):
    """On-average KL by enumeration, the density as 250 Gauss-Hermite nodes."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(250)
    theta = np.concatenate([verify.ATOMS, verify.PRIOR_SCALE * nodes])
    prior = np.concatenate([verify.MASSES[:-1], verify.MASSES[-1] * weights / np.sqrt(2 * np.pi)])
    kept = prior > 1e-30
    loss = (theta[kept, None] - verify.VALUES) ** 2 / 2
    problem = FiniteProblem(loss, verify.PROBS, prior[kept] / prior.sum())
    exact = problem.quantities(gamma, verify.MIXED_N, 0.0)
    by_name = {r.name.split(": ")[1][:7]: r for r in verify.mixed_records(gamma)}
    assert all(record.holds for record in by_name.values())
    assert by_name["Theorem"].left == pytest.approx(exact["on_average_kl"], rel=1e-8)
    both = exact["mutual_information"] + exact["lautum_information"]
    assert by_name["Lemma 9"].right == pytest.approx(both, rel=1e-8)
    assert exact["on_average_kl"] > 0.02
    mass = verify.mixed_posterior(verify.VALUES, gamma).masses
    assert mass.min() > 0.01  # both atoms and the density matter


def test_a_mixture_whose_parts_are_weighed_wrongly_is_caught(monkeypatch):
    """The KL of the density alone, as if the masses of the atoms did not change."""

    def inside(self, other):
        one, two = (np.append(np.zeros(2), 1.0) for _ in range(2))
        return right(verify.AtomsAndDensity(one, self.mean, self.scale),
                     verify.AtomsAndDensity(two, other.mean, other.scale))  # fmt: skip

    right = verify.AtomsAndDensity.kl
    monkeypatch.setattr(verify.AtomsAndDensity, "kl", inside)
    found = failures(verify.mixed_records(1.0) + verify.mixed_entropy_records(1.0))
    assert len(found) == 6


def test_groups_of_approximate_dp_are_checked_by_hockey_sticks(monkeypatch):
    found = notions.approximate_group_records()
    assert not failures(found)
    assert len(found) == 4
    # Near enough to the bound for a bound without its factor to fail.
    assert all(record.left > 0.8 * record.right for record in found if record.relation == "<=")
    monkeypatch.setattr(notions, "group_delta", lambda epsilon, delta, k: k * delta)
    assert len(failures(notions.approximate_group_records())) == 3


@pytest.mark.trust
@pytest.mark.parametrize(("gamma", "is_least"), [(1.0, True), (1.5, False)])
def test_sampled_draws_cannot_be_moved_downhill_unless_of_another_temperature(gamma, is_least):
    """16 maps, one-sided at 4 standard errors: false alarms below 1 in 1,000."""
    problem = logistic_regression(dim=sampled.MOVED_DIM)
    data, _ = problem.population.sample(jax.random.key(1), sampled.MOVED_N, 1)
    counts = {"num_chains": sampled.NUM_CHAINS, "num_samples": sampled.NUM_SAMPLES}
    draws = sample(problem.posterior, data, gamma=gamma, key=2, num_warmup=64, **counts)
    found = sampled.changes(problem.posterior, data, 1.0, np.asarray(draws.theta))
    assert (min(x.value / x.se for x in found) > -Z_LIMIT) == is_least
    assert max(x.value / x.se for x in found) > Z_LIMIT
