"""The questions of ``gpu.py``: each takes how large it may be, and returns rows."""

from __future__ import annotations

import os
import tempfile
from typing import NamedTuple

import gpu_audits as audits
import jax
import jax.numpy as jnp
import numpy as np
from gpu_audits import DIM, LOGISTIC, N, audit, in_a_process, least, timed, twice

import gibbs_dp as gdp
from gibbs_dp.papers.on_average_kl import closed_forms

# Goals, in the units of the rows; none is asserted.
GOALS = {"10^6 posteriors, s": 2.0, "times two cores": 60.0, "cold compilation, s": 20.0}
T4_BYTES = 16e9


class AuditSpec(NamedTuple):
    """How large a phase may be: the seconds it has left, and whether it is only tried out."""

    left: object
    quick: bool
    found: dict

    def pick(self, usual, quick):
        """Return a size."""
        return quick if self.quick else usual

    def has(self, seconds):
        """Whether there is so much time left; the quick form always has it."""
        return self.quick or self.left() > seconds


def ceilings(asked):
    """Measure what the device can do at most: products, copies, rounds of a loop."""
    size, long = asked.pick(8192, 256), jnp.ones((asked.pick(2**28, 2**20),))
    a = jax.random.normal(jax.random.key(0), (size, size))
    half = a.astype(jnp.bfloat16)
    row = {"memory_bytes": audits.memory("bytes_limit")}
    for name, operand, precision in (
        ("float32", a, "highest"), ("tf32", a, "tensorfloat32"), ("bf16", half, None),
    ):  # fmt: skip
        product = jax.jit(lambda a, p=precision: jnp.matmul(a, a, precision=p))
        try:
            row[f"{name}_tflops"] = 2e-12 * size**3 / least(lambda: product(operand))  # noqa: B023
        except Exception as error:  # CPUs have no TF32
            row[f"{name}_tflops"] = repr(error)[:80]
    add = jax.jit(lambda v: v + 1.0)
    row["copy_tb_per_s"] = 8e-12 * long.size / least(lambda: add(long))
    short, rounds = jnp.ones((8,)), 1000
    for name, static in (("known", (1,)), ("unknown", ())):
        loop = jax.jit(
            lambda v, k: jax.lax.fori_loop(0, k, lambda _, v: jnp.sin(v), v), static_argnums=static
        )
        count = rounds if static else jnp.asarray(rounds)
        row[f"round_of_{name}_loop_us"] = 1e6 * least(lambda: loop(short, count)) / rounds  # noqa: B023
    return [row]


def truths(asked):
    """Every sampler against a closed form, in standard errors; above 4 is wrong."""
    mean, examples = audits.gaussian_mean()
    cases = {
        "line": {}, "hmc": {"sampler": gdp.Chains()}, "mala": {"sampler": gdp.MALA()},
        "two-sided": {"learn": [*audits.WITHOUT, gdp.OnAverageKL("two-sided")]},
        "grid": {"sampler": gdp.Grid(low=-3.0, high=3.0)}, "ula": {"sampler": gdp.ULA()},
        "sgld": {"sampler": gdp.SGLD(batch_size=10)}, "smc": {"sampler": gdp.SMC()},
    }  # fmt: skip
    rows, count = [], asked.pick(2048, 64)
    for name, more in list(cases.items())[: asked.pick(None, 1)]:
        if not asked.has(25):
            break
        report, seconds = timed(lambda: audit(mean, examples, 20, count, **more))  # noqa: B023
        slack = 0.1 / 20 if name in ("ula", "sgld") else 0.0  # their steps have a bias
        rows.append(_against(name, report, 1.0 / 20, seconds, slack))
    if asked.has(25) and not asked.quick:
        truth = closed_forms.private_mean_on_average_kl(10.0, 100)
        report, seconds = timed(lambda: audit(*audits.private_mean(), 100, count, (10.0,)))
        rows.append(_against("structured loss", report, truth, seconds))
    if asked.has(25) and not asked.quick:
        report, seconds = timed(lambda: audit(*audits.gaussian_mean(10), 20, count))
        rows.append(_against("hmc in 10 coordinates", report, 10.0 / 20, seconds))
    return rows


