"""Programs in the cache folder: a second run traces none, and none is taken for another."""

import sys
import warnings
from collections import OrderedDict, namedtuple
from functools import cache

import flat
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp._jaxlib import compile as compiling
from gibbs_dp._jaxlib import program_cache
from gibbs_dp._jaxlib.program_cache import describe, rebuild
from gibbs_dp.engine.view import Block
from gibbs_dp.model import fingerprint
from gibbs_dp.sampling.kernels.base import Counts


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A cache folder; every audit begins as a new process does, with nothing traced."""
    monkeypatch.setattr(program_cache, "folder", lambda: tmp_path / "programs")
    make = compiling.program.__wrapped__

    def as_new():
        fresh = cache(make)
        for user in ("_jaxlib.compile", "engine.program", "engine.datasets"):
            monkeypatch.setattr(f"gibbs_dp.{user}.program", fresh)

    monkeypatch.setattr(sys.modules[__name__], "as_new", as_new)
    return tmp_path / "programs"


def as_new():
    """Forget all programs; see ``place``."""


class Counted:
    """A user's loss that counts how often it is traced."""

    def __init__(self, scale=1.0):
        self.scale, self.count = scale, 0

    def __call__(self, theta, z):
        self.count += 1
        return 0.5 * self.scale * jnp.sum((theta - z) ** 2)


LATTICE = gdp.Grid(low=-3.0, high=3.0, num_points=16)


def examples(key, n):
    return jax.random.normal(key, (n,))


def audited(loss, **settings):
    as_new()
    posterior = gdp.GibbsPosterior(loss, dist.Normal(0.0, 2.0))
    given = {"num_information": 0, "progress": False, "key": 3} | settings
    return flat.audit(posterior, examples, 10, [0.5, 2.0], num_datasets=64, **given).rows


def programs(place):
    return {path.name for path in place.glob("*.export")}


@pytest.mark.trust
def test_a_second_run_traces_no_program_and_has_the_same_numbers(place):
    """Compiles what new processes would, of two models: some 20 seconds."""
    first, second = Counted(), Counted()
    before = audited(first)
    there = programs(place)
    assert there
    after = audited(second)
    assert before == after
    assert programs(place) == there
    # Twice for its fingerprint; the check was passed, and noted.
    assert 0 < second.count <= 4 < first.count
    changed = Counted(scale=3.0)
    assert audited(changed)[0]["on_average_kl"] != pytest.approx(before[0]["on_average_kl"])
    assert changed.count > 4
    assert programs(place) > there


@pytest.mark.trust
def test_sheets_of_accelerators_are_kept_too(place, monkeypatch):
    monkeypatch.setattr("gibbs_dp.engine.runner.is_accelerator", lambda _: True)
    before = audited(Counted(), kernel=LATTICE)
    there, again = programs(place), Counted()
    assert audited(again, kernel=LATTICE) == before
    assert again.count <= 4
    assert programs(place) == there


@pytest.mark.trust
def test_what_cannot_be_known_is_not_kept(place):
    class Own(gdp.Kernel):
        def default_tuning(self, dim):
            return 0.5, 1

        def step(self, key, state, potential, tuning):
            return gdp.HMC().step(key, state, potential, tuning)

    def block_programs():
        return {path.name for path in place.glob("*.export") if path.stat().st_size > 50_000}

    audited(Counted(), kernel=Own())
    assert not block_programs()

    def calls_back(theta, z):
        shape = jax.ShapeDtypeStruct((), jnp.float32)
        value = jax.pure_callback(np.zeros_like, shape, z, vmap_method="broadcast_all")
        return 0.5 * (theta - z) ** 2 + value

    audited(calls_back, kernel=LATTICE)
    assert not block_programs()


@pytest.mark.trust
def test_damaged_files_and_folders_that_cannot_be_written_cost_time_only(place, monkeypatch):
    before = audited(Counted(), kernel=LATTICE)
    names = sorted(path for path in place.glob("*.export") if path.stat().st_size > 20_000)
    assert names
    for number, path in enumerate(names):
        content = path.read_bytes()
        half = len(content) // 2
        spoilt = (content[:half], content[:half] + b"\0" + content[half + 1 :], b"")[number % 3]
        path.write_bytes(spoilt)
    assert audited(Counted(), kernel=LATTICE) == before
    assert all(len(path.read_bytes()) > 100 for path in names)  # written again
    monkeypatch.setattr(program_cache, "folder", lambda: place / names[0].name / "no folder")
    assert audited(Counted(), kernel=LATTICE) == before


def test_a_check_is_passed_once_and_warns_every_time(place):
    from gibbs_dp.engine.store.configuration import CacheKey

    class Settings:
        key, n, num_ghosts, posterior = jax.random.key(0), 3, 4, None

    identity = CacheKey.__new__(CacheKey)
    identity._settings, identity._digest = Settings, "digest"
    seen = []
    identity.check_once(lambda: seen.append(1))
    identity.check_once(lambda: seen.append(2))
    assert seen == [1]
    identity._digest = "another"
    for _ in range(2):
        with pytest.warns(UserWarning, match="mind"):
            identity.check_once(lambda: warnings.warn("mind", UserWarning, stacklevel=1))


