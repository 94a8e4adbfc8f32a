"""Mutual information of audits against closed forms, the finite oracle and quadrature.

The bounds must contain the truth within 3 standard errors: a false-alarm rate of 1.4e-3 a side.
"""

import functools
from types import SimpleNamespace
from unittest.mock import Mock

import flat
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from problems import (
    gaussian_examples,
    gaussian_mean,
    linear_regression,
    logistic_examples,
    private_mean,
    regression_examples,
    truncated_normals,
)
from scipy import integrate, special, stats

import gibbs_dp as gdp
from gibbs_dp._jaxlib import compile as _compile
from gibbs_dp._jaxlib.compile import program
from gibbs_dp.auditing import audit as auditing
from gibbs_dp.engine.plan import AuditSpec
from gibbs_dp.estimators import table_sums
from gibbs_dp.estimators.average import Average
from gibbs_dp.model.losses.location import HalfSquaredDistance
from gibbs_dp.papers.on_average_kl import closed_forms
from gibbs_dp.quantities import dataset_comparison as comparison
from gibbs_dp.quantities import dataset_losses as tables
from gibbs_dp.quantities import mutual_information
from gibbs_dp.quantities.dataset_losses import SwapSums


def contains(report, truth, width=3.0):
    """Whether the truth lies between the bounds, within their errors."""
    low = report["mutual_information_lower"] - width * report["mutual_information_lower_se"]
    high = report["mutual_information_upper"] + width * report["mutual_information_upper_se"]
    return (low <= truth) & (truth <= high)


def others(report):
    """Warnings but those of the ceiling, and of Rényi divergences where the KL is some nats."""
    about = ("ceiling", "gamma=100: on_average_renyi")
    return [w for w in report.warnings if not any(words in w for words in about)]


@pytest.mark.trust
@pytest.mark.parametrize(("dim", "scale"), [(1, None), (3, 1.0), (10, None)])
def test_closed_form_lies_between_close_bounds(dim, scale):
    n, gammas = 100, [0.01, 1.0, 100.0]
    report = gdp.audit(
        gaussian_mean(dim, scale),
        gaussian_examples(dim),
        n,
        gammas,
        num_datasets=512,
        progress=False,
    )
    variance = np.inf if scale is None else scale**2
    exact = [closed_forms.gaussian_mean(g, n, dim, 1.0, variance) for g in gammas]
    for name in ("on_average_kl", "generalization_error"):
        z = (report[name] - [getattr(e, name) for e in exact]) / report[f"{name}_se"]
        assert np.abs(z).max() < 4, name
    truth = np.array([e.mutual_information for e in exact])
    assert contains(report, truth).all()
    gap = report["mutual_information_upper"] - report["mutual_information_lower"]
    assert (gap <= np.maximum(0.1 * truth, 0.02))[truth < 4].all()
    lautum = np.array([e.lautum_information for e in exact])
    z = (report["lautum_information"] - lautum) / report["lautum_information_se"]
    assert np.abs(z).max() < 4
    both = [e.mutual_information + e.lautum_information for e in exact]
    z = (report["symmetrized_kl_information"] - both) / report["symmetrized_kl_information_se"]
    assert np.abs(z).max() < 4
    # Gaussian examples are independent of theta's other coordinates: I(theta; z) by the marginal.
    posterior = 1 / (n * np.array(gammas) + 1 / variance)
    shrink = np.array(gammas) * posterior
    one = 0.5 * dim * np.log1p(shrink**2 / (posterior + (n - 1) * shrink**2))
    z = (report["individual_information"] - one) / report["individual_information_se"]
    assert np.abs(z[np.isfinite(z)]).max() < 4
    assert others(report) == []


