"""Does any NumPyro model get right draws by default, and how fast? Some sixty against long runs.

    taskset -c 1 python benchmarks/any_model.py     # an hour on one core; --quick: three minutes

The models are those of other people's kinds (`any_model_hierarchies.py`, `any_model_others.py`).
Each goes through `GibbsPosterior.from_numpyro` and `gibbs_dp.sample` with default settings, in
single precision. The truth is a NUTS run in double precision, in a process of its own, with
hierarchies non-centred where that is better, and as long as it takes for an R-hat below 1.005 and
2,000 effective draws of every number; it is kept in the file `--truth`. A case whose truth does
not get there is "unjudged".

Quantiles are judged, since heavy tails have no moments. With a key, a case is

- right, if of every number the shares of draws below the true 5, 25, 50, 75 and 95% quantiles lie
  within 4.5 Monte Carlo errors, and the median within 0.15 of the interquartile range over 1.35;
- else flagged, if the draws come with a warning, and WRONG if they come with none;
- refused, if `from_numpyro` or `sample` says why it cannot be drawn from.

Speed is effective draws (rank-normalized, of the number that has fewest) per second of CPU time of
the process, which is why one core is best, with compilation in it (first run) and without (the
same again). NumPyro's NUTS runs with its defaults (1,000 steps of warmup, 1,000 draws, 4 chains,
vectorized), BlackJAX's, if installed, with window adaptation and as many, on the unconstrained
density of the posterior. Their draws are judged as ours, and the ratios are of all draws, right or
not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import machine
import numpy as np
from any_model_hierarchies import Case
from any_model_truth import CASES, ERRORS, SHARE, Sites, judge, missing, read_truths, write_truths
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import initialize_model

import gibbs_dp as gdp

QUICK = ("schools_c", "normal_c_8x5", "logistic_10", "student", "funnel_c")
CHAINS, WARMUP, DRAWS = 4, 1000, 1000
TRUTH = machine.RESULTS / "any_model_truth.json"


# -- samplers -----------------------------------------------------------------------------


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """Return what is run, and the CPU seconds that it takes."""
    begin = time.process_time()
    found = run()
    return found, time.process_time() - begin


def nuts(case: Case, args: tuple) -> Callable[[int], Sites]:
    """NumPyro's NUTS; what it has compiled, it keeps."""
    kept: dict[str, Any] = {}

    def run(key: int) -> Sites:
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
        kept["mcmc"].run(second, init_params=kept["info"].param_info.z)
        found = kept["sites"](kept["mcmc"].get_samples(group_by_chain=True))
        return {k: np.asarray(v) for k, v in found.items()}

    return run


def blackjax_nuts(posterior: gdp.GibbsPosterior) -> Callable[[int], Sites]:
    """BlackJAX's NUTS after window adaptation, on the unconstrained density."""
    import blackjax

    target = posterior.unconstrained(posterior.data, 1.0)

    def chain(key: Any) -> Any:
        start_key, warm_key, draw_key = jax.random.split(key, 3)
        start = jax.random.uniform(start_key, (posterior.dim,), minval=-2.0, maxval=2.0)
        adaptation = blackjax.window_adaptation(blackjax.nuts, target.log_density)
        (state, parameters), _ = adaptation.run(warm_key, start, num_steps=WARMUP)
        step = blackjax.nuts(target.log_density, **parameters).step

        def one(state: Any, key: Any) -> tuple[Any, Any]:
            state, _ = step(key, state)
            return state, posterior.constrain(state.position)

        return jax.lax.scan(one, state, jax.random.split(draw_key, DRAWS))[1]

    chains = jax.jit(jax.vmap(chain))

    def run(key: int) -> Sites:
        found = chains(jax.random.split(jax.random.key(key), CHAINS))
        return {k: np.asarray(v) for k, v in found.items()}

    return run


def measured(run: Callable[[int], Sites], truth: dict) -> dict[str, Any]:
    """Judge a peer's draws, and say how many come in a second."""
    first, cold = timed(lambda: run(0))
    _, warm = timed(lambda: run(0))
    found = judge(first, truth)
    verdict = "right" if found["is right"] else f"off ({found['told']})"
    return {"verdict": verdict, "warm": found["ess"] / warm, "cold": found["ess"] / cold}


def judged(draws: gdp.Draws, truth: dict) -> dict[str, Any]:
    """Judge our draws: an ensemble's by each chain that ran, those of SMC by their islands."""
    kernel, most = str(draws.settings["kernel"]), np.inf
    sites = draws.named
    if kernel.startswith("AdaptiveHMC"):  # each chain that was asked for is several that ran
        shape = gdp.AdaptiveHMC().chains_for(CHAINS), -1
        sites = {k: v.reshape(*shape, *v.shape[2:]) for k, v in sites.items()}
    if draws.num_particles is not None:
        most = float(draws.to_dataframe()["ess"].min())
    return judge(sites, truth, most)


