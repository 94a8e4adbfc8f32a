"""Calibration inverts the accountant, and a private run beats a grid of its rivals."""

import itertools
import math
import sys

import dp_accounting
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp.privacy import (
    ChainDraw,
    account,
    calibrate_chain,
    calibrate_minibatch_chain,
    chain_guarantee,
)
from gibbs_dp.privacy.calibrate import Target
from gibbs_dp.sampling.unadjusted import run_langevin

UNIT = gdp.Domain(x_bound=1.0)
BOUNDED = gdp.GibbsPosterior(gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball(2, 1.0)))
CONVEX = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(jnp.zeros(2), 1.0))
BOTH = gdp.GibbsPosterior(
    gdp.losses.half_squared_distance, dist.TruncatedNormal(0.0, 0.5, low=-1.0, high=1.0)
)
LAPLACE = gdp.GibbsPosterior(
    total_loss=lambda t, z: jnp.abs(t - z.mean()),
    prior=gdp.Flat(gdp.supports.real()),
    sensitivity=lambda n: 4 / n,
    location_family=True,
)
TARGETS = {
    "pure": ({"pure_epsilon": 0.7}, lambda a: a.pure(), 0.7),
    "approximate": ({"epsilon": 0.7, "delta": 1e-6}, lambda a: a.epsilon(1e-6), 0.7),
    "zcdp": ({"zcdp": 0.05}, lambda a: a.zcdp(), 0.05),
    "gdp": ({"gdp": 0.3}, lambda a: a.gdp(), 0.3),
}


POSTERIORS = [(BOUNDED, 1), (BOUNDED, 4), (CONVEX, 3), (BOTH, 2), (LAPLACE, 3)]
CASES = [
    (target, posterior, m)
    for target in TARGETS
    for posterior, m in POSTERIORS
    if not (target == "pure" and posterior is CONVEX)  # refused: no pure DP on an unbounded support
]


@pytest.mark.parametrize(("target", "posterior", "m"), CASES)
def test_calibration_and_accountant_invert_each_other(target, posterior, m):
    asked, figure, value = TARGETS[target]
    given = {"n": 20, "adjacency": "replace-one", "domain": UNIT, "num_draws": m}
    found = gdp.calibrate(posterior, **asked, **given)
    spent = figure(account(posterior, gamma=found.gamma, **given))
    assert spent == pytest.approx(value, rel=1e-6)
    assert found.guarantee.num_draws == m
    # Known-wrong variant: calibrating one draw and releasing m.
    if m > 1:
        alone = gdp.calibrate(posterior, **asked, **(given | {"num_draws": 1}))
        assert figure(account(posterior, gamma=alone.gamma, **given)) > 1.2 * value


def test_adjacency_changes_gamma_by_the_factor_of_the_range():
    given = {"n": 20, "domain": UNIT, "pure_epsilon": 1.0}
    replaced = gdp.calibrate(BOUNDED, adjacency="replace-one", **given).gamma
    removed = gdp.calibrate(BOUNDED, adjacency="add-remove", **given).gamma
    assert removed == pytest.approx(2 * replaced)