def test_densities_divided_by_what_a_swap_adds_are_right_on_average():
    """A normal posterior: the gain is that of a normal difference, and its noise has no share."""
    gamma, n, count, scale = 0.9, 10, 30_000, 1.3
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.real(1)))
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(count, 8, 4, 1)) / np.sqrt(n * gamma)
    firsts = np.concatenate([[scale], np.full(count - 1, -scale)])[:, None]
    dtype = jnp.result_type(float)
    found = tables.swap_terms(
        posterior,
        jnp.asarray(firsts, dtype),
        jnp.zeros(1, int),
        jnp.arange(1, count),
        jnp.asarray(draws[1:], dtype),
        jnp.asarray(gamma, dtype),
        None,
    )
    # Losses differ by gamma (z_k - z_m) theta, and their constant parts are the same.
    spread = gamma * 2 * scale / np.sqrt(n * gamma)
    v = np.expm1(spread**2) / 32
    ratio = np.exp(spread**2 / 2 - np.asarray(found, np.float64)[0])
    error = 4 * np.sqrt(v / count)
    assert ratio.mean() == pytest.approx(1.0, abs=error + 3 * v**2)
    assert error + 3 * v**2 < v / 4


def test_an_example_that_fits_better_makes_the_normalizer_larger():
    """Draws at one point ``t``: the log ratio is ``gamma (loss(t, z_k) - loss(t, z_m))``."""
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.real(1)))
    z, t, gamma = np.array([0.0, 1.0, 3.0]), np.array([0.5, -1.0, 2.0]), 0.7
    draws = np.broadcast_to(t[:, None, None, None], (3, 2, 4, 1))
    dtype, places = jnp.result_type(float), jnp.arange(3)
    found = tables.swap_terms(
        posterior,
        jnp.asarray(z[:, None], dtype),
        places,
        places,
        jnp.asarray(draws, dtype),
        jnp.asarray(gamma, dtype),
        None,
    )
    loss = 0.5 * (t[:, None] - z) ** 2  # of draws of dataset k on example m
    np.testing.assert_allclose(found, gamma * (np.diag(loss)[:, None] - loss).T, atol=1e-5)


@pytest.mark.trust
def test_finite_class_matches_the_oracle():
    theta, z = np.array([0.0, 0.25, 0.5, 0.75, 1.0]), np.array([0.0, 0.5, 1.0])
    probs, gammas, n = np.array([0.5, 0.3, 0.2]), [0.2, 1.0, 3.0], 4
    posterior = gdp.GibbsPosterior(lambda t, x: (t - x) ** 2, gdp.Flat(gdp.supports.real()))
    report = gdp.audit(
        posterior,
        gdp.populations.Finite(z, probs),
        n,
        gammas,
        num_datasets=2048,
        learn=[*gdp.DEFAULT, gdp.MutualInformation(1024, sigma=0.5)],
        sampler=gdp.Grid(theta),
        progress=False,
    )
    problem = gdp.exact.FiniteProblem((theta[:, None] - z) ** 2, probs, np.full(5, 0.2))
    exact = [problem.quantities(g, n, beta=0.05) for g in gammas]
    assert contains(report, [e["mutual_information"] for e in exact]).all()
    truths = {
        "lautum_information": [e["lautum_information"] for e in exact],
        "symmetrized_kl_information": [
            e["mutual_information"] + e["lautum_information"] for e in exact
        ],
        "individual_information": [problem.individual_information(g, n) for g in gammas],
    }
    for name, truth in truths.items():
        assert np.abs((report[name] - truth) / report[f"{name}_se"]).max() < 4, name
    gen = np.array([e["generalization_error"] for e in exact])
    assert (report["generalization_lower"] - 3 * report["generalization_lower_se"] <= gen).all()
    for name in ("generalization_upper", "generalization_upper_individual"):
        assert (gen <= report[name] + 3 * report[f"{name}_se"]).all()
    assert others(report) == []


@pytest.mark.trust
def test_a_finite_class_whose_posteriors_sit_on_single_candidates():
    theta, z, probs = np.linspace(0.0, 1.0, 5), np.array([0.0, 0.5, 1.0]), np.array([0.5, 0.3, 0.2])
    posterior = gdp.GibbsPosterior(lambda t, x: (t - x) ** 2, gdp.Flat(gdp.supports.real()))
    report = gdp.audit(
        posterior,
        gdp.populations.Finite(z, probs),
        10,
        [5.0, 50.0],
        num_datasets=512,
        sampler=gdp.Grid(theta),
        progress=False,
    )
    problem = gdp.exact.FiniteProblem((theta[:, None] - z) ** 2, probs, np.full(5, 0.2))
    exact = [problem.quantities(g, 10, beta=0.05)["mutual_information"] for g in (5.0, 50.0)]
    assert contains(report, exact).all()


