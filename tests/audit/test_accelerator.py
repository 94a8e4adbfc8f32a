"""The accelerators' way through a sweep: compiled for GPUs and TPUs here, run on a CPU."""

import flat
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.extend.core import Literal
from jaxprs import equations

import gibbs_dp as gdp
from gibbs_dp._jaxlib.devices import compiled_for, is_accelerator, platform, target_platform
from gibbs_dp._jaxlib.precision import total
from gibbs_dp.engine import plan as sizes
from gibbs_dp.engine import runner as runners
from gibbs_dp.engine.datasets import Stream, roots
from gibbs_dp.engine.pilots import first_inputs
from gibbs_dp.engine.plan import Job, Plan, arranged, each_alone, searching_longer
from gibbs_dp.engine.program import block_program
from gibbs_dp.engine.progress import OUT_OF_MEMORY, SmallerBlocksWarning
from gibbs_dp.engine.runner import Room, TooLargeError, pack, unpack
from gibbs_dp.problems.base import build_problem
from gibbs_dp.quantities.attacker import Attacker
from gibbs_dp.quantities.mutual_information import MutualInformation
from gibbs_dp.quantities.on_average_kl import OnAverageKL
from gibbs_dp.quantities.registry import DIAGNOSTICS
from gibbs_dp.quantities.risks import Risks
from gibbs_dp.sampling.as_sampler import as_sampler
from gibbs_dp.sampling.kernels.base import Counts, make_schedule

LEARNT = (OnAverageKL(), Risks(), MutualInformation(64), Attacker(), *DIAGNOSTICS)
QUANTITIES = tuple(q.traced() for q in LEARNT if q.Values or q.num_kept)
COUNTS = Counts(num_inner=3, num_burn_in=16, num_adapt_rounds=0, num_newton=8)


def arguments(name, kernel=None, counts=COUNTS, num_pairs=0, num_gammas=2):
    """Those of a sheet program, the static ones first."""
    problem = build_problem(name)
    plan = Plan(30, 16, 1, 4, 4, counts, num_pairs)
    schedule = make_schedule((0.5, counts.num_inner), counts.num_burn_in, counts.num_adapt_rounds)
    one = first_inputs(1.0, jnp.zeros((problem.posterior.dim,)), schedule)
    inputs = jax.tree.map(lambda a: jnp.stack([a] * num_gammas), one)
    static = (problem.posterior, as_sampler(kernel), plan, QUANTITIES, 8)
    keys = roots(jax.random.key(0), Stream.MAIN)
    return static, (problem.population, keys, jnp.zeros((2, 8), jnp.int32), inputs)


ADAPTING = COUNTS._replace(num_adapt_rounds=6)
PROGRAMS = {
    "adapting": ("logistic-regression", None, ADAPTING, 2),  # with pairs
    "structured": ("private-mean", gdp.MALA()),
    "unadjusted": ("linear-regression", gdp.SGLD(batch_size=5)),
    "network": ("neural-network",),
}


def asking(program):
    """Loops and branches that a GPU asks its host about; its platform is known from the start."""
    known, found = set(), []
    for e in equations(program):
        if e.primitive.name == "platform_index" or any(
            v in known for v in e.invars if not isinstance(v, Literal)
        ):
            known |= set(e.outvars)
        elif e.primitive.name in ("while", "cond"):
            found.append(e.primitive.name)
    return found


@pytest.mark.trust
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_loop_and_no_branch_of_an_accelerators_program_asks_the_host(name):
    static, traced = arguments(*PROGRAMS[name])
    program = block_program("cuda").trace(*static, *traced)
    assert "scan" in [e.primitive.name for e in equations(program.jaxpr)]
    assert not asking(program.jaxpr)


def test_programs_lower_for_gpus_and_tpus():
    static, traced = arguments("logistic-regression")
    flat, structure = jax.tree.flatten(traced)
    program = block_program("cuda")

    def run(*leaves):
        return jax.tree.leaves(program(*static, *jax.tree.unflatten(structure, leaves)))

    for name in ("cuda", "tpu"):
        assert export.export(jax.jit(run), platforms=(name,))(*flat).platforms == (name,)


@pytest.mark.trust
def test_the_walk_finds_the_loops_of_a_cpus_program():
    static, (population, keys, numbers, inputs) = arguments("logistic-regression")
    static = (*static[:2], static[2]._replace(counts=None, num_pairs=None), *static[3:])
    one = jax.tree.map(lambda a: a[0], inputs)
    program = block_program("cpu").trace(*static, population, keys, numbers, one)
    assert {"while", "cond"} <= set(asking(program.jaxpr))


def test_a_program_is_traced_for_its_platform_alone():
    assert target_platform() == platform() == "cpu"
    with compiled_for("cuda"):
        assert is_accelerator(target_platform())
        jaxpr = jax.make_jaxpr(lambda x: total(x))(jnp.ones(3))
    assert [e.primitive.name for e in jaxpr.jaxpr.eqns] == ["reduce_sum"]
    here = jax.make_jaxpr(lambda x: total(x))(jnp.ones(3))
    assert "dot_general" in [e.primitive.name for e in here.jaxpr.eqns]


# -- the same numbers ------------------------------------------------------------------------


@pytest.fixture
def wide(monkeypatch):
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


@pytest.fixture(scope="module")
def alone():
    """Each gamma by itself, as on a CPU."""
    return flat.audit(*ASKED, **SETTINGS)


