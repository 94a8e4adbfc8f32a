"""Time to a given error of on-average KL: gibbs_dp against general samplers under vmap.

    pip install blackjax            # needs jax >= 0.9
    python benchmarks/peers.py      # ten minutes on two cores; --quick for a look

Same problems, same populations, truth from closed forms (or, for logistic regression, from a run
of 65,536 datasets that is far longer than any measured one). For every way of sampling:

- the error that one dataset contributes, ``s``, and the bias ``b`` against the truth;
- the seconds that one dataset costs in steady state, compilation apart, least of two runs;
- from these the time to a root-mean-square error of 1%, 0.3% and 0.1% of the truth, bias included:
  ``D`` datasets give ``sqrt(b^2 + s^2 / D)``. The first takes an audit tenths of a second, of which
  pilots and host are most; peers are charged for neither. In the last they hardly count.

"ghost" averages fresh minus training losses over the peer's draws, which is what its users do
today. "direct" sends the peer's draws through our estimator. Peers run in twice as many threads as
there are cores, which is fastest for them, and draw their data from the same fast populations. A
bias below three of its standard errors counts as none: peers get the benefit of the doubt.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import jax
import jax.numpy as jnp
import machine
import numpy as np
from numpyro.infer.hmc import hmc as numpyro_hmc
from peers_problems import PROBLEMS

import gibbs_dp as gdp
from gibbs_dp._jaxlib.threads import num_cores
from gibbs_dp.quantities.known_means import LEAST_DATASETS

TARGETS = (0.01, 0.003, 0.001)


class Setting(NamedTuple):
    """One way to run a peer: how long to warm up, how much to draw."""

    sampler: str
    num_warmup: int
    num_samples: int
    num_leapfrog: int = 0

    def label(self):
        """Name for the table."""
        leapfrog = f", {self.num_leapfrog} leapfrog" if self.num_leapfrog else ""
        return f"{self.num_warmup} warm-up + {self.num_samples} draws{leapfrog}"


def blackjax_chain(log_density, start, key, setting):
    """Window adaptation, then draws: positions and gradients of the draws."""
    import blackjax  # here: gpu.py runs the other peers without it

    warm_key, draw_key = jax.random.split(key)
    if setting.sampler == "BlackJAX NUTS":
        algorithm, extra = blackjax.nuts, {}
    else:
        algorithm, extra = blackjax.hmc, {"num_integration_steps": setting.num_leapfrog}
    adaptation = blackjax.window_adaptation(algorithm, log_density, **extra)
    (state, parameters), _ = adaptation.run(warm_key, start, num_steps=setting.num_warmup)
    kernel = algorithm(log_density, **parameters)

    def step(state, key):
        state, info = kernel.step(key, state)
        return state, (state.position, info.num_integration_steps)

    _, (draws, steps) = jax.lax.scan(step, state, jax.random.split(draw_key, setting.num_samples))
    return draws, jnp.sum(steps)


def numpyro_chain(log_density, start, key, setting):
    """NUTS through NumPyro's functional kernels, which is what its MCMC class runs."""
    init_kernel, sample_kernel = numpyro_hmc(potential_fn=lambda u: -log_density(u), algo="NUTS")
    state = init_kernel(start, setting.num_warmup, rng_key=key, trajectory_length=None)
    state = jax.lax.fori_loop(0, setting.num_warmup, lambda _, s: sample_kernel(s), state)

    def step(state, _):
        state = sample_kernel(state)
        return state, (state.z, state.num_steps)

    _, (draws, steps) = jax.lax.scan(step, state, None, length=setting.num_samples)
    return draws, jnp.sum(steps)


def peer_program(problem, setting):
    """Jitted: per dataset, the ghost and the direct estimate, draws and their gradients."""
    posterior, gamma, n = problem.posterior, problem.gamma, problem.n
    chain = numpyro_chain if setting.sampler == "NumPyro NUTS" else blackjax_chain

    def one(key):
        data_key, chain_key, start_key = jax.random.split(key, 3)
        train, ghosts = problem.population.sample(data_key, n, problem.fresh(problem.num_ghosts))
        target = posterior.unconstrained(train, gamma)
        start = problem.start(start_key)
        draws, gradients = chain(target.log_density, start, chain_key, setting)
        ghost, direct = problem.estimate(draws[None], train, ghosts)
        return ghost, direct, draws, gradients

    return jax.jit(jax.vmap(one))


