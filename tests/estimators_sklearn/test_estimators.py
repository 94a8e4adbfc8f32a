"""Private estimators as scikit-learn's users meet them."""

import copy
import math
import pickle
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import gibbs_dp as gdp
from gibbs_dp.sklearn import (
    GibbsClassifier,
    GibbsMean,
    GibbsMedian,
    GibbsRegressor,
    PrivacyLeakWarning,
    RepeatedFitWarning,
    mechanisms,
)
from gibbs_dp.sklearn.location import _median_guarantee
from gibbs_dp.sklearn.plan import Facts


def blobs(n=400, dim=3, num_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(num_classes, size=n)
    x = rng.normal(size=(n, dim))
    x[np.arange(n), y % dim] += 2.0
    return x, y


@pytest.mark.trust(
    but=["GibbsMean()", "GibbsMedian(delta=1e-06)", "GibbsClassifier(delta=1e-05, num_draws=3)"]
)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(
    "estimator",
    [
        GibbsClassifier(),
        GibbsClassifier(delta=1e-5, num_draws=3),
        GibbsRegressor(),
        GibbsRegressor(delta=1e-5, loss="squared"),
        GibbsMean(),
        GibbsMedian(delta=1e-6),
    ],
    ids=repr,
)
def test_scikit_learns_own_checks(estimator):
    """Hundreds of fits of tables of every shape: up to half a minute."""
    check_estimator(estimator)


@pytest.mark.trust(but=["0.5-2-0.0", "0.5-2-1e-05", "5.0-3-0.0", "50.0-3-1e-05"])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("num_classes", [2, 3])
@pytest.mark.parametrize("epsilon", [0.5, 5.0, 50.0])
def test_classifiers_learn_and_promise_what_was_asked(delta, num_classes, epsilon):
    x, y = blobs(2000, num_classes=num_classes)
    names = np.array(["no", "so", "yes"])[:num_classes]
    model = GibbsClassifier(epsilon, delta, bounds=(-2.5, 4.0), classes=names, random_state=1)
    with pytest.warns(PrivacyLeakWarning, match="random_state"):
        model.fit(x, names[y])
    assert model.score(x, names[y]) > (0.8 if num_classes == 2 else 0.6)
    promise = model.guarantee_
    assert promise.epsilon <= epsilon
    assert promise.delta <= delta
    assert promise.adjacency == "replace-one"
    assert model.gamma_ == promise.gamma > 0
    assert model.coef_.shape == ((1, 3) if num_classes == 2 else (3, 3))
    shares = model.predict_proba(x)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert (model.predict(x) == names[np.argmax(shares, axis=1)]).all()


def test_coefficients_predict_rows_within_the_bounds():
    x, y = blobs(500)
    x = np.clip(x, -0.6, 0.6)
    model = GibbsClassifier(3.0, bounds=(-1.5, 1.5), classes=[0, 1]).fit(x, y)
    inside = x[np.linalg.norm(x / 0.6, axis=1) < 1.5]
    np.testing.assert_allclose(
        model.decision_function(inside), inside @ model.coef_[0] + model.intercept_[0], atol=1e-9
    )
    regressor = GibbsRegressor(3.0, bounds=(-1.5, 1.5), y_bounds=(-50, 50)).fit(x, x[:, 0])
    np.testing.assert_allclose(
        regressor.predict(inside), inside @ regressor.coef_ + regressor.intercept_, atol=1e-9
    )


@pytest.mark.parametrize("loss", ["huber", "squared", "absolute"])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_regressors_learn(loss, delta):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 3))
    y = 10 + x @ [2.0, -1.0, 0.0] + 0.3 * rng.normal(size=3000)
    model = GibbsRegressor(3.0, delta, loss=loss, bounds=(-2.5, 2.5), y_bounds=(3, 17)).fit(x, y)
    # Over 40 fits .92 +- .04 for the squared loss, .97 +- .002 for the others.
    assert model.score(x, y) > (0.6 if loss == "squared" else 0.9)
    assert model.guarantee_.epsilon <= 3.0
    assert np.ptp(model.predict(1e6 * x)) <= 14