@pytest.mark.trust
def test_all_gammas_of_a_sheet_get_the_numbers_that_each_gets_alone(alone, wide, tmp_path):
    wide(*ASKED, **SETTINGS | {"num_datasets": 32, "num_information": 32}, store=tmp_path)
    together = wide(*ASKED, **SETTINGS, store=tmp_path)  # goes on from what is there
    same(alone, together)
    names = ("mutual_information_lower", "mutual_information_upper")
    for a, b in zip(alone.rows, together.rows, strict=True):
        assert [a[k] for k in names] == pytest.approx([b[k] for k in names], rel=1e-3)


class Elsewhere:
    """Workers that arrange sheets in another way than who sends them."""

    def __init__(self, arrange):
        self.arrange = arrange

    def run(self, sheets, work, num_beside=0):
        for sheet in sheets:
            parts = self.arrange(sheet.jobs)
            found = [work.work(part, jax.devices()[0]) for part in parts]
            yield sheet, jax.tree.map(np.asarray, tuple(block for part in found for block in part))


@pytest.mark.trust
@pytest.mark.parametrize(("is_wide", "arrange"), [(True, each_alone), (False, arranged)])
def test_a_worker_of_another_kind_gives_the_same_numbers(alone, monkeypatch, is_wide, arrange):
    """A CPU that sends to GPUs, and the other way round."""
    monkeypatch.setattr(runners, "Threads", lambda: Elsewhere(arrange))
    monkeypatch.setattr("gibbs_dp.engine.sweep.Threads", lambda: Elsewhere(arrange))
    monkeypatch.setattr(runners, "is_accelerator", lambda _: is_wide)
    same(alone, flat.audit(*ASKED, **SETTINGS))


def test_draws_of_one_posterior_are_the_same_with_static_counts(monkeypatch):
    data = jnp.asarray(np.random.default_rng(0).normal(size=(20, 1)))
    settings = {"num_warmup": 20, "num_samples": 20, "num_chains": 2}
    monkeypatch.setattr("gibbs_dp.sampling.sample._is_little", lambda *_: False)  # on CPUs alone
    traced = gdp.sample(PROBLEM.posterior, data, 1.0, **settings)
    monkeypatch.setattr("gibbs_dp.sampling.sample.is_accelerator", lambda _: True)
    static = gdp.sample(PROBLEM.posterior, data, 1.0, **settings)
    np.testing.assert_allclose(static.theta, traced.theta, rtol=1e-4, atol=1e-5)


@pytest.mark.trust
def test_exact_sums_and_added_datasets_too(wide):
    lattice = gdp.Grid(low=-2.0, high=2.0, num_points=64)
    settings = {"kernel": lattice, "num_information": 0, "rel_error": 0.03, "progress": False}
    settings |= {"num_datasets": 256, "block_size": 64}
    same(flat.audit(*ASKED, **settings), wide(*ASKED, **settings))


@pytest.mark.trust
def test_pilots_that_fail_fail_alike(wide):
    posterior = gdp.GibbsPosterior(lambda theta, z: 0.0 * theta * z, gdp.Flat(gdp.supports.real()))
    with pytest.raises(ValueError, match="improper at gamma"):
        wide(posterior, lambda key, n: jax.random.normal(key, (n,)), 5, [1.0, 2.0], num_datasets=32)


# -- sheets ------------------------------------------------------------------------------------


def job(gamma, first=0, num_burn_in=16, keys=None):
    inputs = first_inputs(gamma, jnp.zeros((2,)), make_schedule((0.5, 3), num_burn_in, 0))
    return Job(gamma, keys, first, 8, Plan(5, 4, 1, 2, 4), inputs)


def test_jobs_on_the_same_datasets_and_of_the_same_counts_are_one_sheet():
    keys = roots(jax.random.key(0), Stream.MAIN)
    jobs = [job(g, first, keys=keys) for first in (0, 8) for g in (1.0, 2.0, 3.0)]
    sheets = arranged([*jobs, job(4.0, 8, num_burn_in=64, keys=keys)])
    found = [([j.tag for j in s.jobs], s.jobs[0].first, s.width) for s in sheets]
    assert found == [([1.0, 2.0, 3.0], 0, 4), ([1.0, 2.0, 3.0], 8, 4), ([4.0], 8, 1)]
    assert sheets[0].name == sheets[1].name != sheets[2].name
    assert sheets[2].plan.counts.num_burn_in == 64
    longer = searching_longer(sheets[0])
    assert longer.plan.counts.num_newton > sheets[0].plan.counts.num_newton
    assert searching_longer(longer) is None


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

    def small(self, job, device, at_once):
        if at_once > 8:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")
        return call(self, job, device, at_once)

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
    assert size(100, 16) == 128
    assert size(10**6) == 32_768
    assert size(10**6, 16) == 2_048
    assert size(10**6, 16, is_stored=True) == 1_024
    assert size(10**6, n=100_000) == 128

    # A T4's 15 GB, a smaller card's 4, and a device that holds not even one.
    for gigabytes, wanted in ((80, 32_768), (15, 32_768), (4, 8_192), (1e-4, 1)):
        monkeypatch.setattr(sizes, "memory_of_a_program", lambda gb=gigabytes: 0.45e9 * gb)
        assert size(10**6) == wanted
    assert size(10**6, 16, is_stored=True) == 1_024
