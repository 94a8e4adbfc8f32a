"""Chains on minibatches against closed forms on Gaussians.

Chains are independent, so the last draws of 4096 chains are an iid sample: the variance of a
Gaussian one is known to sqrt(2 / 4096) = 2.2%, its mean to 1.6% of a standard deviation. Each
comparison allows 4 standard errors, false alarm 6e-5; there are some 30 of them.
"""

import itertools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import optax
import pytest

import gibbs_dp as gdp
from gibbs_dp._cautions import names_of
from gibbs_dp._jaxlib.precision import precision
from gibbs_dp.sampling import minibatch, minibatch_steps
from gibbs_dp.sampling.kernels.stochastic import Rule

NUM_CHAINS = 4096
OF_VARIANCE, OF_MEAN = 4 * np.sqrt(2 / NUM_CHAINS), 4 / np.sqrt(NUM_CHAINS)

# Half the squared distance, in one dimension: gradients of all rows have the same slope, so that
# the minibatch's noise is the same everywhere and the chains' law is Gaussian but for its third
# moment.
GAMMA = 0.5
DATA = np.asarray(np.random.default_rng(3).normal(1.0, 1.5, size=(20, 1)), np.float32)
POSTERIOR = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(1), 2.0))
PRECISION = GAMMA * len(DATA) + 0.25
MODE = GAMMA * DATA.sum() / PRECISION


def run(kernel, data=DATA, gamma=GAMMA, posterior=POSTERIOR, **settings):
    """Draws, without what they warn of: they are few for each chain."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gdp.DrawsWarning)
        return gdp.sample_minibatches(posterior, data, gamma, kernel=kernel, **settings)


def last(kernel, **settings):
    """The last draws of many independent chains, ``[chains, dim]``."""
    given = {"num_chains": NUM_CHAINS, "num_samples": 4, "thinning": 1, "key": 7} | settings
    return np.asarray(run(kernel, **given).kept)[:, -1]


def stationary(h, a, noise=0.0, precision=PRECISION):
    """Variance of ``u' = u + (1 - a)(u - u_before) - h g + sqrt(2 a h) xi``, an AR(2) process.

    Of ``x' = p1 x + p2 x_before + e`` it is ``(1 - p2) / ((1 + p2) ((1 - p2)^2 - p1^2))`` times
    the variance of ``e`` (Box & Jenkins 1976, Section 3.2.4).
    """
    p1, p2 = 2 - a - h * precision, -(1 - a)
    return (1 - p2) * (2 * a * h + h**2 * noise) / ((1 + p2) * ((1 - p2) ** 2 - p1**2))


def check(draws, mean, variance):
    """Compare with a Gaussian's mean and variance."""
    assert abs(draws.mean() - mean) < OF_MEAN * np.sqrt(variance)
    assert abs(draws.var() / variance - 1) < OF_VARIANCE


@pytest.mark.parametrize("friction", [1.0, 0.2])
@pytest.mark.parametrize("relative", [0.02, 0.8])
def test_full_batches_have_the_stationary_law_of_theory(friction, relative):
    h = relative / PRECISION
    exact = stationary(h, friction)
    formula = 1 / PRECISION / (1 - h * PRECISION / (2 * (2 - friction)))
    assert exact == pytest.approx(formula, rel=1e-12)  # what the docstring says
    draws = last(gdp.StochasticLangevin(h, friction), num_warmup=round(8 / relative))
    check(draws, MODE, exact)
    if relative == 0.8:  # a bias that this test would not miss
        assert abs(exact * PRECISION - 1) > 2 * OF_VARIANCE


