"""The average attacker in audits: closed forms, exact sums, files, and refusals."""

from inspect import unwrap
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import gaussian_examples, gaussian_mean, private_mean, truncated_normals
from scipy import optimize, stats

import gibbs_dp as gdp
from gibbs_dp.auditing.plot import allowed_tpr, selected_rows
from gibbs_dp.auditing.report_data import profiles
from gibbs_dp.engine.runner import Runner
from gibbs_dp.estimators.privacy_loss import EPSILONS
from gibbs_dp.quantities import attacker
from gibbs_dp.quantities.attacker import is_lopsided

GAMMAS, N = [0.05, 1.0, 20.0], 30
THETA = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
Z, PROBS = np.array([0.0, 0.5, 1.0]), np.array([0.5, 0.3, 0.2])
# theory: the finite fixture, by enumeration; gammas .2, 1, 3
FIXTURE = {
    "on_average_tv": [0.023722, 0.093571, 0.184430],
    "attack_auc_per_pair": [0.515703, 0.561922, 0.617264],
    "attack_auc": [0.519348, 0.576724, 0.650414],
    "on_average_renyi_2": [0.005614, 0.092251, 0.391688],
}
FIXTURE_PROFILE = {0.1: [0.004185, 0.069592, 0.162468], 1.0: [0.0, 0.001324, 0.042882]}


def z_scores(value, se, truth):
    return np.abs(np.asarray(value) - truth) / np.maximum(np.asarray(se), 1e-12)


def report_by(sampler):
    return gdp.audit(
        gaussian_mean(1),
        gaussian_examples(1),
        N,
        GAMMAS,
        num_datasets=1024,
        sampler=sampler,
        learn=[gdp.OnAverageKL(), gdp.Attacker(num_datasets=None)],
        progress=False,
    )


@pytest.fixture(scope="module")
def report():
    return report_by(gdp.HMC())


@pytest.mark.trust
def test_gaussian_mean_by_sums():
    report = report_by(None)
    assert set(report["attack_estimator"]) == {"exact sum"}
    test_gaussian_mean(report)


def test_gaussian_mean(report):
    """Closed forms of all columns; 24 numbers at 4 standard errors: 1.5e-3 false alarms."""
    s = np.sqrt(2 * np.array(GAMMAS) / N)
    truths = {
        "on_average_tv": 2 / np.pi * np.arctan(s / 2),
        "attack_auc_per_pair": stats.t.cdf(s / np.sqrt(2), 1),
        "attack_auc": stats.t.cdf(s / np.sqrt(2), 2),
        "on_average_renyi_2": s**2,
    }
    for name, truth in truths.items():
        light = report["renyi_tail_flag"] == "none" if "renyi" in name else np.ones(3, bool)
        assert (z_scores(report[name], report[f"{name}_se"], truth)[light] < 4).all(), name
        if "renyi" not in name:
            assert (report[f"{name}_se"] < 0.02 * truth).all(), name
    known = np.array([0.012445, 0.024437, 0.152273])
    tpr, se = report["attack_tpr_1pct"], report["attack_tpr_1pct_se"]
    assert (z_scores(tpr, np.hypot(se, 0.005 * (known - 0.01)), known) < 4).all()
    profile = report.privacy_profile([0.1, 1.0])
    for epsilon, delta in (
        (0.1, [0.002241, 0.050126, 0.303958]),
        (1.0, [None, 0.001401, 0.155035]),
    ):
        for gamma, truth in zip(GAMMAS, delta, strict=True):
            found = profile.loc[(gamma, epsilon)]
            if truth is None:  # 2.6e-10
                assert found["delta"] < 1e-9
            else:
                assert z_scores(found["delta"], found["delta_se"], truth) < 4


def test_sums_say_where_they_end(dtype):
    """Of Gaussian means ``D_8 = 4 D_2`` for every pair, so that their ratio has no error.

    At gamma = 40 the law that order 8 weighs lies where single precision has no weights left, and
    the number is 5% too small; at 1 all points are there.
    """
    report = gdp.audit(
        gaussian_mean(1),
        gaussian_examples(1),
        50,
        [1.0, 40.0],
        num_datasets=64,
        sampler=gdp.Line(),
        learn=[gdp.OnAverageKL(), gdp.Attacker()],
        progress=False,
    )
    ratio = report["on_average_renyi_8"] / (4 * report["on_average_renyi_2"])
    assert abs(ratio[0] - 1) < 1e-3
    assert 0.9 < ratio[1] < (0.98 if dtype == "float32" else 0.9995)
    assert report["renyi_tail_flag"].tolist() == ["none", "8"]
    assert np.isnan(report["on_average_renyi_8_se"]).tolist() == [False, True]


