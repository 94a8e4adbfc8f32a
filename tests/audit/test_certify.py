"""Certificates against the finite fixture, quadrature, and each other."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import integrate

import gibbs_dp as gdp
from gibbs_dp.auditing.certify import find_sampler, from_islands, run_frozen
from gibbs_dp.information.bounds import generalization as pac_bayes

DATA = np.repeat([0.0, 0.5, 1.0], [25, 15, 10])
CANDIDATES = gdp.Grid(candidates=[0.0, 0.25, 0.5, 0.75, 1.0])
GAMMAS = np.array([0.1, 1.0, 4.0])


def squared(theta, z):
    return (theta - z) ** 2


def on_an_interval(low=-0.1, high=1.1):
    return gdp.GibbsPosterior(squared, dist.Uniform(low, high))


def quadrature(gammas, low=-0.1, high=1.1):
    """log C and empirical risk under the uniform prior."""

    def total(theta):
        return ((theta - DATA) ** 2).sum()

    found = []
    for gamma in gammas:
        c, first = (
            integrate.quad(f, low, high, epsabs=0, epsrel=1e-10)[0] / (high - low)
            for f in (
                lambda t, g=gamma: math.exp(-g * total(t)),
                lambda t, g=gamma: math.exp(-g * total(t)) * total(t),
            )
        )
        found.append((math.log(c), first / c / DATA.size))
    return np.array(found).T


def test_the_fixture():
    found = gdp.certify(on_an_interval(), DATA, 1.0, loss_range=(0.0, 1.0), sampler=CANDIDATES)
    row = found.best
    assert found.is_exact
    assert row["log_normalizer"] == pytest.approx(-9.303031, abs=2e-6)
    assert row["kl"] == pytest.approx(0.944844, abs=2e-6)
    assert row["empirical_risk"] == pytest.approx(0.167164, abs=2e-6)
    wanted = {"maurer": 0.404653, "catoni": 0.344963}
    assert {k: row[k] for k in wanted} == pytest.approx(wanted, abs=2e-6)
    assert (found.bound, found.gamma) == (row["catoni"], 1.0)
    assert all(row[f"{name}_se"] == 0 for name in ("kl", "log_normalizer", "empirical_risk"))


def test_an_interval_is_summed_over_a_lattice():
    found = gdp.certify(on_an_interval(), DATA, GAMMAS, loss_range=(0.0, 1.21))
    frame = found.to_dataframe()
    log_c, risk = quadrature(GAMMAS)
    assert frame["log_normalizer"].to_numpy() == pytest.approx(log_c, abs=1e-4)
    assert frame["empirical_risk"].to_numpy() == pytest.approx(risk, rel=1e-4)
    assert found.settings["of"] == "1,024 lattice points"


def test_a_grid_of_gammas_is_paid_for():
    """delta / K each; Maurer's bound with exact sums holds for all gammas at once."""
    settings = {"loss_range": (0.0, 1.0), "sampler": CANDIDATES}
    grid = gdp.certify(on_an_interval(), DATA, [4.0, 0.1, 1.0], 0.06, **settings)
    for row in grid.rows:
        whole, third = (
            gdp.certify(on_an_interval(), DATA, row["gamma"], d, **settings).best
            for d in (0.06, 0.02)
        )
        assert row["catoni"] == pytest.approx(third["catoni"], rel=1e-12)
        assert row["maurer"] == pytest.approx(whole["maurer"], rel=1e-12)
        assert whole["catoni"] < third["catoni"]
    assert grid.bound == min(row["catoni"] for row in grid.rows)
    assert grid.gamma == 1.0
    other = gdp.certify(on_an_interval(), DATA, [4.0, 0.1, 1.0], bound="maurer", **settings)
    assert other.bound == min(row["maurer"] for row in other.rows)


def test_a_domain_declares_the_range():
    x = np.linspace(-1, 1, 30)[:, None]
    posterior = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.box(-2.0, 2.0, 1)))
    domain = gdp.Domain(x_bound=1.0, y_range=(-2.0, 2.0))
    found = gdp.certify(posterior, (x, x[:, 0]), 0.1, domain=domain)
    assert found.settings["loss_range"] == (0.0, 16.0)
    by_hand = gdp.certify(posterior, (x, x[:, 0]), 0.1, loss_range=(0.0, 16.0))
    assert found.rows == by_hand.rows


POSTERIOR = gdp.GibbsPosterior(squared, gdp.Flat(gdp.supports.box(-0.1, 1.1, ())))
SAMPLER = gdp.SMC(num_particles=32, num_islands=4)