def row(name: str, truth: dict, keys: list[int], with_peers: bool) -> dict[str, Any]:
    """Draw with every key, judge, and let the peers draw."""
    case = CASES[name]
    args = case.make()
    found: dict[str, Any] = {"case": name, "verdicts": "", "why": ""}

    def build() -> gdp.GibbsPosterior:
        return gdp.GibbsPosterior.from_numpyro(case.model, args=args, **case.settings)

    try:
        posterior, building = timed(build)
        looks = [timed(lambda k=k: gdp.sample(posterior, posterior.data, key=k)) for k in keys]
    except ValueError as error:
        return found | {"verdicts": "refused", "why": str(error)}
    seen = [judged(draws, truth) for draws, _ in looks]
    warnings = ["; ".join(map(str, draws.warnings)) for draws, _ in looks]
    verdicts = [
        "right" if each["is right"] else "flagged" if told else "WRONG"
        for each, told in zip(seen, warnings, strict=True)
    ]
    if not truth["is good"]:
        verdicts = ["unjudged"] * len(keys)
    seconds = looks[0][1]
    cold = building + seconds
    why = [
        f"key {k}: {verdict}, {each['told']}" + f"; warned: {told}" * bool(told)
        for k, verdict, each, told in zip(keys, verdicts, seen, warnings, strict=True)
        if verdict != "right" or told
    ]
    found |= {
        "dim": posterior.dim,
        "verdicts": ", ".join(verdicts),
        "warned": sum(map(bool, warnings)),
        "z": max((each["z"] for each in seen), key=abs),
        "median off": max((each["median off"] for each in seen), key=abs),
        "ess": seen[0]["ess"],
        "building": building,
        "seconds": cold,
        "cold": seen[0]["ess"] / cold,
        "kernel": ", ".join(dict.fromkeys(str(draws.settings["kernel"]) for draws, _ in looks)),
        "why": " | ".join(why),
        "notes": [str(note) for draws, _ in looks for note in draws.notes],
    }
    if not with_peers:
        return found
    _, warm = timed(lambda: gdp.sample(posterior, posterior.data, key=keys[0]))
    found["warm"] = seen[0]["ess"] / warm
    peers = {"NUTS": nuts(case, args)}
    if has_blackjax():
        peers["BlackJAX"] = blackjax_nuts(posterior)
    for peer, run in peers.items():
        theirs = measured(run, truth)
        found |= {f"{peer} {k}": v for k, v in theirs.items()}
        found |= {f"over {peer} {k}": found[k] / max(theirs[k], 1e-9) for k in ("warm", "cold")}
    return found


def has_blackjax() -> bool:
    """Whether BlackJAX is installed."""
    try:
        import blackjax  # noqa: F401
    except ImportError:
        return False
    return True


# -- the whole ----------------------------------------------------------------------------


def summary(rows: list[dict]) -> str:
    """Say in a few lines how it went, by draws and by cases."""
    every = [verdict for each in rows for verdict in each["verdicts"].split(", ")]
    kinds = ("right", "flagged", "WRONG", "refused", "unjudged")
    lines = [", ".join(f"{every.count(kind)} {kind}" for kind in kinds) + f" of {len(every)} draws"]
    for peer in ("NUTS", "BlackJAX"):
        for how, told in (("warm", "without"), ("cold", "with")):
            ratios = [each[k] for each in rows if (k := f"over {peer} {how}") in each]
            if ratios:
                ahead = sum(ratio > 1 for ratio in ratios)
                lines.append(
                    f"ahead of {peer} {told} compilation in {ahead} of {len(ratios)}, in the "
                    f"middle {np.median(ratios):.2g} times as fast, never behind by more than "
                    f"{max(1.0, 1 / max(min(ratios), 1e-9)):.3g} times"
                )
    return "\n".join(lines)


def main() -> None:
    """Judge all cases."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, metavar="NAME", help="some anew")
    parser.add_argument("--quick", action="store_true", help="five cases, one key; nothing saved")
    parser.add_argument("--keys", nargs="+", type=int, default=[0, 1, 2], help="of the draws")
    parser.add_argument("--no-peers", action="store_true", help="no other sampler's draws")
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
    truths, rows = read_truths(parsed.truth), []
    others = machine.rows_of_others("any_model", "case", names, parsed.out) if parsed.cases else []
    for name in names:
        rows.append(row(name, truths[name], keys, not parsed.no_peers))
        told = {
            k: rows[-1].get(k, "") for k in ("verdicts", "building", "seconds", "kernel", "why")
        }
        print(f"{name}:", *(f"{k} {v}" for k, v in told.items() if v), sep="; ", flush=True)
        if not parsed.quick:  # at once: what is stopped has what it found
            settings = {"errors": ERRORS, "share": SHARE, "summary": summary(others + rows)}
            machine.save("any_model", others + rows, settings, parsed.out)
    if parsed.json:
        print(json.dumps(rows, indent=1))
    else:
        machine.show([{k: v for k, v in r.items() if k not in ("why", "notes")} for r in rows])
    print(summary(rows))


if __name__ == "__main__":
    main()
