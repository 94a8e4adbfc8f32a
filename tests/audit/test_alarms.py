"""The engine says so when it is wrong, and stays silent when it is not."""

import math
from dataclasses import dataclass
from functools import cache

import flat
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from problems import (
    QUICK,
    gaussian_examples,
    gaussian_mean,
    logistic_examples,
    regression_examples,
)
from scipy import stats

import gibbs_dp as gdp
from gibbs_dp.auditing import assemble
from gibbs_dp.auditing import audit as auditing
from gibbs_dp.auditing.assemble import make_report
from gibbs_dp.engine.view import Block
from gibbs_dp.quantities.on_average_kl import KLRow, kl_warnings
from gibbs_dp.sampling.kernels import Kernel
from gibbs_dp.sampling.kernels.base import evaluate


@pytest.mark.parametrize(
    ("direct", "ghost", "error", "told"),
    [
        (0.5, 0.38, 0.034, "24% ± 6.8%, 3.5 standard errors (flagged above 4)"),
        (0.5, 0.38, 0.005, "24% ± 1%, 24.0 standard errors (flagged above 4)"),
        (0.1, 0.1001, 0.0005, "0.1% ± 0.5%, 0.2 standard errors (flagged above 4)"),
        (-0.001, 0.002, 0.005, "300% ± 500%, 0.6 standard errors (flagged above 4)"),
        (0.0, 0.002, 0.005, "0.002 ± 0.005 nats, 0.4 standard errors (flagged"),
    ],
)
def test_the_difference_of_two_routes_is_said_with_its_size(direct, ghost, error, told):
    """Relative, with its error, and when it would be flagged: figures worked out by hand.

    What both routes share in a dataset, here 7 nats up or down, is no error of the difference.
    """
    signs = np.resize([1.0, -1.0], 1024)
    shared, of_pair = 7.0 * signs, error * math.sqrt(1023) * signs
    row = {"estimator": "one-sided", "on_average_kl": direct, "on_average_kl_ghost": ghost}
    values = {
        "on_average_kl": direct + shared + of_pair,
        "on_average_kl_ghost": ghost + shared,
    }
    (said,) = assemble.routes(row, values)
    assert said.startswith(f"two routes differ by {told}")
    (said,) = assemble.routes(row | {"estimator": "two-sided"}, values)
    assert said.startswith(f"two routes that rest on one symmetry differ by {told}")
    assert assemble.routes(row, {"on_average_kl": values["on_average_kl"]}) == []
    # Of 31 degrees of freedom, what is exceeded as often as 4.0 by a normal number.
    (said,) = assemble.routes(row, {name: each[:32] for name, each in values.items()})
    assert said.endswith(f"(flagged above {stats.t.ppf(stats.norm.cdf(4.0), 31):.2g})")
    (said,) = assemble.routes(row, {name: each[:8] for name, each in values.items()})
    assert said.endswith("(too few datasets to tell)")


def wave(theta, z):
    return jnp.sin(5.0 * theta + 3.0 * z)


def test_a_loss_that_does_not_see_its_examples_is_no_alarm():
    """Its KL is 0, and what is left of the risks' difference is rounding, with tiny errors."""
    posterior = gdp.GibbsPosterior(
        lambda theta, z: jnp.log(theta[0]) + 0.0 * z[0], gdp.Flat(gdp.supports.box(3.0, 10.0, 1))
    )
    report = gdp.audit(posterior, gaussian_examples(1), 60, [1.0], num_datasets=32, progress=False)
    (warning,) = report.warnings
    assert warning.endswith("[unseen-examples]")
    assert report.verdicts == ("look",)
    assert abs(report["generalization_error"][0]) < 1e-6


@pytest.mark.parametrize("size", [0.5, 2.0])
def test_routes_are_apart_beyond_the_rounding_of_their_losses(size):
    row = KLRow(0.1, 1e-9, 0.1, 0.1, 0.1 + size * 1e-6, 1e-9, apart_se=1e-9, rounding=1e-6)
    assert len(kl_warnings(row, "one-sided")) == (size > 1)


@cache
def waves():
    """Posterior and population, the same for every key."""
    values = jnp.array([-1.0, -0.3, 0.2, 0.9, 2.0])
    log_share = jnp.log(jnp.array([0.2, 0.25, 0.25, 0.2, 0.1]))

    def examples(key, n):
        return values[jax.random.categorical(key, log_share, shape=(n,))]

    return gdp.GibbsPosterior(wave, gdp.Flat(gdp.supports.box(-3.0, 3.0, ()))), examples


@pytest.mark.parametrize("key", [330, 414])
def test_ten_datasets_of_few_values_are_called_few_and_not_wrong(key):
    """The routes' gaps of ten are nearly equal here: 8 and 10 of their errors from each other."""
    report = gdp.audit(
        *waves(),
        n=3,
        gammas=[1.0],
        num_datasets=10,
        key=jax.random.key(key),
        learn=[gdp.OnAverageKL(), gdp.Risks()],
        progress=False,
    )
    assert report.verdicts == ("look",)
    assert [text for text in report.warnings if "[few-datasets]" in text]
    assert not [text for text in report.warnings if "[routes-disagree]" in text]