def test_means_and_medians_are_near():
    rng = np.random.default_rng(0)
    x = np.stack([rng.uniform(0, 10, 2000), rng.exponential(2.0, 2000)], axis=1)
    for delta in (0.0, 1e-6):
        mean = GibbsMean(2.0, delta, bounds=(0, 20)).fit(x)
        np.testing.assert_allclose(mean.mean_, np.clip(x, 0, 20).mean(axis=0), atol=0.5)
        median = GibbsMedian(2.0, delta, bounds=(0, 20)).fit(x)
        np.testing.assert_allclose(median.median_, np.median(x, axis=0), atol=0.5)
        assert mean.score(x) < 0
        assert median.score(x) < 0


def test_medians_of_values_that_rows_share():
    """Between them a draw lies anywhere; moved by less than half a step they are what they are."""
    rng = np.random.default_rng(0)
    columns = {42: np.full(400, 42.0), 0: rng.binomial(1, 0.2, 400), 3: rng.integers(2, 5, 400)}
    for median, column in columns.items():
        x = column.astype(float)[:, None]
        assert np.median(x) == median
        found, plain = (
            [GibbsMedian(5.0, bounds=(0, 50), resolution=step).fit(x).median_[0] for _ in range(20)]
            for step in (1.0, None)
        )
        assert found == [median] * 20
        assert np.ptp(plain) > 0.5
    two = GibbsMedian(50.0, bounds=(0, 50), resolution=[1.0, 0.5]).fit(np.full((400, 2), 7.5))
    assert two.median_.tolist() in ([7.0, 7.5], [8.0, 7.5])
    for step in (0.0, -1, math.nan, "1", [1.0, 2.0, 3.0], True):
        with pytest.raises(
            ValueError, match="resolution: give the distance of neighbouring values"
        ):
            GibbsMedian(1.0, bounds=(0, 50), resolution=step).fit(np.full((400, 2), 7.5))


def test_what_is_taken_from_the_data_is_never_silent():
    x, y = blobs()
    with pytest.warns(PrivacyLeakWarning) as caught:
        model = GibbsClassifier().fit(x, y)
    told = [str(w.message).split(":")[0] for w in caught if w.category is PrivacyLeakWarning]
    assert told == ["classes", "bounds"]
    assert sum("NOT COVERED" in caveat for caveat in model.guarantee_.caveats) == 2
    with pytest.warns(PrivacyLeakWarning, match="y_bounds"):
        GibbsRegressor(bounds=(-3, 3)).fit(x, y * 1.0)
    for estimator in (GibbsMean(), GibbsMedian()):
        with pytest.warns(PrivacyLeakWarning, match="bounds"):
            estimator.fit(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        covered = GibbsClassifier(x_bound=4.0, classes=[0, 1]).fit(x, y)
    assert not any("NOT COVERED" in caveat for caveat in covered.guarantee_.caveats)


def test_a_declared_class_may_be_missing():
    x, y = blobs()
    model = GibbsClassifier(bounds=(-3, 3), classes=[0, 1, 7]).fit(x, y)
    assert model.predict_proba(x).shape == (400, 3)
    GibbsClassifier(bounds=(-3, 3), classes=[0, 1]).fit(x, np.zeros(400))


def test_pandas_names_pipelines_clones_and_pickles():
    x, y = blobs()
    table = pd.DataFrame(x, columns=["a", "b", "c"])
    model = GibbsClassifier(2.0, bounds=([-2, -2, -2], 3.0), classes=["n", "y"])
    labels = pd.Series(np.where(y == 1, "y", "n"))
    pipe = make_pipeline(
        FunctionTransformer(lambda t: t * 1.0, feature_names_out="one-to-one"), model
    )
    pipe.fit(table, labels)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert pipe.score(table, labels) > 0.8
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict(table) == model.predict(table)).all()
    assert again.guarantee_ == model.guarantee_
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[["c", "b", "a"]])
    assert clone(model).get_params()["bounds"] == ([-2, -2, -2], 3.0)


