"""Guarantees that contradict themselves are refused, made by hand or read from a file."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import gibbs_dp as gdp
from gibbs_dp import holdout
from gibbs_dp.information import bounds
from gibbs_dp.privacy import account, chain_guarantee, compose, load_guarantee
from gibbs_dp.privacy.attacks import as_replace_one, largest_advantage, largest_tpr
from gibbs_dp.privacy.charge import charge_guarantee
from gibbs_dp.privacy.figures import gdp_from_pure, sum_up
from gibbs_dp.privacy.guarantee import guarantee_from_dict
from gibbs_dp.privacy.mechanisms import (
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    run_guarantee,
)

WHOLE = {
    "adjacency": "replace-one",
    "mechanism": "exact draw",
    "num_draws": 1,
    "gamma": 1.0,
    "epsilon": 1.0,
    "delta": 0.0,
}
NEGATIVE = {
    f"{name} {value}": {name: value}
    for name in ("epsilon", "delta", "gamma", "pure_epsilon", "zcdp", "gdp", "bayesian_epsilon")
    for value in (-1.0, -1e-300, math.nan)
}
CONTRADICTIONS = NEGATIVE | {
    "epsilon 5, mu 0": {"epsilon": 5.0, "gdp": 0.0},
    "epsilon 5, mu 0, with a delta": {"epsilon": 5.0, "delta": 1e-6, "gdp": 0.0},
    "epsilon 5, rho 0": {"epsilon": 5.0, "zcdp": 0.0},
    "no finite epsilon, mu 0": {"epsilon": math.inf, "gdp": 0.0},
    "epsilon 5, pure 0": {"epsilon": 5.0, "pure_epsilon": 0.0},
    "nothing told, mu 5": {"epsilon": 0.0, "gdp": 5.0},
    "nothing told, rho 1": {"epsilon": 0.0, "zcdp": 1.0},
    "mu 0, rho 1": {"epsilon": 0.0, "delta": 1e-6, "gdp": 0.0, "zcdp": 1.0},
    "epsilon above pure": {"epsilon": 5.0, "delta": 1e-6, "pure_epsilon": 0.1},
    "pure above epsilon without delta": {"epsilon": 1.0, "pure_epsilon": 5.0},
    "pure below epsilon without delta": {"epsilon": 1.0, "pure_epsilon": 0.5},
    "epsilon above that of mu": {"epsilon": 3.0, "delta": 1e-6, "gdp": 0.1},
    "epsilon below that of mu": {"epsilon": 0.1, "delta": 1e-6, "gdp": 3.0},
    "epsilon 0 at a delta, mu 3": {"epsilon": 0.0, "delta": 1e-6, "gdp": 3.0},
    "delta below that of mu": {"epsilon": 1.0, "delta": 1e-30, "gdp": 1.0},
    "delta above that of mu": {"epsilon": 1.0, "delta": 0.5, "gdp": 0.1},
    "pure DP of a wide normal": {"epsilon": 1.0, "gdp": 30.0},
    "epsilon above that of rho": {"epsilon": 5.0, "delta": 1e-6, "zcdp": 0.01},
    "rho above that of mu": {"epsilon": math.inf, "gdp": 0.1, "zcdp": 10.0},
    "rho above that of pure": {"epsilon": 1.0, "zcdp": 10.0},
    "infinite rho": {"zcdp": math.inf},
    "infinite mu": {"epsilon": math.inf, "gdp": math.inf},
    "infinite gamma": {"gamma": math.inf},
    "delta 1": {"delta": 1.0},
    "delta 2": {"delta": 2.0},
    "no draws": {"num_draws": 0},
    "half a draw": {"num_draws": 0.5},
    "adjacency": {"adjacency": "add-one"},
    "adjacency in capitals": {"adjacency": "Replace-One"},
    "mechanism": {"mechanism": "laplace"},
    "mechanism in capitals": {"mechanism": "Chain"},
    "no mechanism": {"mechanism": ""},
    "two lines of a mechanism": {"mechanism": "laplace\n", "holds": "for it"},
    "words of another": {"mechanism": "chain", "holds": "for something else"},
    "words of no mechanism": {"mechanism": "laplace", "holds": " "},
    "an exact draw without gamma": {"gamma": None},
    "Bayesian below pure": {"bayesian_epsilon": 0.5},
    "Bayesian without pure": {"epsilon": 1.0, "delta": 1e-6, "bayesian_epsilon": 3.0},
    "a distance of exact draws": {"total_variation": 1e-6},
    "approximate, without a distance": {"mechanism": "approximate draw", "delta": 1e-6},
    "approximate, pure": {
        "mechanism": "approximate draw", "total_variation": 0.0, "pure_epsilon": 1.0,
    },
    "approximate, delta too small": {
        "mechanism": "approximate draw", "total_variation": 1e-3, "delta": 1e-6,
    },
    "negative distance": {
        "mechanism": "approximate draw", "total_variation": -1e-3, "delta": 1e-6,
    },
}  # fmt: skip


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_contradictions_are_refused_when_made_and_when_read(case, tmp_path):
    figures = WHOLE | CONTRADICTIONS[case]
    with pytest.raises((ValueError, TypeError)) as made:
        gdp.Guarantee(**figures)
    assert "\n" not in str(made.value) or "Type-check" in str(made.value)
    shown = {k: "inf" if v == math.inf else v for k, v in figures.items()}
    path = tmp_path / "release.json"
    path.write_text(json.dumps(shown))
    with pytest.raises(ValueError, match=r"guarantee: ") as read:
        load_guarantee(path)
    assert "\n" not in str(read.value)


RUNS = {
    "epsilon 5, mu 0": {"epsilon": 5.0, "delta": 1e-6, "gdp": 0.0},
    "epsilon below that of mu": {"epsilon": 0.1, "delta": 1e-6, "gdp": 3.0},
    "negative": {"epsilon": -1.0},
    "delta": {"epsilon": 1.0, "delta": 1.5},
    "rho above pure": {"epsilon": 1.0, "zcdp": 3.0},
    "adjacency": {"epsilon": 1.0, "adjacency": "add-one"},
}


@pytest.mark.parametrize("case", RUNS)
def test_guarantees_of_mechanisms_are_checked_alike(case):
    with pytest.raises((ValueError, TypeError)):
        run_guarantee("coin", **({"adjacency": "replace-one", "assumption": "it"} | RUNS[case]))


def test_runs_of_mechanisms_are_charged_saved_and_composed_like_releases(tmp_path):
    """In one class: pure DP of a Laplace mechanism, Gaussian DP, and a holdout's budget."""
    laplace = LaplaceMechanism(1.0, 0.5, adjacency="replace-one").guarantee
    normal = GaussianMechanism(1.0, 2.0, adjacency="replace-one").guarantee(1e-6)
    gate = gdp.Thresholdout(np.zeros(50), np.zeros(50), threshold=0.1, sigma=0.1, budget=1)
    found = [laplace, normal, gate.guarantee()]
    budget = {"epsilon": 10.0, "delta": 1e-5}
    ledger = gdp.Ledger.create(tmp_path / "l", adjacency="replace-one", **budget)
    for guarantee in found:
        charge_guarantee(ledger, guarantee, purpose=guarantee.mechanism)
        guarantee.to_html(tmp_path / "page.html")
        assert "from secret random bits" in (tmp_path / "page.html").read_text()
        (tmp_path / "g.json").write_text(json.dumps(guarantee.to_dict()))
        assert load_guarantee(tmp_path / "g.json") == guarantee
    assert ledger.spent()["epsilon"] == pytest.approx(0.5 + normal.epsilon + 2 / (0.1 * 50))
    assert compose([laplace, laplace], delta=0.0).epsilon == 1.0