def test_the_longest_unused_are_removed(place, monkeypatch):
    monkeypatch.setattr(program_cache, "MOST_FILES", 2)
    for name in ("a", "b", "c"):
        program_cache.note(name)
    assert len(list(place.glob("*.note"))) == 2


def test_names_tell_programs_apart():
    three = (jnp.ones(3),)

    def name(*statics, leaves=three, options=None):
        return program_cache.program_name(audited, options, statics, leaves, leaves)

    with program_cache.identified((examples,), "digest"):
        names = [
            name(examples, Counts(1, 2, 3, 4)),
            name(examples, Counts(1, 2, 3, 5)),
            name(examples, gdp.HMC()),
            name(examples, gdp.HMC(num_leapfrog=5)),
            name(examples, leaves=(jnp.ones(4),)),
            name(examples, leaves=(jnp.ones(3, jnp.int32),)),
            name(examples, options="other"),
        ]
        assert name(lambda: None) is None, "a user's function that has no fingerprint"
        with jax.default_matmul_precision("bfloat16"):
            names.append(name(examples))
    with program_cache.identified((examples,), "another digest"):
        names.append(name(examples))
    assert len(set(names)) == len(names) == 9
    assert None not in names
    assert name(3) == name(3) != name(4), "plain arrays need no fingerprint"


def drawn(loss, prior, data, **settings):
    as_new()
    settings = {"num_chains": 4, "num_warmup": 50, "num_samples": 100} | settings
    return gdp.sample(gdp.GibbsPosterior(loss, prior), data, **settings)


@pytest.mark.trust
@pytest.mark.parametrize(
    "settings",
    [
        {"init": jnp.ones(2)},
        {"sampler": gdp.AdaptiveHMC()},
        {"sampler": gdp.SMC(num_particles=64), "gamma": 0.1},
        {"sampler": gdp.ULA(step_size=0.01)},
        {"is_batch": True},
    ],
    ids=["chains", "adaptive", "smc", "ula", "batch"],
)
def test_a_second_run_of_sample_traces_the_loss_for_its_fingerprint_alone(place, settings):
    prior, data = dist.Normal(jnp.zeros(2), 1.0), jnp.linspace(0.0, 1.0, 12).reshape(6, 2)
    data = jnp.stack([data, data[::-1] + 1.0]) if "is_batch" in settings else data
    first, second = Counted(), Counted()
    before = drawn(first, prior, data, **settings)
    assert programs(place)
    after = drawn(second, prior, data, **settings)
    np.testing.assert_array_equal(before.theta, after.theta)
    assert before.warnings == after.warnings
    # For checks of the data and for the fingerprint.
    assert 0 < second.count <= 6 < first.count


@pytest.mark.trust
def test_names_of_a_parameter_are_no_other_models(place):
    def loss(theta, z):
        first, second = theta.values()
        return (first - z) ** 2 + second**2

    for names in ("ab", "cd"):
        prior = {name: dist.Normal(0.0, 1.0) for name in names}
        draws = drawn(loss, prior, jnp.ones(3), init=dict.fromkeys(names, jnp.zeros(())))
        assert list(draws.theta) == list(names)
    assert programs(place)


def test_a_loss_that_is_declared_convex_is_another():
    """Its modes are not looked for elsewhere: another program, of the same equations."""

    def made(is_declared):
        def loss(theta, z):
            return jnp.sum((theta - z) ** 2)

        loss.is_convex = is_declared
        return gdp.GibbsPosterior(loss, dist.Normal(jnp.zeros(2), 1.0))

    plain, convex, rows = made(False), made(True), jnp.ones((5, 2))
    assert convex.is_log_concave > plain.is_log_concave
    assert fingerprint.of_posterior(plain, rows) == fingerprint.of_posterior(convex, rows)
    assert fingerprint.identity(plain, rows) != fingerprint.identity(convex, rows)
    assert fingerprint.identity(plain, rows) == fingerprint.identity(plain, rows)


def test_what_is_put_together_in_another_way_is_not_described():
    for nest in (OrderedDict(b=0, a=0), {1: 0, 2: 0}, [object()], [0.5]):
        with pytest.raises(TypeError, match="not of this package"):
            describe(nest)


def test_structures_come_back_and_only_our_own_named_tuples_do():
    nest = {"b": [1, (2, None)], "a": Counts(3, 4, 5, (6,)), "c": Block(7, 8, None)}
    leaves = jax.tree.leaves(nest)
    assert rebuild(describe(nest))(leaves) == nest
    assert rebuild(describe((1,)))(leaves[:1]) == (leaves[0],)
    users = namedtuple("users", "x")
    with pytest.raises(TypeError, match="not of this package"):
        describe(users(1))
    assert rebuild(describe(users(1), [users]), [users])([5]) == users(5)
    for name in ("os:path", "gibbs_dp.cli.main:main", "gibbs_dp.sampling.kernels.base:Nothing"):
        with pytest.raises(LookupError):
            rebuild({"kind": name, "parts": []})
    with pytest.raises(ValueError, match="describes nothing"):
        rebuild({"else": []})


def test_a_part_of_another_program_is_not_kept(place):
    """Its arrays have no values, and nothing is written for them."""

    def double(x):
        return 2.0 * x

    program = compiling.Program(double, (), "cpu", is_quick=False)
    assert float(jax.jit(lambda x: program(x))(3.0)) == 6.0
    assert not programs(place)
