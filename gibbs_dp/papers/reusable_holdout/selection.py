"""Selection bias of noisy means against the information that the selection reveals.

``m`` means ``phi_j ~ N(0, sigma^2)``, all with population mean 0, one selected by softmax (the
exponential mechanism, which at zero temperature takes the largest): its bias is at most
``sqrt(2 sigma^2 I(W; Phi))`` (Russo & Zou 2016).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.information import bounds, checks
from gibbs_dp.papers.reusable_holdout.result import Advance, mean_and_se, uncounted
from gibbs_dp.papers.tables import Row

COUNTS = (10, 100, 1000)
# In standard deviations of a mean; 0 selects the largest.
TEMPERATURES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0)


def one_selection(
    key: PRNGKeyArray, m: int, temperatures: Float[Array, " temperatures"]
) -> Float[Array, "temperatures 2"]:
    """Compute the expected selected mean and the selection's entropy given the means, unit sigma.

    By symmetry ``I(W; Phi) = log m - E H(W | Phi)``, so both are averages of exact conditional
    expectations.
    """
    phi = jax.random.normal(key, (m,))

    def at(temperature: Float[Array, ""]) -> Float[Array, " 2"]:
        log_p = jax.nn.log_softmax(phi / jnp.maximum(temperature, 1e-6))
        p = jnp.exp(log_p)
        return jnp.stack([matmul(p, phi), -jnp.sum(jnp.where(p > 0, p * log_p, 0.0))])

    return jax.vmap(at)(temperatures)


def selection_rows(
    counts: Sequence[int] = COUNTS,
    *,
    sigma: float = 0.01,
    repetitions: int = 2000,
    key: int = 0,
    advance: Advance = uncounted,
) -> list[Row]:
    """Bias and bound, one dict per ``m`` and temperature; errors over repetitions.

    Parameters
    ----------
    counts
        Values of ``m``.
    sigma
        Standard deviation of each mean, such as ``1/sqrt(n)``.
    repetitions
        Independent repetitions, vmapped.
    key
        Integer seed.
    advance
        Called with the number of repetitions just done.

    Returns
    -------
    list of dict
        Bias, its standard error and the bound, with ``m`` and the temperature.
    """
    checks.count("repetitions", repetitions, minimum=2)
    checks.positive("sigma", sigma)
    rows: list[Row] = []
    grid = jnp.asarray(TEMPERATURES)
    for m in counts:
        checks.count("counts", m, minimum=2)
        keys = jax.random.split(jax.random.fold_in(jax.random.key(key), m), repetitions)
        run = jax.jit(
            lambda k, m=m: jax.lax.map(lambda one: one_selection(one, m, grid), k, batch_size=100)
        )
        found = np.asarray(run(keys), dtype=np.float64)
        for i, temperature in enumerate(TEMPERATURES):
            entropy = found[:, i, 1]
            information = max(0.0, math.log(m) - float(entropy.mean()))
            bound = bounds.selection_bias(information, sigma=sigma)
            rows.append(
                {"m": m, "temperature": temperature, "sigma": sigma, "repetitions": repetitions}
                | mean_and_se("bias", sigma * found[:, i, 0])
                | {"information": information}
                | {"information_se": float(entropy.std(ddof=1) / repetitions**0.5)}
                | {"bound": bound, "bound_at_zero": sigma * math.sqrt(2 * math.log(m))}
            )
        advance(repetitions)
    return rows