def _against(name, report, truth, seconds, slack=0.0):
    value, se = report["on_average_kl"][0], report["on_average_kl_se"][0]
    z = max(0.0, abs(value - truth) - slack) / se
    return {
        "case": name,
        "kl": value,
        "truth": truth,
        "z": z,
        "right": bool(z < 4),
        "first_s": seconds,
    }


def draws(asked):
    """Draw from one posterior that is known in closed form; z of the worst coordinate's mean."""
    dim, n, rows = 5, 50, []
    posterior = audits.normal_prior(gdp.losses.half_squared_distance, dim)
    data = 0.5 + gdp.random.normal(jax.random.key(4), (n, dim))
    truth, sd = np.asarray(data).sum(axis=0) / (n + 1), 1.0 / np.sqrt(n + 1)
    for sampler in (None, gdp.AdaptiveHMC(), gdp.SMC())[: asked.pick(None, 1)]:
        if not asked.has(25):
            break
        found, first = timed(lambda: gdp.sample(posterior, data, sampler=sampler))  # noqa: B023
        _, again = timed(lambda: gdp.sample(posterior, data, sampler=sampler, key=1))  # noqa: B023
        values = np.asarray(found.theta).reshape(-1, dim)
        error = sd / np.sqrt(found.mixing[1][0])
        z = float(np.max(np.abs(values.mean(axis=0) - truth) / error))
        spread = float(np.max(np.abs(values.std(axis=0) / sd - 1.0)))
        rows.append({
            "sampler": type(sampler).__name__, "z": z, "sd_off": spread, "right": z < 4,
            "warnings": len(found.warnings), "first_s": first, "again_s": again,
        })  # fmt: skip
    return rows


def information(asked):
    """Mutual information against its closed form, and what it adds to an audit."""
    mean, examples = audits.gaussian_mean()
    count = asked.pick(1024, 64)
    report, first, again = twice(mean, examples, 20, count, learn=gdp.DEFAULT)
    se, truth = report["mutual_information_lower_se"][0], 0.5 * np.log(2.0)
    low, high = (report[f"mutual_information_{end}"][0] for end in ("lower", "upper"))
    row = {"datasets": count, "lower": low, "upper": high, "truth": truth, "first_s": first}
    _, _, without = twice(mean, examples, 20, count)
    right = bool(low - 4 * se < truth < high + 4 * se)
    return [row | {"right": right, "again_s": again, "without_s": without}]


def scaling(asked):
    """Seconds of an audit over the number of datasets, and times what two cores of a CPU take."""
    rows, each = [], 1e-3
    for count in asked.pick((10**2, 10**3, 10**4, 10**5, 10**6), (100,)):
        if not asked.has(2.5 * count * each + 30):
            rows.append({"datasets": count, "skipped": "no time left"})
            continue
        report, first, again = twice(*LOGISTIC, count)
        each = again / count
        rows.append({
            "datasets": count, "first_s": first, "again_s": again,
            "us_per_dataset": 1e6 * each, "kl": report["on_average_kl"][0],
            "kl_se": report["on_average_kl_se"][0], "block_size": report.settings["block_size"],
        })  # fmt: skip
        if count == 10**6:
            rows[-1]["10^6 posteriors, s"] = again
    if jax.default_backend() != "cpu" and asked.has(60):
        point = {"datasets": 4096, "cores": 2, "again": True}
        cores = in_a_process(point, asked.left() - 10, JAX_PLATFORMS="cpu")
        if "failed" not in cores:
            cores["times two cores"] = cores["again_s"] / cores["datasets"] / each
        rows.append({"on": "two CPU cores", **cores})
    return rows