@pytest.mark.parametrize("friction", [1.0, 0.2])
def test_minibatches_are_unbiased_and_add_the_variance_of_theory(friction):
    h, size = 0.1 / PRECISION, 4
    noise = GAMMA**2 * len(DATA) ** 2 / size * DATA.var()
    exact = stationary(h, friction, noise)
    inflated = (1 + h * noise / (2 * friction)) / (1 - h * PRECISION / (2 * (2 - friction)))
    assert exact * PRECISION == pytest.approx(inflated, rel=1e-6)
    assert exact / stationary(h, friction) - 1 > 2 * OF_VARIANCE
    kernel = gdp.StochasticLangevin(h, friction)
    check(last(kernel, num_warmup=150, batch_size=size), MODE, exact)


def test_batches_of_an_iterator_have_the_same_law():
    """All chains see one batch, so that their mean is noisy: 4 chains over 4,000 steps."""
    h, size = 0.1 / PRECISION, 4
    rng = np.random.default_rng(5)
    batches = (DATA[rng.integers(0, len(DATA), size)] for _ in itertools.count())
    settings = {"num_samples": 1000, "thinning": 4, "num_warmup": 100, "num_chains": 4}
    kernel = gdp.StochasticLangevin(h)
    draws = run(kernel, batches, num_rows=len(DATA), **settings)
    noise = GAMMA**2 * len(DATA) ** 2 / size * DATA.var()
    exact = stationary(h, 1.0, noise)
    # Between draws four steps apart the correlation is r = (1 - h p)^4 (of squares r^2); the chains
    # share the batches' part of their variance, and count as one at the worst.
    r = (1 - h * PRECISION) ** 4
    of_mean = np.sqrt(exact * (1 + r) / (1 - r) / 1000)
    of_variance = np.sqrt(2 * (1 + r**2) / (1 - r**2) / 1000)
    assert abs(draws.kept.mean() - MODE) < 4 * of_mean
    assert abs(draws.kept.var() / exact - 1) < 4 * of_variance
    assert 4 * of_variance < exact * PRECISION - 1
    assert draws.settings["batch_size"] == size
    # The estimate of the loss: its mean is that of the loss at the draws.
    told = 0.5 * ((draws.kept - DATA[:, 0]) ** 2).sum(axis=2)
    error = (draws.loss - told).std() / np.sqrt(1000)
    assert abs((draws.loss - told).mean()) < 4 * error


def test_gamma_multiplies_the_loss_only(dtype):
    """At gamma 0 it is the prior's law, on a half-line whose Jacobian counts too: log theta."""
    posterior = gdp.GibbsPosterior(lambda theta, z: (theta - z) ** 2, dist.LogNormal(0.3, 0.5))
    data = np.ones(5)
    draws = last(
        gdp.StochasticLangevin(0.01, 0.5), data=data, gamma=0.0, posterior=posterior, num_warmup=300
    )
    assert draws.dtype == dtype
    check(np.log(draws.astype(float)), 0.3, stationary(0.01, 0.5, precision=1 / 0.5**2))


def test_the_learnt_scale_serves_coordinates_of_very_different_scales():
    """Precisions 1 and 10,000: every chain has its own steps, fixed, and the law that they give."""
    precisions = np.asarray([1.0, 1e4])
    weights, num_rows = jnp.asarray(precisions), 5
    posterior = gdp.GibbsPosterior(
        lambda theta, z: 0.5 * jnp.sum(weights / num_rows * (theta - z) ** 2),
        dist.Normal(jnp.zeros(2), 1e3),
    )
    settings = {"posterior": posterior, "gamma": 1.0, "num_warmup": 1000, "thinning": 100}
    settings |= {"num_chains": NUM_CHAINS, "num_samples": 4, "init": jnp.asarray([10.0, 0.1])}
    h, a, damping, data = 4e-4, 0.1, 0.1, np.zeros((num_rows, 2), np.float32)
    kernel = gdp.StochasticLangevin(h, a, preconditioner="rmsprop", damping=damping)
    draws = run(kernel, data, **settings)
    assert int(draws.state.num_learnt) == 1000
    root = np.sqrt(np.asarray(draws.state.chains.square, float) / (1 - 0.99**1000))
    for k, p in enumerate(precisions):
        exact = stationary(h / (damping + root[:, k]), a, precision=p).mean()
        check(draws.kept[:, -1, k], 0.0, exact)
        assert 0.98 < exact * p < 1.1
        # Squares of gradients a row: p^2 times the variance, roughly, as a scale that still follows
        # the chain changes its law.
        assert np.mean(root[:, k] ** 2) == pytest.approx(p**2 * exact / num_rows**2, rel=0.5)
    plain = run(gdp.StochasticLangevin(0.2 / 1e4, a), data, **settings)
    assert plain.kept[:, -1, 0].mean() > 5.0  # it has hardly moved