@pytest.mark.parametrize("name", ["assumptions", "caveats"])
@pytest.mark.parametrize("texts", ["one sentence", (1, 2), None])
def test_texts_are_sentences(name, texts):
    with pytest.raises((ValueError, TypeError)):
        gdp.Guarantee(**WHOLE, **{name: texts})


def mu_at(epsilon, delta):
    """A closed form at epsilon 0, where delta = 2 Phi(mu/2) - 1, and by bisection elsewhere."""
    low, high = 1e-6, 50.0
    for _ in range(200):
        mu = (low + high) / 2
        found = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(
            -mu / 2 - epsilon / mu
        )
        low, high = (mu, high) if found < delta else (low, mu)
    return low


@settings(max_examples=25, deadline=None)
@given(epsilon=st.floats(0.05, 8.0), log_delta=st.floats(-20.0, -1.0), off=st.floats(1.05, 5.0))
def test_the_mu_of_a_pair_is_taken_and_another_is_not(epsilon, log_delta, off):
    delta = math.exp(log_delta)
    mu = mu_at(epsilon, delta)
    figures = WHOLE | {"epsilon": epsilon, "delta": delta}
    gdp.Guarantee(**figures, gdp=mu, zcdp=mu**2 / 2)
    for wrong in (mu * off, mu / off):
        with pytest.raises(ValueError, match=r"epsilon: it is .*give the figures of one release"):
            gdp.Guarantee(**figures, gdp=wrong)


