"""Releases: what is asked, charged, drawn and said, and what never leaves."""

import dataclasses
import errno
import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import gibbs_dp as gdp
from gibbs_dp.privacy import (
    BudgetExceededError,
    ChainDraw,
    ExactDraw,
    FullDiskError,
    ReleaseError,
    ledger_file,
)
from gibbs_dp.privacy.noise import SecretNoise
from gibbs_dp.privacy.releases import methods
from gibbs_dp.privacy.releases.release import release as release_function
from gibbs_dp.sklearn import GibbsRegressor

BOTH = ["exact-draw", "float-arithmetic"]
UNIT = gdp.Domain(x_bound=1.0)
MEAN = gdp.GibbsPosterior(
    gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.box(-1.0, 1.0, 1))
)
RIDGE = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(1), 1.0))
LOGISTIC = gdp.GibbsPosterior(gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball(2, 3.0)))
DATA = np.linspace(-0.5, 0.9, 40)[:, None]


@pytest.fixture
def ledger(tmp_path):
    return gdp.Ledger.create(
        tmp_path / "ledger", adjacency="replace-one", epsilon=100.0, delta=1e-3
    )


def go(ledger, posterior=MEAN, data=DATA, accept=BOTH, **changes):
    given = {"domain": UNIT, "adjacency": "replace-one", "ledger": ledger, "accept": accept}
    settings = ("total_variation", "kernel", "num_warmup", "num_samples")
    method = ExactDraw(**{name: changes.pop(name) for name in settings if name in changes})
    return gdp.release(posterior, data, method=method, **(given | changes))


@pytest.mark.trust
def test_draws_follow_the_posterior_at_the_calibrated_gamma(ledger):
    """Pooled over 5 releases of 12 draws, against a truncated normal (4 standard errors)."""
    outs = [go(ledger, pure_epsilon=18.0, num_draws=12) for _ in range(5)]
    gamma = outs[0].guarantee.gamma
    assert gamma == pytest.approx(18.0 / 12 / 4.0)  # R = 4 x_bound theta_bound
    sd = 1 / math.sqrt(40 * gamma)
    inside = dist.TruncatedNormal(DATA.mean(), sd, low=-1.0, high=1.0)
    draws = np.concatenate([out.theta[:, 0] for out in outs])
    assert draws.shape == (60,)
    assert abs(draws.mean() - float(inside.mean)) < 4 * float(inside.variance) ** 0.5 / 60**0.5
    assert abs(draws.var() / float(inside.variance) - 1) < 4 * (2 / 60) ** 0.5
    law = stats.truncnorm((-1 - DATA.mean()) / sd, (1 - DATA.mean()) / sd, DATA.mean(), sd)
    assert stats.kstest(draws, law.cdf).pvalue > 1e-7  # its false-alarm rate
    assert len(np.unique(draws)) == 60
    assert ledger.spent() == {"epsilon": 90.0, "delta": 0.0}


@pytest.mark.trust
def test_data_outside_the_domain_are_clipped_and_keys_are_fresh(ledger):
    """One wild row counts as one at the bound; two releases of the same data differ."""
    wild = DATA.copy()
    wild[0], wild[1], wild[2] = 1e30, np.nan, -np.inf
    first = go(ledger, data=wild, pure_epsilon=20.0).theta
    second = go(ledger, data=wild, pure_epsilon=20.0).theta
    assert not np.array_equal(first, second)
    assert np.abs(first).max() <= 1.0