def audit(posterior, population, n, gammas, **settings):
    settings = {"num_datasets": 256, "sampler": gdp.Chains()} | QUICK | settings
    return flat.audit(posterior, population, n, gammas, **settings)


@pytest.mark.trust
def test_too_few_steps_drift():
    # The posterior is nearly uniform; its Gaussian start in NumPyro's logit space is not.
    crawl = gdp.HMC(step_size=0.15, num_leapfrog=1)
    bounded = gdp.GibbsPosterior(
        lambda t, z: (z[1] - z[0] @ (4.0 * t - 2.0)) ** 2, dist.Beta(jnp.ones(1), 1.0).to_event(1)
    )
    report = audit(
        bounded, regression_examples, 100, [0.003], kernel=crawl, num_warmup=0, num_samples=32
    )
    assert any("drift" in w for w in report.warnings)


@pytest.mark.trust
@pytest.mark.parametrize("tilt", [0.0, 0.001])
def test_two_far_modes(tilt):
    """Told where they differ; where they are one mode with two signs, one of them is enough."""
    two_modes = gdp.GibbsPosterior(
        lambda theta, z: (jnp.abs(theta) - z) ** 2 + tilt * theta, gdp.Flat(gdp.supports.real())
    )
    report = audit(two_modes, lambda key, n: 10.0 + jax.random.normal(key, (n,)), 20, [1.0])
    assert any("several-modes" in w for w in report.warnings) == (tilt > 0)
    if tilt == 0:  # each mode is a normal of a mean, at twice the inverse temperature
        row = report.rows[0]
        assert abs(row["on_average_kl"] - 2 / 20) < 4 * row["on_average_kl_se"]


@pytest.mark.trust
def test_separable_logistic_regression_counts_its_failures():
    flat = gdp.GibbsPosterior(gdp.losses.logistic, gdp.Flat(gdp.supports.real(3)))
    report = audit(flat, logistic_examples, 20, [1.0])
    assert report["failed_datasets"][0] > 0
    assert report["num_datasets"][0] + report["failed_datasets"][0] == 256
    assert any("datasets failed" in w and "improper" in w for w in report.warnings)
    with pytest.raises(gdp.ImproperPosteriorError, match="improper at gamma=1"):
        audit(flat, lambda key, n: logistic_examples(key, n, slope=50.0), 8, [1.0])


@pytest.mark.trust
def test_heavy_tails_of_the_one_sided_estimator():
    posterior, population = gaussian_mean(1), gaussian_examples(1)
    forced = audit(posterior, population, 5, [20.0], estimator="one-sided")
    assert forced["tail_flag"][0]
    assert any("heavy tails" in w for w in forced.warnings)
    # 20 / 5 nats is the truth, and what the automatic choice finds.
    report = audit(posterior, population, 5, [20.0])
    assert not report["tail_flag"][0]
    assert abs(report["on_average_kl"][0] - 4.0) < 4 * report["on_average_kl_se"][0]


def standard_lognormals(key, n):
    mean, sd = np.exp(0.5), np.sqrt(np.e * (np.e - 1.0))
    return (jnp.exp(jax.random.normal(key, (n, 1))) - mean) / sd


@pytest.mark.trust
def test_datasets_of_the_largest_kl_are_not_lost_to_an_estimate_that_is_not_reported(monkeypatch):
    seen, sweep = [], auditing.run_sweep
    monkeypatch.setattr(
        auditing, "run_sweep", lambda s, *a: seen.append((s, sweep(s, *a))) or seen[0][1]
    )
    plain = [gdp.OnAverageKL(controlled=False), gdp.Risks()]
    report = audit(
        gaussian_mean(1), standard_lognormals, 20, [100.0], num_datasets=512, learn=plain
    )
    row = report.rows[0]
    assert row["estimator"] == "two-sided"
    assert row["failed_datasets"] == 0
    # 100 / 20 nats for any law of variance one; of 512 datasets it is skewed: 4 errors above,
    # or 6 below, are as rare as 4 of a normal.
    assert -6 < (row["on_average_kl"] - 5.0) / row["on_average_kl_se"] < 4
    reach = row["on_average_kl_high"] - row["on_average_kl"], 1.96 * row["on_average_kl_se"]
    assert reach[0] > 1.25 * reach[1]
    assert any("skewed" in w and f"{row['on_average_kl_high']:.4g}" in w for w in report.warnings)
    # Estimates fail one by one: on a dataset each, but the two-sided one on two.
    settings, (track,) = seen[0]
    whole = track.summary()
    kl, risks = whole.values.on_average_kl, whole.values.risks

    def lose(values, lost):
        found = np.array(values)
        found[lost] = np.inf
        return found

    kl = kl._replace(
        one_sided=kl.one_sided._replace(value=lose(kl.one_sided.value, [3])),
        two_sided=kl.two_sided._replace(mean=lose(kl.two_sided.mean, [4, 5])),
    )
    risks = risks._replace(generalization=lose(risks.generalization, [6]))
    values = whole.values._replace(on_average_kl=kl, risks=risks)
    track.forget()
    track.add(0, Block(whole.health, values, None))
    changed = make_report(settings, [track.result()])
    assert changed["num_datasets"][0] == 510
    assert changed["failed_datasets"][0] == 2
    for name, lost in {
        "on_average_kl": [4, 5], "on_average_kl_ghost": [], "generalization_error": [6],
        "empirical_risk": [],
    }.items():  # fmt: skip
        missing = np.isnan(changed.per_dataset[0][name])
        assert list(np.flatnonzero(missing)) == lost
        assert changed[name][0] == pytest.approx(np.nanmean(changed.per_dataset[0][name]))
    assert any("2 of 512 datasets failed (2 not finite)" in w for w in changed.warnings)
    track.tuned = track.tuned._replace(estimator="ghost")
    assert make_report(settings, [track.result()])["failed_datasets"][0] == 0