def test_a_schedule_sets_every_step():
    rule = optax.polynomial_schedule(0.5 / PRECISION, 0.05 / PRECISION, 1.0, 10)
    draws = last(gdp.StochasticLangevin(rule), num_warmup=8, init=jnp.asarray([MODE]))
    variance = 0.0
    for count in range(12):
        h = float(rule(count))
        variance = (1 - h * PRECISION) ** 2 * variance + 2 * h
    check(draws, MODE, variance)


@pytest.mark.of_cpus("Optax rounds to zero elsewhere")
def test_a_schedule_that_ends_at_zero_leaves_chains_where_they_are():
    """Optax's ends a little below, rounded as it is: a step of -5e-12, whose root is no number."""
    rule = optax.linear_schedule(1e-4, 0.0, 60)
    assert jax.jit(rule)(jnp.int32(60)) < 0
    draws = run(gdp.StochasticLangevin(rule), num_warmup=58, num_samples=9, thinning=1)
    moves = np.diff(draws.kept[..., 0], axis=1)
    assert np.isfinite(moves).all()
    assert (moves[:, 0] != 0).all()
    assert (moves[:, 1:] == 0).all()
    still = run(gdp.StochasticLangevin(rule), num_warmup=60, num_samples=9, thinning=1)
    assert "r-hat" in names_of(still.warnings)  # infinite


def test_cycles_descend_then_sample_and_keep_draws_of_the_second_part():
    cycle = gdp.Cyclical(0.2 / PRECISION, length=40, explore=0.5)
    assert float(cycle(40)) == pytest.approx(cycle.step_size)
    assert float(cycle(20)) == pytest.approx(0.5 * cycle.step_size)
    kernel = gdp.StochasticLangevin(cycle)
    draws = run(kernel, num_chains=NUM_CHAINS, num_warmup=0, num_samples=6, thinning=5, key=2)
    # Steps 25, 30, 35, 40 of the first cycle; 65 and 70 of the second.
    assert int(draws.state.num_steps) == 70
    variance, last_count = 4.0, 0  # the chains begin at draws of the prior
    for place, end in enumerate([25, 30, 35, 40, 65, 70]):
        for count in range(last_count, end):
            h = float(cycle(count))
            heat = 2 * h if count % 40 >= 20 else 0.0
            variance = (1 - h * PRECISION) ** 2 * variance + heat
        last_count = end
        assert abs(draws.kept[:, place].var() / variance - 1) < OF_VARIANCE


