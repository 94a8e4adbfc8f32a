"""A loss of one's own in estimators, posteriors and audits of tables: there is no list to edit."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone

import gibbs_dp as gdp
from gibbs_dp.losses import Declared, LinearLoss, LossConstants, TwoClassLoss, array_namespace
from gibbs_dp.sklearn import GibbsClassifier, GibbsRegressor


@dataclass(frozen=True)
class Cauchy(LinearLoss):
    """``w^2 / 2 log(1 + (r / w)^2)`` of a residual ``r``: not convex, of bounded slope."""

    width: float = 0.5

    def value(self, prediction, y):
        ratio = (prediction - y) / self.width
        return 0.5 * self.width**2 * array_namespace(prediction).log1p(ratio**2)

    def slope(self, prediction, y):
        return (prediction - y) / (1 + ((prediction - y) / self.width) ** 2)

    def curvature(self, prediction, y):
        square = ((prediction - y) / self.width) ** 2
        return (1 - square) / (1 + square) ** 2

    def constants(self, domain):
        most = domain.prediction_bound + domain.y_bound
        top = 0.5 * self.width**2 * np.log1p((most / self.width) ** 2)
        near = min(most, self.width)  # where the slope is largest
        return LossConstants.of(
            range=(0.0, top),
            oscillation=top,
            lipschitz=near / (1 + (near / self.width) ** 2) * domain.x_bound,
            smoothness=domain.x_bound**2,
            strong_convexity=-(domain.x_bound**2) / 8,
        )


class SquaredHinge(TwoClassLoss):
    """``max(0, 1 - s p)^2`` with the sign ``s = 2 y - 1``."""

    def value(self, prediction, y):
        return array_namespace(prediction).maximum(0.0, 1 - (2 * y - 1) * prediction) ** 2

    def slope(self, prediction, y):
        sign = 2 * y - 1
        return -2 * sign * array_namespace(prediction).maximum(0.0, 1 - sign * prediction)

    def curvature(self, prediction, y):
        return 2.0 * ((2 * y - 1) * prediction < 1).astype(prediction.dtype)

    def constants(self, domain):
        p = domain.prediction_bound
        least = max(0.0, 1 - p) ** 2
        return LossConstants.of(
            range=(least, (1 + p) ** 2),
            oscillation=(1 + p) ** 2 - least,
            lipschitz=2 * (1 + p) * domain.x_bound,
            smoothness=2 * domain.x_bound**2,
        )


OWN = {"cauchy": Cauchy(0.3), "squared hinge": SquaredHinge()}
DOMAIN = gdp.Domain(x_bound=1.0, y_range=(-1.0, 1.0), theta_bound=1.5)
# Kolmogorov and Smirnov's test: a false alarm in 10,000.
LEVEL = 1e-4


def numbers(rows=80, columns=1):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (rows, columns))
    return x, x[:, 0] - 0.2 + 0.3 * rng.standard_t(2, rows)


def regressor(**settings):
    given = {"bounds": (-1, 1), "y_bounds": (-2, 2), "random_state": 0, **settings}
    return GibbsRegressor(loss=Cauchy(0.3), mechanism="posterior", **given)


def fit(model, x, y):
    with pytest.warns(gdp.sklearn.PrivacyLeakWarning, match="random_state"):
        return model.fit(x, y)


@pytest.mark.parametrize("name", OWN)
def test_they_are_what_they_declare(name):
    loss, rng = OWN[name], np.random.default_rng(0)
    p = rng.uniform(-1.5, 1.5, 2000)
    y = rng.integers(0, 2, 2000) * 1.0 if name == "squared hinge" else rng.uniform(-1, 1, 2000)
    slope = jax.vmap(jax.grad(loss.value))(jnp.asarray(p), jnp.asarray(y))
    curve = jax.vmap(jax.grad(jax.grad(loss.value)))(jnp.asarray(p), jnp.asarray(y))
    np.testing.assert_allclose(loss.slope(p, y), slope, atol=1e-5)
    np.testing.assert_allclose(loss.curvature(p, y), curve, atol=1e-5)
    found = loss.constants(DOMAIN)
    assert found.range[0] <= loss.value(p, y).min() <= loss.value(p, y).max() <= found.range[1]
    assert np.abs(loss.slope(p, y)).max() <= found.lipschitz
    assert found.strong_convexity <= loss.curvature(p, y).min()
    assert loss.curvature(p, y).max() <= found.smoothness


def test_draws_of_a_fit_have_the_posterior_law():
    """Against quadrature of the density, with the loss written out: one weight, no intercept."""
    x, y = numbers()
    model = fit(regressor(epsilon=3000.0, num_draws=2000, fit_intercept=False), x, y)
    assert model.guarantee_.pure_epsilon == pytest.approx(3000.0)
    assert model.told_.startswith("cauchy loss, flat prior on a ball of radius")
    radius = model.posterior_.prior.l2_bound()
    grid = np.linspace(-radius, radius, 20_001)
    residual = model.scaling_.features(x) * grid - (np.clip(y, -2, 2) / 2)[:, None]
    log_density = -model.gamma_ * (0.045 * np.log1p((residual / 0.3) ** 2)).sum(axis=0)
    law = np.cumsum(np.exp(log_density - log_density.max()))
    found = stats.kstest(model.draws_[:, 0, 0], lambda t: np.interp(t, grid, law / law[-1]))
    assert found.pvalue > LEVEL
    # Its posterior prefers something, and a loss of another width is told apart.
    other = -model.gamma_ * (0.5 * np.log1p(residual**2)).sum(axis=0)
    wrong = np.cumsum(np.exp(other - other.max()))
    found = stats.kstest(model.draws_[:, 0, 0], lambda t: np.interp(t, grid, wrong / wrong[-1]))
    assert found.pvalue < LEVEL


def moments_agree(ours, posterior, data, gamma):
    """Means and squares of two samplers' draws, within 4.5 standard errors."""
    drawn = gdp.sample(posterior, data, gamma=gamma, key=1, num_chains=8, num_samples=500)
    theirs = np.asarray(drawn.theta, np.float64).reshape(-1, ours.shape[1])
    for one, other in ((ours, theirs), (ours**2, theirs**2)):
        error = np.sqrt(one.var(axis=0) / len(one) + other.var(axis=0) / (0.2 * len(other)))
        assert np.all(np.abs(one.mean(axis=0) - other.mean(axis=0)) < 4.5 * error)
        assert np.all(error < 0.1)