def test_divergences_that_rise_with_the_order_are_doubted_upwards():
    """Of two orders the larger is infinite where the other is."""
    some = np.linspace(0.9, 1.1, 64)
    loss = attacker.LossTails(
        *(np.ones((64, 45)),) * 2, some, np.stack([some] * 2, 1), np.ones((64, 2)), np.zeros(64)
    )
    good = np.ones(64, bool)
    grid, line, chains = gdp.Grid(low=0.0, high=1.0).traits, gdp.Line().traits, gdp.HMC().traits
    for weights, expected in (([0.2, 0.0], ["2", "8"]), ([0.0, 0.2], ["8"]), ([0.04, 0.04], [])):
        given = loss._replace(weight=np.tile(weights, (64, 1)))
        assert attacker.doubtful_orders(given, good, line) == expected
        assert attacker.doubtful_orders(given, good, chains) == expected
        finite = grid._replace(is_discretized=False)  # whose points are all that there are
        assert attacker.doubtful_orders(given, good, finite) == []


def test_kl_is_an_integral_of_the_profile(report):
    """``eps_KL = int d(e) (1 + exp(-e)) de`` (Sason & Verdu 2016): two routes to one number."""
    for gamma, kl, se in zip(
        GAMMAS, report["on_average_kl"], report["on_average_kl_se"], strict=True
    ):
        grid = np.concatenate([[0.0], np.geomspace(1e-4, 20, 400)])
        delta = report.privacy_profile(grid).loc[gamma]["delta"].to_numpy()
        integral = np.trapezoid(delta * (1 + np.exp(-grid)), grid)
        assert abs(integral - kl) < 4 * se + 0.02 * kl


def test_inequalities(report):
    tv, kl = report["on_average_tv"], report["on_average_kl"]
    assert (tv <= np.sqrt(kl / 2)).all()
    assert (tv <= np.sqrt(1 - np.exp(-kl))).all()
    for auc in (report["attack_auc"], report["attack_auc_per_pair"]):
        slack = 4 * report["attack_auc_se"]
        assert (auc >= 0.5 + tv / 2 - slack).all()
        assert (auc <= 0.5 + tv - tv**2 / 2 + slack).all()
    assert (report["attack_auc"] >= report["attack_auc_per_pair"]).all()
    roc = report.attack_roc(np.linspace(0, 1, 101))
    for gamma in GAMMAS:
        tpr = roc.loc[gamma]["tpr"].to_numpy()
        gain = tpr - np.linspace(0, 1, 101)
        assert (gain > -1e-9).all()
        assert gain.max() <= report["on_average_tv"][GAMMAS.index(gamma)] + 1e-9


def test_which_route(report):
    assert report["attack_estimator"].tolist() == ["one-sided", "one-sided", "two-sided"]
    assert "8" in report["renyi_tail_flag"][2]


def test_a_divergence_that_is_a_lower_bound_has_no_error(report):
    for order in ("2", "8"):
        flagged = np.array([order in found for found in report["renyi_tail_flag"]])
        errors = report[f"on_average_renyi_{order}_se"]
        assert (np.isnan(errors) == flagged).all()
        assert np.isfinite(report[f"on_average_renyi_{order}"]).all()


def test_a_healthy_problem_raises_no_alarm(report):
    assert report.warnings == ()
    assert not report["tail_flag"].any()
    assert report["failed_datasets"].sum() == 0
    half = 1.96 * report["on_average_kl_se"]
    for end, sign in (("low", -1), ("high", 1)):
        ends = report["on_average_kl"] + sign * half
        assert report[f"on_average_kl_{end}"] == pytest.approx(ends, abs=0.1 * half.max())


def test_divergences_of_skewed_datasets_are_flagged():
    """Lopsided in 19 of 20 samples of lognormals, and in none of 20 of numbers that are a mean."""
    rng = np.random.default_rng(3)
    skewed = np.exp(2 * rng.normal(size=(20, 128)))
    plain = rng.chisquare(1, size=(20, 128, 32)).mean(axis=2)
    assert sum(is_lopsided(values) for values in skewed) >= 19
    assert not any(is_lopsided(values) for values in plain)
    assert not is_lopsided(np.array([np.nan, 1.0]))