@pytest.fixture(scope="module")
def cold_finite_class():
    """An audit of a finite class at gammas where an example moves a posterior far."""
    theta, z, probs = np.linspace(0.0, 1.0, 5), np.array([0.0, 0.5, 1.0]), np.array([0.5, 0.3, 0.2])
    posterior = gdp.GibbsPosterior(
        lambda t, x: 0.5 * (t - x) ** 2, gdp.Flat(gdp.supports.box(-1.0, 2.0))
    )
    population, gammas = gdp.populations.Finite(z, probs), [30.0, 60.0, 100.0]
    problem = gdp.exact.FiniteProblem(0.5 * (theta[:, None] - z) ** 2, probs, np.full(5, 0.2))
    truth = np.array([problem.individual_information(g, 10) for g in gammas])

    def run():
        return gdp.audit(
            posterior,
            population,
            10,
            gammas,
            num_datasets=1024,
            sampler=gdp.Grid(theta),
            learn=[*gdp.DEFAULT, gdp.MutualInformation(sigma=0.5)],
            progress=False,
        )

    return run, truth


@pytest.mark.trust
def test_individual_information_of_exact_sums_at_large_gamma(cold_finite_class):
    run, truth = cold_finite_class
    report = run()
    error = report["individual_information_se"]
    assert np.abs((report["individual_information"] - truth) / error).max() < 4
    assert error.max() < 0.03
    assert "generalization_upper_individual" in report.columns
    assert not [w for w in report.warnings if "individual" in w]


@pytest.mark.trust
def test_an_impossible_individual_information_is_told_of(cold_finite_class, monkeypatch):
    run, truth = cold_finite_class
    monkeypatch.setattr(comparison, "MAX_TERMS", 0)  # swaps from draws, as of larger lattices
    report = run()
    assert (report["individual_information"] > 100 * truth)[1:].all()
    told = [w for w in report.warnings if w.endswith("[individual-too-large]")]
    assert [w.split(":")[0] for w in told] == ["gamma=60", "gamma=100"]
    assert np.isnan(report["generalization_upper_individual"][1:]).all()
    assert (report["generalization_upper"] > 0).all()


def test_swaps_add_up_where_products_underflow():
    rng = np.random.default_rng(0)
    weight = -rng.uniform(0, 5000, (7, 3))
    first, other = rng.uniform(0, 3000, (7, 3)), rng.uniform(0, 3000, (7, 2))
    sums = SwapSums(2, 3)
    for part in (slice(0, 4), slice(4, 7)):
        sums.add(weight[part], first[part], other[part])
    terms = (weight + first)[:, None, :] - other[:, :, None]
    truth = special.logsumexp(terms, axis=0) - special.logsumexp(weight, axis=0)
    np.testing.assert_allclose(sums.result(), truth, rtol=1e-12)


@pytest.mark.trust
def test_structured_loss_against_quadrature():
    # theta = mean + Laplace(1 / gamma): I is the entropy of the sum minus that of the noise.
    n, gammas = 100, [1.0, 10.0, 100.0]
    report = gdp.audit(
        private_mean(), truncated_normals, n, gammas, num_datasets=512, progress=False
    )
    spread = np.sqrt(stats.truncnorm.var(-2, 2) / n)
    truth = []
    for gamma in gammas:
        x = np.linspace(-12 / gamma - 6 * spread, 12 / gamma + 6 * spread, 2001)
        noise = 0.5 * gamma * np.exp(-gamma * np.abs(x[:, None] - x[None]))
        density = integrate.simpson(noise * stats.norm.pdf(x, scale=spread), x=x)
        entropy = -integrate.simpson(density * np.log(density + 1e-300), x=x)
        truth.append(entropy - (1 + np.log(2 / gamma)))
    assert contains(report, np.array(truth)).all()
    assert "generalization_lower" not in report.columns
    assert others(report) == []


