"""How many pairs of a dataset the two-sided estimate samples: pilots say what they are worth."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from gibbs_dp.audit.control import LARGEST_SHARE, LEAST_DATASETS
from gibbs_dp.audit.pilot import keep, num_pilots, run_pilots
from gibbs_dp.audit.plan import Inputs, Plan, Summary
from gibbs_dp.audit.runner import Runner
from gibbs_dp.audit.sizes import LEAST_PAIRS, MOST_PAIRS


def choose_pairs(runner: Runner, plan: Plan, inputs: Inputs) -> int:
    """Fewest pairs whose choice adds no more variance than datasets have anyway.

    Every pair is a posterior to be sampled; more of them than this lower a standard error by less
    than a factor of ``sqrt(2)``, however many they are.
    """
    most = min(MOST_PAIRS, min(plan.n, plan.num_ghosts) // plan.group_size)
    if most <= LEAST_PAIRS:
        return most
    asked = inputs._replace(num_pairs=jnp.asarray(most, jnp.int32))
    found = keep(run_pilots(runner, plan, asked, num_pilots(runner.settings)))
    return min(most, max(LEAST_PAIRS, pairs_worth(found, most)))


def pairs_worth(pilots: Summary, num_pairs: int) -> int:
    """Variance between the pairs of one dataset over that between datasets, rounded up.

    Both without what the control variate explains; ``num_pairs`` where pilots cannot tell them
    apart.
    """
    value, control = (np.asarray(a, np.float64) for a in (pilots.kl_two_sided, pilots.pair_control))
    spread = np.asarray(pilots.pair_spread, np.float64)
    good = np.isfinite(value) & np.isfinite(control) & np.isfinite(spread).all(axis=1)
    if good.sum() < LEAST_DATASETS:
        return num_pairs
    value, control, (pairs, both, proxies) = value[good], control[good], spread[good].mean(axis=0)
    share = np.clip(both / proxies, 0.0, LARGEST_SHARE) if proxies > 0 else 0.0
    within = pairs - 2 * share * both + share**2 * proxies
    between = np.var(value - share * control, ddof=1) - within / num_pairs
    if not between > within / num_pairs:
        return num_pairs
    return math.ceil(within / between)