KERNELS = {
    "plain": gdp.StochasticLangevin(1e-3),
    "momentum and scale": gdp.StochasticLangevin(1e-2, 0.1, preconditioner="rmsprop"),
    "cycles": gdp.StochasticLangevin(gdp.Cyclical(1e-3, 30, explore=0.4), 0.3),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("by", ["draws", "file"])
def test_chains_that_go_on_are_those_of_an_uninterrupted_run(name, by, tmp_path):
    kernel = KERNELS[name]
    settings = {"batch_size": 4, "thinning": 3, "key": 5}
    whole = run(kernel, num_samples=12, num_warmup=50, **settings)
    first = run(kernel, num_samples=5, num_warmup=50, **settings)
    given = first
    if by == "file":
        given = tmp_path / "draws"
        first.save(given)
        again = gdp.load_minibatch_draws(given)
        np.testing.assert_array_equal(again.kept, first.kept)
        assert (again.settings, again.gamma) == (first.settings, first.gamma)
        assert again.summary() == first.summary()
    rest = run(kernel, num_samples=7, continue_from=given, **settings)
    np.testing.assert_array_equal(np.concatenate([first.kept, rest.kept], axis=1), whole.kept)
    np.testing.assert_array_equal(np.concatenate([first.loss, rest.loss], axis=1), whole.loss)
    jax.tree.map(np.testing.assert_array_equal, rest.state, whole.state)


TREE = gdp.GibbsPosterior(
    lambda theta, z: (theta["a"] @ z - theta["b"]) ** 2,
    {"a": dist.Normal(jnp.zeros(2), 1.0), "b": dist.Normal(0.0, 1.0)},
)


def test_each_chain_starts_where_it_is_told():
    tiny = gdp.StochasticLangevin(1e-12)
    settings = {"num_warmup": 0, "thinning": 1, "num_samples": 4, "num_chains": 3}
    each = {"a": jnp.arange(6.0).reshape(3, 2), "b": jnp.arange(3.0)}
    draws = run(tiny, np.ones((2, 2)), posterior=TREE, init=each, **settings)
    for name, leaf in each.items():
        np.testing.assert_allclose(draws.kept[name][:, 0], leaf, atol=1e-4)
    one = {"a": jnp.arange(2.0), "b": jnp.asarray(4.0)}
    draws = run(tiny, np.ones((2, 2)), posterior=TREE, init=one, **settings)
    np.testing.assert_allclose(draws.kept["a"][:, 0], [[0.0, 1.0]] * 3, atol=1e-4)
    far = run(tiny, np.ones((2, 2)), posterior=TREE, **settings).kept["b"][:, 0]
    assert len(set(far.tolist())) == 3  # draws of the prior


def summed(theta):
    return {"sum": theta["a"].sum() + theta["b"], "sign": jnp.sign(theta["a"]).astype(int)}


def test_what_is_kept_is_a_function_of_the_draws(tmp_path):
    settings = {"num_samples": 50, "num_warmup": 10, "thinning": 1, "key": 4}
    kernel, data = gdp.StochasticLangevin(0.01), np.ones((2, 2))
    whole = run(kernel, data, posterior=TREE, **settings).kept
    draws = run(kernel, data, posterior=TREE, keep=summed, **settings)
    np.testing.assert_allclose(
        draws.kept["sum"], whole["a"].sum(axis=-1) + whole["b"], rtol=1e-5, atol=1e-5
    )
    assert draws.kept["sign"].shape == (2, 50, 2)
    draws.save(tmp_path / "draws")
    again = gdp.load_minibatch_draws(tmp_path / "draws")
    assert again.kept["sign"].dtype == draws.kept["sign"].dtype
    np.testing.assert_array_equal(again.kept["sign"], draws.kept["sign"])
    frame = draws.to_dataframe()
    assert list(frame.index) == ["sign[0]", "sign[1]", "sum"]
    assert frame.loc["sum", "mean"] == pytest.approx(draws.kept["sum"].mean(), rel=1e-5)
    assert "2 chains x 50 draws, after 60 steps" in str(draws)


@pytest.mark.parametrize(("name", "value"), [("MOST_DRAWS", 1), ("MOST_BYTES", 9)])
def test_draws_are_the_same_in_however_many_calls(name, value, monkeypatch):
    kernel = gdp.StochasticLangevin(gdp.Cyclical(0.01, 10, explore=0.5))
    settings = {"num_samples": 21, "thinning": 2, "batch_size": 5, "num_warmup": 3}
    together = run(kernel, **settings)
    monkeypatch.setattr(minibatch, name, value)
    one_by_one = run(kernel, **settings)
    np.testing.assert_array_equal(together.kept, one_by_one.kept)
    np.testing.assert_array_equal(together.loss, one_by_one.loss)


def test_large_networks_take_the_same_steps(monkeypatch):
    settings = {"num_samples": 4, "thinning": 2, "batch_size": 5, "num_warmup": 3}
    few = run(gdp.StochasticLangevin(0.01, 0.5), **settings)
    monkeypatch.setattr(minibatch_steps, "MANY_WEIGHTS", 1)
    many = run(gdp.StochasticLangevin(0.01, 0.5), **settings)
    np.testing.assert_allclose(few.kept, many.kept, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("at_once", [1, 2, 3, 5])
def test_steps_of_a_loop_of_known_length_are_the_same(at_once, monkeypatch):
    """Three from draw to draw, and seven before: those beyond are thrown away, learnt or not."""
    kernel = gdp.StochasticLangevin(0.01, 0.5, "rmsprop")
    settings = {"num_samples": 5, "thinning": 3, "batch_size": 5, "num_warmup": 7}
    plain = run(kernel, **settings)
    monkeypatch.setattr(minibatch, "steps_at_once", lambda _: at_once)
    found = run(kernel, **settings)
    for name in ("kept", "loss"):
        np.testing.assert_allclose(getattr(found, name), getattr(plain, name), rtol=1e-4, atol=1e-5)
    for name in ("num_steps", "num_learnt"):
        assert int(getattr(found.state, name)) == int(getattr(plain.state, name))
    np.testing.assert_allclose(found.state.chains.square, plain.state.chains.square, rtol=1e-4)


@pytest.mark.of_cpus("it takes both ways")
def test_accelerators_are_told_how_many_steps_there_are(monkeypatch):
    """They launch the kernels of a loop of known length without waiting for the host."""
    assert minibatch_steps.steps_at_once(20) is None
    monkeypatch.setattr(minibatch_steps, "is_accelerator", lambda _: True)
    for thinning, at_once in ((1, 1), (20, 20), (256, 256), (257, 129), (1000, 250)):
        assert minibatch_steps.steps_at_once(thinning) == at_once
    program, programs = minibatch_steps.draws_program, []

    def look(*given):
        plain = jax.jit(minibatch_steps._draws_of, static_argnums=range(5))
        programs.append(plain.lower(*given).compile().as_text())
        return program(1, is_long=False)(*given)

    monkeypatch.setattr(minibatch_steps, "draws_program", lambda *_: look)
    run(gdp.StochasticLangevin(0.01), num_samples=4, thinning=20, batch_size=5)
    assert '"known_trip_count":{"n":"20"}' in programs[0]


@pytest.mark.of_cpus("it takes both ways")
def test_long_runs_on_gpus_are_compiled_with_patience(monkeypatch):
    asked = []
    options = {"num_warmup": 3, "batch_size": 5, "num_samples": 6}
    program = minibatch_steps.program

    def look(function, static, backend, *how):
        asked.append((backend, *how))
        return program(function, static, "cpu", *how)

    monkeypatch.setattr(minibatch_steps, "program", look)
    monkeypatch.setattr(minibatch, "MANY_STEPS", 15)
    run(gdp.StochasticLangevin(0.01), thinning=2, **options)
    assert set(asked) == {("cpu", False, False)}
    monkeypatch.setattr(minibatch_steps, "platform", lambda: "gpu")
    for thinning, is_long in ((1, False), (2, True)):
        asked.clear()
        run(gdp.StochasticLangevin(0.01), thinning=thinning, **options)
        assert set(asked) == {("gpu", False, is_long)}


@pytest.mark.parametrize("friction", [1.0, 0.3])
def test_half_the_step_tells_the_bias_of_the_step_with_honest_errors(friction):
    """200 independent coordinates: 95% intervals cover in 95% of 200, +- 4 standard errors, 6.2%.

    Every standard deviation is 1 / sqrt(precision) times the same factor, every mean unbiased.
    """
    posterior = gdp.GibbsPosterior(
        gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(200), 2.0)
    )
    data = np.random.default_rng(5).normal(size=(20, 200)).astype(np.float32)
    h = 0.6 / PRECISION
    draws = run(
        gdp.StochasticLangevin(h, friction),
        data,
        posterior=posterior,
        num_samples=600,
        num_halved=300,
        thinning=5,
        num_chains=4,
        key=8,
    )
    whole, half = (stationary(step, friction) ** 0.5 for step in (h, h / 2))
    bias, wanted = draws.step_bias, 2 * (whole - half)
    for found, se, truth in (("mean", "mean_se", 0.0), ("sd", "sd_se", wanted)):
        z = (bias[found] - truth) / bias[se]
        assert abs(np.mean(np.abs(z) < 1.96) - 0.95) < 0.062
        assert abs(z.mean()) < 4 / 200**0.5
    # What it estimates: the bias of the step, to a fifth of it at a step as long as this one.
    assert wanted == pytest.approx(whole - PRECISION**-0.5, rel=0.2)
    titles = ["bias", "bias_se", "sd_bias", "sd_bias_se", "bias_ess"]
    assert list(draws.to_dataframe().columns[-5:]) == titles
    assert "step-bias" in names_of(draws.warnings) or friction < 1.0  # 16% there


@pytest.mark.trust
def test_few_draws_at_half_the_step_are_no_alarm():
    """Of 300 numbers that are right to 1%, four draws a chain made some that were off for sure."""
    posterior = gdp.GibbsPosterior(
        gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(300), 2.0)
    )
    data = np.random.default_rng(5).normal(size=(20, 300)).astype(np.float32)
    draws = run(
        gdp.StochasticLangevin(0.02 / PRECISION, 1.0), data, posterior=posterior,
        num_samples=100, num_halved=4, thinning=100, key=8,
    )  # fmt: skip
    assert draws.step_bias["ess"].max() <= 8
    assert "step-bias" not in names_of(draws.warnings)


