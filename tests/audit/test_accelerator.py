"""The accelerators' way through a sweep: compiled for GPUs and TPUs here, run on a CPU."""

import functools

import flat
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import gibbs_dp as gdp
from gibbs_dp._jaxlib.compile import Program, compiler_options
from gibbs_dp._jaxlib.devices import compiled_for, is_accelerator, platform, target_platform
from gibbs_dp._jaxlib.precision import total
from gibbs_dp.engine import plan as sizes
from gibbs_dp.engine import program as programs
from gibbs_dp.engine import runner as runners
from gibbs_dp.engine.datasets import Stream, roots
from gibbs_dp.engine.pilots import first_inputs
from gibbs_dp.engine.plan import Job, Plan, along, each_alone
from gibbs_dp.engine.program import block_program
from gibbs_dp.engine.runner import (
    OUT_OF_MEMORY,
    Room,
    SmallerBlocksWarning,
    TooLargeError,
    pack,
    unpack,
)
from gibbs_dp.problems.base import build_problem
from gibbs_dp.quantities.attacker import Attacker
from gibbs_dp.quantities.mutual_information import MutualInformation
from gibbs_dp.quantities.on_average_kl import OnAverageKL
from gibbs_dp.quantities.registry import DIAGNOSTICS
from gibbs_dp.quantities.risks import Risks
from gibbs_dp.sampling.as_sampler import as_sampler
from gibbs_dp.sampling.kernels.base import make_schedule

LEARNT = (OnAverageKL(), Risks(), MutualInformation(64), Attacker(), *DIAGNOSTICS)
QUANTITIES = tuple(q.traced() for q in LEARNT if q.Values or q.num_kept)


def arguments(name):
    """Those of a block program, the static ones first."""
    problem = build_problem(name)
    plan = Plan(30, 16, 1, 4, 4)
    inputs = first_inputs(1.0, jnp.zeros((problem.posterior.dim,)), make_schedule((0.5, 3), 16, 0))
    static = (problem.posterior, as_sampler(None), plan, QUANTITIES, 8)
    keys = roots(jax.random.key(0), Stream.MAIN)
    return static, (problem.population, keys, jnp.zeros((2, 8), jnp.int32), inputs)


def test_programs_lower_for_gpus_and_tpus():
    static, traced = arguments("logistic-regression")
    flat, structure = jax.tree.flatten(traced)
    program = block_program("cuda")

    def run(*leaves):
        return jax.tree.leaves(program.traced(*static, *jax.tree.unflatten(structure, leaves)))

    for name in ("cuda", "tpu"):
        assert export.export(jax.jit(run), platforms=(name,))(*flat).platforms == (name,)


@pytest.mark.of_cpus("it compiles for a GPU beside")
def test_a_program_is_traced_for_its_platform_alone():
    assert target_platform() == platform() == "cpu"
    with compiled_for("cuda"):
        assert is_accelerator(target_platform())
        jaxpr = jax.make_jaxpr(lambda x: total(x))(jnp.ones(3))
    assert [e.primitive.name for e in jaxpr.jaxpr.eqns] == ["reduce_sum"]
    here = jax.make_jaxpr(lambda x: total(x))(jnp.ones(3))
    assert "dot_general" in [e.primitive.name for e in here.jaxpr.eqns]


def test_gpus_are_spared_what_takes_long_to_compile():
    assert (
        compiler_options("gpu") == compiler_options("cuda") == {"xla_gpu_enable_triton_gemm": False}
    )
    assert compiler_options("gpu", is_long=True) == {}
    assert compiler_options("cpu", is_long=True) == compiler_options("cpu")
    assert compiler_options("tpu") is None


# -- the same numbers ------------------------------------------------------------------------


@pytest.fixture
def far(monkeypatch):
    """Audits take the accelerators' way; the programs are this machine's."""

    def audit(*positional, **named):
        with monkeypatch.context() as patch:
            patch.setattr(runners, "is_accelerator", lambda _: True)
            return flat.audit(*positional, **named)

    return audit


def same(one, other):
    assert [row["gamma"] for row in one.rows] == [row["gamma"] for row in other.rows]
    for a, b in zip(one.rows, other.rows, strict=True):
        for name in ("on_average_kl", "on_average_kl_se", "generalization_error"):
            assert a[name] == pytest.approx(b[name], rel=2e-3), name
        assert a["num_datasets"] == b["num_datasets"]


