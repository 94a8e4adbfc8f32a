"""Does any NumPyro model get right draws by default, and how fast? Some sixty against long runs.

    taskset -c 1 python benchmarks/any_model.py     # two hours on one core; --quick: three minutes

The models are those of other people's kinds (`any_model_hierarchies.py`, `any_model_others.py`).
Each goes through `GibbsPosterior.from_numpyro` and `gibbs_dp.sample` with default settings, in
single precision. The truth is a NUTS run in double precision, in a process of its own, with
hierarchies non-centred where that is better, and as long as it takes for an R-hat below 1.005 and
2,000 effective draws of every number; it is kept in the file `--truth`. A case whose truth does
not get there is "unjudged".

Quantiles are judged, since heavy tails have no moments. With a key, draws are

- right, if of every number the shares of draws below the true 5, 25, 50, 75 and 95% quantiles lie
  within 4.5 Monte Carlo errors, and the median within 0.15 of the interquartile range over 1.35;
- else flagged, if they come with a warning, and WRONG if they come with none;
- refused, if `from_numpyro` or `sample` says why it cannot be drawn from.

NumPyro's NUTS runs with its defaults (1,000 steps of warmup, 1,000 draws, 4 chains, vectorized),
BlackJAX's, if installed, with window adaptation and as many, on the unconstrained density of the
posterior. Their draws are judged as ours; what counts as their warning is a divergence, a rank
R-hat above 1.01 or fewer than 100 effective draws of some number: our limits, and theirs to apply.

Speed is effective draws (rank-normalized, of the number that has fewest) per second of CPU time of
the process, which is why one core is best, with compilation in it (first run of the first key)
and without (the same again). Ratios are of all draws, right or not.

What is measured is kept at once, by case, sampler and key, and not measured again by a run that
is started anew; `--anew` measures again, which is due when the library has changed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import machine
import numpy as np
from any_model_hierarchies import Case
from any_model_truth import (
    CASES,
    ERRORS,
    SHARE,
    Sites,
    judge,
    missing,
    read_truths,
    worst_r_hat,
    write_truths,
)
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import initialize_model

import gibbs_dp as gdp

QUICK = ("schools_c", "normal_c_8x5", "logistic_10", "student", "funnel_c")
CHAINS, WARMUP, DRAWS = 4, 1000, 1000
R_HAT, ESS = 1.01, 100.0
TRUTH = machine.RESULTS / "any_model_truth.json"
OURS, NUMPYRO, BLACKJAX = "gibbs_dp", "NumPyro NUTS", "BlackJAX NUTS"
KINDS = ("right", "flagged", "WRONG", "refused", "unjudged")


class Seen(NamedTuple):
    """Draws, how many effective ones they are worth at most, and what is said of them."""

    sites: Sites
    warned: str
    most: float = np.inf
    told: dict[str, Any] | None = None


# -- samplers -----------------------------------------------------------------------------


def ours(case: Case, args: tuple) -> Callable[[int], Seen]:
    """`gibbs_dp.sample` as it is."""
    posterior = gdp.GibbsPosterior.from_numpyro(case.model, args=args, **case.settings)

    def run(key: int) -> Seen:
        draws = gdp.sample(posterior, posterior.data, key=key)
        kernel, most = str(draws.settings["kernel"]), np.inf
        sites = draws.named
        if kernel.startswith("AdaptiveHMC"):  # each chain that was asked for is several that ran
            shape = gdp.AdaptiveHMC().chains_for(CHAINS), -1
            sites = {k: v.reshape(*shape, *v.shape[2:]) for k, v in sites.items()}
        if draws.num_particles is not None:  # worth what the islands say
            most = float(draws.to_dataframe()["ess"].min())
        told = {"kernel": kernel, "notes": list(map(str, draws.notes)), "dim": posterior.dim}
        return Seen(sites, "; ".join(map(str, draws.warnings)), most, told)

    return run


def numpyro_nuts(case: Case, args: tuple) -> Callable[[int], Seen]:
    """NumPyro's NUTS; what it has compiled, it keeps."""
    kept: dict[str, Any] = {}

    def run(key: int) -> Seen:
        first, second = jax.random.split(jax.random.key(key))
        if not kept:
            keys = jax.random.split(first, CHAINS)
            kept["info"] = info = initialize_model(keys, case.model, model_args=args)
            kernel = NUTS(potential_fn=info.potential_fn)
            kept["mcmc"] = MCMC(
                kernel,
                num_warmup=WARMUP,
                num_samples=DRAWS,
                num_chains=CHAINS,
                chain_method="vectorized",
                progress_bar=False,
            )
            kept["sites"] = jax.jit(jax.vmap(jax.vmap(info.postprocess_fn)))
        mcmc = kept["mcmc"]
        mcmc.run(second, init_params=kept["info"].param_info.z)
        found = kept["sites"](mcmc.get_samples(group_by_chain=True))
        sites = {k: np.asarray(v) for k, v in found.items()}
        return Seen(sites, warned_of(sites, int(mcmc.get_extra_fields()["diverging"].sum())))

    return run


