"""The fused HMC of the benchmarks: the plain path's draws; lowers for GPUs; refuses all else."""

import importlib.util
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import export
from scipy import stats

import gibbs_dp as gdp
from gibbs_dp.model.prior import Prior
from gibbs_dp.sampling.as_sampler import as_sampler
from gibbs_dp.sampling.chains import evolve
from gibbs_dp.sampling.kernels.base import Schedule, Tuning, make_schedule
from gibbs_dp.sampling.laplace import Location
from gibbs_dp.sampling.target import Target, Whitening

FILE = Path(__file__).parent.parent / "benchmarks/fused/hmc.py"


def load():
    spec = importlib.util.spec_from_file_location("fused_hmc", FILE)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


fused_hmc = load()
FusedHMC = fused_hmc.FusedHMC
GAMMAS = np.array([0.01, 1.0, 100.0])
CHAINS, DRAWS = 4, 3
NORMAL = dist.Normal(0.0, 2.0)


def posterior(loss, prior, dim):
    law = gdp.Flat(gdp.supports.real(dim)) if prior is None else prior.expand([dim]).to_event(1)
    return gdp.GibbsPosterior(loss, law)


def examples(dim, n, labels):
    rng = np.random.default_rng(dim)
    x = rng.normal(size=(n, dim))
    y = x @ rng.normal(size=dim) / np.sqrt(dim) + rng.normal(size=n)
    return jnp.asarray(x), jnp.asarray((y > 0).astype(int) if labels else y)


def walk(kernel, model, schedule, is_joint, num_samples=DRAWS):
    """A function of (key, data, gamma, center, scale): evolve, fused or not."""

    def run(key, data, gamma, center, scale):
        target, whitening = Target(model, data, gamma), Whitening(center, scale)
        reference = target.terms(center)
        noise = jax.random.normal(key, (CHAINS, center.shape[0]), center.dtype)
        zero, true = jnp.zeros((1,), center.dtype), jnp.ones((), bool)
        found = Location(center[None], whitening, zero, reference, zero, true, ~true)
        return evolve(
            key,
            target.relative_to(reference),
            jax.vmap(whitening.color)(noise),
            whitening,
            kernel,
            schedule,
            num_samples,
            is_joint,
            kernel.last_round(target, found),
        )

    return run


def scales(dim, n, gammas):
    """Lower triangles near a posterior's scale, so that some proposals fail."""
    rng = np.random.default_rng(5)
    shape = np.eye(dim) + 0.3 * np.tril(rng.normal(size=(dim, dim)), -1) / np.sqrt(dim)
    return jnp.asarray(shape / np.sqrt(0.25 + 0.4 * gammas[:, None, None] * n))


def static(schedule):
    """The same with counts as plain numbers, as on GPUs."""
    (size, num_inner), num_burn_in, num_rounds = schedule.on_host
    return Schedule(Tuning(jnp.asarray(size), num_inner), num_burn_in, num_rounds)


def both(settings, model, data, schedule, is_joint=True, is_static=False):
    """Walks by the plain path and by the kernel, over the gammas."""
    n, dim = data[0].shape
    inputs = data, jnp.asarray(GAMMAS), jnp.full((dim,), 0.1), scales(dim, n, GAMMAS)
    for kernel in (gdp.HMC(**settings), FusedHMC(**settings, interpret=True)):
        told = static(schedule) if isinstance(kernel, FusedHMC) and is_static else schedule
        run = walk(kernel, model, told, is_joint)
        over = jax.jit(jax.vmap(run, in_axes=(None, None, 0, None, 0)))
        yield jax.tree.map(np.asarray, over(jax.random.key(3), *inputs))


def same(plain, fused, tolerance):
    spread = np.abs(plain.v).max()
    assert spread > 0.2
    np.testing.assert_allclose(fused.v, plain.v, atol=tolerance * spread)
    energy = 1.0 + np.abs(plain.potential)
    assert (np.abs(fused.potential - plain.potential) < 10 * tolerance * energy).all()
    np.testing.assert_allclose(fused.accept_prob, plain.accept_prob, atol=30 * tolerance)
    np.testing.assert_array_equal(fused.is_stuck, plain.is_stuck)
    jax.tree.map(np.testing.assert_array_equal, fused.whitening, plain.whitening)