def test_a_ledger_is_charged_before_each_fit(tmp_path):
    x, y = blobs()
    ledger = gdp.Ledger.create(tmp_path / "ledger", epsilon=2.5, adjacency="replace-one")
    model = GibbsClassifier(1.0, bounds=(-3, 3), classes=[0, 1], ledger=ledger)
    for number in (1, 2):
        assert model.fit(x, y).charge_ == number
    with pytest.raises(gdp.privacy.BudgetExceededError):
        clone(model).fit(x, y)
    assert ledger.spent()["epsilon"] == pytest.approx(2.0)
    by_path = GibbsMean(0.5, bounds=(-3, 3), ledger=str(tmp_path / "ledger")).fit(x)
    assert by_path.charge_ == 3
    assert ledger.charges()[-1].purpose == "fit of GibbsMean"


def test_grid_searches_say_that_each_fit_spends(tmp_path):
    x, y = blobs()
    model = GibbsClassifier(1.0, bounds=(-3, 3), classes=[0, 1])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        GridSearchCV(model, {"epsilon": [0.5]}, cv=2).fit(x, y)
    told = [str(w.message) for w in caught if w.category is RepeatedFitWarning]
    assert ["spent 1 in epsilon" in told[0], "spent 1.5 in epsilon" in told[1]] == [True, True]
    model.set_params(epsilon=5.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        GridSearchCV(clone(model), {"epsilon": [5.0, 0.1]}, cv=2, refit=False).fit(x, y)
    told = [str(w.message) for w in caught if w.category is RepeatedFitWarning]
    # After three of 0.5, which were of one family.
    assert [f"spent {total:g} in epsilon" in text for total, text in zip(
        (6.5, 11.5, 11.6, 11.7), told, strict=True
    )] == [True] * 4  # fmt: skip
    ledger = gdp.Ledger.create(tmp_path / "ledger", epsilon=100.0, adjacency="replace-one")
    model.set_params(ledger=ledger)
    GridSearchCV(model, {"epsilon": [0.5]}, cv=2).fit(x, y)
    assert ledger.spent()["epsilon"] == pytest.approx(3 * 0.5)
    assert copy.deepcopy(model).ledger is not None


@pytest.mark.trust(but=["gaussian", "direction", "posterior", "rejection"])
@pytest.mark.parametrize("mechanism", ["gaussian", "direction", "posterior", "chain", "rejection"])
def test_every_mechanism_fits(mechanism):
    x, y = blobs(200, dim=2)
    delta = 0.0 if mechanism == "direction" else 1e-5
    accept = ["float-arithmetic"] * (mechanism in ("chain", "rejection"))
    model = GibbsClassifier(
        1.0, delta, bounds=(-3, 3), classes=[0, 1], mechanism=mechanism, accept=accept
    ).fit(x, y)
    assert model.mechanism_ == mechanism
    assert not model.guarantee_.is_idealized
    assert "gamma" not in model.told_ or mechanism == "gaussian"
    assert np.isfinite(model.coef_).all()


def test_without_exact_draws_no_chain_runs():
    x, y = blobs(2000)
    settings = {"bounds": (-3, 3), "classes": [0, 1], "accept": ()}
    proven = GibbsClassifier(1.0, 1e-5, **settings).fit(x, y)
    assert (proven.mechanism_, proven.guarantee_.mechanism) == ("posterior", "proven draw")
    assert proven.guarantee_.total_variation < 1e-7
    assert proven.score(x, y) > 0.6
    pure = GibbsClassifier(10.0, 0.0, **settings).fit(x, y)
    assert (pure.mechanism_, pure.guarantee_.mechanism) == ("direction", "direct draw")
    # A hinge has no bounded curvature, and its draws no proof.
    hinge = GibbsClassifier(1.0, 1e-5, loss="hinge", **settings).fit(x, y)
    assert hinge.guarantee_.mechanism == "direct draw"
    with pytest.raises(ValueError, match="'posterior' takes a chain's draws for exact ones"):
        GibbsClassifier(mechanism="posterior", **settings).fit(x, y)


def test_a_regression_that_has_no_proven_draw_is_refused_before_it_is_charged(tmp_path):
    """A noisy sum took its place without a word: R^2 of -0.25, and less with more epsilon."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(400, 1)) * [[1.0, 1.0]] + 0.1 * rng.normal(size=(400, 2))
    y = x @ [1.0, 1.0]
    ledger = gdp.Ledger.create(tmp_path / "l", epsilon=99.0, delta=0.1, adjacency="replace-one")
    settings = {"bounds": (-3, 3), "y_bounds": (-6, 6), "accept": (), "ledger": ledger}
    for target in ((10.0, 1e-5), (10.0, 0.0)):
        with pytest.raises(ValueError, match=r"accept 'exact-draw' .* ask for less epsilon"):
            GibbsRegressor(*target, **settings).fit(x, y)
    assert ledger.spent()["epsilon"] == 0
    assert GibbsRegressor(10.0, mechanism="direction", **settings).fit(x, y).coef_.shape == (2,)


def test_pure_draws_of_few_rows_are_proven_but_for_rounding():
    """By their density on a ball; of many rows that takes too long, and a chain is refused."""
    x, y = blobs(60, dim=1)
    settings = {"bounds": (-3, 3), "classes": [0, 1], "mechanism": "posterior"}
    settings |= {"theta_bound": 1.0, "loss": "logistic"}
    model = GibbsClassifier(1.0, accept=("float-arithmetic",), **settings).fit(x, y)
    assert model.guarantee_.mechanism == "proven draw"
    assert (model.guarantee_.pure_epsilon, model.guarantee_.delta) == (1.0, 0.0)
    with pytest.raises(ValueError, match="'posterior' takes a chain's draws for exact ones"):
        GibbsClassifier(1.0, accept=(), **settings).fit(x, y)
    x, y = blobs(20_000, dim=1)
    with pytest.raises(ValueError, match="'posterior' takes a chain's draws for exact ones"):
        GibbsClassifier(1.0, accept=("float-arithmetic",), **settings).fit(x, y)


@pytest.mark.trust  # 300 draws of each of two kinds
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_proven_draws_are_made_by_default_and_are_of_the_posterior(monkeypatch):
    """Means and deviations of 300 draws, proven and by chains, whose gammas differ by 1%.

    Four standard errors: a false alarm in 16,000.
    """
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (400, 2))
    y = (x[:, 0] > 0).astype(int)
    found = {"proven draw": [], "exact draw": []}
    for mechanism, draws in found.items():
        monkeypatch.setattr(mechanisms, "QUICK_WORK", 1e12 * (mechanism == "proven draw"))
        mechanisms.make_plan.cache_clear()
        for seed in range(12):
            model = GibbsClassifier(
                4.0,
                1e-5,
                bounds=(-3, 3),
                classes=[0, 1],
                mechanism="posterior",
                num_draws=25,
                random_state=seed,
            ).fit(x, y)
            assert model.guarantee_.mechanism == mechanism
            draws.extend(model.draws_[:, :, 0])
    found = {mechanism: np.array(draws) for mechanism, draws in found.items()}
    means, errors = (
        [function(draws) for draws in found.values()]
        for function in (lambda d: d.mean(axis=0), lambda d: d.std(axis=0) / 300**0.5)
    )
    assert (np.abs(means[0] - means[1]) < 4 * np.hypot(*errors)).all()
    assert np.std(found["proven draw"], axis=0) == pytest.approx(
        np.std(found["exact draw"], axis=0), rel=4 / 300**0.5
    )


@pytest.mark.trust
def test_several_draws_are_paid_for():
    """Gaussian DP of four draws is that of one: each at half the gamma under the same prior.

    So it is of proven ones, which pay for their distance by the same share of delta.
    """
    x, _ = blobs(300)
    one, four = (
        GibbsRegressor(1.0, 1e-5, bounds=(-3, 3), y_bounds=(-3, 5), num_draws=m).fit(x, x[:, 0])
        for m in (1, 4)
    )
    assert four.gamma_ == pytest.approx(one.gamma_ / 2, rel=1e-6)
    assert four.draws_.shape == (4, 4, 1)
    assert four.guarantee_.num_draws == 4
    assert four.guarantee_.mechanism == one.guarantee_.mechanism == "proven draw"


def test_add_remove_needs_a_public_number_of_rows():
    x, y = blobs()
    model = GibbsClassifier(1.0, 1e-5, bounds=(-3, 3), classes=[0, 1], adjacency="add-remove")
    with pytest.raises(ValueError, match="n: under add-remove"):
        model.fit(x, y)
    assert model.set_params(n=1000).fit(x, y).guarantee_.adjacency == "add-remove"
    with pytest.raises(ValueError, match="replace-one"):
        GibbsMean(bounds=(0, 1), adjacency="add-remove").fit(x)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"epsilon": float("nan")}, "epsilon must be"),
        ({"delta": 1.5}, "delta must"),
        ({"bounds": (3, -3)}, "bounds: low must be below high"),
        ({"bounds": (0, [1, 2])}, r"bounds: give \(low, high\)"),
        ({"bounds": 3.0}, r"bounds: give \(low, high\)"),
        ({"bounds": (-1e308, 1e308)}, "bounds: low must be below high, both finite, and so"),
        ({"bounds": {"a": (0, 1)}}, "bounds: a dict needs a table"),
        ({"bounds": (0, 5e-324)}, "bounds: low must be below high"),
        ({"ledger": 5}, "ledger: give a gibbs_dp.Ledger or the path"),
        ({"theta_bound": 1e6, "mechanism": "posterior"}, "theta_bound: give at most 100"),
        ({"epsilon": 1e-10, "delta": 1e-12}, "epsilon: no useful noise"),
        ({"epsilon": 0.01, "theta_bound": 1.0}, "theta_bound: mechanism 'direction' has no ball"),
        ({"x_bound": 1.0}, "x_bound: give either it or bounds"),
        ({"bounds": None, "x_bound": -1.0}, "x_bound: must be a positive"),
        ({"classes": [1]}, "classes: declare two or more"),
        ({"mechanism": "magic"}, "mechanism: 'magic' is none of"),
        ({"loss": "huber"}, "loss: 'huber' is what 'auto' takes"),
        ({"mechanism": "gaussian"}, "delta: mechanism 'gaussian' needs one above 0"),
        ({"num_draws": 0}, "num_draws must"),
        (
            {"accept": ["exact-draw"], "mechanism": "posterior"},
            "accept: the guarantee is idealized",
        ),
        ({"adjacency": "swap"}, "adjacency must be"),
        ({"theta_bound": -1.0, "mechanism": "posterior"}, "theta_bound must"),
    ],
)
def test_bad_settings_get_one_sentence_and_cost_nothing(settings, sentence, tmp_path):
    ledger = gdp.Ledger.create(tmp_path / "ledger", epsilon=9.0, delta=0.5, adjacency="replace-one")
    x, y = blobs(50)
    given = {"bounds": (-3, 3), "classes": [0, 1], "ledger": ledger, **settings}
    with pytest.raises(ValueError, match=sentence):
        GibbsClassifier(**given).fit(x, y)
    assert ledger.spent()["epsilon"] == 0


def test_plans_depend_on_public_facts_alone():
    """Two tables of one shape: same mechanism, gamma, scaling and promise."""
    found = []
    for seed in (0, 1):
        x, y = blobs(300, seed=seed)
        model = GibbsClassifier(1.0, 1e-5, bounds=(-3, 3), classes=[0, 1]).fit(10 * x, 1 - y)
        found.append((model.guarantee_, model.told_, model.settled_, model.scaling_.total))
    assert found[0] == found[1]


def test_no_row_counts_for_more_than_one():
    """Rows that are not, huge or at the bounds: features have norm at most 1."""
    rows = np.array([[1e300, -1e300], [0.0, 0.0], [3.0, 3.0], [-1e-300, 2.9]])
    for given in ({"bounds": (-3, 3)}, {"x_bound": 0.5}):
        model = GibbsClassifier(5.0, classes=[0, 1], **given).fit(rows, [0, 1, 0, 1])
        assert np.linalg.norm(model.scaling_.features(rows), axis=1).max() <= 1.0


def test_a_fit_is_saved_as_a_page(tmp_path):
    x, y = blobs()
    table = pd.DataFrame(x, columns=["<script>a", "b", "c"])
    page = tmp_path / "model.html"
    for model in (
        GibbsClassifier(bounds=(-3, 3), classes=[0, 1]),
        GibbsClassifier(bounds=(-3, 3), classes=[0, 1, 2]),
        GibbsRegressor(bounds=(-3, 3), y_bounds=(-1, 2)),
        GibbsMean(bounds=(-3, 3)),
        GibbsMedian(bounds=(-3, 3)),
    ):
        with pytest.raises(ValueError, match="not fitted"):
            model.to_html(page)
        model.fit(table, y * 1.0).to_html(page)
        text = page.read_text()
        assert "&lt;script&gt;a" in text
        assert "<script" not in text
        assert "Replacing any one record" in text


def test_bounds_go_by_name_where_columns_have_names():
    x, y = blobs(300, dim=2)
    table = pd.DataFrame(x, columns=["a", "b"])
    low, high = pd.Series({"b": -9.0, "a": -3.0}), pd.Series({"b": 9.0, "a": 3.0})
    for bounds in ({"b": (-9, 9), "a": (-3, 3)}, (low, high), ([-3, -9], [3, 9])):
        for estimator in (GibbsClassifier(classes={0, 1}), GibbsMean()):
            model = estimator.set_params(bounds=bounds).fit(table, y)
            found = model.scaling_.high if hasattr(model, "scaling_") else [3, 9]
            np.testing.assert_array_equal(found, [3, 9])
    with pytest.raises(ValueError, match="bounds: a Series needs the columns' names"):
        GibbsMean(bounds=(pd.Series({"a": 0, "c": 0}), 5)).fit(table)


@pytest.mark.trust
def test_scores_are_log_odds_of_logistic_draws_alone():
    """Rare classes are given far too much by others, which say so."""
    x = np.random.default_rng(1).uniform(-1, 1, (4000, 2))
    y = (np.random.default_rng(2).uniform(size=4000) < 0.02).astype(int)
    shares = {}
    for loss, mechanism in (("auto", "direction"), ("auto", "posterior"), ("logistic", "auto")):
        model = GibbsClassifier(
            50.0, bounds=(-1, 1), classes=[0, 1], loss=loss, mechanism=mechanism
        ).fit(x, y)
        assert model.has_log_odds_ == (loss == "logistic")
        assert ("no log-odds" in " ".join(model._description())) != model.has_log_odds_
        shares[loss, mechanism] = model.predict_proba(x)[:, 1].mean()
    assert shares["logistic", "auto"] < 0.04
    assert min(share for (loss, _), share in shares.items() if loss == "auto") > 0.05


def test_theta_bound_is_in_log_odds():
    """The ball of Huber's loss, whose scores count twice, and of the logistic loss."""
    x, y = blobs(5000)
    for loss, radius in (("auto", 1.5), ("logistic", 3.0)):
        model = GibbsClassifier(
            3.0, bounds=(-3, 3), classes=[0, 1], loss=loss, mechanism="posterior", theta_bound=3.0
        ).fit(x, y)
        assert f"radius {radius:g}" in model.told_
        assert np.abs(model.decision_function(x)).max() <= 3.0


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.3])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 30.0, 700.0])
def test_worth_in_gaussian_dp_is_exact(epsilon, delta):
    from gibbs_dp.information.bounds import delta_from_gdp
    from gibbs_dp.privacy.routes import gdp_at

    assert delta_from_gdp(gdp_at(epsilon, delta), epsilon) == pytest.approx(delta, rel=1e-6)