def test_half_the_step_leaves_the_chains_as_they_were(tmp_path):
    kernel = gdp.StochasticLangevin(0.01, 0.5, preconditioner="rmsprop")
    settings = {"num_samples": 4, "thinning": 2, "batch_size": 5, "num_warmup": 50}
    plain = run(kernel, **settings)
    draws = run(kernel, num_halved=5, **settings)
    np.testing.assert_array_equal(draws.kept, plain.kept)
    jax.tree.map(np.testing.assert_array_equal, draws.state, plain.state)
    assert draws.halved.shape == (2, 5, 1)
    draws.save(tmp_path / "draws")
    loaded = gdp.load_minibatch_draws(tmp_path / "draws")
    np.testing.assert_array_equal(loaded.halved, draws.halved)
    for name, values in draws.step_bias.items():
        np.testing.assert_array_equal(loaded.step_bias[name], values)
    with pytest.raises(ValueError, match="num_halved=100"):
        _ = plain.step_bias
    assert "num_halved" in str(plain)
    assert "step-bias" not in names_of(draws.warnings)


def test_nothing_is_compiled_for_other_numbers_or_rows():
    traces = []

    def counted(theta, z):
        traces.append(1)
        return 0.5 * jnp.sum((theta - z) ** 2)

    posterior = gdp.GibbsPosterior(counted, dist.Normal(jnp.zeros(1), 2.0))
    settings = {"posterior": posterior, "batch_size": 4, "thinning": 2, "num_warmup": 10}
    run(gdp.StochasticLangevin(1e-3, 0.1), num_samples=4, **settings)
    seen = len(traces)
    run(
        gdp.StochasticLangevin(2e-3, 0.2),
        2.0 * DATA,
        gamma=2.0,
        num_samples=7,
        **(settings | {"num_warmup": 30, "thinning": 3, "key": 3}),
    )
    # The rows are looked at again; the program of the steps is not traced again.
    assert len(traces) - seen <= 3


