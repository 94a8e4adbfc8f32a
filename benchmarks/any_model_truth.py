"""True quantiles of the models of `any_model.py`, and draws judged by them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import any_model_hierarchies
import any_model_others
import jax
import numpy as np
from any_model_hierarchies import Case
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.handlers import reparam, seed, trace
from numpyro.infer import MCMC, NUTS
from numpyro.infer.reparam import LocScaleReparam
from scipy import stats

from gibbs_dp.sampling.diagnostics import label

CASES: dict[str, Case] = any_model_hierarchies.CASES | any_model_others.CASES
LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
ERRORS, SHARE = 4.5, 0.15
TRUE_R_HAT, TRUE_ESS = 1.005, 2000.0
ACCEPT, WARMUP, CHAINS = 0.9, 800, 16
CHUNK, MOST_CHUNKS, MOST_SECONDS = 800, 30, 180.0  # of CPU
Sites = dict[str, np.ndarray]  # [chain, draw, ...]


# -- draws and what they are worth --------------------------------------------------------


def ranked(x: np.ndarray) -> np.ndarray:
    """Rank-normalized draws, ``[chain, draw, number]``."""
    ranks = stats.rankdata(x.reshape(-1, x.shape[-1]), axis=0)
    return stats.norm.ppf((ranks - 0.375) / (len(ranks) + 0.25)).reshape(x.shape)


def numbers(sites: Sites, names: list[str]) -> tuple[list[str], np.ndarray]:
    """Every number of these sites, by name: ``[chain, draw, number]``."""
    labels = [label(k, at) for k in names for at in np.ndindex(sites[k].shape[2:])]
    parts = [np.asarray(sites[k], np.float64) for k in names]
    return labels, np.concatenate([p.reshape(*p.shape[:2], -1) for p in parts], axis=2)


def worth(x: np.ndarray) -> np.ndarray:
    """Effective draws of every number; none of one that does not move."""
    moves = x.std(axis=(0, 1)) > 0
    found = np.zeros(x.shape[-1])
    if moves.any():
        found[moves] = np.atleast_1d(effective_sample_size(ranked(x[..., moves])))
    return np.nan_to_num(found)


def worst_r_hat(sites: Sites) -> tuple[float, float]:
    """Return the largest rank R-hat and the fewest effective draws of all numbers that move."""
    _, x = numbers(sites, sorted(sites))
    x = x[..., x.std(axis=(0, 1)) > 0]
    return float(np.max(split_gelman_rubin(ranked(x)))), float(worth(x).min())


def below(x: np.ndarray, quantiles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Share of draws below each quantile ``[number, level]``, and how many draws it is worth."""
    share, ess = [], []
    for k in range(len(LEVELS)):
        is_below = (x <= quantiles[:, k]).astype(np.float64)
        share.append(is_below.mean(axis=(0, 1)))
        mixed = (is_below.std(axis=(0, 1)) > 0) & np.isfinite(x).all(axis=(0, 1))
        found = np.ones(x.shape[-1])
        if mixed.any():
            found[mixed] = np.atleast_1d(effective_sample_size(is_below[..., mixed]))
        ess.append(np.clip(np.nan_to_num(found, nan=1.0), 1.0, x[..., 0].size))
    return np.stack(share, axis=1), np.stack(ess, axis=1)


def judge(sites: Sites, truth: dict, most: float = np.inf) -> dict[str, Any]:
    """Compare draws, worth so many at most, with the truth: the worst of all numbers."""
    labels, x = numbers(sites, sorted(truth["sites"]))
    if labels != truth["names"]:
        raise RuntimeError(f"the draws are of {labels}, the truth of {truth['names']}.")
    quantiles = np.array(truth["quantiles"])
    width = (quantiles[:, 3] - quantiles[:, 1]) / 1.35
    moves = width > 1e-6 * np.maximum(1e-3, np.abs(quantiles[:, 2]))
    share, ess = below(x, quantiles)
    ess = np.minimum(ess, most)
    variance = LEVELS * (1 - LEVELS) * (1 / ess + 1 / np.array(truth["ess"])[:, None])
    z = np.where(moves[:, None], (share - LEVELS) / np.sqrt(variance), 0.0)
    off = np.where(
        moves, (np.median(x, axis=(0, 1)) - quantiles[:, 2]) / np.maximum(width, 1e-300), 0
    )
    at, worst = np.unravel_index(np.abs(z).argmax(), z.shape), np.abs(off).argmax()
    return {
        "is right": bool(np.abs(z).max() < ERRORS and np.abs(off).max() < SHARE),
        "z": float(z[at]),
        "median off": float(off[worst]),
        "told": f"{labels[at[0]]}: {share[at]:.3f} of draws below the {LEVELS[at[1]]:.0%} "
        f"quantile, {z[at]:.1f} errors; {labels[worst]}: median off by {off[worst]:.2f} sd",
        "ess": float(min(most, worth(x)[moves].min())),
    }