def traced():
    return make_schedule((0.5, 3), 2, 0)


TIGHT = {jnp.dtype("float32"): 2e-5, jnp.dtype("float64"): 1e-11}


def uneven():
    return dist.Normal(jnp.asarray([0.0, 0.5, -0.2]), jnp.asarray([1.0, 2.0, 0.5]))


@pytest.mark.trust(but="float32")
def test_draws_are_those_of_the_plain_path(precision):
    data = examples(3, 45, labels=True)
    same(*both({}, posterior(gdp.losses.logistic, uneven(), 3), data, traced()), TIGHT[precision])


@pytest.mark.trust
@pytest.mark.parametrize(
    ("loss", "prior", "dim", "n", "is_joint"),
    [(gdp.losses.squared, NORMAL, 1, 7, True), (gdp.losses.huber, None, 3, 64, False)],
)
def test_other_losses_and_priors(loss, prior, dim, n, is_joint):
    data = examples(dim, n, labels=False)
    same(*both({}, posterior(loss, prior, dim), data, traced(), is_joint), 2e-5)


@pytest.mark.trust
@pytest.mark.parametrize(("dim", "n"), [(10, 50), (17, 23)])
def test_many_coordinates(dim, n):
    model, data = posterior(gdp.losses.logistic, NORMAL, dim), examples(dim, n, labels=True)
    same(*both({}, model, data, traced(), is_static=True), 5e-5)


@pytest.mark.trust
def test_leapfrog_and_a_heavy_tail():
    model = posterior(gdp.losses.absolute, dist.Laplace(0.0, 1.0), 3)
    data = examples(3, 31, labels=False)
    same(*both({"integrator": "leapfrog", "jitter": 0.0}, model, data, traced()), 2e-5)


@pytest.mark.trust
def test_adaptation_comes_first():
    # Two rounds of 20 steps, then the kernel: by then rounding has grown.
    model, data = posterior(gdp.losses.logistic, NORMAL, 2), examples(2, 20, labels=True)
    plain, fused = both({}, model, data, make_schedule((0.5, 2), 2, 2))
    np.testing.assert_allclose(fused.whitening.scale, plain.whitening.scale, rtol=1e-3)
    np.testing.assert_allclose(fused.v, plain.v, atol=5e-3)


@pytest.mark.trust
def test_an_exact_gaussian_posterior():
    # From a scale 0.7 times too narrow; 32 datasets with 4 chains of 12 draws after 12 steps.
    # 4 numbers, t distribution of 31 degrees: false alarm 4 x 2e-5.
    n, dim, datasets = 6, 2, 32
    rng = np.random.default_rng(11)
    x, y = rng.normal(size=(datasets, n, dim)), rng.normal(size=(datasets, n))
    precision = 2.0 * np.einsum("zni,znj->zij", x, x) + np.eye(dim) / 4
    mean = np.linalg.solve(precision, 2.0 * np.einsum("zni,zn->zi", x, y)[..., None])[..., 0]
    root = np.linalg.cholesky(np.linalg.inv(precision))
    model = posterior(gdp.losses.squared, NORMAL, dim)
    schedule = make_schedule((0.5, 3), 12, 0)
    run = walk(FusedHMC(interpret=True), model, schedule, True, num_samples=12)
    found = jax.jit(jax.vmap(run, in_axes=(0, 0, None, 0, 0)))(
        jax.random.split(jax.random.key(12), datasets),
        (jnp.asarray(x), jnp.asarray(y)),
        jnp.asarray(1.0),
        jnp.asarray(mean, jnp.zeros(()).dtype),
        jnp.asarray(0.7 * root, jnp.zeros(()).dtype),
    )
    v = 0.7 * np.asarray(found.v, np.float64)  # standard normal
    for statistic, truth in ((v, 0.0), (v**2, 1.0)):
        means = statistic.mean(axis=(1, 2))
        error = means.std(axis=0, ddof=1) / np.sqrt(datasets)
        assert (np.abs(means.mean(axis=0) - truth) < stats.t.isf(1e-5, datasets - 1) * error).all()
        assert error.max() < 0.1