@pytest.mark.trust
@pytest.mark.parametrize(
    ("posterior", "population", "gammas"),
    [
        (linear_regression(2.0), regression_examples, [0.01, 0.1, 1.0, 10.0]),
        (
            gdp.GibbsPosterior(
                gdp.losses.logistic, dist.Normal(jnp.zeros(2), 2.0).to_event(1)
            ),
            lambda key, n: logistic_examples(key, n, dim=2),
            [0.03, 0.3, 3.0],
        ),
    ],
    ids=["bounded-regression", "logistic"],
)  # fmt: skip
def test_regressions_keep_their_bounds_in_order(posterior, population, gammas, monkeypatch):
    tracks = _captured(monkeypatch)
    report = gdp.audit(posterior, population, 50, gammas, num_datasets=512, progress=False)
    low, high = report["mutual_information_lower"], report["mutual_information_upper"]
    error = np.hypot(report["mutual_information_lower_se"], report["mutual_information_upper_se"])
    assert (low <= high + 3 * error).all()
    assert others(report) == []
    for track in tracks[0]:
        error = _normalizer_errors(track, posterior, population, 50, 32)
        assert abs(error.mean()) < 1e-2
        # At a bound of theta a rare posterior has one long tail, which no Gaussian overlaps well.
        assert np.mean(np.abs(error) < 1e-2) > 0.9


def _captured(monkeypatch):
    found = []
    plain = auditing.run_sweep
    monkeypatch.setattr(auditing, "run_sweep", lambda *a: found.append(plain(*a)) or found[0])
    return found


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _log_density(posterior, population, n, root, anchor, gamma, index, points):
    data = population.sample(jax.random.fold_in(root, index), n, 16)[0]
    base = posterior.losses(posterior.constrain(anchor), data)

    def one(u):
        losses = posterior.losses(posterior.constrain(u), data)
        return posterior.log_prior_unconstrained(u) - gamma * jnp.sum(losses - base)

    return jax.vmap(one)(points)


def _normalizer_errors(track, posterior, population, n, count):
    """Bridge sampling minus quadrature over theta, for the first datasets (key 0)."""
    root = jax.random.split(jax.random.fold_in(jax.random.key(0), 0), 2)[0]
    population = gdp.populations.Independent(population)
    dim = posterior.dim
    axis = np.linspace(-6, 6, 161)
    grid = np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), -1).reshape(-1, dim)
    kept, errors = track.first_kept().mutual_information, []
    given = (posterior, population, n, root, track.tuned.inputs.anchor, track.gamma)
    for i in range(count):
        # A lattice of twelve standard deviations around the draws: exact for smooth densities.
        draws = kept.u[i].reshape(-1, dim)
        scale = np.linalg.cholesky(np.cov(draws, rowvar=False).reshape(dim, dim))
        points = draws.mean(axis=0) + grid @ scale.T
        values = np.asarray(_log_density(*given, i, points), np.float64)
        cell = (axis[1] - axis[0]) ** dim * np.linalg.det(scale)
        truth = np.log(np.exp(values - values.max()).sum() * cell) + values.max()
        errors.append(kept.log_normalizer[i] - truth)
    return np.array(errors)


@pytest.mark.trust
def test_too_few_datasets_for_the_information_are_noticed():
    report = gdp.audit(
        gaussian_mean(3), gaussian_examples(3), 20, [1.0, 100.0], num_datasets=64, progress=False
    )
    hit = [w for w in report.warnings if "ceiling" in w]
    assert len(hit) == 1
    assert hit[0].startswith("gamma=100")
    assert "num_information" in hit[0]


@pytest.mark.trust
def test_a_missed_mode_is_noticed_by_integration():
    # All chains of a dataset find one of two modes: bridging misses log 2, integration does not.
    two_modes = gdp.GibbsPosterior(
        lambda theta, z: (jnp.abs(theta) - z) ** 2, gdp.Flat(gdp.supports.real())
    )
    gammas = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]
    report = gdp.audit(
        two_modes,
        lambda key, n: 2.0 + jax.random.normal(key, (n,)),
        20,
        gammas,
        num_datasets=128,
        sampler=gdp.Chains(num_warmup=64),
        progress=False,
    )
    last = [w for w in report.warnings if w.startswith("gamma=1:")]
    assert any("thermodynamic integration" in w for w in last)