def test_a_fit_that_fails_leaves_the_last_one_whole(tmp_path):
    x, y = blobs()
    ledger = gdp.Ledger.create(tmp_path / "ledger", epsilon=1.0, adjacency="replace-one")
    model = GibbsClassifier(1.0, bounds=(-3, 3), classes=[0, 1], ledger=ledger).fit(x, y)
    names = np.array(["a", "b"])[y]
    with pytest.raises(gdp.privacy.BudgetExceededError):
        model.set_params(classes=["a", "b"]).fit(x, names)
    assert set(model.predict(x)) <= {0, 1}


def test_a_page_says_what_is_not_covered(tmp_path):
    x, y = blobs()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        model = GibbsClassifier(random_state=0).fit(x, y)
    model.to_html(tmp_path / "model.html")
    text = (tmp_path / "model.html").read_text()
    assert "It does NOT cover what was taken from the data" in text
    assert "verdict warned" in text
    assert not any("cryptographic" in caveat for caveat in model.guarantee_.caveats)


@pytest.mark.parametrize("estimator", [GibbsClassifier(0.1, 1e-5), GibbsMean(0.1, 1e-5)])
def test_gaussian_noise_needs_no_extra(estimator, monkeypatch):
    from gibbs_dp.sklearn.mechanisms import make_plan

    make_plan.cache_clear()
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    x, y = blobs(60, dim=60)
    estimator.set_params(bounds=(-3, 3))
    if isinstance(estimator, GibbsClassifier):
        estimator.set_params(classes=[0, 1])
    assert estimator.fit(x, y).guarantee_.epsilon == 0.1


