"""Audits of few datasets take as many as are asked for, and compile nothing twice."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from problems import gaussian_examples, gaussian_mean

import gibbs_dp as gdp
from gibbs_dp.engine import runner, sweep
from gibbs_dp.engine.plan import Job, Plan
from gibbs_dp.engine.program import _over_datasets

QUIET = {"progress": False, "n": 200, "gammas": [1.0], "key": 2}


def labels(key, n):
    x_key, y_key = jax.random.split(key)
    x = jax.random.normal(x_key, (n, 3))
    return x, 1.0 * (jax.random.uniform(y_key, (n,)) < jax.nn.sigmoid(x.sum(axis=1)))


def audit(posterior, population=labels, **settings):
    return gdp.audit(posterior, population, **QUIET | settings)


@pytest.fixture(scope="module")
def posterior():
    return gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(0.0, 1.0).expand([3]))


@pytest.mark.of_cpus("a block of other devices is whole")
def test_few_datasets_are_the_first_of_many(posterior):
    """Whose program takes 16 of a block's 32 at once."""
    few, many = (audit(posterior, num_datasets=count) for count in (21, 64))
    assert few.settings["block_size"] == many.settings["block_size"] == 32
    for name in ("on_average_kl", "empirical_risk", "on_average_tv"):  # nothing fitted over all
        values = few.per_dataset[0][name]
        assert values.shape == (21,)
        np.testing.assert_array_equal(values, many.per_dataset[0][name][:21])


@pytest.mark.parametrize("num_at_once", [1, 4, 12])
def test_a_program_goes_as_far_as_its_numbers(num_at_once):
    job = Job(0, None, 30, 12, Plan(1, 2, 1, 2, 4), None, period=7)
    numbers = job.numbers(6)
    assert numbers[0].tolist() == [2, 3, 4, 5, 6, 0] + [-1] * 6
    assert numbers[1].tolist() == [*range(30, 36)] + [-1] * 6
    assert (job.numbers(None) >= 0).all()
    given = jnp.arange(12.0)
    found = _over_datasets(lambda x: (x + 1.0, x[None]), jnp.asarray(numbers), num_at_once, given)
    end = -(-6 // num_at_once) * num_at_once
    for each in (found[0] - 1.0, found[1][:, 0]):
        np.testing.assert_array_equal(each[:end], given[:end])
    np.testing.assert_array_equal(found[0][end:], 0.0)


@pytest.mark.of_cpus("a block of other devices is whole")
def test_what_is_added_until_errors_are_met_goes_on_from_there():
    settings = {"n": 20, "learn": [gdp.OnAverageKL()]}
    found = audit(
        gaussian_mean(1), gaussian_examples(1), num_datasets=70, rel_error=0.03, **settings
    )
    count = int(found["num_datasets"][0])
    assert count > 70
    plain = audit(gaussian_mean(1), gaussian_examples(1), num_datasets=count, **settings)
    assert plain["on_average_kl"][0] == found["on_average_kl"][0]


@pytest.mark.of_cpus("a block of other devices is whole")
def test_what_is_kept_is_made_of_the_datasets_that_keep_it(posterior, monkeypatch):
    audit(posterior, num_datasets=21)
    counts, program = [], runner.keep_program

    def counted(*arguments):
        run = program(*arguments)

        def call(*given, **kinds):
            counts.append((int((given[7][1] >= 0).sum()), *given[10].sum(axis=0).tolist()))
            return run(*given, **kinds)

        return call

    monkeypatch.setattr(runner, "keep_program", counted)
    audit(posterior, num_datasets=21)
    # As many as are run, and those of each quantity; and none to compile it: that was done.
    assert sorted(counts) == [(5, 5), (16, 16)]
    counts.clear()
    learn = [*gdp.DEFAULT, gdp.MutualInformation(90)]
    audit(posterior, num_datasets=100, learn=learn)
    assert sorted(np.sum(counts, axis=0).tolist()) == [64, 90, 90]  # attackers, draws to compare


def test_before_a_long_run_compilers_memory_is_returned(posterior, monkeypatch):
    returned = []
    monkeypatch.setattr(sweep, "return_memory", lambda: returned.append(1))
    audit(posterior, num_datasets=64)
    assert not returned
    monkeypatch.setattr(sweep, "LONG_RUN", 64)
    audit(posterior, num_datasets=64)
    assert returned == [1]
