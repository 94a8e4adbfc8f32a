"""Why each guarantee applies, or does not, as a table."""

from __future__ import annotations

import math
from typing import NamedTuple

from gibbs_dp.privacy.accountant import Accountant
from gibbs_dp.privacy.inverse import epsilon_at


class Row(NamedTuple):
    """One guarantee: its value, and the assumption it rests on or what it lacks."""

    guarantee: str
    value: float
    because: str


def rows(accountant: Accountant, *, delta: float = 1e-5) -> list[Row]:
    """List every guarantee with its value and its reason.

    Parameters
    ----------
    accountant
        From `gibbs_dp.privacy.account`.
    delta
        At which ``epsilon`` of ``(epsilon, delta)``-DP is shown.

    Returns
    -------
    list of Row
        One per guarantee; ``inf`` where it does not hold. Bayesian DP is among them where a law of
        dependent rows was declared; the others are then of DP alone.

    Examples
    --------
    >>> import gibbs_dp as gdp
    >>> p = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.real(1)))
    >>> found = gdp.privacy.account(p, gamma=1.0, n=10, adjacency="replace-one",
    ...                             domain=gdp.Domain(x_bound=1.0, y_range=(-1.0, 1.0)))
    >>> print(rows(found)[0].because.split(";")[0])
    no: the range of the loss is infinite
    """
    m = accountant.num_draws
    figures = {
        "pure DP, eps": lambda r: r.pure(m),
        "zCDP, rho": lambda r: r.zcdp(m),
        "Renyi DP of order 2": lambda r: r.renyi(2.0, m),
        "Renyi DP of order 8": lambda r: r.renyi(8.0, m),
        "Gaussian DP, mu": lambda r: r.gdp(m),
        f"(eps, {delta:g})-DP, eps": lambda r: epsilon_at(r, delta, m),
        "KL": lambda r: r.kl(m),
        "total variation": lambda r: r.tv(m),
    }
    table = []
    for name, figure in figures.items():
        value, route = accountant.best(figure)
        if route is None:
            table.append(Row(name, math.inf, f"no: {accountant.why_none(name.startswith('pure'))}"))
        else:
            table.append(Row(name, value, f"{route.name}: {route.assumption}"))
    if accountant.rows is not None:
        value, why = accountant.bayesian(), accountant.of_dependent_rows()[0]
        reason = f"no: {why}." if math.isinf(value) else f"influence of rows: {why}"
        table.append(Row("Bayesian DP, eps", value, reason))
    return table


def explain(accountant: Accountant, *, delta: float = 1e-5) -> str:
    """Print-ready account of every guarantee: value, assumption, or what is missing.

    Parameters are those of `rows`.

    Examples
    --------
    >>> import gibbs_dp as gdp
    >>> p = gdp.GibbsPosterior(gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball(2, 1.0)))
    >>> found = gdp.privacy.account(p, gamma=0.25, n=10, adjacency="add-remove",
    ...                             domain=gdp.Domain(x_bound=1.0))
    >>> print(explain(found).splitlines()[1])
      pure DP, eps             0.25         bounded range
    """
    c = accountant.constants
    draws = "1 exact draw" if accountant.num_draws == 1 else f"{accountant.num_draws} exact draws"
    lines = [f"{draws} at gamma = {accountant.gamma:g}, {c.adjacency} neighbours, n = {c.n}:"]
    for row in rows(accountant, delta=delta):
        shown = "-" if math.isinf(row.value) else f"{row.value:.9g}"
        lines.append(f"  {row.guarantee:<24} {shown:<12} {row.because.partition(':')[0]}")
    lines.append("constants of the posterior on the domain:")
    constants = {
        "range R between neighbours": c.loss_range,
        "Lipschitz G between neighbours": c.lipschitz,
        "strong convexity m": c.strong_convexity(accountant.gamma),
        "smoothness M": c.smoothness(accountant.gamma),
    }
    lines += [f"  {name:<31} {value:.9g}" for name, value in constants.items()]
    lines += [f"{r.name} assumes: {r.assumption}." for r in accountant.routes]
    lines += [f"{name} does not apply: {reason}." for name, reason in accountant.missing]
    lines += [f"{text}." for text in accountant.of_dependent_rows()]
    lines.append(
        "All of it is for exact draws in exact arithmetic; a Markov chain's draws are approximate."
    )
    return "\n".join(lines)