def test_one_side_at_a_large_kl_is_told():
    weak = gdp.audit(
        gaussian_mean(1),
        gaussian_examples(1),
        N,
        [200.0],
        num_datasets=128,
        sampler=gdp.HMC(),
        learn=[gdp.OnAverageKL("one-sided"), gdp.Attacker()],
        progress=False,
    )
    assert [w for w in weak.warnings if "attack-too-weak" in w]


@pytest.mark.trust
def test_several_draws_seen_together():
    """Three draws are one of three times the gamma, as far as ``L`` goes."""
    several = gdp.audit(
        gaussian_mean(1),
        gaussian_examples(1),
        N,
        [1.0],
        num_datasets=1024,
        learn=[*gdp.DEFAULT, gdp.MutualInformation(0), gdp.Attacker(3)],
        progress=False,
    )
    s = np.sqrt(3 * 2 / N)
    truth = 2 / np.pi * np.arctan(s / 2)
    assert z_scores(several["on_average_tv"], several["on_average_tv_se"], truth) < 4
    assert any("3 independent draws" in note for note in several.notes)
    with pytest.raises(ValueError, match="num_releases: must be at most num_chains"):
        gdp.audit(
            gaussian_mean(1), gaussian_examples(1), N, [1.0], learn=[*gdp.DEFAULT, gdp.Attacker(9)]
        )


@pytest.fixture(scope="module")
def finite():
    posterior = gdp.GibbsPosterior(lambda t, z: (t - z) ** 2, gdp.Flat(gdp.supports.real()))
    population = gdp.populations.Finite(Z, PROBS)
    return gdp.audit(
        posterior,
        population,
        4,
        [0.2, 1.0, 3.0],
        num_datasets=4096,
        sampler=gdp.Grid(THETA),
        learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
        progress=False,
    )


def test_finite_fixture(finite):
    """By enumeration; 18 numbers at 4 standard errors."""
    for name, truth in FIXTURE.items():
        assert (z_scores(finite[name], finite[f"{name}_se"], np.array(truth)) < 4).all(), name
    profile = finite.privacy_profile(list(FIXTURE_PROFILE))
    for epsilon, truths in FIXTURE_PROFILE.items():
        for gamma, truth in zip([0.2, 1.0, 3.0], truths, strict=True):
            found = profile.loc[(gamma, epsilon)]
            if truth:
                assert z_scores(found["delta"], found["delta_se"], truth) < 4
            else:
                assert found["delta"] == 0
    for (_, curve), *truths in zip(profiles(finite), *FIXTURE_PROFILE.values(), strict=True):
        for epsilon, truth in zip(FIXTURE_PROFILE, truths, strict=True):  # what files hold
            at = np.argmin(np.abs(curve["epsilon"] - epsilon))
            assert z_scores(curve["delta"][at], curve["delta_se"][at], truth) < 4
    pooled = finite.attack_roc(0.1)
    for gamma, truth in zip([0.2, 1.0, 3.0], [0.114666, 0.168758, 0.258513], strict=True):
        found = pooled.loc[(gamma, 0.1)]
        assert abs(found["tpr"] - truth) < 4 * found["tpr_se"] + 0.02 * (truth - 0.1)
    assert set(finite["attack_estimator"]) == {"exact sum"}
    posterior = gdp.GibbsPosterior(lambda t, z: (t - z) ** 2, gdp.Flat(gdp.supports.real()))
    population = gdp.populations.Finite(Z, PROBS)
    with pytest.raises(ValueError, match=r"num_releases: .* one draw only"):
        gdp.audit(
            posterior,
            population,
            4,
            [1.0],
            sampler=gdp.Grid(THETA),
            learn=[*gdp.DEFAULT, gdp.Attacker(2)],
        )


@pytest.mark.trust
def test_laplace_mechanism():
    """Figure 2a: structured losses, atoms of the loss, and the worst case beside it."""
    found = gdp.audit(
        private_mean(),
        truncated_normals,
        100,
        [10.0, 100.0],
        num_datasets=1024,
        learn=[*gdp.DEFAULT, gdp.MutualInformation(0), gdp.Attacker(num_datasets=None)],
        progress=False,
    )
    for name, truth in (
        ("on_average_tv", [0.048449, 0.357735]),
        ("attack_auc_per_pair", [0.525052, 0.702925]),
    ):
        assert (z_scores(found[name], found[f"{name}_se"], np.array(truth)) < 4).all(), name
    profile = found.privacy_profile([0.1, 1.0])
    for key, truth in (((10.0, 0.1), 0.014628), ((100.0, 0.1), 0.326371), ((100.0, 1.0), 0.116678)):
        assert z_scores(profile.loc[key]["delta"], profile.loc[key]["delta_se"], truth) < 4