def blackjax_nuts(case: Case, args: tuple) -> Callable[[int], Seen]:
    """BlackJAX's NUTS after window adaptation, on the unconstrained density."""
    import blackjax

    posterior = gdp.GibbsPosterior.from_numpyro(case.model, args=args, **case.settings)
    target = posterior.unconstrained(posterior.data, 1.0)

    def chain(key: Any) -> Any:
        start_key, warm_key, draw_key = jax.random.split(key, 3)
        start = jax.random.uniform(start_key, (posterior.dim,), minval=-2.0, maxval=2.0)
        adaptation = blackjax.window_adaptation(blackjax.nuts, target.log_density)
        (state, parameters), _ = adaptation.run(warm_key, start, num_steps=WARMUP)
        step = blackjax.nuts(target.log_density, **parameters).step

        def one(state: Any, key: Any) -> tuple[Any, Any]:
            state, info = step(key, state)
            return state, (posterior.constrain(state.position), info.is_divergent)

        return jax.lax.scan(one, state, jax.random.split(draw_key, DRAWS))[1]

    chains = jax.jit(jax.vmap(chain))

    def run(key: int) -> Seen:
        found, diverged = chains(jax.random.split(jax.random.key(key), CHAINS))
        sites = {k: np.asarray(v) for k, v in found.items()}
        return Seen(sites, warned_of(sites, int(diverged.sum())))

    return run


def warned_of(sites: Sites, diverged: int) -> str:
    """Say what a careful user of NUTS would see."""
    r_hat, ess = worst_r_hat(sites)
    said = [f"{diverged} divergences"] * (diverged > 0)
    said += [f"R-hat {r_hat:.3f}"] * (not r_hat <= R_HAT)
    said += [f"{ess:.0f} effective draws"] * (not ess >= ESS)
    return "; ".join(said)


# -- rows ---------------------------------------------------------------------------------


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """Return what is run, and the CPU seconds that it takes."""
    begin = time.process_time()
    found = run()
    return found, time.process_time() - begin


def measured(
    name: str, sampler: str, make: Callable[..., Callable[[int], Seen]], keys: list[int], first: int
) -> list[dict[str, Any]]:
    """Draw with every key, and judge; with ``first`` also measure how fast."""
    case, truth, rows = CASES[name], TRUTHS[name], []
    run, building = None, 0.0
    for key in keys:
        row: dict[str, Any] = {"case": name, "sampler": sampler, "key": key}
        try:
            if run is None:
                run, building = timed(lambda: make(case, case.make()))
            draw = partial(run, key)
            seen, seconds = timed(draw)
        except ValueError as error:
            rows.append(row | {"verdict": "refused", "why": str(error)})
            continue
        found = judge(seen.sites, truth, seen.most)
        verdict = "right" if found["is right"] else "flagged" if seen.warned else "WRONG"
        row |= {
            "verdict": verdict if truth["is good"] else "unjudged",
            "warned": seen.warned,
            "z": found["z"],
            "median off": found["median off"],
            "why": found["told"] * (verdict != "right"),
            "ess": found["ess"],
            **(seen.told or {}),
        }
        if key == first:
            _, warm = timed(draw)
            row |= {"building": building, "cold seconds": building + seconds, "warm seconds": warm}
            row |= {"cold": found["ess"] / (building + seconds), "warm": found["ess"] / warm}
        rows.append(row)
    return rows


TRUTHS: dict[str, dict] = {}


