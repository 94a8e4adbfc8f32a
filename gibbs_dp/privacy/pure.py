"""Pure differential privacy of one exact draw, from a declared domain."""

from __future__ import annotations

from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.losses import Loss
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.accountant import account


def pure_dp_epsilon(
    posterior: GibbsPosterior,
    gamma: float,
    n: int,
    domain: Domain | None = None,
    *,
    adjacency: Adjacency,
) -> float | None:
    """Pure-DP epsilon (nats) of one **exact** draw, or None where nothing was declared.

    Per-example losses: the log ratio of neighbouring Gibbs posteriors has range at most
    ``gamma R`` on the domain, and normalizing keeps it within ``[-gamma R, gamma R]``:
    ``gamma R``-DP (McSherry & Talwar 2007, the exponential mechanism). ``inf`` when the loss is
    unbounded there.

    Structured losses: ``gamma sensitivity(n)`` when the normalizer is free of the data (Dwork et
    al. 2006, the Laplace mechanism), twice that otherwise; replace-one only.

    Parameters
    ----------
    posterior
        The posterior. A bounded prior support supplies the parameter's norm where the domain
        leaves it open.
    gamma
        Inverse temperature.
    n
        Dataset size.
    domain
        Declared bounds on examples.
    adjacency
        Which datasets count as neighbours.

    Returns
    -------
    float or None
        Nats.

    Raises
    ------
    ValueError
        For a structured loss under add/remove, whose declared sensitivity is replace-one, and
        when the domain bounds theta more tightly than the prior's support does.

    Examples
    --------
    >>> import gibbs_dp as gdp
    >>> p = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.box(-2.0, 2.0, 1)))
    >>> pure_dp_epsilon(p, 0.5, 100, gdp.Domain(x_bound=1.0, y_range=(-2.0, 2.0)),
    ...                 adjacency="replace-one")
    16.0
    """
    if posterior.structured and posterior.sensitivity is None:
        return None
    if not posterior.structured and (domain is None or not isinstance(posterior.loss, Loss)):
        return None
    return account(posterior, gamma=gamma, n=n, adjacency=adjacency, domain=domain).pure()