def starts(asked):
    """Seconds of the first audit of a process: compiled anew, and from the folder of programs."""
    rows, point = [], {"datasets": asked.pick(1024, 32), "again": True}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("cold compilation, s", "from programs on disk, s")[: asked.pick(2, 1)]:
            if asked.has(60):
                row = in_a_process(point, asked.left() - 10, JAX_COMPILATION_CACHE_DIR=folder)
                if "failed" not in row:  # tracing included
                    row[name] = row["first_s"] - row["again_s"]
                rows.append(row)
    return rows


def batches(asked):
    """Microseconds a dataset over the block size: from where the device is full."""
    rows = []
    for size in asked.pick((256, 1024, 4096, 16384, 65536), (32,)):
        if not asked.has(60):
            break
        try:
            few, many = (
                twice(*LOGISTIC, count, block_size=size)[2] for count in (4 * size, 8 * size)
            )
        except Exception as error:  # memory that runs out is an answer
            rows.append({"block_size": size, "stopped": repr(error)[:300]})
            break
        # Pilots, search and report are in both: the difference is sampling.
        each = 1e6 * (many - few) / (4 * size)
        peak = audits.memory("peak_bytes_in_use")
        rows.append({"block_size": size, "us_per_dataset": each, "peak_bytes": peak})
    there = [row for row in rows if row.get("us_per_dataset", 0) > 0]
    if there:
        best = min(row["us_per_dataset"] for row in there)
        full = [row["block_size"] for row in there if row["us_per_dataset"] < 1.1 * best]
        rows.append({"saturating_block_size": full[0], "us_per_dataset": best})
    return rows


def roofline(asked):
    """Tell what a gradient and a step of HMC reach of the peaks of arithmetic and of memory."""
    import roofline as bench

    rows, runs, steps = [], asked.pick(5, 2), asked.pick(50, 10)
    peaks = asked.found.get("ceilings", [{}])[0]
    flops, copied = (peaks.get(name, np.nan) for name in ("float32_tflops", "copy_tb_per_s"))
    for datasets in asked.pick((64, 512, 4096, 16384), (8,)):
        if not asked.has(40):
            break
        for name in ("linear predictor", "own logistic"):
            bare = bench.bare(name, datasets, N, DIM, runs, steps)
            gradient, _, sampler = bench.measure(name, datasets, N, DIM, runs, steps)
            row = {"loss": name, "datasets": datasets, "bare_ns": bare}
            row |= {"gradient_ns": gradient, "sampler_ns": sampler}
            row["us_per_hmc_step"] = 1e-3 * sampler * bench.LEAPFROG * datasets * bench.CHAINS * N
            for what, span in (("gradient", gradient), ("sampler", sampler)):
                row[f"{what}_share_of_float32"] = 4e-3 * DIM / span / flops
                # Features are read once a gradient, for all chains, where nothing stays on chip.
                row[f"{what}_share_of_memory"] = 4e-3 * DIM / bench.CHAINS / span / copied
            rows.append(row)
    return rows


def peers(asked):
    """Seconds to an error of 0.3% of vmapped BlackJAX and NumPyro, over ours, on this device."""
    import peers as bench
    from peers_problems import PROBLEMS

    problem, target = PROBLEMS["logistic"](), 0.003
    ours, count = asked.pick(65_536, 64), asked.pick(8192, 32)
    given = (problem.posterior, problem.population, problem.n, ours)
    report, _, again = twice(*given)
    truth = report["on_average_kl"][0], report["on_average_kl_se"][0]
    needed = ours * (truth[1] / (target * truth[0])) ** 2
    seconds = again / ours * needed
    rows = [{"sampler": "gibbs_dp", "seconds": seconds, "us_per_dataset": 1e6 * again / ours}]
    settings = [bench.Setting("NumPyro NUTS", 100, 16), bench.Setting("BlackJAX HMC", 50, 16, 3)]
    settings += [bench.Setting("BlackJAX NUTS", 100, 16)]
    for setting in settings[: asked.pick(None, 2)]:
        row = {"sampler": setting.sampler, "setting": setting.label()}
        if not asked.has(50):
            rows.append(row | {"skipped": "no time left"})
            continue
        program = bench.peer_program(problem, setting)
        keys = jax.random.split(jax.random.key(11), count)
        try:
            _, first = timed(lambda: program(keys))  # noqa: B023
        except ModuleNotFoundError as error:
            rows.append(row | {"skipped": f"{error.name} is not installed"})
            continue
        found, span = timed(lambda: program(keys))  # noqa: B023
        row |= {"compile_s": first - span, "us_per_dataset": 1e6 * span / count}
        for name, values in zip(("ghost", "direct"), found[:2], strict=True):
            cost = bench.time_to_target(np.asarray(values), span / count, truth, target)
            row |= {f"{name}_kl": cost["kl"], f"{name}_times_ours": cost["seconds"] / seconds}
        rows.append(row)
    return rows