@pytest.mark.parametrize("rate", [0.01, 0.1])
def test_errors_of_pooled_rates_are_the_jackknifes(rate):
    """Shifted normal laws, whose pooled rate is the least ``e^c fpr + E H_c`` by search.

    One of 24 datasets is left out at a time, so that the error is Tukey's, with Student's quantile.
    """
    mu = np.random.default_rng(0).lognormal(-0.5, 0.5, size=24)

    def rates(c, mu):
        return stats.norm.cdf(mu / 2 - c / mu), stats.norm.cdf(-mu / 2 - c / mu)

    def pooled(mu):
        def line(c):
            true, false = rates(c, mu)
            return np.exp(c) * (rate - false.mean()) + true.mean()

        return optimize.minimize_scalar(line, (0.0, 8.0), method="bounded", bounds=(0.0, 8.0)).fun

    left_out = np.array([pooled(np.delete(mu, i)) for i in range(mu.size)])
    error = np.sqrt((mu.size - 1) / mu.size * np.sum((left_out - left_out.mean()) ** 2))
    above, false = (np.stack(part) for part in zip(*(rates(EPSILONS, m) for m in mu), strict=True))
    loss = SimpleNamespace(above=above, excess=above - false)
    found = unwrap(attacker._at_rates)(loss, np.ones(mu.size, bool), np.array([rate]))[0]
    assert found.mean() == pytest.approx(pooled(mu), rel=2e-3)
    longer = stats.t.ppf(0.975, mu.size - 1) / stats.norm.ppf(0.975)
    assert stats.sem(found) == pytest.approx(longer * error, rel=0.01)


@pytest.mark.parametrize(("n", "ghosts"), [(4, 4), (6, 4), (3, 5), (10, 8), (1, 6), (4, 2)])
def test_no_pair_is_attacked_twice_while_there_are_others(n, ghosts, monkeypatch):
    """Losses whose differences tell which example and which ghost: pairs are counted."""
    plan = SimpleNamespace(n=n, num_ghosts=ghosts, group_size=1)
    plan._replace = lambda **_: plan
    losses = [
        jnp.zeros((2, 3, 1)) + step * jnp.arange(k) for step, k in ((1.0, n), (100.0, ghosts))
    ]
    monkeypatch.setattr(
        attacker, "per_example_losses", lambda *_: SimpleNamespace(train=losses[0], ghost=losses[1])
    )
    view = SimpleNamespace(
        posterior=SimpleNamespace(structured=False),
        plan=plan,
        draws=SimpleNamespace(u=None, weight=jnp.ones((2, 3))),
        key=jax.random.key(0),
        inputs=SimpleNamespace(gamma=1.0),
        train=np.zeros(n),
        ghosts=np.zeros(ghosts),
    )
    found = np.unique(np.asarray(unwrap(attacker._deltas)(view))[:, 0, 0])
    pairs = {100.0 * j - i for i in range(n) for j in range(ghosts)}
    assert set(found) <= pairs
    assert len(found) == min(len(pairs), attacker.MOST_LOSSES)


@pytest.mark.parametrize("count", [128, 100, 32])
def test_pairs_of_all_sizes_are_taken_with_the_same_chance(count):
    """Over 2,000 keys; 4.5 standard errors of a binomial are a false alarm in 700 of two counts.

    Of 32 all are taken.
    """
    num, keys = attacker.MOST_LOSSES, jax.random.split(jax.random.key(3), 2000)
    size = np.random.default_rng(4).permutation(count)  # how far a pair moves the posterior
    step = jnp.linspace(-1.0, 1.0, 6).reshape(2, 3)
    delta = 7.0 - (1.0 + jnp.asarray(size, jnp.result_type(float)))[:, None, None] * step

    def taken(key):
        return attacker.of_all_sizes(delta, jnp.ones((2, 3)), key)[:, 0, 0] - 8.0

    found = np.rint(np.asarray(jax.jit(jax.vmap(taken))(keys))).astype(int)
    share = np.bincount(found.ravel(), minlength=count) / len(keys)
    p = num / count
    assert np.abs(share - p).max() <= 4.5 * np.sqrt(p * (1 - p) / len(keys))
    for first in (num, 8, 2):  # one of each part of the sizes
        near = np.sort(found[:, :first], axis=1) - (np.arange(first) + 0.5) * count / first
        assert np.abs(near).max() <= count / first


