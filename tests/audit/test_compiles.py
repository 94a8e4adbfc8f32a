"""Nothing recompiles over gammas, tables or datasets of the same shape: traces are counted."""

import gc
import weakref

import jax.numpy as jnp
import numpy as np
import pytest
from problems import gaussian_examples, gaussian_mean

import gibbs_dp as gdp
from gibbs_dp._jaxlib.compile import make_room
from gibbs_dp.engine.datasets import remembered
from gibbs_dp.engine.program import block_program


@pytest.fixture
def counted():
    """A posterior whose loss counts how often it is traced."""
    make_room(0.3)  # else an audit may forget what others of this process have compiled
    calls = []

    def loss(theta, z):
        calls.append(1)
        return 0.5 * jnp.sum((theta - z) ** 2)

    return gdp.GibbsPosterior(loss, gdp.Flat(gdp.supports.real(1))), calls


@pytest.mark.of_cpus("programs have the shape of a block elsewhere")
def test_a_grid_of_gammas_and_a_store_trace_the_sweep_once(counted, tmp_path):
    posterior, calls = counted
    gammas = np.geomspace(1e-3, 0.1, 6)  # one plan: small enough for the one-sided estimator
    population = gaussian_examples(1)
    learn = {"learn": [gdp.OnAverageKL()], "progress": False}
    gdp.audit(posterior, population, 10, gammas[:1], num_datasets=64, **learn)
    first = len(calls)
    optimum_and_check = _traces_outside_the_sweep(posterior, calls, population, **learn)
    before = len(calls)
    gdp.audit(posterior, population, 10, gammas, num_datasets=64, key=1, **learn)
    assert len(calls) - before == optimum_and_check
    assert first > optimum_and_check
    before = len(calls)
    settings = {"num_datasets": 64, "block_size": 32, "sampler": gdp.Line()} | learn
    gdp.audit(posterior, population, 10, gammas[:1], store=tmp_path, **settings)
    assert len(calls) - before == optimum_and_check + 2  # of which two for its fingerprint


@pytest.mark.of_cpus("it counts their programs")
@pytest.mark.trust(but="HMC-KL")
@pytest.mark.parametrize("learn", [[gdp.OnAverageKL()], gdp.DEFAULT], ids=["KL", "default"])
@pytest.mark.parametrize("sampler", [gdp.HMC(), gdp.Line()], ids=lambda s: type(s).__name__)
def test_pilots_and_datasets_share_a_program(counted, sampler, learn):
    compiled = [block_program("cpu", is_quick) for is_quick in (False, True)]
    before = sum(each.jitted._cache_size() for each in compiled)
    settings = {"sampler": sampler, "learn": learn, "num_datasets": 64, "progress": False}
    gdp.audit(counted[0], gaussian_examples(1), 10, [0.05], **settings)
    assert sum(each.jitted._cache_size() for each in compiled) == before + 1


def _traces_outside_the_sweep(posterior, calls, population, **learn):
    """Traces of one repeated audit: its argument check and optimum, nothing of the sweep."""
    before = len(calls)
    settings = {"num_datasets": 64, "progress": False} | learn
    gdp.audit(posterior, population, 10, [0.05], **settings)
    return len(calls) - before


@pytest.mark.trust
def test_a_new_table_of_the_same_shape_compiles_nothing(counted):
    posterior, calls = counted
    tables = [
        gdp.populations.Table(np.random.default_rng(i).normal(size=(30, 1))) for i in range(3)
    ]
    gdp.audit(posterior, tables[0], 10, [0.05], num_datasets=64, progress=False)
    repeated = []
    for table in tables[1:]:
        before = len(calls)
        gdp.audit(posterior, table, 10, [0.05], num_datasets=64, progress=False)
        repeated.append(len(calls) - before)
    assert repeated[0] == repeated[1]
    assert repeated[0] == _traces_outside_the_sweep(posterior, calls, tables[0])


def test_sampling_a_new_dataset_compiles_nothing(counted):
    posterior, calls = counted
    gdp.sample(posterior, np.zeros((5, 1)), num_samples=8)
    counts = []
    for gamma in (0.5, 2.0):
        before = len(calls)
        gdp.sample(posterior, np.ones((5, 1)), gamma=gamma, num_samples=8)
        counts.append(len(calls) - before)
    assert counts == [0, 0]  # neither the argument check nor a sampler traces the loss again


def test_what_is_remembered_is_of_the_same_arrays_and_keeps_none_alive():
    posterior, asked = gaussian_mean(1), []

    def find():
        asked.append(None)
        return len(asked)

    def look(population):
        return remembered(find, "test", posterior, population)

    one, other = jnp.zeros((3, 1)), jnp.zeros((3, 1))
    assert [look(one), look(one), look(other), look(one)] == [1, 1, 2, 1]
    assert [look(np.zeros(3)), look(np.zeros(3))] == [3, 4]  # may change in place
    alive = weakref.ref(one)
    del one
    gc.collect()
    assert alive() is None