def precision(asked):
    """Audit with products as JAX makes them by default (TF32 on a GPU), and in float32."""
    cases = {
        "own logistic": (audits.normal_prior(audits.own_logistic, DIM), LOGISTIC[1], N),
        "own squares, parameters of 100":
            (audits.normal_prior(audits.own_squares, 2, 1e3), audits.offset_examples, 5000),
        "built-in logistic": LOGISTIC,
    }  # fmt: skip
    names = ("on_average_kl", "on_average_kl_se", "accept_rate", "failed_datasets")
    rows = []
    for name, problem in list(cases.items())[: asked.pick(None, 1)]:
        for setting in (None, "tensorfloat32", "highest"):
            if not asked.has(30):
                return rows
            row = {"problem": name, "jax_default_matmul_precision": setting}
            # Not the context manager: it is local to a thread, and audits have threads.
            jax.config.update("jax_default_matmul_precision", setting)
            try:
                report = audit(*problem, asked.pick(1024 if problem[2] == N else 128, 16))
                row |= {key: float(report[key][0]) for key in names}
            except Exception as error:
                row["failed"] = repr(error)[:300]
            finally:
                jax.config.update("jax_default_matmul_precision", None)
            rows.append(row)
            if asked.quick:
                break
    return rows


def small_memory(asked):
    """Audits that a device of 16 GB must hold: more datasets, more coordinates."""
    limit = audits.memory("bytes_limit")
    if limit is None:
        return [{"skipped": "this device does not tell its memory"}]
    if os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE") != "false":
        return [{"skipped": "this process holds the memory: run without preallocation"}]
    held = float(os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION", 0.75))  # of all, is the limit
    share = f"{min(0.95, held * T4_BYTES / limit):.3f}"
    points = ({"datasets": 100_000}, {"datasets": 1024, "dim": 100}, {"datasets": 256, "dim": 500})
    return [
        in_a_process(point, asked.left(), XLA_PYTHON_CLIENT_MEM_FRACTION=share)
        for point in points
        if asked.has(45)
    ]


def repeatability(asked):
    """Tell whether runs are the same bit for bit: here, in other blocks, in another process."""
    count = asked.pick(4096, 64)
    base = audits.bits(audit(*LOGISTIC, count))
    same = audits.bits(audit(*LOGISTIC, count))
    parts = audits.bits(audit(*LOGISTIC, count, block_size=count // 4))
    row = {"datasets": count, "same_process": base == same}
    row["other_blocks_relative"] = parts[0] / base[0] - 1.0
    other = in_a_process({"datasets": count}, asked.left())
    if "failed" in other:
        return [row | {"failed": other["failed"]}]
    row["other_process"] = other["bits"] == base
    return [row | {"other_process_relative": other["bits"][0] / base[0] - 1.0}]


# In the order of what a first look needs most, with the share of the time that each may take.
PHASES = {
    ceilings: 0.1, truths: 0.25, scaling: 0.3, starts: 0.15, precision: 0.2, peers: 0.25,
    batches: 0.2, roofline: 0.2, draws: 0.2, small_memory: 0.2, information: 0.2,
    repeatability: 1.0,
}  # fmt: skip