@pytest.mark.trust
def test_blocks_and_statistics_change_nothing(monkeypatch):
    problem = (gaussian_mean(2), gaussian_examples(2), 20, [0.1, 1.0])
    whole = gdp.audit(*problem, num_datasets=100, progress=False)
    monkeypatch.setattr(comparison, "MAX_ENTRIES", 4096)
    monkeypatch.setattr(tables, "has_statistics", lambda posterior: False)
    summarize = program(tables._summarize, ("posterior", "plan"), "cpu")
    summarize.jitted.clear_cache()  # traced again, without statistics
    parts = gdp.audit(*problem, num_datasets=100, progress=False)
    for name in whole.columns:
        if "information" in name and not name.endswith("from"):
            np.testing.assert_allclose(parts[name], whole[name], rtol=2e-3, atol=1e-5)
    summarize.jitted.clear_cache()


@pytest.mark.trust
def test_gamma_zero_has_no_information():
    report = gdp.audit(
        gaussian_mean(1, 1.0), gaussian_examples(1), 5, [0.0], num_datasets=64, progress=False
    )
    assert abs(report["mutual_information_lower"][0]) < 1e-4
    assert abs(report["mutual_information_upper"][0]) < 1e-2
    assert "generalization_lower" not in report.columns


@pytest.mark.trust
def test_sigma_comes_from_where_it_says():
    settings = {"num_datasets": 64, "progress": False}
    problem = (linear_regression(2.0), regression_examples, 20, [1.0])
    domain = gdp.Domain(x_bound=1.0, y_range=(-2.0, 2.0))
    declared = flat.audit(*problem, domain=domain, **settings)
    assert declared.rows[0]["sigma"] == 8.0  # half of the range [0, 16]
    assert declared.rows[0]["sigma_from"] == "declared range"
    empirical = flat.audit(*problem, sigma="empirical", **settings)
    assert 0 < empirical.rows[0]["sigma"] < 8.0
    assert "no guarantee" in empirical.rows[0]["sigma_from"]
    assert any("guarantees nothing" in note for note in empirical.notes)
    absent = flat.audit(*problem, **settings)
    assert "generalization_upper" not in absent.columns
    assert any("generalization_upper is absent" in note for note in absent.notes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_information": 16}, "num_information: must be 0 or between 32"),
        ({"num_information": 128}, r"num_datasets \(64\), got 128"),
        ({"sigma": -1.0}, "sigma: must be a positive number"),
        ({"sigma": float("nan")}, "sigma: must be a positive number or 'empirical'"),
    ],
)
def test_bad_input(settings, message):
    with pytest.raises(ValueError, match=message):
        flat.audit(
            gaussian_mean(1),
            gaussian_examples(1),
            5,
            [1.0],
            num_datasets=64,
            progress=False,
            **settings,
        )


@pytest.mark.trust
@pytest.mark.parametrize("dtype", ["float64"], indirect=True)
def test_double_precision(dtype):
    # Quadratic losses are compared by two matrix products, whose result is of the caller's type.
    report = gdp.audit(
        gaussian_mean(2), gaussian_examples(2), 20, [1.0], num_datasets=64, progress=False
    )
    assert report.settings["dtype"] == dtype
    assert contains(report, closed_forms.gaussian_mean(1.0, 20, 2, 1.0, np.inf).mutual_information)


PROGRAMS = {
    tables._summarize: ("posterior", "plan"),
    tables._quadratic_losses: ("posterior",),
    tables._pair_losses: ("posterior", "plan"),
    tables._point_losses: ("posterior",),
    tables._swap_terms: ("posterior",),
    table_sums._consistency_sums: (),
    table_sums._contrast_sums: (),
}


def compiled():
    """How often each of the comparison's programs has been compiled in this process."""
    return [
        _compile.program(f, static, jax.default_backend(), is_quick).jitted._cache_size()
        for f, static in PROGRAMS.items()
        for is_quick in (False, True)
    ]


COMPARED = {
    "chains": (gaussian_mean(1), gdp.HMC()),
    "nodes": (gaussian_mean(1), gdp.Line()),
    "structured": (
        gdp.GibbsPosterior(
            total_loss=lambda theta, z: jnp.sum((z - theta) ** 2) / 2, prior=gaussian_mean(1).prior
        ),
        gdp.HMC(),
    ),
}


