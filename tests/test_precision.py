"""Products are exact on every device unless the user says otherwise, and workers are told."""

import subprocess
import sys
import threading

import flat
import jax
import jax.numpy as jnp
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp._jaxlib.compile import program
from gibbs_dp._jaxlib.devices import devices, platform
from gibbs_dp._jaxlib.jaxprs import equations
from gibbs_dp._jaxlib.precision import current_mode, matmul, traced_exactly
from gibbs_dp.engine.executor import background, run_jobs
from gibbs_dp.engine.program import _block
from gibbs_dp.engine.runner import Runner
from gibbs_dp.estimators import table_sums
from gibbs_dp.estimators.table_sums import DensityTable, Swaps
from gibbs_dp.problems.base import build_problem
from gibbs_dp.quantities import dataset_losses as tables
from gibbs_dp.sampling.sample import STATIC, _sample_batch_of

HIGHEST = jax.lax.Precision.HIGHEST


def inexact(program):
    """Products of float32 numbers that a device may round, by where they are written."""
    return [
        str(e.source_info.traceback)
        for e in equations(program)
        if e.primitive.name == "dot_general"
        and all(v.aval.dtype == jnp.float32 for v in e.invars)
        and e.params["precision"] != (HIGHEST, HIGHEST)
    ]


def users_loss(theta, example):
    x, y = example
    return jax.nn.softplus(x @ theta) - y * (x @ theta)


def examples(key, n):
    x_key, y_key = jax.random.split(key)
    return jax.random.normal(x_key, (n, 3)), jax.random.bernoulli(y_key, 0.5, (n,)) * 1.0


@pytest.fixture
def traced(monkeypatch):
    """Programs of blocks that audits run, traced again as they are."""
    found = []

    class Traced(Exception):  # noqa: N818  (no error)
        pass

    def trace(self, sheet, job, device, at_once):
        s = self.settings
        static = (s.posterior, s.sampler, job.plan, s.traced, at_once)
        numbers = jnp.zeros((2, s.block_size), jnp.int32)
        names = ("posterior", "sampler", "plan", "quantities", "num_at_once")
        arguments = (s.population, job.roots, numbers, job.inputs)
        found.append(program(_block, names, "cpu").trace(*static, *arguments).jaxpr)
        raise Traced

    monkeypatch.setattr(Runner, "_run_job", trace)

    def of(posterior, population, n, **settings):
        with pytest.raises(Traced):
            flat.audit(posterior, population, n, [1.0], num_datasets=64, progress=False, **settings)
        return found[-1]

    return of


@pytest.mark.trust
@pytest.mark.parametrize("name", ["linear-regression", "logistic-regression", "neural-network"])
def test_every_product_of_a_block_is_exact(traced, name):
    problem = build_problem(name)
    jaxpr = traced(problem.posterior, problem.population, 20)
    assert any(e.primitive.name == "dot_general" for e in equations(jaxpr))
    assert not inexact(jaxpr)


@pytest.mark.trust
def test_those_of_a_users_loss_are_unless_the_user_chose(traced):
    posterior = gdp.GibbsPosterior(users_loss, dist.Normal(jnp.zeros(3), 1.0))
    assert not inexact(traced(posterior, examples, 20))
    with jax.default_matmul_precision("tensorfloat32"):
        found = traced(posterior, examples, 20)
    assert inexact(found)
    assert all("users_loss" in where for where in inexact(found)), "the library's own stay exact"


@pytest.mark.trust
@pytest.mark.parametrize("kernel", [gdp.MALA(), gdp.ULA(), gdp.SGLD(batch_size=5)])
def test_every_product_of_other_kernels_is_exact(kernel):
    from gibbs_dp.sampling.as_sampler import as_sampler
    from gibbs_dp.sampling.kernels.base import make_schedule

    posterior, sampler = build_problem("logistic-regression", dim=3).posterior, as_sampler(kernel)
    schedule = make_schedule(sampler.default_tuning(3), 2, 1)
    data = jax.tree.map(lambda a: a[None], examples(jax.random.key(0), 20))
    starts = jnp.zeros((1, 2, 3))
    keys = jax.random.split(jax.random.key(1), 1)
    jaxpr = program(_sample_batch_of, STATIC, "cpu").trace(
        posterior, sampler, 2, 4, data, jnp.ones(()), keys, starts, schedule, None
    )
    assert not inexact(jaxpr.jaxpr)


