"""Are audits of hierarchies right? Both routes to on-average KL, and NUTS dataset by dataset.

    taskset -c 1 python benchmarks/any_model_audits.py     # 15 minutes on one core; --quick: two

Five models of `any_model_hierarchies.py`, two of them centred, on small data that are drawn from
a table. `gibbs_dp.audit` runs with its default sampler. Where one replaced example moves the
posterior far, the default estimate of on-average KL is the route by generalization itself; there
the two-sided one is asked for. Beside it NumPyro's NUTS draws from the posterior of each of some
datasets (others than the audit's), non-centred, and on-average KL is taken from its draws by the
formulas alone: of an example that another replaces, with `delta` the difference of the losses,
the mean of `delta` plus the logarithm of the mean of `exp(-delta)`, over all examples of the
dataset and some others; and, as second route, the mean of `delta` (Wang, Lei & Fienberg 2016).
Four numbers for one. The audit's two may differ from each other and from NUTS's by three standard
errors of the difference.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import any_model_hierarchies as hierarchies
import jax
import jax.numpy as jnp
import machine
import numpy as np
from any_model_truth import worst_r_hat
from numpyro.handlers import reparam
from numpyro.infer import MCMC, NUTS
from numpyro.infer.reparam import LocScaleReparam

import gibbs_dp as gdp

ERRORS = 3.0
GHOSTS, CHAINS, WARMUP, DRAWS = 16, 4, 500, 500


class Model(NamedTuple):
    """A model, a table to draw ``n`` rows from, and what NUTS moves to its non-centred form.

    The table's columns are those that the settings call examples.
    """

    model: Callable[..., None]
    table: tuple[np.ndarray, ...]
    n: int
    settings: dict[str, Any]
    sites: tuple[str, ...] = ()
    estimator: str = "auto"


def schools_like() -> tuple[np.ndarray, np.ndarray]:
    """Sixty schools whose estimates are as noisy as those of the eight."""
    rng = np.random.default_rng(3)
    sigma = np.resize(hierarchies.coaching()[0], 60)
    return sigma, 6.0 + 8.0 * rng.normal(size=60) + sigma * rng.normal(size=60)


def intercepts(outcome: str, is_centred: bool, n: int) -> Model:
    """Six groups in 240 rows."""
    table = hierarchies.grouped(5, outcome, hierarchies.counts("even", 6, 40), 0.7)
    model = partial(hierarchies.intercepts, is_centred, outcome, 6)
    sites = ("a",) if is_centred else ()
    return Model(model, table, n, {"examples": ("g", "x", "offset", "y")}, sites)


SCHOOLS = {"structured": True, "examples": ("sigma", "y")}
MODELS = {
    "schools, centred": Model(
        hierarchies.schools, schools_like(), 8, SCHOOLS, ("theta",), "two-sided"
    ),
    "schools": Model(hierarchies.schools_noncentred, schools_like(), 8, SCHOOLS, (), "two-sided"),
    "normal, centred": intercepts("normal", True, 30),
    "poisson": intercepts("poisson", False, 30),
    "bernoulli": intercepts("bernoulli", False, 40),
}


def deltas(
    posterior: gdp.GibbsPosterior, theta: Any, data: Any, ghosts: Any
) -> jax.Array:  # [example, ghost]
    """Loss with an example replaced, minus the loss as it is."""
    if not posterior.structured:
        return posterior.losses(theta, ghosts) - posterior.losses(theta, data)[:, None]
    before = posterior.empirical_loss(theta, data)

    def one(i: Any, ghost: Any) -> Any:
        replaced = jax.tree.map(lambda a, b: a.at[i].set(b), data, ghost)
        return posterior.empirical_loss(theta, replaced) - before

    places = jnp.arange(jax.tree.leaves(data)[0].shape[0])
    return jax.vmap(lambda i: jax.vmap(lambda g: one(i, g))(ghosts))(places)


def nested(case: Model, posterior: gdp.GibbsPosterior, num_datasets: int) -> dict[str, Any]:
    """On-average KL by NUTS on each of some datasets, which are drawn side by side."""
    config = {site: LocScaleReparam(0.0) for site in case.sites}
    names = list(posterior.constrain(jnp.zeros(posterior.dim)))

    def of_dataset(key: Any, args: list, ghosts: Any) -> tuple[Any, Any, dict[str, Any]]:
        mcmc = MCMC(
            NUTS(reparam(case.model, config=config), target_accept_prob=0.9),
            num_warmup=WARMUP,
            num_samples=DRAWS,
            num_chains=CHAINS,
            chain_method="vectorized",
            progress_bar=False,
        )
        mcmc.run(key, *args)
        sites = {k: v for k, v in mcmc.get_samples(group_by_chain=True).items() if k in names}
        theta = {k: v.reshape(-1, *v.shape[2:]) for k, v in sites.items()}
        data = dict(zip(case.settings["examples"], args, strict=True))
        delta = jax.lax.map(lambda t: deltas(posterior, t, data, ghosts), theta)
        mean = delta.mean(axis=0)
        normalizer = jax.scipy.special.logsumexp(-delta, axis=0) - jnp.log(delta.shape[0])
        return jnp.mean(mean + normalizer), jnp.mean(mean), sites

    rng, size = np.random.default_rng(17), len(case.table[0])
    rows = rng.integers(size, size=(num_datasets, case.n))
    others = rng.integers(size, size=(num_datasets, GHOSTS))
    args = [jnp.asarray(column[rows]) for column in case.table]
    ghosts = dict(
        zip(case.settings["examples"], (jnp.asarray(c[others]) for c in case.table), strict=True)
    )
    keys = jax.random.split(jax.random.key(0), num_datasets)
    *found, sites = jax.jit(jax.vmap(of_dataset))(keys, args, ghosts)
    r_hats = [
        worst_r_hat({k: np.asarray(v[i]) for k, v in sites.items()})[0] for i in range(num_datasets)
    ]
    found = np.transpose(np.asarray(found, np.float64))
    (kl, ghost), root = np.mean(found, axis=0), num_datasets**0.5
    kl_se, ghost_se = np.std(found, axis=0, ddof=1) / root
    apart = np.subtract(*np.transpose(found))
    return {
        "nested": float(kl),
        "nested se": float(kl_se),
        "nested ghost": float(ghost),
        "nested ghost se": float(ghost_se),
        "nested apart": float(apart.mean() / (apart.std(ddof=1) / root)),
        "R-hat of NUTS": [float(np.median(r_hats)), max(r_hats)],
    }


def row(name: str, num_datasets: int, num_nested: int) -> dict[str, Any]:
    """Audit, draw again by NUTS, and compare."""
    case = MODELS[name]
    args = tuple(jnp.asarray(column[: case.n]) for column in case.table)
    posterior = gdp.GibbsPosterior.from_numpyro(case.model, args=args, **case.settings)
    table = dict(zip(case.settings["examples"], case.table, strict=True))
    begin = time.process_time()
    report = gdp.audit(
        posterior,
        gdp.populations.Table(table),
        n=case.n,
        gammas=[1.0],
        num_datasets=num_datasets,
        learn=[gdp.OnAverageKL(case.estimator), gdp.Risks()],
        progress=False,
    )
    seconds = time.process_time() - begin
    (told,) = report.rows
    value, se, ghost, ghost_se = (
        float(told[f"on_average_kl{part}"]) for part in ("", "_se", "_ghost", "_ghost_se")
    )
    found = {
        "model": name,
        "dim": posterior.dim,
        "estimator": case.estimator,
        "audit": value,
        "audit se": se,
        "audit ghost": ghost,
        "audit ghost se": ghost_se,
        "sampler": str(report.settings.get("sampler", report.settings.get("kernel"))),
        "audit seconds": seconds,
        "warnings": list(map(str, report.warnings)),
    } | nested(case, posterior, num_nested)
    found["routes apart"] = float((value - ghost) / np.hypot(se, ghost_se))
    for route in ("audit", "audit ghost"):
        error = np.hypot(found[f"{route} se"], found["nested se"])
        found[f"{route} off"] = float((found[route] - found["nested"]) / error)
    found["is right"] = all(
        abs(found[k]) < ERRORS for k in ("routes apart", "audit off", "audit ghost off")
    )
    return found


def main() -> None:
    """Audit all models."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, metavar="NAME", help="only some")
    parser.add_argument("--datasets", type=int, default=256, help="of an audit")
    parser.add_argument("--nested", type=int, default=48, help="datasets that NUTS draws from")
    parser.add_argument("--quick", action="store_true", help="one model, few; nothing saved")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    names = list(parsed.models or MODELS)[: 1 if parsed.quick else None]
    counts = (128, 8) if parsed.quick else (parsed.datasets, parsed.nested)
    rows = machine.rows_of_others("any_model_audits", "model", names, parsed.out)
    for name in names:
        rows.append(row(name, *counts))
        print(rows[-1], flush=True)
        if not parsed.quick:
            settings = {"errors": ERRORS, "datasets": counts[0], "nested": counts[1]}
            machine.save("any_model_audits", rows, settings, parsed.out)
    machine.show([{k: v for k, v in r.items() if k != "warnings"} for r in rows])


if __name__ == "__main__":
    main()
