"""Mistakes in what a release is asked with: one sentence each, and nothing is charged."""

import math
from dataclasses import fields

import jax.numpy as jnp
import jaxtyping
import numpy as np
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp.privacy import ChainDraw, ExactDraw, ProvenDraw, account, chain_guarantee, charge
from gibbs_dp.privacy.calibrate import Target, calibrate_gamma
from gibbs_dp.privacy.releases import methods
from gibbs_dp.privacy.releases.arguments import without_checks

NAN = math.nan
UNIT = gdp.Domain(x_bound=1.0)
BOX = gdp.Flat(gdp.supports.box(-1.0, 1.0, 1))
CENTER = gdp.Flat(gdp.supports.l2_ball((1, 1)))
MEAN = gdp.GibbsPosterior(gdp.losses.half_squared_distance, BOX)
KINKED = gdp.GibbsPosterior(gdp.losses.hinge, BOX)
RIDGE = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(1), 1.0))
DATA = np.linspace(-0.5, 0.9, 40)[:, None]
LABELLED = (DATA, (DATA[:, 0] > 0).astype(float))
ULA = gdp.ULA(0.02, 30)


def declared(loss, prior=BOX):
    return gdp.GibbsPosterior(gdp.losses.Declared(loss, oscillation=4.0), prior)


class Branching(gdp.losses.Declared):
    def batch(self, theta, data):
        return data[:, 0] if theta[0] > 0 else -data[:, 0]  # runs on numbers, cannot be traced