def test_every_product_of_the_comparison_of_datasets_is_exact():
    prior = dist.Normal(jnp.zeros(2), 1.0).to_event(1)
    posterior = gdp.GibbsPosterior(gdp.losses.squared, prior)
    firsts, columns = (jnp.ones((32, 2)), jnp.ones(32)), jnp.arange(32)
    points, gamma, own = jnp.ones((8, 2)), jnp.ones(()), jnp.arange(8)
    known = tables.Statistics(jnp.ones((32, 2)), jnp.ones((32, 2, 2)))
    ones = jnp.ones((8, 32))
    table = DensityTable(ones, own, own >= 0, jnp.ones(32), columns >= 0, gamma)
    draws = jnp.ones((32, 4, 4, 2))
    traced = [
        (
            tables._quadratic_losses,
            "posterior",
            posterior,
            known,
            points[0],
            points,
            columns,
        ),
        (tables._point_losses, "posterior", posterior, firsts, columns, points),
        (tables._swap_terms, "posterior", posterior, firsts, own, columns, draws, gamma, None),
        (table_sums._consistency_sums, "", table),
        (table_sums._contrast_sums, "", table, Swaps(ones, ones)),
    ]
    for function, static, *arguments in traced:
        names = (static,) if static else ()
        jaxpr = program(function, names, "cpu").trace(*arguments).jaxpr
        assert any(e.primitive.name == "dot_general" for e in equations(jaxpr)), function
        assert not inexact(jaxpr), function


def test_the_walk_finds_a_product_that_is_not_exact():
    x = jnp.ones((3, 3))
    assert len(inexact(jax.make_jaxpr(lambda: x @ x)())) == 1
    assert not inexact(jax.make_jaxpr(traced_exactly(lambda: x @ x))())
    assert not inexact(jax.make_jaxpr(lambda: matmul(x, x))())
    looped = jax.make_jaxpr(lambda: jax.lax.fori_loop(0, 2, lambda _, a: a @ x, x))()
    assert len(inexact(looped)) == 1


def test_workers_and_what_runs_beside_them_have_the_callers_settings():
    device = jax.devices()[0]
    with (
        jax.default_matmul_precision("bfloat16"),
        jax.default_device(device),
        gdp._jaxlib.precision.precision(True),
    ):
        mine = current_mode()
        seen = []

        def work(job, device):
            seen.append((current_mode(), threading.current_thread() is threading.main_thread()))
            return jnp.zeros(())

        list(run_jobs([0, 1], work))
        beside = background(current_mode).result()
    assert mine == (True, "bfloat16", device)
    assert seen == [(mine, False)] * 2
    assert beside == mine
    assert current_mode() == (False, None, None)


def test_work_goes_to_the_default_device_alone_where_there_is_one():
    assert devices() == jax.local_devices()
    with jax.default_device(jax.devices()[0]):
        assert devices() == [jax.devices()[0]]
    with jax.default_device("cpu"):
        assert devices() == jax.local_devices(backend="cpu")
        assert platform() == "cpu"


# What products of NVIDIA's tensor cores do to float32 numbers that do not ask for more: 10 bits.
EMULATED = """
import jax, jax.numpy as jnp
from jax._src.interpreters import mlir
from jax._src.lax import lax

def rounded(x):
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
    bits = (bits + jnp.uint32(0xFFF) + ((bits >> 13) & 1)) & jnp.uint32(0xFFFFE000)
    return jax.lax.bitcast_convert_type(bits, jnp.float32)

def lower(ctx, left, right, **params):
    exact = params["precision"] == (jax.lax.Precision.HIGHEST,) * 2
    if not exact and all(a.dtype == jnp.float32 for a in ctx.avals_in[:2]):
        left, right = (
            mlir.lower_fun(rounded, multiple_results=False)(
                ctx.replace(avals_in=[aval], avals_out=[aval]), value
            )[0]
            for aval, value in zip(ctx.avals_in, (left, right))
        )
    return lax._dot_general_lower(ctx, left, right, platform="cpu", **params)

mlir.register_lowering(lax.dot_general_p, lower, platform="cpu")
"""
AUDIT = """
import numpyro.distributions as dist, gibbs_dp as gdp

def loss(theta, example):  # far from zero, where rounding hurts most
    x, y = example
    return 0.5 * (y - x @ theta) ** 2

def examples(key, n):
    a, b = jax.random.split(key)
    x = jnp.stack([jnp.ones((n,)), jax.random.normal(a, (n,))], axis=1)
    return x, 100.0 + 3.0 * x[:, 1] + jax.random.normal(b, (n,))

posterior = gdp.GibbsPosterior(loss, dist.Normal(jnp.zeros(2), 1e3))
def kl():
    learn = [gdp.MutualInformation(0)]
    report = gdp.audit(posterior, examples, 50, [1.0], num_datasets=64, learn=learn, progress=False)
    return report.rows[0]["on_average_kl"]
"""


BOTH = """
print(kl())
with jax.default_matmul_precision("tensorfloat32"):
    print(kl())
"""


@pytest.mark.trust
def test_tensor_cores_change_nothing_unless_the_user_lets_them():
    """Emulated in a process of its own, as it replaces how every product is lowered."""
    here = {"jax": jax, "jnp": jnp}
    exec(AUDIT, here)
    command = [sys.executable, "-W", "ignore", "-c", EMULATED + AUDIT + BOTH]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    exact, rough = map(float, done.stdout.split())
    assert exact == pytest.approx(here["kl"](), rel=1e-3)
    assert rough != pytest.approx(exact, rel=0.01), "the emulation does what it should"