def pooled_ess(draws):
    """Effective draws of one chain ``[datasets, draws]``, its autocovariances pooled over datasets.

    Chains of 64 draws are too short one by one. Summed in pairs until one is negative (Geyer 1992).
    """
    centered = draws - draws.mean(axis=1, keepdims=True)
    count = draws.shape[1]
    covariances = np.array(
        [np.mean(np.sum(centered[:, : count - k] * centered[:, k:], axis=1)) for k in range(count)]
    )
    pairs = covariances[: count // 2 * 2].reshape(-1, 2).sum(axis=1) / covariances[0]
    kept = pairs[: np.argmax(pairs < 0)] if (pairs < 0).any() else pairs
    return count / max(2 * kept.sum() - 1, 1 / count)


def run_peer(problem, setting, num_datasets, key):
    """Seconds of compilation and of steady state, and the estimates of every dataset."""
    keys = jax.random.split(jax.random.key(key), num_datasets)
    parts = np.array_split(np.arange(num_datasets), 2 * num_cores())
    parts = [keys[part] for part in parts if part.size]
    program = peer_program(problem, setting)
    begin = time.perf_counter()
    compiled = program.lower(parts[0]).compile()
    compile_time = time.perf_counter() - begin
    jax.block_until_ready(compiled(parts[0]))
    seconds = np.inf
    for _ in range(2):
        begin = time.perf_counter()
        with ThreadPoolExecutor(len(parts)) as pool:
            found = list(pool.map(lambda k: jax.block_until_ready(compiled(k)), parts))
        seconds = min(seconds, time.perf_counter() - begin)
    ghost, direct, draws, gradients = (np.concatenate(x) for x in zip(*found, strict=True))
    ess = pooled_ess(draws[:, :, 0])
    return {
        "compile_s": compile_time,
        "per_dataset_s": seconds / num_datasets,
        "ghost": ghost,
        "direct": direct,
        "ess_per_gradient": float(ess / gradients.mean()),
        "ess_per_s": float(ess * num_datasets / seconds),
    }


def time_to_target(values, per_dataset_s, truth, target):
    """Seconds until the error, bias included, is this share of the truth; inf if bias forbids."""
    value, se = truth
    good = np.asarray(values, float)
    spread, mean = good.std(ddof=1), good.mean()
    error = np.hypot(spread / np.sqrt(good.size), se)
    bias = mean - value if abs(mean - value) > 3 * error else 0.0
    room = (target * value) ** 2 - bias**2
    return {
        "kl": mean,
        "kl_se": spread / np.sqrt(good.size),
        "relative_bias": bias / value,
        "datasets_needed": spread**2 / room if room > 0 else np.inf,
        "seconds": per_dataset_s * spread**2 / room if room > 0 else np.inf,
    }


def timed_audit(problem, count, key, controlled=None):
    """Run the audit itself, pilots, host loop and report included; return it and its seconds."""
    begin = time.perf_counter()
    report = gdp.audit(
        problem.posterior,
        problem.population,
        problem.n,
        [problem.gamma],
        num_datasets=count,
        learn=[
            *gdp.DEFAULT,
            gdp.OnAverageKL(num_ghosts=problem.num_ghosts, controlled=controlled),
            gdp.MutualInformation(0),
        ],
        key=key,
        progress=False,
    )
    return report, time.perf_counter() - begin


def least_time(problem, count, keys):
    """Least seconds of several audits, those of another block size compiled before."""
    if not np.isfinite(count):
        return np.inf
    return min(timed_audit(problem, count, key)[1] for key in keys)


# Later other ones, so that nothing can be remembered from before.
FIRST_KEYS, LATER_KEYS = (2, 3, 4), (5, 6, 7)


def run_ours(problem, truth, num_datasets):
    """Datasets needed and the time they take, compilation apart."""
    _, first = timed_audit(problem, 256, 0)
    report, _ = timed_audit(problem, num_datasets, 1)
    # Few datasets have no control variates of known means.
    plain, _ = timed_audit(problem, num_datasets, 1, controlled=False)
    rows = []
    mean, se = report["on_average_kl"][0], report["on_average_kl_se"][0]
    error = np.hypot(se, truth[1])
    bias = mean - truth[0] if abs(mean - truth[0]) > 3 * error else 0.0
    for target in TARGETS:
        room = (target * truth[0]) ** 2 - bias**2
        of_few, of_many = (
            max(2, int(np.ceil(r["on_average_kl_se"][0] ** 2 * num_datasets / room)))
            if room > 0
            else np.inf
            for r in (plain, report)
        )
        needed = min(of_few, max(of_many, LEAST_DATASETS))
        seconds = least_time(problem, needed, FIRST_KEYS)
        rows.append(
            {
                "target": target,
                "compile_s": first,
                "kl": mean,
                "kl_se": se,
                "relative_bias": bias / truth[0],
                "datasets_needed": needed,
                "seconds": seconds,
            }
        )
    return rows


def our_efficiency(problem):
    """Effective draws per gradient and second of long chains of the engine's kernel."""
    from gibbs_dp.sampling.as_sampler import as_sampler
    from gibbs_dp.sampling.kernels.base import make_schedule
    from gibbs_dp.sampling.target import Target

    kernel, datasets, draws = gdp.HMC(), 64, 64
    size, inner = kernel.default_tuning(problem.posterior.dim)
    schedule = make_schedule((size, inner), 16, problem.adapt_rounds)

    def one(key):
        data_key, chain_key, start_key = jax.random.split(key, 3)
        train, _ = problem.population.sample(data_key, problem.n, problem.fresh(1))
        target = Target(problem.posterior, train, jnp.asarray(problem.gamma))
        start = problem.start(start_key)[None]
        return as_sampler(kernel).draw(chain_key, target, start, schedule, 1, draws).u[0]

    keys = jax.random.split(jax.random.key(5), datasets)
    program = jax.jit(jax.vmap(one)).lower(keys).compile()
    found = np.asarray(program(keys))
    begin = time.perf_counter()
    jax.block_until_ready(program(keys))
    seconds = time.perf_counter() - begin
    ess = pooled_ess(found[:, :, 0])
    return {"ess_per_gradient": ess / (draws * inner), "ess_per_s": ess * datasets / seconds}


def settings_to_try(quick):
    """Return what a user would run first, then what an expert might tune it to."""
    usual = [Setting("BlackJAX NUTS", 300, 64), Setting("NumPyro NUTS", 300, 64)]
    usual += [Setting("BlackJAX HMC", 100, 64, 3)]
    if quick:
        return usual
    tuned = [Setting("BlackJAX NUTS", w, s) for w, s in ((100, 64), (100, 16), (50, 16))]
    tuned += [Setting("NumPyro NUTS", w, s) for w, s in ((100, 64), (100, 16), (50, 16))]
    counts = ((100, 16), (50, 64), (50, 16), (50, 8))
    tuned += [Setting("BlackJAX HMC", w, s, k) for w, s in counts for k in (3, 5)]
    return usual + tuned


def measure(problem, num_datasets, quick):
    """Rows of one problem."""
    truth = problem.truth()
    print(f"{problem.name}: truth {truth[0]:.6g} +- {truth[1]:.2g} nats", flush=True)
    ours = run_ours(problem, truth, 32 * num_datasets)
    # With every row, as a later run of other problems keeps these.
    base = {"problem": problem.name, "num_datasets": num_datasets}
    base |= {"truth": truth[0], "truth_se": truth[1]}
    ours_too = {**base, "sampler": "gibbs_dp", "estimate": "audit", **our_efficiency(problem)}
    rows = [ours_too | row for row in ours]
    peers = [(s, run_peer(problem, s, num_datasets, key=11)) for s in settings_to_try(quick)]
    # Minutes later once more: what else a machine does must not tell them apart.
    for ours_row, row in zip(ours, rows, strict=True):
        again = least_time(problem, row["datasets_needed"], LATER_KEYS)
        ours_row["seconds"] = row["seconds"] = min(row["seconds"], again)
        print(f"  ours to {row['target']:.1%}: {row['seconds']:.3f} s", flush=True)
    for setting, found in peers:
        for estimate in ("ghost", "direct"):
            names = ("compile_s", "per_dataset_s", "ess_per_gradient", "ess_per_s")
            row = {**base, "sampler": setting.sampler, "settings": setting.label()}
            row |= {"estimate": estimate, **{k: found[k] for k in names}}
            ratios = []
            for mine in ours:
                target = mine["target"]
                cost = time_to_target(found[estimate], found["per_dataset_s"], truth, target)
                ratios.append(cost["seconds"] / mine["seconds"])
                rows.append({**row, "target": target, **cost, "times_ours": ratios[-1]})
            told = ", ".join(f"{r:.1f}x" for r in ratios)
            print(f"  {setting.sampler}, {setting.label()}, {estimate}: {told}", flush=True)
    return rows


def best_ratios(rows):
    """(i) ghost losses at the usual settings; (ii) the best setting through our estimator."""
    table = []
    names = dict.fromkeys((row["problem"], row["target"]) for row in rows)
    for name, target in names:
        chosen = [r for r in rows if (r["problem"], r["target"]) == (name, target)]
        for sampler in ("BlackJAX NUTS", "NumPyro NUTS", "BlackJAX HMC"):
            mine = [r for r in chosen if r["sampler"] == sampler]
            ghost = [r for r in mine if r["estimate"] == "ghost"]
            direct = [r for r in mine if r["estimate"] == "direct"]
            tuned = min(direct, key=lambda r: r["seconds"])
            table.append(
                {
                    "problem": name,
                    "target": target,
                    "sampler": sampler,
                    "as_used_ghost": ghost[0]["times_ours"],
                    "best_ghost": min(r["times_ours"] for r in ghost),
                    "tuned_direct": tuned["times_ours"],
                    "tuned_settings": tuned["settings"],
                }
            )
    return table


def main():
    """Measure and save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--num-datasets", type=int, default=512)
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--quick", action="store_true", help="usual settings only")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    cases = [PROBLEMS[name]() for name in parsed.problems]
    rows = machine.rows_of_others("peers", "problem", [case.name for case in cases], parsed.out)
    for case in cases:
        rows += measure(case, parsed.num_datasets, parsed.quick)
        ratios = best_ratios(rows)  # saved after every problem: all of them take a while
        settings = {"targets": TARGETS, "ratios": ratios}
        path = machine.save("peers", rows, settings, parsed.out)
    machine.show(rows)
    print()
    machine.show(ratios)
    print("saved", path)


if __name__ == "__main__":
    main()