def posteriors():
    box = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.box(-2.0, 2.0, 1)))
    wide = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(jnp.zeros(2), 1.0))
    yield box, gdp.Domain(x_bound=1.0, y_range=(-2.0, 2.0))
    yield wide, gdp.Domain(x_bound=1.0)


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_what_the_library_makes_is_no_contradiction(adjacency):
    """Accountants, chains, declared distances, group privacy and mechanisms, and their files."""
    made = []
    for posterior, domain in posteriors():
        for gamma, num_draws in ((0.0, 1), (1e-170, 3), (0.03, 3), (7.0, 1)):
            settings = {"gamma": gamma, "n": 100, "adjacency": adjacency, "domain": domain}
            found = account(posterior, num_draws=num_draws, **settings)
            for delta in (0.0, 1e-12, 0.01, 0.5):
                try:
                    made.append(found.guarantee(delta))
                except ValueError as error:
                    assert "no guarantee of" in str(error)  # noqa: PT017
                    continue
                if made[-1].epsilon < 3:
                    made.append(made[-1].within_total_variation(1e-4))
    made += [
        chain_guarantee(posterior, gdp.ULA(0.01, 50), gamma=0.1, delta=1e-6, **{
            "n": 100, "adjacency": adjacency, "domain": domain})
    ]  # fmt: skip
    assert len(made) > 25
    for guarantee in made:
        assert guarantee_from_dict(guarantee.to_dict()) == _without_curve(guarantee)
        assert as_replace_one(guarantee).adjacency == "replace-one"
    for epsilon in (1e-200, 1e-8, 0.5, 30.0, 500.0):
        for kind in (LaplaceMechanism, ExponentialMechanism):
            kind(1.0, epsilon, adjacency=adjacency).guarantee  # noqa: B018
        holdout.sparse_pure(epsilon, 3, sensitivity=1.0, adjacency=adjacency).guarantee(1e-6)
    for sigma in (0.05, 1.0, 1e3, 1e9):
        for delta in (1e-15, 1e-6, 0.3):
            GaussianMechanism(1.0, sigma, adjacency=adjacency).guarantee(delta)


def _without_curve(guarantee):
    exact = None if guarantee.exact is None else replace(guarantee.exact, renyi=())
    return replace(guarantee, renyi=(), exact=exact)


def test_composition_keeps_what_is_not_covered():
    void = "NOT COVERED: bounds: taken from the data."
    one = gdp.Guarantee(**WHOLE, pure_epsilon=1.0, assumptions=("a", "b"), caveats=("c", void))
    two = gdp.Guarantee(**WHOLE, pure_epsilon=1.0, assumptions=("b", "d"), caveats=("c",))
    for delta in (0.0, 1e-6):
        found = compose([one, two], delta=delta)
        assert (found.assumptions, found.caveats) == (("a", "b", "d"), ("c", void))
        assert void in str(found)
        assert void in repr(found)
        assert found == (found.epsilon, found.delta)
        assert void not in str(compose([two, two], delta=delta))
    epsilon, delta = compose([two], delta=0.0)
    assert (epsilon, delta) == (1.0, 0.0)


@pytest.mark.parametrize("count", [3, 7, 10, 11, 49, 93])
def test_shares_of_a_delta_compose_to_it(count):
    """As a ledger takes them; what is told bounds the exact sum."""
    for total in (1e-6, 0.3, 1e-5):
        shares = [
            gdp.Guarantee(**WHOLE | {"epsilon": 1 / count, "delta": total / count})
            for _ in range(count)
        ]
        found = compose(shares, delta=total)
        assert found.epsilon <= 1 + 1e-14
        assert found.delta <= total * (1 + 1e-14)
        if found.epsilon > 1 - 1e-3:  # by addition
            assert Fraction(found.delta) >= min(count * Fraction(total / count), Fraction(total))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0.0, 1e3), max_size=30))
def test_sums_are_rounded_up(values):
    exact = sum(map(Fraction, values), Fraction(0))
    found = sum_up(values)
    assert exact <= Fraction(found)
    assert Fraction(np.nextafter(found, -1.0)) < exact or found == 0.0


def test_every_mechanism_that_can_be_made_has_a_page(tmp_path):
    for mechanism in ("exact draw", "chain", "direct draw"):
        gdp.Guarantee(**WHOLE | {"mechanism": mechanism}).to_html(tmp_path / "page.html")
    gdp.Guarantee(**WHOLE).within_total_variation(1e-6).to_html(tmp_path / "page.html")


def near(mu, epsilon, tau, num_draws=1):
    """Draws within a distance of exact ones that have Gaussian DP."""
    delta = bounds.delta_from_gdp(mu, epsilon)
    exact = gdp.Guarantee("replace-one", "exact draw", num_draws, 1.0, epsilon, delta, gdp=mu)
    return exact.within_total_variation(tau)