def test_without_an_attacker():
    plain = gdp.audit(
        gaussian_mean(1),
        gaussian_examples(1),
        N,
        [1.0],
        num_datasets=64,
        learn=[gdp.OnAverageKL()],
        progress=False,
    )
    assert "on_average_tv" not in plain.columns
    with pytest.raises(ValueError, match=r"learn gdp\.Attacker"):
        plain.plot_attack()


def test_ghost_rows_sample_one_pair_of_what_is_attacked(monkeypatch):
    """Ghosts tell a large KL well, and nothing of an attacker."""
    pairs, run = {}, Runner._run_job

    def counted(self, sheet, job, device, at_once):
        if not job.period:  # no pilots
            pairs[job.first] = int(job.inputs.num_pairs)
        return run(self, sheet, job, device, at_once)

    monkeypatch.setattr(Runner, "_run_job", counted)
    found = gdp.audit(
        gaussian_mean(4),
        gaussian_examples(4),
        N,
        [20.0],
        num_datasets=96,
        block_size=32,
        learn=[gdp.OnAverageKL("ghost"), gdp.Attacker()],
        progress=False,
    )
    assert found["attack_estimator"].tolist() == ["two-sided"]
    # 2 F_4(s) - 1 with s = sqrt(2 gamma / n); 3 parts in 1,000 of bias are left.
    assert z_scores(found["on_average_tv"], found["on_average_tv_se"], 0.6875) < 4
    assert {first < 64 for first, count in pairs.items() if count == 1} == {True}
    assert {first >= 64 for first, count in pairs.items() if count == 0} == {True}


@pytest.mark.trust
def test_groups():
    """Two examples replaced at once: the mean moves by the sum of two differences."""
    found = gdp.audit(
        gaussian_mean(1),
        gaussian_examples(1),
        N,
        [1.0],
        num_datasets=1024,
        learn=[*gdp.DEFAULT, gdp.OnAverageKL(group_size=2), gdp.MutualInformation(0)],
        progress=False,
    )
    s = np.sqrt(2 * 2 / N)
    truth = 2 / np.pi * np.arctan(s / 2)
    assert z_scores(found["on_average_tv"], found["on_average_tv_se"], truth) < 4


@pytest.mark.trust
def test_worst_case_is_never_below():
    posterior = gdp.GibbsPosterior(gdp.losses.absolute, gdp.Flat(gdp.supports.box(-1.0, 1.0, 1)))

    def population(key, n):
        return jnp.ones((n, 1)), jax.random.uniform(key, (n,), minval=-1.0, maxval=1.0)

    domain = gdp.Domain(x_bound=1.0, y_range=(-1.0, 1.0))
    found = gdp.audit(
        posterior,
        population,
        10,
        [0.3, 3.0],
        num_datasets=256,
        domain=domain,
        learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
        progress=False,
    )
    limit = np.tanh(found["dp_epsilon"] / 2)
    np.testing.assert_allclose(found["attack_advantage_limit"], limit)
    assert (found["on_average_tv"] < limit).all()


def test_two_draws_that_are_private_are_private_with_twice_the_epsilon():
    """The best of all attackers on (2 epsilon, 0)-DP has the advantage tanh(epsilon)."""
    found = gdp.audit(
        gdp.GibbsPosterior(gdp.losses.absolute, gdp.Flat(gdp.supports.box(-1.0, 1.0, 1))),
        lambda key, n: (jnp.ones((n, 1)), jax.random.uniform(key, (n,))),
        10,
        [0.3],
        num_datasets=16,
        domain=gdp.Domain(x_bound=1.0, y_range=(-1.0, 1.0)),
        learn=[gdp.OnAverageKL(), gdp.WorstCase(), gdp.Attacker(2)],
        progress=False,
    )
    assert found["attack_advantage_limit"] == pytest.approx(np.tanh(found["dp_epsilon"]))


def test_files_keep_the_profile(report, tmp_path):
    report.save(tmp_path / "audit.nc")
    loaded = gdp.load_report(tmp_path / "audit.nc")
    asked = [0.0, 0.05, 0.1, 2.0]
    assert loaded.privacy_profile(asked).equals(report.privacy_profile(asked))
    assert loaded.attack_roc([0.01]).equals(report.attack_roc([0.01]))


