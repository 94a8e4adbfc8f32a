"""What users' functions read may change between calls; closed forms say what is true then."""

import dataclasses
import functools
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp.model import changes

SCALE = 1.0
SETTINGS = {"scale": 1.0, "name": "a"}
HELD = types.SimpleNamespace(scale=1.0)
T, LAST = 1.0, {"x": 0.0}


class Settings:
    """Constants in a class, and a population that is one."""

    scale = 1.0

    @classmethod
    def sample(cls, key, n, num_ghosts):
        drawn = cls.scale * jax.random.normal(key, (n + num_ghosts,))
        return drawn[:n], drawn[n:]

    @property
    def twice(self):
        return 2.0 * SCALE


@dataclasses.dataclass(slots=True)
class Slotted:
    """A user's object without a dict."""

    scale: float = 1.0

    def __call__(self, theta, z):
        return self.scale * (theta - z)


def by_namespace(theta, z):
    return HELD.scale * (theta - z)


def by_class(theta, z):
    return Settings.scale * (theta - z)


def transposed(theta, z):
    LAST["x"] = theta
    return z.T - theta


class Counting:
    """Counts its calls, and has no attribute that it is asked for."""

    def __init__(self):
        self.scale, self.n, self.last = 1.0, 0, None

    def __call__(self, theta, z):
        self.n += 1
        self.last = theta
        return self.scale * (theta - z)

    def change(self, scale):
        self.scale = scale

    def __getattr__(self, name):
        raise KeyError(name)


ARRAY = np.ones(4)


def scaled(x):
    return SCALE * x


def by_global(theta, z):
    return SCALE * (theta - z)


def by_helper(theta, z):
    return scaled(theta - z)


def by_inner(theta, z):
    return (lambda: SCALE)() * (theta - z)


def by_item(theta, z):
    return SETTINGS["scale"] * (theta - z)


def by_array(theta, z):
    return jnp.sum(ARRAY) * (theta - z)


class ByAttribute:
    """A user's object, which is called, or drawn from."""

    def __init__(self):
        self.scale, self.asked = 1.0, []

    def __call__(self, theta, z):
        return self.scale * (theta - z)

    @functools.cached_property
    def square(self):
        return self.scale**2

    def sample(self, key, n, num_ghosts):
        drawn = self.scale * jax.random.normal(key, (n + num_ghosts,))
        return drawn[:n], drawn[n:]


def closing():
    """Return a function that closes over a number, and what sets it."""
    scale = 1.0

    def function(theta, z):
        return scale * (theta - z)

    def change(value):
        nonlocal scale
        scale = value

    return function, change


@pytest.fixture
def forgotten(monkeypatch):
    """Count how often compiled programs are forgotten."""
    found = []
    monkeypatch.setattr(changes, "_seen", {})
    monkeypatch.setattr(changes, "_forgetting", [lambda: found.append(1)])
    return found


def changed_cases():
    """Return an object, and what changes something that it reads."""
    function, change = closing()
    own, array = ByAttribute(), np.ones(3)
    wrapped = jax.jit(by_global)
    return {
        "global": (by_global, lambda m: m.setitem(globals(), "SCALE", 3.0)),
        "helper": (by_helper, lambda m: m.setitem(globals(), "SCALE", 3.0)),
        "inner": (by_inner, lambda m: m.setitem(globals(), "SCALE", 3.0)),
        "item": (by_item, lambda m: m.setitem(SETTINGS, "scale", 3.0)),
        "array": (by_array, lambda m: m.setitem(globals(), "ARRAY", ARRAY * 3.0)),
        "function": (by_helper, lambda m: m.setitem(globals(), "scaled", lambda x: 3.0 * x)),
        "namespace": (by_namespace, lambda m: m.setattr(HELD, "scale", 3.0)),
        "class": (by_class, lambda m: m.setattr(Settings, "scale", 3.0)),
        "classmethod": (Settings.sample, lambda m: m.setattr(Settings, "scale", 3.0)),
        "property": (Settings(), lambda m: m.setitem(globals(), "SCALE", 3.0)),
        "slots": ((slotted := Slotted()), lambda _: setattr(slotted, "scale", 3.0)),
        "counting": ((counting := Counting()), lambda _: counting.change(3.0)),
        "closure": (function, lambda _: change(3.0)),
        "attribute": (own, lambda _: setattr(own, "scale", 3.0)),
        "method": (own.sample, lambda _: setattr(own, "scale", 4.0)),
        "argument": (functools.partial(by_global, z=array), lambda _: array.fill(2.0)),
        "jitted": (wrapped, lambda m: m.setitem(globals(), "SCALE", 3.0)),
        "loss": (
            gdp.GibbsPosterior(by_global, dist.Normal(0.0, 1.0)),
            lambda m: m.setitem(globals(), "SCALE", 3.0),
        ),
        "population": (
            gdp.populations.Independent(by_global),
            lambda m: m.setitem(globals(), "SCALE", 3.0),
        ),
    }


@pytest.mark.parametrize("name", changed_cases())
def test_what_a_function_reads_is_looked_at_again(name, forgotten, monkeypatch):
    given, change = changed_cases()[name]
    changes.notice_changes(given)
    changes.notice_changes(given)
    assert not forgotten
    change(monkeypatch)
    changes.notice_changes(given)
    assert forgotten == [1]
    changes.notice_changes(given)
    assert forgotten == [1]