REFUSED = {
    "nothing": ({}, "give exactly one of"),
    "two": ({"zcdp": 1.0, "gdp": 1.0}, "give exactly one of"),
    "negative": ({"pure_epsilon": -1.0}, "pure_epsilon must be positive"),
    "delta": ({"epsilon": 1.0, "delta": 1.0}, "delta must lie in"),
    "no delta": ({"epsilon": 1.0}, "delta: it belongs to epsilon"),
    "delta alone": ({"zcdp": 1.0, "delta": 1e-5}, "delta: it belongs to epsilon"),
    "unbounded": ({"pure_epsilon": 1.0, "posterior": CONVEX}, "give the prior a bounded support"),
    "no adjacency": ({"zcdp": 1.0, "adjacency": None}, "adjacency: a worst-case target needs"),
    "audit setting": ({"zcdp": 1.0, "num_datasets": 5}, "num_datasets: for a target on_average_kl"),
    "both kinds": ({"zcdp": 1.0, "on_average_kl": 0.1}, "give one target"),
    "no population": ({"on_average_kl": 0.1}, "population: on-average KL"),
    "average adjacency": (
        {"on_average_kl": 0.1, "population": lambda k, n: n, "adjacency": "add-remove"},
        "replace-one notion",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    change, message = REFUSED[case]
    given = {"posterior": BOUNDED, "n": 20, "adjacency": "replace-one", "domain": UNIT} | change
    with pytest.raises(ValueError, match=message) as error:
        gdp.calibrate(**given)
    assert "\n" not in str(error.value)


def test_target_alone_checks_itself():
    with pytest.raises(ValueError, match="zcdp must be positive"):
        Target(zcdp=float("nan"))


# -- a private ULA run ------------------------------------------------------------------------

RUN = {"n": 200, "adjacency": "replace-one", "domain": UNIT}


def test_the_chain_spends_its_target_and_no_rival_on_a_grid_is_better():
    measured = []

    def accuracy(kernel, gamma):
        # Exact mean squared error on the quadratic with all data at 1: bias, prior and noise.
        precision = 200 * gamma + 1.0
        c = 1 - kernel.step_size * precision
        mean = 200 * gamma / precision * (1 - c**kernel.num_steps)
        variance = 2 * kernel.step_size * (1 - c ** (2 * kernel.num_steps)) / (1 - c**2)
        measured.append((kernel, gamma))
        return (mean - 1) ** 2 + variance

    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(1), 1.0))
    found = calibrate_chain(
        posterior, epsilon=0.5, delta=1e-6, max_steps=64, accuracy=accuracy, **RUN
    )
    assert found.guarantee.epsilon == pytest.approx(0.5, rel=1e-6)
    assert found.guarantee.epsilon <= 0.5 * (1 + 1e-9)
    assert found.inaccuracy == accuracy(found.kernel, found.gamma)
    for gamma, reach, steps in itertools.product(
        np.geomspace(1e-4, 10, 30), np.linspace(0.05, 1.0, 12), (1, 2, 8, 64)
    ):
        rival = gdp.ULA(reach / (200 * gamma + 1.0), steps)
        if accuracy(rival, gamma) < 0.99 * found.inaccuracy:
            promise = chain_guarantee(posterior, rival, gamma=gamma, delta=1e-6, **RUN)
            assert promise.epsilon > 0.5


def test_the_default_bound_holds_for_the_run_it_describes():
    """Mean excess loss of 2000 runs on data at the edge of the domain, below the bound."""
    posterior = gdp.GibbsPosterior(
        gdp.losses.half_squared_distance, dist.Normal(0.3 * jnp.ones(1), 1.0)
    )
    found = calibrate_chain(posterior, epsilon=2.0, delta=1e-6, radius=1.0, **RUN)
    data = jnp.ones((200, 1))
    draws = np.asarray(
        run_langevin(posterior, data, gamma=found.gamma, kernel=found.kernel, num_draws=2000, key=0)
    )
    excess = float(np.mean((draws - 1.0) ** 2) / 2)  # over theta = 1, of norm 1
    assert excess <= found.inaccuracy
    assert found.inaccuracy < 100 * excess  # a bound that says something


@pytest.mark.trust
def test_more_privacy_costs_accuracy():
    tight, wide = (
        calibrate_chain(CONVEX, epsilon=e, delta=1e-6, max_steps=64, **RUN).inaccuracy
        for e in (0.2, 4.0)
    )
    assert wide < tight


def test_chain_refusals():
    with pytest.raises(ValueError, match="strongly convex and smooth"):
        calibrate_chain(
            gdp.GibbsPosterior(gdp.losses.absolute, dist.Normal(jnp.zeros(1), 1.0)),
            epsilon=1.0,
            delta=1e-6,
            **RUN,
        )
    with pytest.raises(ValueError, match="gradients of the loss are not bounded"):
        calibrate_chain(
            gdp.GibbsPosterior(gdp.losses.squared, dist.Normal(jnp.zeros(1), 1.0)),
            epsilon=1.0,
            delta=1e-6,
            **RUN,
        )
    with pytest.raises(ValueError, match="epsilon must be positive"):
        calibrate_chain(CONVEX, epsilon=-1.0, delta=1e-6, **RUN)