@pytest.mark.trust
@pytest.mark.parametrize(("posterior", "sampler"), COMPARED.values(), ids=list(COMPARED))
def test_the_comparison_finds_its_programs_compiled_and_a_second_audit_rehearses_nothing(
    monkeypatch, posterior, sampler
):
    counts, looks = [], []
    compare, summarize = comparison.DatasetComparison.run, comparison.summarize

    def counted(self):
        counts.append(compiled())
        found = compare(self)
        counts.append(compiled())
        return found

    monkeypatch.setattr(comparison.DatasetComparison, "run", counted)
    monkeypatch.setattr(comparison, "summarize", lambda *a: looks.append(1) or summarize(*a))
    start = compiled()
    for key, expected in ((0, 2), (1, 3)):  # the rehearsal's and the comparison's; the latter's
        report = gdp.audit(
            posterior,
            gaussian_examples(1),
            8,
            [0.5],
            num_datasets=64,
            learn=[*gdp.DEFAULT, gdp.MutualInformation(64)],
            sampler=sampler,
            key=key,
            progress=False,
        )
        assert len(looks) == expected
        assert np.isfinite(report["mutual_information_lower"]).all()
    before, after = counts[:2]
    assert before == after != start


@pytest.mark.trust
def test_only_quadratic_losses_that_will_be_compared_are_rehearsed(monkeypatch):
    logistic = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(0.0, 1.0).expand([3]))
    assert not tables.has_statistics(logistic)
    begun = []
    monkeypatch.setattr(comparison, "Shared", lambda *a: begun.append(1))
    gdp.audit(
        gaussian_mean(1),
        gaussian_examples(1),
        20,
        [0.5],
        num_datasets=32,
        learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
        progress=False,
    )
    assert not begun


def told_by(lower, upper, total=1.0):
    """What the columns of information are made of, where the sum with lautum is known."""
    contrast = SimpleNamespace(symmetrized=Average(total, 0.0, 9), individual=None)
    found = Mock(comparison.Information, contrast=contrast)
    return found, Average(lower, 0.02, 9), Average(upper, 0.02, 9)


def test_the_error_of_lautum_covers_what_bounds_of_information_leave_open():
    """``I`` may be at either end, and lautum is what is left of the sum."""
    found, lower, upper = told_by(0.3, 0.5)
    row = mutual_information._lautum(found, None, lower, upper)
    for information in (0.3, 0.5):
        off = abs(row["lautum_information"] - (1.0 - information))
        assert off <= row["lautum_information_se"]


def test_the_error_of_a_bound_of_generalization_is_that_of_information():
    """``gen >= I / (n gamma)``, so that a standard error more of one is one of the other."""
    found, lower, upper = told_by(0.3, 0.5)
    rows = [
        mutual_information._generalization(Mock(AuditSpec, n=40), found, low, upper, 0.5, None)
        for low in (lower, lower._replace(value=0.32))
    ]
    one, more = (row["generalization_lower"] for row in rows)
    assert one == pytest.approx(0.3 / 20)
    assert rows[0]["generalization_lower_se"] == pytest.approx(more - one)


@pytest.mark.parametrize(("rows", "n"), [(60, 40), (200, 100)])
def test_rows_without_replacement_are_not_independent(rows, n):
    """``I + lautum = gamma S^2 (1 - n / N)``, of which n KLs are ``N / (N - n)`` times as much.

    Two datasets overlap, and the row that comes is none of those that are there. The means of
    posteriors have the variance ``S^2 (1 / n - 1 / N)``; false alarm 6e-5 each.
    """
    z = np.random.default_rng(rows).normal(size=(rows, 1))
    spread = z.var(ddof=1)
    report = gdp.audit(
        gdp.GibbsPosterior(HalfSquaredDistance(), gdp.Flat(gdp.supports.real(1))),
        gdp.populations.Table(z, replace=False),
        n,
        [1.0],
        num_datasets=256,
        learn=[*gdp.DEFAULT, gdp.MutualInformation(256, sigma=2.0)],
        progress=False,
    )
    (row,) = report.rows
    assert abs(n * row["on_average_kl"] - spread) < 4 * n * row["on_average_kl_se"]
    both, error = row["symmetrized_kl_information"], row["symmetrized_kl_information_se"]
    assert abs(both - spread * (1 - n / rows)) < 4 * error
    assert report.warnings == ()
    assert row["mutual_information_upper"] <= spread * (1 - n / rows)
    assert "generalization_upper" not in row  # a bound for independent examples
    assert any("drawn without replacement" in note for note in report.notes)