@pytest.fixture(scope="module")
def islands():
    """Many runs on one dataset along one path: normalizers and risks of the particles."""
    data = jnp.asarray(DATA, jnp.zeros(()).dtype)
    segments = SAMPLER.find_path(
        jax.random.key(1), POSTERIOR, jnp.stack([data] * 4), GAMMAS.tolist()
    )
    keys = jax.random.split(jax.random.key(2), 400)
    batch = jnp.stack([data] * 400)
    return run_frozen(POSTERIOR, batch, GAMMAS, SAMPLER, segments, keys)


def test_particles_of_a_wide_interval_have_the_normalizer_of_its_uniform_law():
    """By quadrature: 16 runs, 6 errors of them, a false alarm in 40,000."""
    posterior, gammas = (
        gdp.GibbsPosterior(squared, gdp.Flat(gdp.supports.box(-1.0, 3.0, ()))),
        [0.1],
    )
    data = jnp.asarray(DATA, jnp.zeros(()).dtype)
    segments = SAMPLER.find_path(jax.random.key(1), posterior, jnp.stack([data] * 4), gammas)
    keys = jax.random.split(jax.random.key(3), 16)
    runs = run_frozen(posterior, jnp.stack([data] * 16), np.array(gammas), SAMPLER, segments, keys)
    log_c, _ = quadrature(gammas, -1.0, 3.0)
    ratio = np.exp(np.array([e.log_normalizer[0] for e in runs]) - log_c)
    error = ratio.std(ddof=1) / 4
    assert error < 0.1
    assert abs(ratio.mean() - 1) < 6 * error


@pytest.mark.trust
def test_what_bounds_rest_on_is_unbiased(islands):
    """E C^ = C and E C^ Rhat^ = C Rhat, within 4 standard errors: a false alarm in 2,600."""
    log_c, risk = quadrature(GAMMAS)
    ratio = np.exp(np.array([e.log_normalizer for e in islands]) - log_c)
    weighted = ratio * np.array([e.empirical_risk for e in islands]) / risk
    for values in (ratio, weighted):
        error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
        assert (error < 0.05).all()
        assert (np.abs(values.mean(axis=0) - 1) < 4 * error).all()


@pytest.mark.trust
def test_errors_of_particles_are_those_of_repetitions(islands):
    """Root mean squares of jackknife errors, within a quarter (islands are only four)."""
    for name in ("log_normalizer", "empirical_risk", "kl"):
        values = np.array([getattr(e, name) for e in islands])
        errors = np.array([getattr(e, f"{name}_se") for e in islands])
        kept = (values > 0).all(axis=1) if name == "kl" else slice(None)
        told = np.sqrt((errors[kept] ** 2).mean(axis=0))
        assert told / values[kept].std(axis=0) == pytest.approx(np.ones(3), abs=0.35)


def test_islands_weigh_by_their_normalizers():
    level, loss = np.log([[1.0, 3.0]]), np.array([[0.2, 0.4]])
    found = from_islands(np.array([0.01]), level, loss, 10, (0.0, 1.0))
    assert found.log_normalizer == pytest.approx(np.log([2.0]))
    assert found.empirical_risk == pytest.approx([0.35])
    assert found.empirical_risk_se == pytest.approx([0.1])  # leaving out one: 0.4 and 0.2
    assert found.log_normalizer_se == pytest.approx([np.log(3) / 2])


@pytest.mark.trust
def test_particles_certify_what_sums_do(islands):
    """log C and risk on one dataset within 4 standard errors (of three degrees of freedom)."""
    found = gdp.certify(POSTERIOR, DATA, GAMMAS, loss_range=(0.0, 1.21), sampler=SAMPLER, key=3)
    assert not found.is_exact
    log_c, risk = quadrature(GAMMAS)
    spread = np.array([e.log_normalizer for e in islands]).std(axis=0)
    wobble = np.array([e.empirical_risk for e in islands]).std(axis=0)
    frame = found.to_dataframe()
    assert (np.abs(frame["log_normalizer"] - log_c) < 4 * spread).all()
    assert (np.abs(frame["empirical_risk"] - risk) < 4 * wobble).all()
    each = {"delta": 0.05 / 3, "loss_range": (0.0, 1.21)}
    for row in found.rows:
        log_c, gamma = row["log_normalizer"], row["gamma"]
        assert row["catoni"] == pac_bayes.catoni_bound(log_c, 50, gamma=gamma, **each)
        kl = max(0.0, -gamma * 50 * row["empirical_risk"] - log_c)
        assert row["kl"] == pytest.approx(kl)
        assert row["maurer"] == pac_bayes.maurer_bound(row["empirical_risk"], row["kl"], 50, **each)
    assert found.bound == min(row["catoni"] for row in found.rows)
    assert "both bounds hold for a draw from these weighted particles" in found.summary()