APPROXIMATE = {"pure_epsilon": None, "epsilon": 1.0, "delta": 1e-6}
RELEASE = {
    "no samples": ({"num_samples": 0}, "num_samples must be at least 1"),
    "two samples": ({"num_samples": 2}, "give at least 25"),
    "just too few samples": ({"num_samples": 24}, "give at least 25"),
    "samples of text": ({"num_samples": "9"}, "num_samples must be a number, got '9'"),
    "too many samples": ({"num_samples": 10**18}, "more than one array holds"),
    "warmup": ({"num_warmup": -1}, "num_warmup must be at least 0"),
    "half a step of warmup": ({"num_warmup": 0.5}, "num_warmup must be an integer"),
    "endless warmup": ({"num_warmup": 2**40}, "more than one array holds"),
    "a draw and a half": ({"num_draws": 1.5}, "num_draws must be an integer, got 1.5"),
    "a true draw": ({"num_draws": True}, "num_draws must be a number, got True"),
    "draws of text": ({"num_draws": "3"}, "num_draws must be a number, got '3'"),
    "no draw": ({"num_draws": 0}, "num_draws must be at least 1"),
    "kernel of text": ({"kernel": "hmc"}, "kernel: 'hmc' is text; give a kernel"),
    "kernel's class": ({"kernel": gdp.HMC}, "kernel: HMC is a class; give an object"),
    "grid": ({"kernel": gdp.Grid(low=-1.0, high=1.0)}, "a Grid draws lattice points"),
    "ULA": ({"kernel": gdp.ULA()}, "ULA has no acceptance step"),
    "SGLD": ({"kernel": gdp.SGLD()}, "SGLD has no acceptance step"),
    "NaN": ({"pure_epsilon": NAN}, "pure_epsilon must be positive and finite"),
    "text": ({"pure_epsilon": "1"}, "pure_epsilon must be a number"),
    "truth": ({"pure_epsilon": True}, "pure_epsilon must be a number"),
    "huge": ({"pure_epsilon": 1e300}, "every gamma up to 1e\\+15 meets it"),
    "too large for floats": ({"pure_epsilon": 1e40}, "every gamma up to 1e\\+15 meets it"),
    "tiny": ({"pure_epsilon": 1e-320}, "no gamma above 1e-12 meets it"),
    "tiny delta": ({**APPROXIMATE, "delta": 1e-320}, "delta: below 1e-280"),
    "NaN delta": ({**APPROXIMATE, "delta": NAN}, "delta must lie in"),
    "NaN distance": ({**APPROXIMATE, "total_variation": NAN}, "total_variation must be"),
    "accept nothing": ({"accept": None}, "accept: give the names"),
    "accept a number": ({"accept": [1]}, "accept: give the names"),
    "domain": ({"domain": None}, "domain: give a gibbs_dp.Domain"),
    "path of a ledger": ({"ledger": "a.ledger"}, "ledger: give a gibbs_dp.Ledger"),
    "posterior": ({"posterior": None}, "posterior: give a gibbs_dp.GibbsPosterior"),
    "purpose": ({"purpose": 3}, "purpose must be one line of text"),
    "purpose of bytes": ({"purpose": b"x"}, "purpose must be one line of text"),
    "broken purpose": ({"purpose": "\ud800"}, "purpose must be one line of text"),
    "other dimension": ({"data": np.zeros((4, 2))}, "must be alike"),
    "centers": (
        {"posterior": gdp.GibbsPosterior(gdp.losses.KMeans(9), CENTER)},
        "must be 9 centers",
    ),
    "no gradient": (
        {"posterior": declared(lambda t, z: float(np.sum(np.asarray(t))))},
        "loss: it looks at the value of theta",
    ),
    "a branch": (
        {"posterior": gdp.GibbsPosterior(Branching(lambda t, z: t[0], oscillation=4.0), BOX)},
        "loss: it looks at the value of theta",
    ),
    "improper": (
        {"posterior": declared(lambda t, z: jnp.tanh(t[0]), gdp.Flat(gdp.supports.real(1)))},
        "bounded loss have no posterior",
    ),
}  # fmt: skip
CHAIN = {
    "HMC": ({"kernel": gdp.HMC(), "gamma": 0.5}, "kernel: HMC.* is not one that a chain's"),
    "text": ({"kernel": "ula", "gamma": 0.5}, "kernel: 'ula' is not one"),
    "class": ({"kernel": gdp.ULA, "gamma": 0.5}, "kernel: the class ULA is not one"),
    "gamma": ({"kernel": ULA, "gamma": 1e300}, "gamma must be at most 1e\\+100"),
    "gamma of text": ({"kernel": ULA, "gamma": "1"}, "gamma must be a number"),
    "large gamma": ({"kernel": ULA, "gamma": 1e40}, "."),
    "no gamma": ({"kernel": ULA, "gamma": 1e-300}, "gamma: 1e-300 is zero or infinite"),
    "NaN": ({"kernel": ULA, "gamma": NAN}, "gamma must be positive"),
    "draws": ({"kernel": ULA, "gamma": 0.5, "num_draws": 1.5}, "num_draws must be an integer"),
    "true": ({"kernel": ULA, "gamma": 0.5, "num_draws": True}, "num_draws must be a number"),
    "step": ({"kernel": gdp.ULA(1e300, 3, clip=1.0), "gamma": 0.5}, "step_size: 1e\\+300 is zero"),
    "no step": ({"kernel": gdp.ULA(1e-60, 3, clip=1.0), "gamma": 0.5}, "target: its figures leave"),
    "steps": ({"kernel": gdp.ULA(0.02, 2**40), "gamma": 1e-9}, "more than one loop counts"),
    "delta": ({"kernel": ULA, "gamma": 0.5, "delta": NAN}, "delta must lie in"),
    "epsilon": ({"epsilon": NAN}, "epsilon must be positive"),
    "endless epsilon": ({"epsilon": 700.0}, "epsilon: one above 600"),
    "domain": (
        {"kernel": gdp.ULA(0.02, 3, clip=1.0), "gamma": 0.5, "domain": None},
        "domain: give a gibbs_dp.Domain",
    ),
}  # fmt: skip
PROVEN = {
    "draws": ({"num_draws": 1.5}, "num_draws must be an integer"),
    "true": ({"num_draws": True}, "num_draws must be a number"),
    "none": ({"num_draws": 0}, "num_draws must be at least 1"),
    "NaN": ({"epsilon": NAN}, "epsilon must be positive"),
    "text": ({"epsilon": "1"}, "epsilon must be a number"),
    "huge": ({"epsilon": 1e300}, "epsilon: one above 600"),
    "tiny": ({"delta": 1e-300}, "delta: below 1e-280"),
    "kinked": ({"posterior": KINKED}, "proven draws are for half squared distances, softmax"),
    "work": (
        {"max_work": 1e3},
        "max_work: proven draws would take .* about 1 min on one core, which",
    ),
    "ledger": ({"ledger": None}, "ledger: give a gibbs_dp.Ledger"),
}
WAYS = {
    "release": (ExactDraw, RELEASE, MEAN, DATA, {"pure_epsilon": 1.0}),
    "chain": (ChainDraw, CHAIN, RIDGE, DATA, {"delta": 1e-6}),
    "proven": (
        ProvenDraw,
        PROVEN,
        gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(jnp.zeros(1), 1.0)),
        LABELLED,
        {"epsilon": 1.0, "delta": 1e-6},
    ),
}


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    path = tmp_path_factory.mktemp("ledger") / "a"
    return gdp.Ledger.create(path, adjacency="replace-one", epsilon=1e305, delta=1e-3)