def test_warnings_are_of_what_is_kept():
    settings = {"num_warmup": 0, "num_samples": 40, "thinning": 1, "num_chains": 2}
    far = jnp.asarray([[-50.0], [50.0]])
    stuck = run(gdp.StochasticLangevin(1e-5), init=far, **settings)
    told = " ".join(stuck.warnings)
    assert "[r-hat]" in told
    assert "[few-effective-draws]" in told
    assert "diverged" not in told
    with pytest.warns(gdp.DrawsWarning, match=r"2 of 2 chains diverged.*\[diverged-chains\]"):
        gdp.sample_minibatches(POSTERIOR, DATA, kernel=gdp.StochasticLangevin(1e6), **settings)


def batches(*sizes):
    return iter([DATA[:size] for size in sizes])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, r"batch_size: must be an integer of at least 1"),
        ({"num_samples": 3}, r"num_samples: must be an integer of at least 4"),
        ({"num_rows": 20}, r"num_rows: data is taken for arrays, which have their rows"),
        ({"data": batches(4, 4)}, r"num_rows: batches do not say"),
        ({"data": batches(4), "num_rows": 3}, r"num_rows: a batch has 4 rows, more than 3"),
        ({"data": batches(4, 4, 4), "num_rows": 20}, r"data: the batches ran out after 3 steps"),
        ({"data": batches(4, 2), "num_rows": 20}, r"data: batch 2 has arrays of shapes"),
        ({"data": batches(), "num_rows": 20}, r"data: the batches ran out after 0 steps"),
        ({"init": jnp.zeros(2)}, r"init: got arrays of shapes \[\(2,\)\]; give the prior's"),
        ({"init": {"a": 0.0}}, r"init: .*structure|init: got"),
        ({"init": jnp.asarray([jnp.nan])}, r"init: it is not inside the prior's support"),
        (
            {
                "posterior": gdp.GibbsPosterior(
                    gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.l2_ball(1))
                ),
                "init": 2.0 * jnp.ones(1),
            },
            r"init: it is not inside the prior's support",
        ),
        ({"keep": lambda theta: theta["a"]}, r"keep: it cannot be evaluated"),
        ({"keep": lambda _: None}, r"keep: it returns no numbers"),
        ({"keep": lambda theta: theta[:0]}, r"keep: it returns no numbers"),
        ({"keep": lambda _: jax.random.key(0)}, r"keep: 'kept' is key<fry>, which files do not"),
        ({"keep": lambda _: jnp.zeros(2**29)}, r"keep: a draw of 2 chains is more than NumPy's"),
        (
            {"kernel": gdp.StochasticLangevin(lambda count: 1e-3 if count < 9 else 1e-4)},
            r"StochasticLangevin\(step_size\): the schedule cannot be traced \(.*jnp.where",
        ),
        (
            {"kernel": gdp.StochasticLangevin(lambda count: jnp.full(2, 1e-3) + 0.0 * count)},
            r"StochasticLangevin\(step_size\): the schedule returns float32 of shape \(2,\)",
        ),
        ({"continue_from": "nowhere"}, r"continue_from: 'nowhere' cannot be read"),
        ({"kernel": gdp.StochasticLangevin(1e6), "num_warmup": 40}, r"kernel: all chains diverged"),
        (
            {
                "kernel": gdp.StochasticLangevin(1e-3, preconditioner="rmsprop"),
                "num_warmup": 0,
            },
            r"num_warmup: the preconditioner is learnt in warmup",
        ),
        (
            {"kernel": gdp.StochasticLangevin(gdp.Cyclical(1e-3, 10)), "thinning": 3},
            r"thinning: of every 3 steps none may lie in the 2 of a cycle",
        ),
        (
            {"posterior": gdp.GibbsPosterior(total_loss=lambda t, z: 0.0, prior=dist.Normal())},
            r"posterior: minibatches need losses of single examples",
        ),
    ],
)
def test_what_is_refused(settings, message):
    given = {"kernel": gdp.StochasticLangevin(1e-3), "num_samples": 4, "num_warmup": 2}
    with pytest.raises(ValueError, match=message):
        run(**(given | settings))