@pytest.mark.trust(but="10")
@pytest.mark.parametrize("count", [1, 10, 100])
def test_near_draws_compose_as_exact_ones_within_their_distance(count):
    """Closed form: mu sqrt(k), and k tau, where the sum of epsilons is 100 times as large."""
    one = near(mu=0.05, epsilon=0.25, tau=1e-11)
    found = compose([one] * count, delta=1e-5)
    left = 1e-5 - (1 + math.exp(found.epsilon)) * count * 1e-11
    needed = bounds.delta_from_gdp(0.05 * math.sqrt(count), found.epsilon)
    assert needed <= left * (1 + 1e-3)  # the accountant rounds losses to 1e-4
    assert found.epsilon <= 0.25 * math.sqrt(count)
    below = bounds.delta_from_gdp(0.05 * math.sqrt(count), found.epsilon - 2e-3)
    assert below > left  # and is no larger than need be


def test_near_draws_whose_distances_use_up_delta_have_no_epsilon():
    many = [near(mu=0.05, epsilon=1.0, tau=1e-6)] * 10
    assert math.isinf(compose(many, delta=1e-5).epsilon)


def test_a_distance_is_never_left_out(tmp_path):
    """Ledgers, attackers and files of near draws know of it."""
    one = near(mu=0.5, epsilon=1.0, tau=1e-6, num_draws=3)
    assert one.distance == pytest.approx(3e-6, rel=1e-15)
    assert one.gdp is None
    assert largest_advantage(one) == pytest.approx(largest_advantage(one.exact) + 6e-6, rel=1e-9)
    rates = np.array([0.0, 0.01, 0.5])
    allowed = largest_tpr(one, rates)
    assert (allowed > largest_tpr(one.exact, rates)).all()
    (tmp_path / "g.json").write_text(json.dumps(one.to_dict()))
    assert load_guarantee(tmp_path / "g.json") == one
    replaced = as_replace_one(
        replace(one, adjacency="add-remove", exact=replace(one.exact, adjacency="add-remove"))
    )
    assert replaced.exact.gdp == 1.0
    ledger = gdp.Ledger.create(tmp_path / "l", adjacency="replace-one", gdp=1.0)
    with pytest.raises(ValueError, match="pays for no total variation"):
        charge_guarantee(ledger, one, purpose="p")
    ledger = gdp.Ledger.create(
        tmp_path / "m", adjacency="replace-one", gdp=1.0, total_variation=1e-5
    )
    charge_guarantee(ledger, one, purpose="p")
    assert ledger.spent() == {"gdp": 0.5, "total_variation": one.distance}


def test_without_a_finite_epsilon_another_ledger_is_asked_for(tmp_path):
    found = gdp.Guarantee("replace-one", "direct draw", 1, 1.0, math.inf, 0.5, gdp=80.0)
    ledger = gdp.Ledger.create(tmp_path / "l", adjacency="replace-one", epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match=r"ledger: its budget is in .* has no finite epsilon"):
        charge_guarantee(ledger, found, purpose="p")


@pytest.mark.parametrize(("delta", "is_told"), [(1e-5, False), (0.009, False), (0.01, True)])
def test_a_large_delta_is_told_everywhere(delta, is_told):
    found = gdp.Guarantee("replace-one", "direct draw", 1, 1.0, 1.0, delta)
    texts = found.summary(), found._repr_html_()
    assert all(("publishes every record" in text) == is_told for text in texts)
    assert ("2 caveats" in repr(found)) == is_told
    assert guarantee_from_dict(found.to_dict()) == found  # it is no part of what is stored


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"num_draws": 2}, "as many exact draws"),
        ({"epsilon": 2.0, "delta": 0.0}, "no larger epsilon"),
        ({"delta": 0.9}, "costs a delta"),
        ({"mechanism": "chain"}, "as many exact draws"),
    ],
)
def test_exact_draws_of_another_release_are_refused(changed, sentence):
    one = near(mu=0.5, epsilon=1.0, tau=1e-6)
    plain = gdp.Guarantee("replace-one", "exact draw", 1, 1.0, 1.0, one.exact.delta)
    with pytest.raises(ValueError, match=sentence):
        replace(one, exact=replace(plain, **changed))


def test_a_pure_mechanism_has_gaussian_dp():
    """Of Bernoulli randomized response the curve touches it, and is nowhere above."""
    for epsilon in (0.1, 1.0, 4.0):
        mu = gdp_from_pure(epsilon)
        alpha = np.linspace(1e-6, 1 - 1e-6, 1001)
        tpr = np.minimum(math.exp(epsilon) * alpha, 1 - math.exp(-epsilon) * (1 - alpha))
        slack = norm.cdf(norm.ppf(alpha) + mu) - tpr
        assert slack.min() > -1e-12
        corner = 1 / (1 + math.exp(epsilon))
        assert norm.cdf(norm.ppf(corner) + mu) == pytest.approx(1 - corner, rel=1e-9)