PROBLEM = build_problem("gaussian-mean", dim=1)  # one, so that its programs are compiled once
ASKED = (PROBLEM.posterior, PROBLEM.population, 20, [0.1, 1.0])
SETTINGS = {"num_datasets": 64, "num_information": 64, "block_size": 32, "progress": False}
SETTINGS |= {"sampler": gdp.Chains()}  # as audits with a store, whatever the dimension


@pytest.fixture(scope="module")
def alone():
    """Each gamma by itself, as on a CPU."""
    return flat.audit(*ASKED, **SETTINGS)


@pytest.mark.trust
def test_an_accelerators_way_gives_the_numbers_of_a_cpus(alone, far, tmp_path):
    far(*ASKED, **SETTINGS | {"num_datasets": 32, "num_information": 32}, store=tmp_path)
    together = far(*ASKED, **SETTINGS, store=tmp_path)  # goes on from what is there
    same(alone, together)
    names = ("mutual_information_lower", "mutual_information_upper")
    for a, b in zip(alone.rows, together.rows, strict=True):
        assert [a[k] for k in names] == pytest.approx([b[k] for k in names], rel=1e-3)


@pytest.mark.trust
def test_pilots_and_all_gammas_are_one_program(far, monkeypatch):
    compiled, call = [], Program.compiled

    def compile_(program, *arguments, **named):
        compiled.append(program)
        return call(program, *arguments, **named)

    monkeypatch.setattr(Program, "compiled", compile_)
    lattice = gdp.Grid(low=-2.0, high=2.0, num_points=64)
    sizes = {"num_datasets": 64, "block_size": 32, "num_information": 0, "progress": False}
    far(*ASKED, sampler=lattice, **sizes)
    assert len(compiled) == 1


@pytest.mark.trust
def test_draws_of_one_posterior_are_the_same_with_static_counts(monkeypatch):
    data = jnp.asarray(np.random.default_rng(0).normal(size=(20, 1)))
    settings = {"num_warmup": 20, "num_samples": 20, "num_chains": 2}
    monkeypatch.setattr("gibbs_dp.sampling.sample._is_little", lambda *_: False)  # on CPUs alone
    traced = gdp.sample(PROBLEM.posterior, data, 1.0, **settings)
    monkeypatch.setattr("gibbs_dp.sampling.sample.is_accelerator", lambda _: True)
    static = gdp.sample(PROBLEM.posterior, data, 1.0, **settings)
    np.testing.assert_allclose(static.theta, traced.theta, rtol=1e-4, atol=1e-5)


@pytest.mark.trust
def test_exact_sums_and_added_datasets_too(far):
    lattice = gdp.Grid(low=-2.0, high=2.0, num_points=64)
    settings = {"kernel": lattice, "num_information": 0, "rel_error": 0.03, "progress": False}
    settings |= {"num_datasets": 256, "block_size": 64}
    same(flat.audit(*ASKED, **settings), far(*ASKED, **settings))


def test_what_is_kept_is_made_of_some_datasets_at_a_time(far, monkeypatch):
    """However many are taken together, of a block of 32: what they keep is theirs."""
    settings = SETTINGS | {"num_datasets": 32, "num_information": 32, "num_samples": 24}
    alone, taken, over = flat.audit(*ASKED, **settings), [], programs._over_datasets

    def counted(one, numbers, num_at_once, given):
        taken.append(num_at_once)
        return over(one, numbers, num_at_once, given)

    monkeypatch.setattr(programs, "_over_datasets", counted)
    monkeypatch.setattr(programs, "is_accelerator", lambda _: True)
    monkeypatch.setattr(programs, "MOST_KEPT", 20)  # the last 20 overlap with the first
    keep = functools.wraps(programs._keep)(lambda *given: programs._keep(*given))  # traced anew
    fresh = Program(keep, programs.STATIC, platform(), is_quick=True)
    monkeypatch.setattr(runners, "keep_program", lambda *_: fresh)
    found = far(*ASKED, **settings)
    assert taken == [20]
    same(alone, found)
    for name in ("on_average_tv", "on_average_renyi_2", "mutual_information_lower"):
        assert found[name] == pytest.approx(alone[name], rel=1e-3), name


@pytest.mark.trust
def test_pilots_that_fail_fail_alike(far):
    posterior = gdp.GibbsPosterior(lambda theta, z: 0.0 * theta * z, gdp.Flat(gdp.supports.real()))
    with pytest.raises(ValueError, match="improper at gamma"):
        far(posterior, lambda key, n: jax.random.normal(key, (n,)), 5, [1.0, 2.0], num_datasets=32)


# -- sheets ------------------------------------------------------------------------------------