def test_other_kernels_and_states_are_refused():
    with pytest.raises(ValueError, match=r"kernel: got SGLD; give gibbs_dp.StochasticLangevin"):
        minibatch._check_kernel(gdp.SGLD())
    with pytest.raises(ValueError, match=r"continue_from: got int; give draws"):
        minibatch._state_of(3)


def test_chains_of_something_else_do_not_go_on(tmp_path):
    plain, moving = gdp.StochasticLangevin(1e-3), gdp.StochasticLangevin(1e-3, 0.5)
    settings = {"num_samples": 4, "num_warmup": 2, "thinning": 1}
    old = run(plain, **settings)
    refused = {
        r"num_chains: 2 chains are continued": {"num_chains": 3},
        r"init: chains that are continued": {"init": jnp.zeros(1)},
        r"continue_from: its kernel had momentum": {"kernel": moving},
        r"continue_from: its chains have 1 coordinates": {"posterior": TREE},
    }
    for message, change in refused.items():
        with pytest.raises(ValueError, match=message):
            run(**({"kernel": plain, "continue_from": old} | settings | change))
    with precision(True), pytest.raises(ValueError, match="its chains are float32"):
        run(plain, continue_from=old, **settings)
    path = tmp_path / "draws"
    scalar = gdp.GibbsPosterior(lambda theta, z: (theta - z[0]) ** 2, dist.Normal(0.0, 1.0))
    with precision(True):
        run(plain, posterior=scalar, **settings).save(path)
    with pytest.raises(ValueError, match="its chains are float64 and JAX computes in float32"):
        run(plain, posterior=scalar, continue_from=path, **settings)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gdp.StochasticLangevin(0.0), r"StochasticLangevin\(step_size\) must be positive"),
        (lambda: gdp.StochasticLangevin(np.inf), r"StochasticLangevin\(step_size\) must be finite"),
        (lambda: gdp.StochasticLangevin(0.1, 0.0), r"StochasticLangevin\(friction\) must be in"),
        (lambda: gdp.StochasticLangevin(0.1, decay=1.0), r"StochasticLangevin\(decay\)"),
        (lambda: gdp.StochasticLangevin(0.1, damping=0.0), r"StochasticLangevin\(damping\)"),
        (lambda: gdp.Cyclical(0.0, 10), r"Cyclical\(step_size\)"),
        (lambda: gdp.Cyclical(0.1, 0), r"Cyclical\(length\)"),
        (lambda: gdp.Cyclical(0.1, 10, 1.0), r"Cyclical\(explore\)"),
    ],
)
def test_settings_that_make_no_sense(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_nothing_is_printed_where_there_is_no_terminal(capsys):
    run(gdp.StochasticLangevin(1e-3), num_samples=4, num_warmup=2)
    assert capsys.readouterr() == ("", "")


def test_an_iterable_begins_anew_at_its_end():
    """Five batches an epoch, as a loader has them: 24 steps are in the fifth epoch."""

    class Loader:
        epochs = 0

        def __iter__(self):
            self.epochs += 1
            return iter(np.split(DATA, 5))

    loader = Loader()
    settings = {"num_samples": 4, "thinning": 5, "num_warmup": 4, "num_rows": len(DATA)}
    draws = run(gdp.StochasticLangevin(1e-3), loader, **settings)
    assert (int(draws.state.num_steps), loader.epochs) == (24, 5)
    with pytest.raises(ValueError, match=r"data: the batches ran out after 5 steps"):
        run(gdp.StochasticLangevin(1e-3), iter(loader), **settings)


def test_memory_is_of_what_the_kernel_needs():
    """No momentum without friction, no squares without a scale."""
    kernel = gdp.StochasticLangevin(1e-3)
    assert kernel.rule == Rule(None, False, False)
    state = run(kernel, num_samples=4, num_warmup=0).state
    assert (state.chains.momentum, state.chains.square) == (None, None)