@pytest.mark.trust
def test_stores_keep_the_profile(tmp_path):
    def run():
        return gdp.audit(
            gaussian_mean(1),
            gaussian_examples(1),
            N,
            [1.0],
            num_datasets=64,
            learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
            store=tmp_path / "store",
            progress=False,
        )

    first, again = run(), run()
    assert again.privacy_profile([0.1]).equals(first.privacy_profile([0.1]))


def test_pictures(report):
    figure = report.plot_attack(gammas=[1.0, 20.0], title="two gammas")
    left, right = figure.axes
    assert left.get_xlabel() == "false positive rate"
    assert right.get_xscale() == "log"
    assert "gamma = 20" in {line.get_label() for line in left.get_lines()}
    with pytest.raises(ValueError, match=r"gammas: choose some of the report's, 0\.05, 1, 20"):
        report.plot_attack(gammas=[2.0])
    assert report.plot(panels="attack").axes


def test_what_an_epsilon_allows_is_drawn_however_large_it_is():
    fpr = np.array([0.0, 0.2, 1.0])
    # Randomized response (Kairouz, Oh & Viswanath 2015): e^1 fpr, then 1 - e^-1 (1 - fpr).
    allowed = [0.0, min(0.2 * np.e, 1 - 0.8 / np.e), 1.0]
    np.testing.assert_allclose(allowed_tpr(fpr, 1.0), allowed, rtol=1e-12)
    np.testing.assert_allclose(allowed_tpr(fpr, 1200.0), [0.0, 1.0, 1.0])


@pytest.mark.parametrize("epsilon", [-1.0, np.nan, np.inf, [], [[0.1]]])
def test_wrong_epsilons(report, epsilon):
    with pytest.raises(ValueError, match="epsilon: must be"):
        report.privacy_profile(epsilon)


@pytest.mark.parametrize("fpr", [-0.1, 1.5, np.nan, []])
def test_wrong_rates(report, fpr):
    with pytest.raises(ValueError, match="fpr: must be"):
        report.attack_roc(fpr)


def test_reports_without_a_profile():
    with pytest.raises(ValueError, match="no privacy profile"):
        gdp.Report(({"gamma": 1.0},), {}).privacy_profile(0.1)


def test_the_first_datasets_are_attacked(tmp_path):
    """Their columns are those of an audit of these alone; the others are of all datasets."""

    def audit(num_datasets, attacked, **settings):
        learn = [gdp.OnAverageKL(), gdp.Attacker(num_datasets=attacked)]
        return gdp.audit(
            gaussian_mean(1),
            gaussian_examples(1),
            N,
            [1.0, 20.0],  # from one side, and from both
            num_datasets=num_datasets,
            learn=learn,
            block_size=32,  # a store's too: its programs are those of `report`
            sampler=gdp.HMC(),
            progress=False,
            **settings,
        )

    part, few = audit(160, 64, store=tmp_path / "store"), audit(64, None)
    assert few["attack_estimator"].tolist() == ["one-sided", "two-sided"]
    own = [c.name for c in gdp.Attacker.columns if c.name in few.columns]
    for name in (*own, *(f"{name}_se" for name in own if f"{name}_se" in few.columns)):
        if few[name].dtype.kind in "OUT":
            assert part[name].tolist() == few[name].tolist()
        else:  # in blocks of another size
            np.testing.assert_allclose(part[name], few[name], rtol=1e-4, err_msg=name)
    assert len(part.per_dataset[0]["on_average_tv"]) == 64
    assert len(part.per_dataset[0]["on_average_kl"]) == 160
    assert part["num_datasets"].tolist() == [160, 160]
    assert any("first 64 datasets" in note for note in part.notes)
    assert not any("datasets" in note and "attacker" in note for note in few.notes)
    assert part.warnings == ()
    assert not selected_rows(part, "on_average_tv").any()

    part.save(tmp_path / "part.nc")
    again = gdp.load_report(tmp_path / "part.nc")
    assert not selected_rows(again, "on_average_tv").any()
    rows = gdp.compare([part, again]).table
    assert (rows["difference"] == 0).all()

    whole = audit(160, None)
    more = audit(160, 128, store=tmp_path / "store")  # whose store has 64
    seen, known = (r.per_dataset[0]["on_average_tv"] for r in (more, whole))
    np.testing.assert_allclose(seen, known[:128], rtol=1e-4)
    with pytest.raises(ValueError, match=r"num_datasets: .*at least 2"):
        audit(64, 1)
