"""A population that breaks the declared domain is told of, and changes nothing else."""

from types import SimpleNamespace
from unittest.mock import Mock

import flat
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import QUICK, linear_regression, regression_examples

import gibbs_dp as gdp
from gibbs_dp.engine.view import GammaResult
from gibbs_dp.quantities.worst_case import WorstCase

KIND = "[outside-domain]"


def audit(population, domain, posterior=None):
    return flat.audit(
        posterior or linear_regression(2.0),
        population,
        20,
        [0.5],
        num_datasets=64,
        domain=domain,
        **QUICK,
    )


def told(report):
    return [w for w in report.warnings if w.endswith(KIND)]


@pytest.fixture(scope="module")
def narrow():
    return audit(regression_examples, gdp.Domain(x_bound=0.5, y_range=(-1.0, 1.0)))


@pytest.mark.trust
def test_examples_outside_the_domain_are_counted(narrow):
    (warning,) = told(narrow)
    count, total = (int(word) for word in warning.split()[0:3:2])
    assert total == 64 * (20 + 64)
    # |x| > 1/2 or |x + noise| > 1: by geometry 1/2 + 1/16 of the square of the two.
    assert count / total == pytest.approx(9 / 16, abs=4 * np.sqrt(0.25 / total))
    assert narrow["dp_epsilon"] == pytest.approx(8 * 0.5)


@pytest.mark.trust
def test_the_right_domain_is_quiet_and_the_numbers_are_the_same(narrow):
    right = audit(regression_examples, gdp.Domain(x_bound=1.0, y_range=(-2.0, 2.0)))
    assert not told(right)
    assert right["dp_epsilon"] == pytest.approx(32 * 0.5)
    undeclared = audit(regression_examples, None)
    assert not told(undeclared)
    for report in (right, undeclared):
        assert report["on_average_kl"] == narrow["on_average_kl"]


@pytest.mark.trust
def test_one_row_of_a_table_is_found():
    rows = np.random.default_rng(0).uniform(-1, 1, (5000, 1))
    population = gdp.populations.Table((rows, rows[:, 0]))
    domain = gdp.Domain(x_bound=1.0, y_range=(-1.0, 1.0))
    assert not told(audit(population, domain))
    rows[3] = 1.5
    (warning,) = told(audit(gdp.populations.Table((rows, rows[:, 0])), domain))
    assert warning.startswith("1 of 5000 ")


@pytest.mark.trust
def test_rows_scaled_to_the_bound_are_inside():
    def unit_rows(key, n):
        z = jax.random.normal(key, (n, 3))
        return z / jnp.linalg.norm(z, axis=1, keepdims=True)

    lengths = np.linalg.norm(np.asarray(unit_rows(jax.random.key(0), 1000), np.float64), axis=1)
    assert lengths.max() > 1  # what rounding does
    prior = gdp.Flat(gdp.supports.l2_ball(3))
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, prior)
    assert not told(audit(unit_rows, gdp.Domain(x_bound=1.0), posterior))
    (warning,) = told(audit(unit_rows, gdp.Domain(x_bound=0.999), posterior))
    assert "(100.0%)" in warning


@pytest.mark.trust
def test_what_bounds_do_not_describe_is_left_alone():
    posterior = gdp.GibbsPosterior(
        lambda theta, z: jnp.sum((theta - z["a"]) ** 2), gdp.Flat(gdp.supports.box(-1.0, 1.0, 2))
    )
    report = audit(
        lambda key, n: {"a": 5 + jax.random.normal(key, (n, 2))}, gdp.Domain(1.0), posterior
    )
    assert not told(report)


@pytest.mark.trust
def test_nothing_is_compiled_for_it():
    calls = []

    def population(key, n):
        calls.append(n)
        return regression_examples(key, n)

    domain = gdp.Domain(x_bound=0.5, y_range=(-1.0, 1.0))
    audit(population, None)
    counts = []
    for declared in (None, domain):
        calls.clear()
        audit(population, declared)
        counts.append(len(calls))
    assert counts[0] == counts[1]


@pytest.mark.trust
def test_notes_say_what_epsilon_and_population_are(narrow):
    assert any(note.startswith("dp_epsilon holds for") for note in narrow.notes)
    assert not any("table" in note for note in narrow.notes)
    domain = gdp.Domain(x_bound=1.0, y_range=(-2.0, 2.0))
    unbounded = audit(regression_examples, domain, linear_regression())
    assert np.isinf(unbounded["dp_epsilon"]).all()
    assert not any("dp_epsilon" in note for note in unbounded.notes)
    rows = np.linspace(-1, 1, 60)
    table = audit(gdp.populations.Table((rows[:, None], rows)), None)
    assert any("the table is the population" in note for note in table.notes)


def test_epsilon_of_a_group_covers_all_of_its_examples():
    """40 labels of -1, three of which turn to 1: the posterior on an interval, by quadrature."""
    posterior = gdp.GibbsPosterior(gdp.losses.absolute, gdp.Flat(gdp.supports.box(-1.0, 1.0, 1)))
    domain = gdp.Domain(x_bound=1.0, y_range=(-1.0, 1.0))
    settings = SimpleNamespace(posterior=posterior, n=40, domain=domain, group_size=3)
    row, _ = WorstCase().finish(Mock(GammaResult, settings=settings, gamma=2.0), {})
    theta = np.linspace(-1.0, 1.0, 100_001)
    laws = []
    for turned in (0, 3):
        loss = (40 - turned) * np.abs(-1.0 - theta) + turned * np.abs(1.0 - theta)
        density = np.exp(-2.0 * (loss - loss.min()))
        laws.append(density / np.trapezoid(density, theta))
    reached = np.abs(np.log(laws[0] / laws[1])).max()
    assert reached <= row["dp_epsilon"] < 1.05 * reached