def test_along_a_path_jobs_on_the_same_datasets_are_one_sheet():
    keys = roots(jax.random.key(0), Stream.MAIN)

    def inputs(gamma):
        return first_inputs(gamma, jnp.zeros((2,)), make_schedule((0.5, 3), 16, 0))

    path = [inputs(gamma) for gamma in (1.0, 2.0, 3.0)]
    plan = Plan(5, 4, 1, 2, 4)
    jobs = [Job(g, keys, first, 8, plan, inputs(g)) for first in (0, 8) for g in (1.0, 3.0)]
    for sheets in (list(along(path, jobs)), list(along(path, jobs[::-1]))[::-1]):
        assert [{j.tag for j in s.jobs} for s in sheets] == [{1.0, 3.0}] * 2
        assert [s.jobs[0].first for s in sheets] == [0, 8]
        assert [[float(i.gamma) for i in s.path] for s in sheets] == [[1.0, 2.0, 3.0]] * 2
        assert sheets[0].path[1] is path[1]
    assert [(len(s.jobs), s.path) for s in each_alone(jobs)] == [(1, ())] * 4


def test_words_hold_every_bit(dtype):
    rng = np.random.default_rng(0)
    values = {
        "a": jnp.asarray(rng.normal(size=(3, 2, 4)), dtype),
        "b": jnp.asarray(rng.normal(size=(3, 2)) > 0),
        "c": jnp.asarray(rng.integers(-5, 5, size=(3, 2, 1, 2)), jnp.int32),
        "d": jnp.full((3, 2), jnp.nan, dtype).at[0, 0].set(-jnp.inf),
    }
    found = unpack(np.asarray(pack(values)), values)
    for name, value in values.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(found[name], np.asarray(value))


# -- memory ------------------------------------------------------------------------------------


def test_where_memory_runs_out_half_as_many_datasets_are_taken_and_it_is_said():
    room, tried = Room(), []

    def run(size):
        tried.append(size)
        if size > 16:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")
        return jnp.asarray(size)

    with pytest.warns(SmallerBlocksWarning) as seen:
        assert int(room.fit("program", 64, run)) == 16
    assert [str(w.message) for w in seen] == [
        str(OUT_OF_MEMORY(size=64, smaller=32)),
        str(OUT_OF_MEMORY(size=32, smaller=16)),
    ]
    assert int(room.fit("program", 64, run)) == 16  # remembered
    assert tried == [64, 32, 16, 16]
    assert int(room.fit("another", 8, run)) == 8

    def never(size):
        raise (TooLargeError if size > 1 else MemoryError)("a program needs more.")

    alone = r"not hold one dataset at a time \(a program needs more\); ask for fewer num_samples"
    with pytest.warns(SmallerBlocksWarning), pytest.raises(MemoryError, match=alone):
        room.fit("third", 2, never)

    def other(size):
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")

    with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
        room.fit("fourth", 64, other)


@pytest.mark.trust
def test_a_block_that_runs_out_of_memory_gives_the_same_numbers(alone, monkeypatch):
    call = runners.Runner._run_job

    def small(self, sheet, job, device, at_once):
        if at_once > 8:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")
        return call(self, sheet, job, device, at_once)

    monkeypatch.setattr(runners.Runner, "_run_job", small)
    with pytest.warns(SmallerBlocksWarning):
        halved = flat.audit(*ASKED, **SETTINGS)
    same(alone, halved)


def test_blocks_of_accelerators_are_what_was_asked_for_up_to_what_fills_them(monkeypatch):
    monkeypatch.setattr(sizes, "platform", lambda: "gpu")
    posterior = build_problem("logistic-regression").posterior

    def size(num_datasets, num_gammas=1, n=200, is_stored=False):
        return sizes.default_block_size(
            posterior, n, 200, 8, 8, num_datasets, is_stored, num_gammas
        )

    assert size(128) == 128
    assert size(100, 16) == 128  # along a path, at all its gammas at once
    assert size(10**6) == 4_096
    assert size(10**6, n=20) == 8_192
    assert size(10**6, 16) == 256
    assert size(10**6, 4, is_stored=True) == 1_024
    assert size(10**6, n=100_000) == 16

    # A T4's 15 GB, a smaller card's 1, and a device that holds not even one.
    for gigabytes, wanted in ((80, 4_096), (15, 4_096), (1, 2_048), (1e-4, 1)):
        monkeypatch.setattr(sizes, "memory_of_a_program", lambda gb=gigabytes: 0.45e9 * gb)
        assert size(10**6) == wanted
    assert size(10**6, 4, is_stored=True) == 1_024