# -- a private run on minibatches ------------------------------------------------------------


def wave(theta, z):
    """Neither convex nor Lipschitz, as far as anybody has declared."""
    return jnp.sum(jnp.sin(3.0 * theta) * z)


NETWORK = gdp.GibbsPosterior(wave, dist.Normal(jnp.zeros(3), 1.0))
BUDGET = {"epsilon": 2.0, "delta": 1e-5, "n": 1000, "adjacency": "add-remove"}


def noise_of(found):
    """Noise multiplier of a run: its steps' noise over what one clipped gradient moves them."""
    h, kernel = found.kernel.step_size, found.kernel
    return math.sqrt(2 * h) / (h * found.gamma * kernel.clip / kernel.sampling_rate)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("settings", [{}, {"clip": 0.3, "sampling_rate": 0.02, "num_steps": 500}])
def test_a_run_on_minibatches_spends_its_budget(adjacency, settings):
    """By dp-accounting's accountant of events; its moments say no less, and a little more."""
    found = calibrate_minibatch_chain(NETWORK, **(BUDGET | {"adjacency": adjacency} | settings))
    assert 1.99 < found.guarantee.epsilon <= 2.0
    kernel = found.kernel
    relations = dp_accounting.NeighboringRelation
    if adjacency == "replace-one":
        accountants = {dp_accounting.pld.PLDAccountant(relations.REPLACE_ONE): (1.98, 2.01)}
    else:
        accountants = {
            dp_accounting.pld.PLDAccountant(relations.ADD_OR_REMOVE_ONE): (1.98, 2.01),
            dp_accounting.rdp.RdpAccountant(): (2.0, 2.6),
        }
    noise = dp_accounting.GaussianDpEvent(noise_of(found))
    for accountant, (least, most) in accountants.items():
        step = dp_accounting.PoissonSampledDpEvent(kernel.sampling_rate, noise)
        accountant.compose(step, kernel.num_steps)
        assert least < accountant.get_epsilon(1e-5) < most
    # Known-wrong: 1% less noise.
    promise = chain_guarantee(
        NETWORK, kernel, gamma=1.01 * found.gamma, n=1000, adjacency=adjacency, domain=None,
        delta=1e-5,
    )  # fmt: skip
    assert promise.epsilon > 2.0


def test_the_noise_of_a_run_is_half_of_the_prior_scale():
    """Without data a coordinate ends ``s sqrt(1 - e^-1/4) = 0.470 s`` from zero, 1,500 times."""
    scale = 0.2
    flat = gdp.GibbsPosterior(lambda theta, z: 0.0 * theta[0], dist.Normal(jnp.zeros(3), scale))
    found = calibrate_minibatch_chain(flat, **(BUDGET | {"epsilon": 1.0}))
    assert found.kernel.num_steps == 300
    ends = np.asarray(
        run_langevin(
            flat, jnp.zeros(4), gamma=found.gamma, kernel=found.kernel, num_draws=500, key=0
        )
    )
    # A standard error is 1.8%; four of them, a false alarm in 16,000.
    assert np.std(ends) == pytest.approx(scale * math.sqrt(-math.expm1(-0.25)), rel=0.075)


def test_the_step_is_for_the_smallest_scale_and_one_of_your_own_is_kept():
    layers = {"in": jnp.zeros((2, 3)), "out": jnp.zeros(3)}
    prior = gdp.priors.normal_like(layers, {"in": 0.1, "out": 2.0})
    posterior = gdp.GibbsPosterior(lambda w, z: jnp.sum(w["in"]) * z, prior)
    found = calibrate_minibatch_chain(posterior, **BUDGET, num_steps=50)
    assert found.kernel.step_size == pytest.approx(0.1**2 / (8 * 50))
    own = calibrate_minibatch_chain(posterior, **BUDGET, num_steps=50, step_size=1e-3)
    assert own.kernel.step_size == 1e-3
    assert noise_of(own) == pytest.approx(noise_of(found))
    few = calibrate_minibatch_chain(posterior, **(BUDGET | {"n": 10**4}), step_size=1e-3)
    assert few.kernel.sampling_rate == 256 / 10**4
    assert few.kernel.num_steps == math.ceil(30 * 10**4 / 256)