@pytest.fixture
def as_users_call():
    """Without the tests' runtime type checks, which would refuse some of these first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize(("way", "case"), [(way, case) for way in WAYS for case in WAYS[way][1]])
def test_a_mistake_costs_nothing(ledger, as_users_call, way, case):
    kind, cases, posterior, data, base = WAYS[way]
    changes, message = cases[case]
    accept = ["float-arithmetic", *(["exact-draw"] if way == "release" else [])]
    given = {"posterior": posterior, "data": data, "domain": UNIT, "adjacency": "replace-one"}
    given |= {"ledger": ledger, "accept": accept} | base | changes
    of_method = {f.name: given.pop(f.name) for f in fields(kind) if f.name in given}
    with pytest.raises(ValueError, match=message) as error:
        gdp.release(given.pop("posterior"), given.pop("data"), method=kind(**of_method), **given)
    assert type(error.value) is ValueError  # neither a ReleaseError nor a refusal for the budget
    assert "\n" not in str(error.value)
    assert ledger.charges() == ()


def test_a_chain_without_acceptance_may_be_vouched_for(ledger, monkeypatch):
    seen = []
    monkeypatch.setattr(charge, "charge_guarantee", lambda *args, **kwargs: seen.append(1) or 1)
    monkeypatch.setattr(methods, "sample", lambda *args, **kwargs: 1 / 0)
    given = {"domain": UNIT, "adjacency": "replace-one", "ledger": ledger}
    with pytest.raises(gdp.privacy.ReleaseError):
        gdp.release(
            MEAN, DATA, epsilon=1.0, delta=1e-6, accept="float-arithmetic", **given,
            method=ExactDraw(total_variation=1e-9, kernel=gdp.ULA()),
        )  # fmt: skip
    assert seen == [1]


@pytest.mark.parametrize(
    "prior",
    [
        gdp.Flat(gdp.supports.box(-1.0, 1.0)),
        gdp.Flat(gdp.supports.positive()),
        dist.Normal(0.0, 1.0),
        {"a": gdp.Flat(gdp.supports.real()), "b": gdp.Flat(gdp.supports.simplex(3))},
    ],
)
def test_a_location_family_is_flat_on_all_of_space(prior):
    with pytest.raises(ValueError, match="location_family: with a bounded or proper prior"):
        gdp.GibbsPosterior(
            total_loss=lambda t, z: jnp.abs(t - z.mean()),
            prior=prior,
            sensitivity=lambda n: 4 / n,
            location_family=True,
        )


def test_an_endless_gamma_gets_a_sentence():
    given = {"n": 40, "adjacency": "replace-one", "domain": UNIT}
    with pytest.raises(ValueError, match="gamma must be at most"):
        account(MEAN, gamma=1e300, **given)
    with pytest.raises(ValueError, match="gamma must be at most"):
        chain_guarantee(RIDGE, ULA, gamma=1e300, delta=1e-6, **given)
    with pytest.raises(ValueError, match="meets it"):
        calibrate_gamma(MEAN, Target(zcdp=1e300), **given)


# -- one object for equal posteriors, so that releases compile once ----------------------------

BALL = gdp.supports.l2_ball(2, 1.0)


class Weighted:
    """A loss with an array, which has no hash."""

    __hash__ = None

    def __init__(self):
        self.weights = np.ones(2)

    def __eq__(self, other):
        return isinstance(other, Weighted)

    def __call__(self, theta, z):
        return jnp.sum(self.weights * (theta - z) ** 2)


def distance(theta, z):
    return jnp.sum((theta["b"] - z) ** 2) + theta["a"] ** 2


SAME = {
    "ball": lambda: (gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball(2, 1.0))),
    "box": lambda: (gdp.losses.logistic, gdp.Flat(gdp.supports.box(-1.0, 1.0, 2))),
    "huber": lambda: (gdp.losses.Huber(0.5), gdp.Flat(gdp.supports.l2_ball(2, 1.0))),
    "normal": lambda: (gdp.losses.logistic, dist.Normal(jnp.zeros(2), 2.0).to_event(1)),
    "dict": lambda: (distance, {"a": dist.Normal(0.0, 1.0), "b": gdp.Flat(BALL)}),
}


@pytest.mark.parametrize("name", SAME)
def test_equal_posteriors_are_one(name):
    one, other = (gdp.GibbsPosterior(*SAME[name]()) for _ in range(2))
    assert one is not other
    assert without_checks(one) is without_checks(other)


OTHERS = {
    "loss": (gdp.losses.squared, gdp.Flat(gdp.supports.l2_ball(2, 1.0))),
    "radius": (gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball(2, 2.0))),
    "dimension": (gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball(3, 1.0))),
    "rows": (gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball((1, 2), 1.0))),
    "law": (gdp.losses.logistic, dist.Uniform(-1.0, 1.0).expand([2]).to_event(1)),
    "scale": (gdp.losses.logistic, dist.Normal(jnp.zeros(2), 1.0).to_event(1)),
    "center": (gdp.losses.logistic, dist.Normal(jnp.ones(2), 2.0).to_event(1)),
    "low": (gdp.losses.logistic, gdp.Flat(gdp.supports.box(-1.5, 1.0, 2))),
}


def test_other_posteriors_are_others():
    found = [gdp.GibbsPosterior(*parts) for parts in OTHERS.values()]
    found += [gdp.GibbsPosterior(*make()) for make in SAME.values()]
    assert len({id(without_checks(posterior)) for posterior in found}) == len(found)


def test_what_has_no_value_is_itself():
    """Losses without a hash, and priors that are functions of their parts."""
    conditional = {"s": dist.HalfNormal(1.0), "t": lambda e: dist.Normal(0.0, e["s"])}
    for loss, prior in ((Weighted(), gdp.Flat(BALL)), (distance, conditional)):
        one, other = gdp.GibbsPosterior(loss, prior), gdp.GibbsPosterior(loss, prior)
        assert without_checks(one) is without_checks(one)
        assert without_checks(one) is not without_checks(other)