def test_counts_are_those_of_particles():
    plane = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.box(-1.0, 1.0, 2)))
    assert find_sampler(plane, None, None, None) == gdp.SMC(num_particles=512, num_islands=8)
    assert find_sampler(plane, None, 4, 16) == gdp.SMC(num_particles=64, num_islands=4)


def test_how_it_looks():
    found = gdp.certify(
        on_an_interval(), DATA, GAMMAS, loss_range=(0.0, 1.0), sampler=CANDIDATES, bound="maurer"
    )
    assert repr(found).startswith("Certificate(risk at most 0.")
    assert "maurer), with probability 0.95, losses in [0, 1], 50 examples" in repr(found)
    assert found.summary().splitlines()[1].split()[-2:] == ["catoni", "maurer"]
    assert found._repr_html_().count("<tr") == 4
    assert json.loads(found.to_json())["certificate"] == found.bound
    axes = found.plot(title="a title").axes[0]
    drawn = {line.get_label(): line.get_ydata() for line in axes.lines}
    assert list(drawn["maurer (the certificate)"]) == [row["maurer"] for row in found.rows]
    assert list(drawn["empirical risk"]) == [row["empirical_risk"] for row in found.rows]
    assert axes.get_title(loc="left") == "a title"


def test_a_certificate_that_says_nothing_says_so():
    few = gdp.certify(on_an_interval(), DATA[-3:], 0.1, loss_range=(0.0, 1.21))
    assert few.warnings[0].endswith("[vacuous-certificate]")
    assert few.bound <= 1.21
    many = gdp.certify(on_an_interval(), DATA, 1.0, loss_range=(0.0, 1.21))
    assert not many.warnings


def refused(**changed):
    settings = {
        "posterior": on_an_interval(),
        "data": DATA,
        "gamma": 1.0,
        "loss_range": (0.0, 1.21),
    }
    return gdp.certify(**(settings | changed))


FLAT = gdp.GibbsPosterior(squared, gdp.Flat(gdp.supports.real(())))
STRUCTURED = gdp.GibbsPosterior(
    total_loss=lambda theta, data: jnp.abs(jnp.mean(data) - theta), prior=dist.Normal(0.0, 1.0)
)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"posterior": STRUCTURED}, "posterior: a total_loss has no losses"),
        ({"posterior": FLAT}, "posterior: its prior is flat without bounds"),
        (
            {"posterior": FLAT, "sampler": gdp.Grid(low=0.0, high=1.0)},
            "posterior: its prior is flat without bounds, so that a lattice",
        ),
        ({"gamma": 0.0}, "gamma: 0 is not positive"),
        ({"gamma": [1.0, 1.0]}, "gamma: a value is there twice"),
        ({"gamma": []}, "gamma: give one number"),
        ({"delta": 1.0}, "delta must lie in"),
        ({"bound": "hoeffding"}, "bound: 'hoeffding' is none of"),
        ({"loss_range": None}, "loss_range: declare the loss's range in one way"),
        ({"domain": gdp.Domain(1.0)}, "loss_range: declare the loss's range in one way"),
        ({"loss_range": (0.0, math.inf)}, "loss_range: must be finite"),
        ({"loss_range": (0.0, 0.5)}, "loss_range: a loss of the data is 1.2"),
        ({"loss_range": None, "domain": gdp.Domain(1.0)}, "domain: the loss is a plain function"),
        ({"sampler": gdp.HMC()}, "sampler: .* gives no normalizer"),
        ({"sampler": gdp.SMC(kernel=gdp.HMC())}, "sampler: the 'split' integrator"),
        ({"num_chains": 4}, "num_chains: sums over a lattice"),
        ({"num_samples": 4, "sampler": gdp.SMC()}, "num_samples: the sampler has its own"),
    ],
)
def test_refusals(changed, said):
    with pytest.raises(ValueError, match=said):
        refused(**changed)


def test_domains_that_do_not_bound_the_loss_or_the_data():
    half = gdp.losses.half_squared_distance
    wide = gdp.GibbsPosterior(half, dist.Normal(jnp.zeros(1), 1.0))
    with pytest.raises(ValueError, match="domain: the loss ranges over"):
        gdp.certify(wide, DATA[:, None], 1.0, domain=gdp.Domain(x_bound=1.0))
    narrow = gdp.GibbsPosterior(half, gdp.Flat(gdp.supports.box(-1.0, 1.0, 1)))
    with pytest.raises(ValueError, match="data: 25 examples lie outside"):
        gdp.certify(narrow, DATA[:, None], 1.0, domain=gdp.Domain(x_bound=0.4))