@pytest.mark.trust
def test_a_regression_draws_what_the_other_sampler_draws():
    x, y = numbers(columns=2)
    model = fit(regressor(epsilon=3000.0, num_draws=1500), x, y)
    data = model.scaling_.features(x), np.clip(y, -2, 2) / 2
    moments_agree(model.draws_[:, :, 0], model.posterior_, data, model.gamma_)


@pytest.mark.trust
def test_a_classification_draws_what_the_other_sampler_draws():
    x, _ = numbers(columns=2)
    y = (x[:, 0] > 0.1).astype(int)
    model = GibbsClassifier(
        2000.0,
        loss=SquaredHinge(),
        mechanism="posterior",
        theta_bound=2.0,
        bounds=(-1, 1),
        classes=[0, 1],
        num_draws=800,
        random_state=0,
    )
    fit(model, x, y)
    assert model.told_.startswith("squaredhinge loss")
    moments_agree(
        model.draws_[:, :, 0], model.posterior_, (model.scaling_.features(x), y), model.gamma_
    )
    assert model.score(x, y) > 0.8


def test_settings_travel_with_clones():
    again = clone(regressor())
    assert again.loss == Cauchy(0.3) != Cauchy(0.4)
    x, y = numbers()
    gammas = {
        fit(clone(regressor()).set_params(loss=Cauchy(w)), x, y).gamma_ for w in (0.3, 0.3, 0.9)
    }
    assert len(gammas) == 2


def test_without_a_range_only_a_ball_will_do():
    """Not convex: where delta is above 0 the rule takes a ball, of which the range is finite."""
    model = GibbsRegressor(1.0, 1e-5, loss=Cauchy(0.3), bounds=(-1, 1), y_bounds=(-2, 2))
    model.fit(*numbers(rows=400))
    assert "on a ball" in model.told_
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (1.0, 1e-5)