NO_NUMBERS = {
    "masked": (np.ma.array([1.0, 2.0, -999.0] * 20), "a masked array, whose mask would be lost"),
    "nothing masked": (np.ma.array([1.0, 2.0, 3.0] * 20), "a masked array, whose mask would be"),
    "dates": (np.array(["2020-01-01"] * 60, "datetime64[D]"), "holds dates or durations"),
    "durations": (np.arange(60).astype("timedelta64[s]"), "holds dates or durations"),
    "complex": (np.ones(60) + 1j, "Complex data not supported"),
}
IN_FRAMES = {
    "zones": pd.date_range("2020-01-01", periods=60, tz="Asia/Tokyo"),
    "periods": pd.period_range("2020-01", periods=60, freq="M"),
    "categories": pd.Categorical(pd.date_range("2020-01-01", periods=60)),
    "of Arrow": pd.array(pd.to_timedelta(np.arange(60), "s"), dtype="duration[ms][pyarrow]"),
}


@pytest.mark.parametrize("case", NO_NUMBERS)
def test_what_is_no_number_is_refused_before_it_is_one(case):
    """Masks were dropped, and dates counted in nanoseconds, moved to the end of the bounds."""
    values, sentence = NO_NUMBERS[case]
    x, y = np.linspace(0, 1, 60)[:, None], np.linspace(0, 1, 60)
    column = values[:, None]
    numbers = {"y_bounds": (0.0, 1.0)}
    for fit in (
        lambda: GibbsRegressor(1.0, bounds=(0.0, 1.0), **numbers).fit(column, y),
        lambda: GibbsRegressor(1.0, bounds=(0.0, 1.0), **numbers).fit(x, values),
        lambda: GibbsClassifier(1.0, bounds=(0.0, 1.0), classes=[0, 1]).fit(column, y > 0.5),
        lambda: GibbsMean(1.0, bounds=(0.0, 1.0)).fit(column),
        lambda: GibbsMedian(1.0, bounds=(0.0, 1.0)).fit(column),
    ):
        with pytest.raises(ValueError, match=f"^[Xy]: .*{sentence}") as told:
            fit()
        assert "\n" not in str(told.value)
        assert "1.0" not in str(told.value)  # nothing is told of a value


