"""The gamma of the least PAC-Bayes certificate."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import PyTree

from gibbs_dp.auditing.purposes.result import CurvePoint, PurposeCalibration
from gibbs_dp.certificates import certify
from gibbs_dp.certificates.checks import find_range
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior

# Times one over the range of the loss; fixed, as a grid must not depend on the data.
GAMMAS = np.geomspace(0.01, 10.0, 13)


def calibrate_certificate(
    posterior: GibbsPosterior,
    data: PyTree,
    *,
    domain: Domain | None = None,
    loss_range: tuple[float, float] | None = None,
    gammas: Any = None,
    **settings: Any,
) -> PurposeCalibration:
    """Find the gamma of the least certificate on a grid, for which `gibbs_dp.certify` pays.

    Parameters
    ----------
    posterior, data, domain, loss_range
        As of `gibbs_dp.certify`.
    gammas
        The grid. None: 13 from 0.01 to 10 over the range of the loss.
    settings
        Of `gibbs_dp.certify`: ``delta``, ``bound``, ``key``, ``sampler``, ``num_chains``,
        ``num_samples``.

    Returns
    -------
    PurposeCalibration
        The certificate is its ``detail``.

    Raises
    ------
    ValueError
        As `gibbs_dp.certify`.
    """
    if gammas is None:
        low, high = find_range(posterior, data, domain, loss_range)
        gammas = GAMMAS / (high - low)
    found = certify(posterior, data, gammas, domain=domain, loss_range=loss_range, **settings)
    name = found.settings["bound"]
    curve = tuple(CurvePoint(row["gamma"], row[name], 0.0) for row in found.rows)
    grid = [point.gamma for point in curve]
    place = grid.index(found.gamma)
    return PurposeCalibration(
        "certificate",
        found.gamma,
        0.0,
        grid[max(0, place - 1)],
        grid[min(len(grid) - 1, place + 1)],
        found.bound,
        0.0,
        curve,
        found.warnings,
        found,
    )