def test_nothing_else_leaves(ledger, monkeypatch):
    """Fields of the release are the draws, what is declared, and a number free of the data."""

    def independent(posterior, data, *, gamma, num_chains, num_samples, **settings):
        """Draw without a chain, which would be compiled for each release."""
        shape = (num_chains, num_samples)
        return gdp.Draws(
            theta=np.random.default_rng(0).normal(np.mean(data), 1e-3, (*shape, 1)),
            log_density=np.zeros(shape),
            accept_rate=np.zeros(num_chains),
            is_stuck=np.zeros(num_chains, bool),
            gamma=gamma,
            settings={},
        )

    monkeypatch.setattr(methods, "sample", independent)
    given = {"pure_epsilon": 5.0, "num_draws": 2}
    outs = [go(ledger, data=d, **given) for d in (DATA, np.full((40, 1), 1e9))]
    public = ["posterior", "domain", "n"]
    assert [f.name for f in dataclasses.fields(outs[0])] == [
        "theta",
        "guarantee",
        "charge",
        *public,
    ]
    for name in ("guarantee", *public):
        assert getattr(outs[0], name) == getattr(outs[1], name)
    own = gdp.GibbsPosterior(
        total_loss=lambda theta, z: jnp.sum((theta - z) ** 2), prior=MEAN.prior,
        sensitivity=lambda n: 4.0,
    )  # fmt: skip
    assert go(ledger, own, **given).posterior is None  # a function may hold the data
    assert isinstance(outs[0].theta, np.ndarray)


def test_labels_are_clipped_and_never_complained_about(ledger, monkeypatch):
    """The check of labels that an audit makes would tell that one class is missing."""
    seen = []

    def spy(posterior, data, **settings):
        seen.append((posterior, data, settings["gamma"]))
        raise RuntimeError

    monkeypatch.setattr(methods, "sample", spy)
    x, y = np.random.default_rng(0).normal(size=(30, 2)), np.full(30, 7.0)
    with pytest.raises(ReleaseError):
        go(ledger, LOGISTIC, (x, y), pure_epsilon=1.0)
    posterior, data, gamma = seen[0]
    assert gamma == pytest.approx(1 / 6)  # R = 2 P = 6
    assert not hasattr(posterior.loss, "check_data")
    np.testing.assert_array_equal(data[1], np.ones(30))
    assert np.linalg.norm(data[0], axis=1).max() <= 1.0
    as_jax = tuple(jnp.asarray(a, jnp.float32) for a in data)
    np.testing.assert_array_equal(
        posterior.losses(jnp.ones(2), as_jax), LOGISTIC.losses(jnp.ones(2), as_jax)
    )


CURRENCIES = [
    ({"pure_epsilon": 0.7}, lambda g: g.pure_epsilon, 0.7),
    ({"epsilon": 0.7, "delta": 1e-6}, lambda g: g.epsilon, 0.7),
    ({"zcdp": 0.01}, lambda g: g.zcdp, 0.01),
    ({"gdp": 0.1}, lambda g: g.gdp, 0.1),
]


@pytest.mark.parametrize(("target", "figure", "value"), CURRENCIES)
def test_every_currency_is_met_and_said(ledger, target, figure, value):
    out = go(ledger, **target)
    assert figure(out.guarantee) == pytest.approx(value, rel=1e-6)
    assert out.guarantee.is_idealized
    text = out.guarantee.summary()
    assert "IDEALIZED" in text
    assert "finite precision" in text
    assert "convergence checks" in text
    assert ledger.spent()["epsilon"] == out.guarantee.epsilon


def test_a_declared_total_variation_is_part_of_the_target(ledger):
    tau, eps, delta = 1e-8, 0.5, 1e-6
    out = go(
        ledger,
        epsilon=eps,
        delta=delta,
        total_variation=tau,
        accept="float-arithmetic",
        num_draws=3,
    )
    g = out.guarantee
    assert (g.mechanism, g.epsilon, g.delta) == ("approximate draw", eps, delta)
    assert g.pure_epsilon is None
    exact = gdp.privacy.account(
        MEAN, gamma=g.gamma, n=40, adjacency="replace-one", domain=UNIT, num_draws=3
    )
    total = exact.delta(eps) + (1 + math.exp(eps)) * 3 * tau
    assert total == pytest.approx(delta, rel=1e-5)
    assert any("declared, not measured" in a for a in g.assumptions)
    for change, message in (
        ({"pure_epsilon": 0.5}, "give the target as epsilon and delta"),
        ({"epsilon": 0.5, "delta": 1e-9}, "alone costs a delta"),
    ):
        with pytest.raises(ValueError, match=message):
            go(ledger, total_variation=tau, accept="float-arithmetic", **change)