@pytest.mark.parametrize(
    ("loss", "is_static"),
    [(gdp.losses.logistic, True), (gdp.losses.huber, False), (gdp.losses.poisson, True)],
)
def test_one_kernel_without_loops_outside_on_gpus(loss, is_static):
    model = posterior(loss, uneven(), 3)
    data = examples(3, 200, labels=True)
    schedule = traced()

    def draws(keys, given, *rest):
        run = walk(FusedHMC(), model, static(schedule) if is_static else given, True)
        return jax.vmap(run, in_axes=(0, None, None, None, None))(keys, *rest).v

    target = "__gpu$xla.gpu.triton"
    lowered = export.export(
        jax.jit(draws),
        platforms=("cuda",),
        disabled_checks=[export.DisabledSafetyCheck.custom_call(target)],
    )(
        jax.random.split(jax.random.key(0), 5),
        schedule,
        *(data, jnp.asarray(1.0), jnp.zeros(3), jnp.eye(3)),
    )
    text = lowered.mlir_module()
    assert text.count(f"@{target}") == 1
    assert is_static == ("stablehlo.while" not in text)  # adaptation rounds, where they are traced


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (gdp.GibbsPosterior(lambda t, z: (t - z) ** 2, dist.Normal(0.0, 1.0)), "LinearLoss"),
        (gdp.GibbsPosterior(total_loss=lambda t, z: t**2, prior=NORMAL), "got a total_loss"),
        (posterior(gdp.losses.logistic, dist.HalfNormal(1.0), 3), "on the whole line"),
        (posterior(gdp.losses.logistic, dist.StudentT(3.0), 3), "Normal, Laplace"),
        (posterior(gdp.losses.logistic, NORMAL, 33), "33 coordinates, and at most 32"),
        (gdp.GibbsPosterior(gdp.losses.logistic, {"a": NORMAL.expand([3])}), "one vector"),
    ],
)
def test_what_it_cannot_do_is_refused(model, why):
    with pytest.raises(ValueError, match=why) as error:
        as_sampler(FusedHMC(interpret=True)).check(model)
    assert str(error.value).startswith("FusedHMC: ")


def test_without_a_gpu_it_says_so():
    model, data = posterior(gdp.losses.logistic, NORMAL, 3), examples(3, 20, labels=True)
    with pytest.raises(ValueError, match=r"JAX runs on cpu; use gibbs_dp\.HMC, or interpret"):
        gdp.sample(model, data, sampler=FusedHMC())


def test_double_precision_on_a_gpu_is_refused(float64):
    with pytest.raises(ValueError, match="computes in single precision"):
        as_sampler(FusedHMC()).check(posterior(gdp.losses.logistic, NORMAL, 3))


@pytest.mark.trust
def test_a_dataset_that_does_not_fit_is_refused():
    model, data = posterior(gdp.losses.logistic, NORMAL, 10), examples(10, 4000, labels=True)
    with pytest.raises(ValueError, match="52130 numbers and at most 48000"):
        list(both({}, model, data, traced()))


def test_rows():
    assert fused_hmc.row_prior(Prior(dist.Normal(jnp.zeros(3), 2.0))).shared == {
        "loc": 0.0,
        "rate": 0.5,
    }
    assert [fused_hmc.rows_at_a_time(n) for n in (20, 210)] == [32, 64]


@pytest.mark.trust
def test_samples_of_a_batch_are_the_same():
    # From the search of the mode to the draws; rounding hardly grows in so few steps.
    model, (x, y) = posterior(gdp.losses.logistic, NORMAL, 1), examples(1, 40, labels=True)
    batch = x.reshape(2, 20, 1), y.reshape(2, 20)
    plain, fused = (
        gdp.sample(
            model,
            batch,
            key=8,
            sampler=how,
            num_chains=8,
            num_warmup=2,
            num_samples=10,
            is_batch=True,
        )
        for how in (gdp.HMC(), FusedHMC(interpret=True))
    )
    assert not fused.settings["is_adapted"]  # in hundreds of steps rounding would grow
    np.testing.assert_allclose(fused.theta, plain.theta, atol=1e-4)
    np.testing.assert_allclose(fused.accept_rate, plain.accept_rate, atol=1e-4)