@pytest.mark.parametrize("case", IN_FRAMES)
def test_columns_of_frames_that_are_no_numbers_are_refused_by_name(case):
    frame = pd.DataFrame({"one": np.linspace(0, 1, 60), "when": IN_FRAMES[case]})
    model = GibbsMean(1.0, bounds=(0.0, 1.0))
    with pytest.raises(ValueError, match="X: column 'when' holds dates or durations"):
        model.fit(frame)


def test_masked_declarations_and_labels_are_refused():
    x, y = np.linspace(0, 1, 60)[:, None], np.array([0, 1] * 30)
    masked = np.ma.array([0, 1], mask=[False, True])
    for model, labels, name in (
        (GibbsClassifier(1.0, bounds=(0.0, 1.0), classes=[0, 1]), np.ma.array(y), "y"),
        (GibbsClassifier(1.0, bounds=(0.0, 1.0), classes=masked), y, "classes"),
        (GibbsClassifier(1.0, bounds=masked, classes=[0, 1]), y, "bounds"),
    ):
        with pytest.raises(ValueError, match=f"{name}: a masked array"):
            model.fit(x, labels)
    fitted = GibbsMean(1.0, bounds=(0.0, 1.0)).fit(x)
    with pytest.raises(ValueError, match="X: a masked array"):
        fitted.score(np.ma.array(x))