def test_a_posterior_knows_its_worst_case():
    posterior = gdp.GibbsPosterior(Cauchy(0.3), gdp.Flat(gdp.supports.l2_ball(2, 1.5)))
    epsilon = gdp.privacy.pure_dp_epsilon(
        posterior, 2.0, n=10, adjacency="replace-one", domain=DOMAIN
    )
    top = 0.045 * np.log1p((2.5 / 0.3) ** 2)
    assert epsilon == pytest.approx(2.0 * 2 * top)


@pytest.mark.trust(but=["cauchy"])
@pytest.mark.parametrize("name", OWN)
def test_a_table_is_audited_with_it(name):
    x, y = numbers(rows=60, columns=2)
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y})
    if name == "squared hinge":
        frame["y"] = np.where(y > 0, "yes", "no")
    problem = gdp.problems.build_problem("table", data=frame, target="y", loss=OWN[name])
    assert problem.posterior.loss == OWN[name]
    report = gdp.audit(
        problem.posterior,
        problem.population,
        10,
        [0.5],
        num_datasets=64,
        learn=[gdp.OnAverageKL(), gdp.Risks()],
        sampler=gdp.Grid(candidates=np.random.default_rng(1).normal(size=(256, 3))),
        progress=False,
    )
    assert 0 < report["on_average_kl"][0] < 1
    notes = " ".join(problem.notes)
    assert ("standardized" in notes) == (name == "cauchy")
    assert "risks are in" not in notes  # what unit they have is its author's to know


# -- refusals ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Undeclared(Cauchy):
    name = "quartic"

    def constants(self, domain):
        return LossConstants.of((0.0, np.inf), np.inf, np.inf, np.inf, strong_convexity=-np.inf)


@dataclass(frozen=True)
class OfJax(Cauchy):
    def value(self, prediction, y):
        return jnp.log1p((prediction - y) ** 2)


class Hidden(LinearLoss):
    def __init__(self, width):
        object.__setattr__(self, "width", width)

    value, slope, curvature = Cauchy.value, Cauchy.slope, Cauchy.curvature
    constants = Cauchy.constants


@dataclass(frozen=True)
class Listed(Cauchy):
    weights: list = None


@pytest.mark.parametrize(
    ("loss", "settings", "sentence"),
    [
        (Undeclared(), {}, "proven by a finite oscillation, and the quartic loss declares none"),
        (Undeclared(), {"delta": 1e-5}, "or a finite lipschitz with a strong_convexity of at lea"),
        (Cauchy(), {"delta": 1e-5, "mechanism": "chain"}, "'chain' is proven by a finite lipschi"),
        (OfJax(), {}, r"OfJax.value makes a \w+ of doubles of NumPy; take functions from"),
        (Hidden(0.5), {}, "Hidden keeps width outside of its fields; make the class a dataclass"),
        (Listed(0.5, [1.0]), {}, "Listed has a setting that has no hash"),
        (Declared(lambda theta, z: 0.0, oscillation=1.0), {}, "Declared is none of absolute, gau"),
        (SquaredHinge(), {}, "the squaredhinge loss takes two classes, and here labels are numbe"),
    ],
)
def test_what_cannot_be_proven_is_refused_and_costs_nothing(loss, settings, sentence, tmp_path):
    ledger = gdp.Ledger.create(tmp_path / "ledger", epsilon=9.0, delta=0.5, adjacency="replace-one")
    model = GibbsRegressor(loss=loss, bounds=(-1, 1), y_bounds=(-2, 2), ledger=ledger, **settings)
    with pytest.raises(ValueError, match=sentence) as caught:
        model.fit(*numbers())
    assert str(caught.value).startswith("loss: ")
    assert str(caught.value).count(".\n") == 0
    assert ledger.spent()["epsilon"] == 0


@dataclass(frozen=True)
class OfPositive(Cauchy):
    """Constants that hold for labels of at least 0 only, where `clip` brings them."""

    def clip(self, data, domain):
        x, y = super().clip(data, domain)
        return x, np.maximum(y, 0.0)


def test_examples_are_brought_where_the_constants_hold():
    x, y = numbers()
    ours = fit(regressor().set_params(loss=OfPositive(0.3)), x, y)
    theirs = fit(regressor(), x, np.maximum(y, 0.0))
    np.testing.assert_array_equal(ours.draws_, theirs.draws_)
    assert (ours.draws_ != fit(regressor(), x, y).draws_).any()
