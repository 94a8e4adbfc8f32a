"""The accountant: the best guarantee of ``m`` exact draws from a Gibbs posterior."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, NamedTuple

from gibbs_dp.information import checks
from gibbs_dp.information.bounds import bounded_convex_gdp, strongly_convex_gdp
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.losses import Loss
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.constants import PosteriorConstants, derive_constants
from gibbs_dp.privacy.dependent_rows import (
    ASSUMPTION,
    NO_PURE,
    ONLY_DP,
    DependentRows,
    bayesian_epsilon,
    check_rows,
    in_words,
)
from gibbs_dp.privacy.guarantee import FINITE_PRECISION, Guarantee
from gibbs_dp.privacy.routes import (
    BOUNDED_CONVEX,
    BoundedRange,
    BoundedRatio,
    GaussianDP,
    Route,
    epsilon_at,
)
from gibbs_dp.results.table import Heading, TextTable, block, counted, remarks

RENYI_ORDERS = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0, 128.0, 256.0)

# What a notebook shows; notions with a delta or an order need one to be chosen.
FIGURES = {
    "pure DP, epsilon": "pure",
    "zCDP, rho": "zcdp",
    "Gaussian DP, mu": "gdp",
    "largest KL": "kl",
}


@dataclass(frozen=True)
class Accountant:
    """Every guarantee of ``num_draws`` exact draws, each from the best route that applies.

    Made by `account`. Numbers are in nats, and infinite (1 for probabilities) where no route
    applies; `explain` says why. Draws are independent given the data, from one posterior.

    Attributes
    ----------
    gamma, num_draws
        Inverse temperature, and how many draws are released.
    constants
        What was derived from the posterior and the domain.
    routes
        The routes that apply.
    missing
        Name of every other route, and the constant it lacks.
    rows
        The declared law of dependent rows; None where none was declared.
    """

    gamma: float
    num_draws: int
    constants: PosteriorConstants
    routes: tuple[Route, ...]
    missing: tuple[tuple[str, str], ...]
    rows: DependentRows | None = None

    def __repr__(self) -> str:
        routes = ", ".join(route.name for route in self.routes) or "none"
        return f"Accountant({self._head()}, routes: {routes})"

    def _head(self) -> str:
        draws = counted(self.num_draws, "exact draw")
        head = f"{draws} at gamma = {self.gamma:.6g}, {self.constants.adjacency} neighbours"
        return head if self.rows is None else f"{head}, dependent rows: {in_words(self.rows)}"

    def _repr_html_(self) -> str:
        rows = []
        for text, name in FIGURES.items():
            value, route = self.best(methodcaller(name, self.num_draws))
            rows.append([text, f"{value:.6g}", route.name if route else "none"])
        if self.rows is not None:
            shown = f"{self.bayesian():.6g}"
            rows.append(["Bayesian DP, epsilon", shown, "influence of rows"])
        headings = [Heading("notion", is_text=True), Heading("value, nats")]
        headings.append(Heading("route", "The theorem that it is from.", is_text=True))
        told = [("assumes", route.assumption) for route in self.routes]
        told += [("no route", f"{name}: {reason}") for name, reason in self.missing]
        told += [("dependent rows", text) for text in self.of_dependent_rows()]
        return block(self._head(), TextTable(headings, rows), remarks(told))

    def best(self, figure: Callable[[Route], float]) -> tuple[float, Route | None]:
        """Smallest figure over routes, and the route it comes from."""
        found = [(figure(route), i) for i, route in enumerate(self.routes)]
        value, index = min(found, default=(math.inf, -1))
        return value, self.routes[index] if math.isfinite(value) else None

    def pure(self) -> float:
        """Pure DP ``epsilon``."""
        return self.best(lambda r: r.pure(self.num_draws))[0]

    def zcdp(self) -> float:
        """``rho`` of zero-concentrated DP."""
        return self.best(lambda r: r.zcdp(self.num_draws))[0]

    def renyi(self, alpha: float) -> float:
        """Rényi DP of order ``alpha >= 1``."""
        if not alpha >= 1:
            raise ValueError(f"alpha must be at least 1, got {alpha}; use an order above 1.")
        return self.best(lambda r: r.renyi(alpha, self.num_draws))[0]

    def gdp(self) -> float:
        """``mu`` of Gaussian DP."""
        return self.best(lambda r: r.gdp(self.num_draws))[0]

    def delta(self, epsilon: float) -> float:
        """``delta`` at ``epsilon``; not for adaptive composition with other releases."""
        checks.nonnegative("epsilon", epsilon)
        return min(1.0, self.best(lambda r: r.delta(epsilon, self.num_draws))[0])

    def epsilon(self, delta: float) -> float:
        """``epsilon`` of ``(epsilon, delta)``-DP; pure DP at ``delta = 0``."""
        return self.best(lambda r: epsilon_at(r, delta, self.num_draws))[0]

    def kl(self) -> float:
        """Largest KL divergence between neighbours."""
        return self.best(lambda r: r.kl(self.num_draws))[0]

    def tv(self) -> float:
        """Largest total variation between neighbours."""
        return min(1.0, self.best(lambda r: r.tv(self.num_draws))[0])

    def bayesian(self) -> float:
        """Bayesian DP ``epsilon`` under the declared law of rows, against all adversaries.

        From pure DP (`gibbs_dp.papers.bayesian_dp.bdp_epsilon`), which is the only notion here that
        has a counterpart for dependent rows: every other figure compares datasets that differ in
        one row, however rows depend on each other.

        Raises
        ------
        ValueError
            If no law of rows was declared.
        """
        if self.rows is None:
            raise ValueError(
                "rows: no law of dependent rows was declared; give account(rows=...), such as a "
                "gibbs_dp.papers.bayesian_dp.MarkovChain."
            )
        return bayesian_epsilon(self.rows, self.constants.n, self.pure())

    def of_dependent_rows(self) -> tuple[str, ...]:
        """Say what Bayesian DP rests on and what lacks it; nothing where no law was declared."""
        if self.rows is None:
            return ()
        if math.isinf(self.pure()):
            return (NO_PURE,)
        return ASSUMPTION.format(in_words(self.rows)), ONLY_DP

    def guarantee(self, delta: float = 0.0) -> Guarantee:
        """Collect everything in one object, at a given ``delta``.

        Raises
        ------
        ValueError
            If no route applies, or none gives a finite epsilon at this delta.
        """
        epsilon, route = self.best(lambda r: epsilon_at(r, delta, self.num_draws))
        if route is None:
            what = "pure DP" if delta == 0 else f"({delta:g})-approximate DP"
            raise ValueError(f"domain: no guarantee of {what}: {self.why_none(delta == 0)}")
        pure = self.pure()
        curve = tuple((alpha, self.renyi(alpha)) for alpha in RENYI_ORDERS)
        told = self.of_dependent_rows()
        rests = told[:1] if math.isfinite(pure) else ()
        return Guarantee(
            adjacency=self.constants.adjacency,
            mechanism="exact draw",
            num_draws=self.num_draws,
            gamma=self.gamma,
            epsilon=epsilon,
            delta=delta,
            pure_epsilon=pure if math.isfinite(pure) else None,
            zcdp=self.zcdp(),
            gdp=self.gdp(),
            renyi=curve,
            assumptions=(*(r.assumption for r in self.routes), *rests),
            caveats=(FINITE_PRECISION, *told[len(rests) :]),
            bayesian_epsilon=None if self.rows is None else self.bayesian(),
        )

    def why_none(self, pure: bool = False) -> str:
        """One sentence: which constant is missing, and how to declare it."""
        reasons = dict(self.missing)
        if pure:
            return f"{reasons['bounded range']}."
        return "; or ".join(f"{name}: {reason}" for name, reason in self.missing) + "."


def account(
    posterior: GibbsPosterior,
    *,
    gamma: float,
    n: int,
    adjacency: Adjacency,
    domain: Domain | None = None,
    num_draws: int = 1,
    rows: DependentRows | Any | None = None,
) -> Accountant:
    """Derive the constants of a posterior and every guarantee that follows from them.

    Parameters
    ----------
    posterior
        Loss and prior.
    gamma
        Inverse temperature, at least 0; free of the data.
    n
        Number of examples; under add/remove, the most that a dataset may have.
    adjacency
        "replace-one" or "add-remove"; there is no default.
    domain
        Bounds that the data are clipped to.
    num_draws
        Independent exact draws that are released together.
    rows
        Law of examples that depend on each other, such as a ``MarkovChain`` of length ``n``, a
        ``BayesianNetwork`` or a ``MarkovNetwork`` of `gibbs_dp.papers.bayesian_dp`; then
        `Accountant.bayesian` tells what all draws together say about one row to an adversary who
        knows any others. Without it nothing is claimed about examples that depend on each other
        but DP itself.

    Returns
    -------
    Accountant
        Its methods give each guarantee, ``inf`` where there is none.

    Raises
    ------
    ValueError
        For numbers out of range, and where domain and prior contradict each other.

    Examples
    --------
    >>> import gibbs_dp as gdp
    >>> p = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.box(-2.0, 2.0, 1)))
    >>> found = account(p, gamma=1 / 32, n=100, adjacency="replace-one",
    ...                 domain=gdp.Domain(x_bound=1.0, y_range=(-2.0, 2.0)))
    >>> found.pure(), round(found.kl(), 9), round(found.renyi(2.0), 9)
    (1.0, 0.123301561, 0.240229014)
    """
    checks.inverse_temperature(gamma)
    checks.count("num_draws", num_draws)
    check_rows(rows, n, adjacency)
    constants = derive_constants(posterior, n=n, adjacency=adjacency, domain=domain)
    routes: list[Route] = []
    missing: list[tuple[str, str]] = []
    reasons = constants.reasons
    if gamma == 0 or math.isfinite(constants.loss_range):
        routes.append(BoundedRange(gamma * constants.loss_range if gamma > 0 else 0.0))
    else:
        missing.append(("bounded range", reasons["range"]))
    if math.isfinite(constants.loss_shift):
        routes.append(BoundedRatio(gamma * constants.loss_shift))
    elif posterior.structured:
        missing.append(
            ("location family", "declare GibbsPosterior(location_family=True) where it is one")
        )
    convex = _convex(constants, gamma)
    if convex is not None:
        routes.append(convex)
    else:
        reason = reasons.get("lipschitz") or reasons.get("convexity")
        missing.append(("convex", reason or "the potential is not strongly convex"))
    return Accountant(gamma, num_draws, constants, tuple(routes), tuple(missing), rows)


def _convex(constants: PosteriorConstants, gamma: float) -> GaussianDP | None:
    """Gaussian DP of a convex potential: strongly so, or on a bounded set."""
    pull, convexity = gamma * constants.lipschitz, constants.strong_convexity(gamma)
    diameter = constants.diameter
    if gamma == 0 and math.isfinite(constants.lipschitz):
        return GaussianDP(0.0)
    if not (math.isfinite(pull) and convexity >= 0):
        return None
    if math.isfinite(diameter) and pull >= convexity * diameter:
        mu = bounded_convex_gdp(
            gamma, lipschitz=constants.lipschitz, diameter=diameter, strong_convexity=convexity
        )
        return GaussianDP(mu, BOUNDED_CONVEX)
    if convexity == 0:
        return None
    return GaussianDP(
        strongly_convex_gdp(gamma, lipschitz=constants.lipschitz, strong_convexity=convexity)
    )


# Why each guarantee applies, or does not, as a table.


class Row(NamedTuple):
    """One guarantee: its value, and the assumption it rests on or what it lacks."""

    guarantee: str
    value: float
    because: str


def rows(accountant: Accountant, *, delta: float = 1e-5) -> list[Row]:
    """List every guarantee with its value and its reason."""
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

    Parameters
    ----------
    accountant
        From `gibbs_dp.privacy.account`.
    delta
        At which ``epsilon`` of ``(epsilon, delta)``-DP is shown.

    Returns
    -------
    str
        Lines of text.

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


# Pure differential privacy of one exact draw, from a declared domain.


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