# -- truth --------------------------------------------------------------------------------


def digest(args: tuple) -> str:
    """Say which data a truth is of."""
    found = hashlib.sha256()
    for each in args:
        found.update(np.ascontiguousarray(each).tobytes())
    return found.hexdigest()[:16]


def find_truth(name: str) -> dict[str, Any]:
    """Run NUTS until its diagnostics have nothing against it."""
    case, begin = CASES[name], time.process_time()
    args = case.make()
    model = case.twin or case.model
    config = {site: LocScaleReparam(0.0) for site in case.sites}
    mcmc = MCMC(
        NUTS(reparam(model, config=config), target_accept_prob=ACCEPT),
        num_warmup=WARMUP,
        num_samples=CHUNK,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    wanted = sorted(latent_sites(case.model, args))
    parts: list[np.ndarray] = []
    for chunk in range(MOST_CHUNKS):
        mcmc.run(jax.random.key(1000 + chunk), *args)
        mcmc.post_warmup_state = mcmc.last_state
        found = {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}
        names, x = numbers(found, wanted)
        parts.append(x)
        x = np.concatenate(parts, axis=1)
        moves = x.std(axis=(0, 1)) > 1e-9
        bulk = worth(x[..., moves])
        r_hat = np.max(split_gelman_rubin(ranked(x[..., moves])))
        is_good = bool(bulk.min() > TRUE_ESS and r_hat < TRUE_R_HAT)
        if is_good or time.process_time() - begin > MOST_SECONDS:
            break
    quantiles = np.quantile(x, LEVELS, axis=(0, 1)).T
    ess = np.minimum(below(x, quantiles)[1].min(axis=1), np.inf)

    def short(values: np.ndarray) -> list:
        return json.loads(
            json.dumps(values.tolist()), parse_float=lambda t: float(f"{float(t):.6g}")
        )

    return {
        "data": digest(args),
        "is good": is_good,
        "r_hat": float(r_hat),
        "least ess": float(bulk.min()),
        "sites": wanted,
        "names": names,
        "quantiles": short(quantiles),
        "mean": short(x.mean(axis=(0, 1))),
        "sd": short(x.std(axis=(0, 1))),
        "ess": [int(n) for n in ess],
        "draws": int(x[..., 0].size),
        "seconds": time.process_time() - begin,
    }


def latent_sites(model: Callable[..., None], args: tuple) -> list[str]:
    """Names of the latent sites of a model as it is written."""
    found = trace(seed(model, 0)).get_trace(*args)
    return [k for k, s in found.items() if s["type"] == "sample" and not s["is_observed"]]


def read_truths(path: Path) -> dict[str, dict]:
    """Truths that are known."""
    return json.loads(path.read_text()) if path.exists() else {}


def write_truths(names: list[str], path: Path) -> None:
    """Find truths one by one, and write each at once."""
    for name in names:
        found = find_truth(name)
        told = {k: found[k] for k in ("is good", "r_hat", "least ess", "draws", "seconds")}
        print(f"truth of {name}: {told}", flush=True)
        text = json.dumps(read_truths(path) | {name: found}, separators=(",", ":"))
        path.write_text(text.replace('},"', '},\n"'))


def missing(names: list[str], path: Path) -> list[str]:
    """Names of cases without a truth, or with that of other data."""
    known = read_truths(path)
    return [k for k in names if known.get(k, {}).get("data") != digest(CASES[k].make())]