def test_logs_counters_and_what_is_found_later_are_no_changes(forgotten):
    calls, count = [], 0

    def counting(theta, z):
        nonlocal count
        count += 1
        calls.append(count)
        return theta - z

    own = ByAttribute()
    for _ in range(3):
        changes.notice_changes(counting)
        changes.notice_changes(own)
        counting(0.0, 1.0)
        assert own.square == 1.0
        own.asked.append(1)
    assert not forgotten


def test_what_a_function_stores_and_names_of_attributes_are_no_changes(forgotten, monkeypatch):
    own, loop = Counting(), []
    loop.append(loop)
    for step in range(3):
        monkeypatch.setitem(globals(), "T", float(step))  # no global of `transposed`
        for given in (own, transposed, loop):
            changes.notice_changes(given)
        own(float(step), 1.0)
        transposed(step, np.ones(2))
    assert not forgotten


def test_classes_of_a_notebook_are_the_users(forgotten, monkeypatch):
    """The module of its cells has no file."""
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    monkeypatch.setattr(ByAttribute, "__module__", "__main__")
    own = ByAttribute()
    changes.notice_changes(own)
    own.scale = 2.0
    changes.notice_changes(own)
    assert forgotten == [1]


def test_what_holds_itself_or_goes_deep_ends(forgotten):
    deep, own = [1.0], ByAttribute()
    for _ in range(5000):
        deep = [deep]
    own.deep, own.itself = deep, own
    for _ in range(2):
        changes.notice_changes(own)
    assert not forgotten


def test_an_array_changed_in_place_is_seen(forgotten):
    array = np.ones((1000, 600))  # of which every second element is looked at

    def loss(theta, z):
        return theta * jnp.sum(array) - z

    changes.notice_changes(loss)
    array *= 2.0
    changes.notice_changes(loss)
    assert forgotten == [1]


def test_a_function_that_is_made_anew_is_another(forgotten):
    for scale in (1.0, 2.0, 3.0):
        changes.notice_changes(lambda theta, z, scale=scale: scale * (theta - z))
    assert not forgotten


@pytest.mark.trust
def test_draws_follow_a_changed_global(monkeypatch):
    """``w = 100`` in a notebook's cell: standard deviations fall tenfold (1/sqrt(4 w), flat)."""
    monkeypatch.setitem(globals(), "SCALE", 1.0)

    def loss(theta, z):
        return 0.5 * SCALE * (theta - z) ** 2

    posterior = gdp.GibbsPosterior(loss, gdp.Flat(gdp.supports.real()))
    data = np.array([1.0, 2.0, 3.0, 4.0])
    for scale in (1.0, 100.0, 1.0):
        monkeypatch.setitem(globals(), "SCALE", scale)
        draws = gdp.sample(posterior, data, 1.0, sampler=gdp.HMC(), num_samples=500)
        # Of some thousand draws a standard deviation is known to 2%: six of these.
        assert draws.theta.std() == pytest.approx(0.5 / np.sqrt(scale), rel=0.12)
        told = draws.log_likelihood()
        expected = -0.5 * scale * (draws.theta[..., None] - data) ** 2
        np.testing.assert_allclose(told, expected, rtol=1e-4, atol=1e-4)


def test_audits_follow_a_changed_population():
    """The on-average KL of the mean of n examples is ``gamma var / n``."""
    own = ByAttribute()
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.real(1)))

    class Column(ByAttribute):
        def sample(self, key, n, num_ghosts):
            return jax.tree.map(lambda a: a[:, None], super().sample(key, n, num_ghosts))

    own = Column()
    for scale in (1.0, 3.0):
        own.scale = scale
        report = gdp.audit(
            posterior, own, n=5, gammas=[0.3], num_datasets=256, learn=[gdp.OnAverageKL()],
            progress=False,
        )  # fmt: skip
        gap = report["on_average_kl"][0] - 0.3 * scale**2 / 5
        assert abs(gap) < 4 * report["on_average_kl_se"][0]


def test_tables_do_not_share_memory():
    """On CPUs JAX takes over aligned arrays as they are; one in three is."""
    for size in range(1000, 1012):
        array = np.ones((size, 3), np.float32)
        table = gdp.populations.Table(array)
        again = table.with_data(array)
        array *= 2.0
        for held in (table, again):
            assert float(jnp.max(held.data)) == 1.0


def test_functions_of_minibatch_draws_follow_too(monkeypatch):
    monkeypatch.setitem(globals(), "SCALE", 1.0)
    posterior = gdp.GibbsPosterior(by_square, dist.Normal(0.0, 1.0))
    data = np.linspace(-1.0, 1.0, 40)
    kept = []
    for scale in (1.0, 3.0):
        monkeypatch.setitem(globals(), "SCALE", scale)
        draws = gdp.sample_minibatches(
            posterior,
            data,
            1.0,
            kernel=gdp.StochasticLangevin(1e-2),
            batch_size=8,
            num_samples=20,
            num_warmup=10,
            progress=False,
            keep=scaled,
            key=1,
        )
        kept.append(np.asarray(draws.kept))
    np.testing.assert_allclose(kept[1], 3.0 * kept[0], rtol=1e-6)


def by_square(theta, z):
    return 0.5 * (theta - z) ** 2