@pytest.mark.trust
def test_stuck_chains_are_counted():
    huge = gdp.HMC(step_size=50.0, num_leapfrog=1)
    with pytest.raises(ValueError, match="stuck chains"):
        audit(gaussian_mean(1), gaussian_examples(1), 5, [1.0], kernel=_Untuned(huge), num_warmup=0)


@dataclass(frozen=True)
class _Untuned(Kernel):
    """A kernel whose step size the pilots cannot rescue: it multiplies whatever it is given."""

    kernel: gdp.HMC

    def default_tuning(self, dim):
        return self.kernel.default_tuning(dim)

    def step(self, key, state, potential, tuning):
        worse = tuning._replace(step_size=tuning.step_size * 1e6)
        return self.kernel.step(key, state, potential, worse)


@dataclass(frozen=True)
class _Tempered(Kernel):
    """HMC on ``temperature`` times the potential: a sampler of the wrong law that moves well."""

    temperature: float

    def default_tuning(self, dim):
        return gdp.HMC().default_tuning(dim)

    def step(self, key, state, potential, tuning):
        def tempered(u):
            return self.temperature * potential(u)

        return gdp.HMC().step(key, evaluate(state.position, tempered), tempered, tuning)


@pytest.mark.trust(but="two-sided")  # the harder one
@pytest.mark.parametrize("estimator", ["one-sided", "two-sided"])
def test_draws_of_a_wrong_law_are_noticed(estimator):
    # The virial identity gives 1 / temperature; it sees what the two-sided estimator cannot.
    posterior, population = gaussian_mean(2), gaussian_examples(2)
    report = gdp.audit(
        posterior,
        population,
        20,
        [1.0],
        num_datasets=256,
        sampler=_Tempered(0.8),
        learn=[gdp.OnAverageKL(estimator)],
        progress=False,
    )
    assert abs(report["virial"][0] - 1.25) < 4 * report["virial_se"][0]
    assert any("not from the posterior" in w for w in report.warnings)


@pytest.mark.trust
def test_unreachable_rel_error_is_said():
    report = audit(
        gaussian_mean(1), gaussian_examples(1), 5, [1.0], rel_error=1e-4, max_datasets=512
    )
    assert any("rel_error" in w for w in report.warnings)
    assert report["num_datasets"][0] == 512


# By HMC also in test_average_attacker.py.
@pytest.mark.trust
@pytest.mark.parametrize("kernel", [gdp.HMC(), gdp.MALA()])
def test_healthy_problems_raise_no_alarm(kernel):
    report = audit(gaussian_mean(2), gaussian_examples(2), 20, [0.1, 1.0, 10.0], kernel=kernel)
    assert report.warnings == ()
    assert not report["tail_flag"].any()
    assert report["failed_datasets"].sum() == 0
    half = 1.96 * report["on_average_kl_se"]
    for end, sign in (("low", -1), ("high", 1)):
        ends = report["on_average_kl"] + sign * half
        assert report[f"on_average_kl_{end}"] == pytest.approx(ends, abs=0.1 * half.max())


@pytest.mark.trust
def test_cauchy_examples():
    report = flat.audit(
        gaussian_mean(1),
        lambda key, n: jax.random.cauchy(key, (n, 1)),
        20,
        [1.0],
        num_datasets=128,
        **QUICK,
    )
    (row,) = report.rows
    assert row["on_average_kl"] - 1.96 * row["on_average_kl_se"] < 0 < row["on_average_kl"]
    assert row["on_average_kl_low"] == 0
    assert row["on_average_kl_high"] > row["on_average_kl"]
    assert any("interval is [0, " in w for w in report.warnings)


@pytest.mark.parametrize(("value", "shown"), [(2.0, "[0, 3]"), (-1.0, "[-9, 3]")])
def test_the_warning_compares_the_whole_reach(value, shown):
    row = KLRow(value, 1.0, -9.0, 3.0, math.nan, math.nan)
    (warning,) = kl_warnings(row, "one-sided")
    assert f"interval is {shown}, up to {value + 9:.1f} standard errors" in warning