@pytest.mark.trust
def test_no_run_has_less_noise_than_a_third_of_a_clip():
    """Where hardly any row is ever looked at, delta alone would allow a run without noise."""
    found = calibrate_minibatch_chain(
        NETWORK, **(BUDGET | {"n": 10**6}), sampling_rate=1e-6, num_steps=10
    )
    assert noise_of(found) == pytest.approx(0.3)
    assert found.guarantee.epsilon < 0.1


MINIBATCH_REFUSED = {
    "no scale": ({"posterior": BOUNDED}, "step_size: the rule takes it from the scale"),
    "rate": ({"sampling_rate": 0.0}, "sampling_rate must be positive"),
    "large rate": ({"sampling_rate": 1.5}, r"SGLD\(sampling_rate\) must be in"),
    "clip": ({"clip": 0.0}, "clip must be positive"),
    "steps": ({"num_steps": 0}, "num_steps must be at least 1"),
    "steps, own size": ({"num_steps": 0, "step_size": 0.1}, r"SGLD\(num_steps\)"),
    "n": ({"n": 0}, "n must be at least 1"),
    "delta": ({"delta": 0.0}, "delta must lie in"),
    "epsilon": ({"epsilon": 0.0}, "epsilon must be positive"),
    "too small": ({"epsilon": 1e-6, "delta": 1e-12}, "epsilon: no noise spends as little"),
}


@pytest.mark.parametrize("case", MINIBATCH_REFUSED)
def test_refusals_of_a_run_on_minibatches(case):
    change, message = MINIBATCH_REFUSED[case]
    with pytest.raises(ValueError, match=message) as error:
        calibrate_minibatch_chain(**({"posterior": NETWORK} | BUDGET | change))
    assert "\n" not in str(error.value)


def test_a_missing_accountant_is_no_budget_that_cannot_be_met(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ValueError, match="needs dp-accounting, which is not installed"):
        calibrate_minibatch_chain(CONVEX, epsilon=4.0, delta=1e-5, n=500, adjacency="replace-one")


def test_a_release_finds_the_run_that_its_budget_allows(tmp_path):
    """On minibatches where no theorem covers the last iterate, or several states are released."""
    ledger = gdp.Ledger.create(tmp_path / "l", adjacency="add-remove", epsilon=20.0, delta=1e-3)
    given = {
        "n": 60,
        "domain": UNIT,
        "adjacency": "add-remove",
        "ledger": ledger,
        "epsilon": 3.0,
        "delta": 1e-5,
        "accept": "float-arithmetic",
    }
    rows = np.full(50, 0.5), (np.full((50, 2), 0.5), np.arange(50) % 2)
    one = gdp.release(NETWORK, rows[0], method=ChainDraw(), **given)
    assert "Poisson samples of rate 0.1" in one.guarantee.assumptions[0]
    several = gdp.release(NETWORK, rows[0], method=ChainDraw(thinning=20), num_draws=5, **given)
    assert several.theta.shape == (5, 3)
    for out in (one, several):
        assert 2.98 < out.guarantee.epsilon <= 3.0
    assert "4 before it, 20 steps apart" in several.guarantee.assumptions[0]
    convex = gdp.release(CONVEX, rows[1], method=ChainDraw(), **given)
    assert "last iterate" in convex.guarantee.assumptions[0]
    states = gdp.release(CONVEX, rows[1], method=ChainDraw(thinning=20), num_draws=2, **given)
    assert "Poisson samples" in states.guarantee.assumptions[0]
    with pytest.raises(ValueError, match="num_draws: epsilon calibrates one run"):
        gdp.release(NETWORK, rows[0], method=ChainDraw(), num_draws=2, **given)