def samplers(with_peers: bool) -> dict[str, Callable[..., Callable[[int], Seen]]]:
    """Whose draws are judged."""
    found = {OURS: ours}
    if with_peers:
        found[NUMPYRO] = numpyro_nuts
        try:
            import blackjax  # noqa: F401
        except ImportError:
            print("BlackJAX is not installed: its draws are left out.", file=sys.stderr)
        else:
            found[BLACKJAX] = blackjax_nuts
    return found


# -- the whole ----------------------------------------------------------------------------


def summary(rows: list[dict]) -> str:
    """Say in a few lines how it went: by draws, and speeds by cases."""
    lines, speeds = [], {}
    for sampler in (OURS, NUMPYRO, BLACKJAX):
        of = [row for row in rows if row["sampler"] == sampler]
        speeds[sampler] = {row["case"]: row for row in of if "warm" in row}
        if of:
            verdicts = [row["verdict"] for row in of]
            counted = ", ".join(f"{verdicts.count(kind)} {kind}" for kind in KINDS)
            warned = sum(row["verdict"] == "right" and bool(row["warned"]) for row in of)
            lines.append(f"{sampler}: {counted} of {len(of)} draws; {warned} right, but warned of")
    for peer in (NUMPYRO, BLACKJAX):
        both = [name for name in speeds[OURS] if name in speeds[peer]]
        for how, told in (("warm", "without"), ("cold", "with")):
            ratios = [speeds[OURS][name][how] / max(speeds[peer][name][how], 1e-9) for name in both]
            if ratios:
                ahead, behind = (sum(r > 1 for r in ratios), sum(r < 0.5 for r in ratios))
                lines.append(
                    f"ahead of {peer} {told} compilation in {ahead} of {len(ratios)} cases, in the "
                    f"middle {np.median(ratios):.2g} times as fast, in {behind} behind by more "
                    f"than 2; the least ratio is {min(ratios):.2g}"
                )
    return "\n".join(lines)


def main() -> None:
    """Judge all cases."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, metavar="NAME", help="only some")
    parser.add_argument("--quick", action="store_true", help="five cases, one key; nothing saved")
    parser.add_argument("--keys", nargs="+", type=int, default=[0, 1, 2], help="of the draws")
    parser.add_argument("--no-peers", action="store_true", help="no other sampler's draws")
    parser.add_argument("--anew", action="store_true", help="measure again what is known")
    parser.add_argument("--truth", type=Path, default=TRUTH, help="file of the true quantiles")
    parser.add_argument("--only-truth", action="store_true", help="find what is missing there")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    names = list(parsed.cases or (QUICK if parsed.quick else CASES))
    keys = parsed.keys[:1] if parsed.quick else parsed.keys
    lacking = missing(names, parsed.truth)
    if parsed.only_truth:
        write_truths(lacking, parsed.truth)
        return
    if lacking:
        told = [sys.executable, __file__, "--only-truth", "--truth", str(parsed.truth), "--cases"]
        subprocess.run([*told, *lacking], env=os.environ | {"JAX_ENABLE_X64": "1"}, check=True)
    TRUTHS.update(read_truths(parsed.truth))
    whose = samplers(not parsed.no_peers)
    again = {(n, s, k) for n in names for s in whose for k in keys} if parsed.anew else set()
    known = [] if parsed.quick else machine.rows_of_others("any_model", "case", [], parsed.out)
    rows = [row for row in known if (row["case"], row["sampler"], row["key"]) not in again]
    done = {(row["case"], row["sampler"], row["key"]) for row in rows}
    for name in names:
        for sampler, make in whose.items():
            left = [key for key in keys if (name, sampler, key) not in done]
            new = measured(name, sampler, make, left, keys[0])
            rows += new
            for row in new:
                print(*(f"{k} {v}" for k, v in row.items() if v not in ("", [])), sep="; ")
            sys.stdout.flush()
            if new and not parsed.quick:  # at once: what is stopped goes on from here
                place = {n: i for i, n in enumerate(CASES)}
                rows.sort(key=lambda row: (place[row["case"]], row["sampler"] != OURS))
                settings = {"errors": ERRORS, "share": SHARE, "summary": summary(rows)}
                machine.save("any_model", rows, settings, parsed.out)
            jax.clear_caches()  # the next compiles everything itself
    if parsed.json:
        print(json.dumps(rows, indent=1))
    else:
        machine.show([{k: v for k, v in r.items() if k not in ("why", "notes")} for r in rows])
    print(summary(rows))


if __name__ == "__main__":
    main()