def test_many_private_medians_spend_all_of_epsilon_and_no_more():
    """A column of range ``eta`` is ``eta^2 / 8``-zCDP (Cesar & Rogers 2021), and 40 add up.

    ``rho + 2 sqrt(rho log(1 / delta))`` of that (Bun & Steinke 2016) is epsilon.
    """
    promise = _median_guarantee(Facts(500, 40, 0.7, 1e-5))
    rho = 40 * (2 * promise.gamma) ** 2 / 8
    spent = rho + 2 * math.sqrt(rho * math.log(1e5))
    assert 0.7 * (1 - 1e-9) < spent <= 0.7
    assert promise.zcdp == pytest.approx(rho)


def test_without_an_intercept_planes_go_through_the_origin():
    """Bounds and labels far from 0: what was centred had R^2 of -7."""
    rng = np.random.default_rng(12)
    x = rng.random((4000, 3))
    y = x @ [1.0, 2.0, 0.5] + 0.1 * rng.normal(size=4000)
    settings = {"epsilon": 50.0, "bounds": (0.0, 1.0), "fit_intercept": False}
    for y_bounds in ((-4.0, 4.0), (0.0, 4.0)):
        model = GibbsRegressor(y_bounds=y_bounds, **settings).fit(x, y)
        assert model.intercept_ == 0.0
        assert model.predict(np.zeros((1, 3)))[0] == pytest.approx(0.0, abs=1e-6)
        assert model.score(x, y) > 0.6
    classes = (x[:, 0] > x[:, 1]).astype(int)
    classifier = GibbsClassifier(classes=[0, 1], **settings).fit(x, classes)
    assert classifier.intercept_[0] == 0.0
    assert classifier.score(x, classes) > 0.95


def test_epsilons_so_large_that_squares_underflow():
    rng = np.random.default_rng(13)
    x = rng.normal(size=(200, 2))
    y = (x[:, 0] > 0).astype(int)
    settings = {"epsilon": 500.0, "delta": 1e-5, "bounds": (-3.0, 3.0), "classes": [0, 1]}
    assert GibbsClassifier(**settings).fit(x, y).score(x, y) > 0.9