REFUSED = {
    "no opt-in": ({"accept": ()}, "name what you accept: 'exact-draw'"),
    "half an opt-in": ({"accept": ["exact-draw"]}, "name what you accept: 'float-arithmetic'"),
    "unknown opt-in": ({"accept": ["yes"]}, "'yes' is no idealization"),
    "unbounded": ({"posterior": RIDGE}, "give the prior a bounded support"),
    "no range": ({"domain": gdp.Domain()}, r"declare Domain\(x_bound=...\)"),
    "negative": ({"pure_epsilon": -1.0}, "pure_epsilon must be positive"),
    "delta": ({"pure_epsilon": None, "epsilon": 1.0, "delta": 1.0}, "delta must lie in"),
    "shape": ({"data": np.zeros((5, 3))}, "."),
    "text": ({"data": np.array([["secret"]])}, "give arrays of numbers"),
    "n": ({"n": 99}, "n: under replace-one"),
    "other adjacency": ({"adjacency": "add-remove", "n": 50}, "ledger is for replace-one"),
    "add-remove without n": ({"adjacency": "add-remove"}, "n: under add-remove"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_charge_nothing_and_quote_nothing(ledger, case):
    change, message = REFUSED[case]
    with pytest.raises(ValueError, match=message) as error:
        go(ledger, **({"pure_epsilon": 1.0} | change))
    assert ledger.charges() == ()
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_release_over_budget_draws_nothing(tmp_path, monkeypatch):
    small = gdp.Ledger.create(tmp_path / "small", adjacency="replace-one", epsilon=1.0)
    go(small, pure_epsilon=0.75)
    monkeypatch.setattr(methods, "sample", None)  # would fail if it were called
    with pytest.raises(BudgetExceededError, match=r"0\.25 of 1\.0 is left"):
        go(small, pure_epsilon=0.75)
    assert len(small.charges()) == 1


def test_what_fails_after_the_charge_says_one_fixed_sentence(ledger, monkeypatch):
    """Neither an exception of the sampler nor failed checks may show what they saw."""

    def leak(*args, **kwargs):
        raise RuntimeError("row 17 has label 3")

    messages = set()

    def disagreeing(*args, **kwargs):
        return gdp.Draws(
            theta=np.arange(40.0).reshape(4, 10, 1),
            log_density=np.zeros((4, 10)),
            accept_rate=np.zeros(4),
            is_stuck=np.zeros(4, bool),
            gamma=1.0,
            settings={},
        )

    for broken in (leak, disagreeing):
        monkeypatch.setattr(methods, "sample", broken)
        with pytest.raises(ReleaseError) as error:
            go(ledger, pure_epsilon=1.0)
        messages.add(str(error.value))
        assert error.value.__cause__ is None
        assert error.value.__suppress_context__ or error.value.__context__ is None
    assert len(messages) == 1
    assert "row 17" not in messages.pop()
    assert len(ledger.charges()) == 2  # the charges stand


def test_the_charge_is_on_disk_before_anything_is_drawn(ledger, monkeypatch):
    seen = []

    def spy(*args, **kwargs):
        seen.append(gdp.Ledger(ledger.path).spent()["epsilon"])
        raise RuntimeError

    monkeypatch.setattr(methods, "sample", spy)
    with pytest.raises(ReleaseError):
        go(ledger, pure_epsilon=1.0)
    assert seen == [1.0]


@pytest.mark.parametrize("route", ["release", "estimator", "thresholdout"])
def test_on_a_full_disk_nothing_is_charged_or_drawn(ledger, monkeypatch, route):
    """SQLite gets no further page, as on a full disk; the purpose needs several."""
    connect, drawn = ledger_file.connect, []

    def connect_to_full_disk(path):
        connection = connect(path)
        connection.execute("PRAGMA max_page_count = 1")  # as many as there are
        return connection

    before = ledger.path.read_bytes()
    long = "p" * 50_000

    def fit():
        monkeypatch.setattr(SecretNoise, "bytes", lambda self, count: drawn.append(True) or b"")
        estimator = GibbsRegressor(1.0, 1e-6, x_bound=1.0, y_bounds=(0.0, 1.0), ledger=ledger)
        estimator.purpose = long
        estimator.fit(np.ones((20, 1)), np.ones(20))

    def ask():
        rows = np.arange(100.0) / 100
        gate = gdp.Thresholdout(
            rows, rows[:50], threshold=0.1, sigma=0.1, budget=1, ledger=ledger, name=long
        )
        gate.query(lambda x: drawn.append(len(x) == 50) or x)

    def draw():
        monkeypatch.setattr(methods, "sample", lambda *args, **kwargs: drawn.append(True))
        go(ledger, pure_epsilon=0.5, purpose=long)

    run = {"release": draw, "estimator": fit, "thresholdout": ask}[route]
    monkeypatch.setattr(ledger_file, "connect", connect_to_full_disk)
    with pytest.raises(FullDiskError, match=r"is full, so nothing was charged, and nothing was dr"):
        run()
    with pytest.raises(FullDiskError) as error:
        ledger.charge(purpose=long, epsilon=0.5)
    assert isinstance(error.value.__cause__, OSError)
    assert error.value.__cause__.errno == errno.ENOSPC
    assert not any(drawn)
    assert ledger.path.read_bytes() == before
    monkeypatch.undo()
    assert ledger.charges() == gdp.Ledger(ledger.path).charges() == ()
    assert ledger.charge(purpose="room again", epsilon=0.5) == 1


# -- chains -----------------------------------------------------------------------------------


def chain(ledger, posterior=RIDGE, **changes):
    given = {
        "domain": UNIT,
        "adjacency": "replace-one",
        "ledger": ledger,
        "accept": ["float-arithmetic"],
        "delta": 1e-6,
    }
    settings = ("kernel", "gamma")
    method = ChainDraw(**{name: changes.pop(name) for name in settings if name in changes})
    return gdp.release(posterior, DATA, method=method, **(given | changes))


def test_a_chain_is_released_with_its_own_guarantee(ledger):
    out = chain(ledger, kernel=gdp.ULA(0.02, 300), gamma=0.5, num_draws=200)
    assert out.guarantee.mechanism == "chain"
    assert "IDEALIZED" not in out.guarantee.summary()
    precision, c = 40 * 0.5 + 1, 1 - 0.02 * 21
    mean, variance = 0.5 * DATA.sum() / precision, 0.04 / (1 - c**2)
    draws = out.theta[:, 0]
    assert abs(draws.mean() - mean) < 4 * (variance / 200) ** 0.5
    # The key has no seed: a false alarm of the law has probability 1e-7, as has a miss below.
    assert stats.kstest(draws, stats.norm(mean, variance**0.5).cdf).pvalue > 1e-7
    assert (
        stats.kstest(mean + (draws - mean) / 4, stats.norm(mean, variance**0.5).cdf).pvalue < 1e-7
    )
    assert ledger.spent()["epsilon"] == out.guarantee.epsilon
    found = chain(ledger, epsilon=0.8)
    assert found.guarantee.epsilon == pytest.approx(0.8, rel=1e-6)


def test_whole_labels_reach_a_loss_of_ones_own_as_whole_numbers(ledger):
    """Labels take a row of scores; that beyond the domain is moved to its end.

    The posterior of ``theta[y]`` and a standard normal prior is a normal with mean -gamma times the
    counts. The key has no seed: 4.5 standard errors of 200 draws, a false alarm in 5e4 runs.
    """
    own = gdp.GibbsPosterior(lambda theta, z: theta[z[1]], dist.Normal(jnp.zeros(3), 1.0))
    data = np.ones((40, 1)), np.repeat(np.array([0, 1, 7], np.int64), [10, 20, 10])
    out = gdp.release(
        own,
        data,
        method=ChainDraw(gdp.ULA(0.05, 300, clip=1.0), gamma=0.1),
        domain=gdp.Domain(y_range=(0.0, 2.0)),
        adjacency="replace-one",
        ledger=ledger,
        accept=["float-arithmetic"],
        delta=1e-6,
        num_draws=200,
    )
    error = 4.5 * (1 / (1 - 0.05 / 2) / 200) ** 0.5
    assert np.abs(out.theta.mean(axis=0) + 0.1 * np.array([10, 20, 10])).max() < error


LABELLED = gdp.GibbsPosterior(lambda theta, z: theta[0] * z[1], dist.Normal(jnp.zeros(1), 1.0))


@pytest.mark.parametrize("label", [2**40, -(2**63), 2**63 - 1])
def test_a_whole_label_beyond_jax_cannot_end_a_release(ledger, label):
    out = gdp.release(
        LABELLED,
        (np.ones((2, 1)), np.array([1, label])),
        method=ChainDraw(gdp.ULA(0.05, 3, clip=1.0), gamma=0.1),
        domain=gdp.Domain(x_bound=1.0),
        adjacency="replace-one",
        ledger=ledger,
        accept=["float-arithmetic"],
        delta=1e-6,
    )
    assert np.isfinite(out.theta).all()


def test_chain_refusals(ledger):
    with pytest.raises(ValueError, match="give epsilon and delta, or ChainDraw its kernel"):
        chain(ledger)
    with pytest.raises(ValueError, match="give kernel and gamma together, or neither"):
        chain(ledger, epsilon=1.0, gamma=1.0)
    with pytest.raises(ValueError, match="give epsilon and delta, or ChainDraw its kernel"):
        chain(ledger, epsilon=1.0, gamma=1.0, kernel=gdp.ULA(0.02, 300))
    with pytest.raises(ValueError, match="num_draws: epsilon calibrates one run"):
        chain(ledger, epsilon=1.0, num_draws=2)
    with pytest.raises(ValueError, match="name what you accept: 'float-arithmetic'"):
        chain(ledger, epsilon=1.0, accept=())
    assert ledger.charges() == ()
    diverging = gdp.ULA(1e30, 20, clip=1.0)
    with pytest.raises(ReleaseError, match="the charge stands"):
        chain(ledger, kernel=diverging, gamma=1e-16)
    assert len(ledger.charges()) == 1


def test_the_public_name():
    assert gdp.release is release_function


@pytest.mark.trust
def test_chains_that_fail_the_check_are_tried_longer(ledger, monkeypatch):
    """Two failures: the third run is handed out; three: one sentence, and the charge stands."""
    lengths, keys, found = [], [], []

    def spy(posterior, data, **settings):
        lengths.append((settings["num_warmup"], settings["num_samples"]))
        keys.append(settings["key"])
        found.append(found[0] if found else gdp.sample(posterior, data, **settings))
        return found[-1]

    monkeypatch.setattr(methods, "sample", spy)
    monkeypatch.setattr(methods, "has_converged", lambda draws: len(lengths) >= 3)
    out = go(ledger, pure_epsilon=5.0, num_warmup=10, num_samples=50)
    assert lengths == [(10, 50), (40, 200), (160, 800)]
    assert len({str(key) for key in keys}) == 3
    assert all(jax.random.key_data(key).size == 8 for key in keys)  # 256 bits
    assert out.charge == 1
    monkeypatch.setattr(methods, "has_converged", lambda draws: False)
    with pytest.raises(ReleaseError, match=r"up to 16 times longer; nothing is released"):
        go(ledger, pure_epsilon=5.0, num_warmup=10, num_samples=50)
    assert ledger.spent()["epsilon"] == 10.0
