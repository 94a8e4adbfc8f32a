"""What is sent to a worker arrives there: settings of any audit, jobs, blocks and exceptions."""

import pickle
import re

import flat
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from problems import QUICK
from test_own_kernel import RandomWalk

import gibbs_dp as gdp
from gibbs_dp._jaxlib.precision import Mode, current_mode
from gibbs_dp.auditing import audit as auditing
from gibbs_dp.engine.datasets import Stream, draw_dataset, roots
from gibbs_dp.engine.plan import Job, Plan, Sheet
from gibbs_dp.engine.quantity import kept_kind, values_kind
from gibbs_dp.engine.remote import client
from gibbs_dp.problems import build_problem
from gibbs_dp.problems.registry import PROBLEMS

ADDRESS = re.compile("0x[0-9a-f]+")
TABLE = pd.DataFrame({"x": np.linspace(0.0, 1.0, 40), "is_ill": ["yes", "no"] * 20})


def settings_of(monkeypatch, posterior, population, **asked):
    """Settings of an audit that is not run."""
    made = []

    class Stop(Exception):  # noqa: N818
        pass

    def stop(settings):
        made.append(settings)
        raise Stop

    monkeypatch.setattr(auditing, "_check", stop)
    with pytest.raises(Stop):
        flat.audit(posterior, population, **({"n": 10, "gammas": 1.0} | QUICK | asked))
    return made[0]


def closure():
    """A user's functions over arrays of theirs."""
    weights, center = jnp.linspace(0.5, 1.5, 3), np.arange(3.0)
    posterior = gdp.GibbsPosterior(
        lambda theta, z: jnp.sum(weights * (theta["at"] - z) ** 2) * theta["scale"],
        {"at": dist.Normal(0.0, 1.0).expand([3]), "scale": dist.HalfNormal(2.0)},
    )
    return posterior, lambda key, n: center + jax.random.normal(key, (n, 3))


def table():
    problem = build_problem("table", data=TABLE, target="is_ill", loss="logistic")
    return problem.posterior, problem.population


def built_in(name):
    problem = build_problem(name)
    return problem.posterior, problem.population


OWN = {"closure": closure, "table with a text label": table}
MADE = {name: lambda name=name: built_in(name) for name in PROBLEMS if name != "table"} | OWN


def program_of(s):
    """What drawing a dataset and its posterior's density compute, with the constants in it."""

    def compute(key):
        data, ghosts = draw_dataset(s.posterior, s.population, key, s.n, s.num_ghosts)
        theta = s.posterior.constrain(jnp.linspace(0.1, 0.4, s.posterior.dim))
        return data, ghosts, s.posterior.log_density(theta, data, 0.7)

    return jax.make_jaxpr(compute)(s.key)


@pytest.mark.parametrize("name", MADE)
def test_settings_arrive_whole(name, monkeypatch):
    posterior, population = MADE[name]()
    sent = settings_of(monkeypatch, posterior, population, kernel=RandomWalk())
    packed = client.pack_settings(sent)
    assert packed == client.pack_settings(sent)
    client._part.cache_clear()
    found, mode = client.unpack_settings(packed.content)
    assert mode == (False, None, None)
    assert found.posterior is not sent.posterior
    assert found.describe() == sent.describe()
    assert found.traced == sent.traced
    assert hash(found.sampler) is not None
    assert jax.random.key_data(found.key).tolist() == jax.random.key_data(sent.key).tolist()
    one, other = program_of(sent), program_of(found)
    assert ADDRESS.sub("", str(one.jaxpr)) == ADDRESS.sub("", str(other.jaxpr))
    for a, b in zip(one.consts, other.consts, strict=True):
        np.testing.assert_array_equal(a, b)


def test_another_audit_of_the_same_posterior_compiles_nothing_new(monkeypatch):
    made = [settings_of(monkeypatch, *closure(), gammas=g) for g in (1.0, 2.0)]
    same = settings_of(monkeypatch, made[0].posterior, made[0].population, gammas=3.0)
    found = [client.unpack_settings(client.pack_settings(s).content)[0] for s in (*made, same)]
    assert found[0].posterior is found[2].posterior
    assert found[0].gammas != found[2].gammas


def test_jobs_of_a_gamma_share_their_arrays():
    mode = current_mode()
    keys, inputs = roots(jax.random.key(3), Stream.MAIN), {"gamma": jnp.asarray(2.0)}
    one, two = (Job(i, keys, i, 8, Plan(1, 2, 1, 2, 4), inputs) for i in (0, 8))
    sheets = [Sheet((job,)) for job in (one, two)]
    arrived = [client.unpack_job(client.pack_job(sheet), mode) for sheet in sheets]
    found = [sheet.jobs[0] for sheet in arrived]
    assert [sheet.path for sheet in arrived] == [(), ()]
    assert found[0].inputs is found[1].inputs
    assert found[0].roots is found[1].roots
    assert [job.first for job in found] == [0, 8]
    np.testing.assert_array_equal(jax.random.key_data(found[1].roots), jax.random.key_data(keys))
    assert hash(found[0].plan) == hash(one.plan)


@pytest.mark.usefixtures("float64")
def test_double_precision_stays(monkeypatch):
    assert current_mode().is_double
    packed = client.pack_settings(settings_of(monkeypatch, *closure()))
    job = client.pack_job(Job(0, None, 0, 8, None, jnp.asarray(0.1)))
    with client.applied(Mode(False, None, None)):
        _, mode = client.unpack_settings(packed.content)
        assert client.unpack_job(job, mode).inputs.dtype == jnp.dtype("float64")
        assert jnp.zeros(()).dtype == jnp.dtype("float32")


def test_the_callers_precision_of_products_is_applied():
    with jax.default_matmul_precision("bfloat16"):
        mode = current_mode()
    assert current_mode().matmul_precision is None
    with client.applied(mode):
        assert current_mode().matmul_precision == "bfloat16"


def test_blocks_come_back_as_the_kind_that_is_here(monkeypatch):
    traced = settings_of(monkeypatch, *closure(), num_information=64).traced
    for make in (values_kind, kept_kind):
        kind = make(traced)
        sent = kind(*(np.full(3, i) for i, _ in enumerate(kind._fields)))
        found = pickle.loads(pickle.dumps(sent))
        assert type(found) is kind
        assert jax.tree.structure(found) == jax.tree.structure(sent)


def test_exceptions_arrive_with_a_note():
    def fail():
        raise KeyError("lost", 3)

    try:
        jax.jit(lambda x: float(x))(1.0)
    except jax.errors.ConcretizationTypeError as caught:
        traced = caught
    for error in (KeyError("lost", 3), traced, OSError(2, "No such file", "a")):
        found = client.unpack_error(client.pack_error(error))
        assert type(found) is type(error)
        assert str(found) == str(error)
        assert found.args == error.args
    try:
        fail()
    except KeyError as caught:
        note = client.unpack_error(client.pack_error(caught)).__notes__[0]
    assert "In a worker of the executor" in note
    assert "in fail" in note


def test_an_exception_that_cannot_be_pickled_is_told_in_words():
    class Local(Exception):  # noqa: N818
        def __reduce__(self):
            raise TypeError

        def __new__(cls, *arguments):
            if len(arguments) != 1:
                raise TypeError("one")
            return super().__new__(cls, *arguments)

    error = Local("reason")
    error.args = ("reason", open)
    found = client.unpack_error(client.pack_error(error))
    assert isinstance(found, RuntimeError)
    assert "Local" in str(found)
    assert "reason" in str(found)
