"""Table 1 and Figure 1 of Chaudhuri, Imola & Machanavajjhala (2019), exactly.

Restricted divergences by quadrature against closed forms, and every printed Rényi bound where it
holds and where it fails, with a valid one beside it.
"""

from __future__ import annotations

import math

from gibbs_dp.papers.capacity import (
    Regime,
    gaussian_kl_of_shift,
    gaussian_line,
    gaussian_regime,
    gaussian_renyi_of_polynomials,
    laplace_line,
    laplace_linear_kl,
    laplace_moments,
    laplace_regime,
    laplace_renyi_of_linear,
    laplace_renyi_of_polynomials,
    laplace_unrestricted_kl,
    laplace_unrestricted_renyi,
    laplace_unrestricted_renyi_lower,
    matrix_regime,
    polynomial_kl,
    polynomial_renyi,
    printed_laplace,
    product_renyi2,
)
from gibbs_dp.papers.verify.check import Check, exact_checks
from gibbs_dp.papers.verify.record import Record, counterexample, equality, inequality

PAPER = "Chaudhuri, Imola & Machanavajjhala 2019"
TABLE = f"{PAPER}, table of section 5"
ALPHA = 3.0


def kl_records(eps: float) -> list[Record]:
    """KL rows of the table: linear and unrestricted adversaries of Laplace and normal noise.

    Parameters
    ----------
    eps
        Inverse scale of the noise.

    Returns
    -------
    list of Record
        Closed forms against quadrature, and their order.

    Examples
    --------
    >>> all(record.holds for record in kl_records(1.0))
    True
    """
    laplace = laplace_line(1.0, 1 / eps), laplace_line(0.0, 1 / eps)
    normal = gaussian_line(1.0, 1 / eps), gaussian_line(0.0, 1 / eps)
    linear = [laplace_linear_kl(eps, shift) for shift in (1.0, [0.6, 0.8])]
    whole = laplace_unrestricted_kl(eps)
    parts = [
        polynomial_kl(laplace_line(v, 1 / eps), laplace_line(0.0, 1 / eps), 1) for v in (0.6, 0.8)
    ]
    p, q = (line.log_density for line in laplace)
    x, mass = laplace[0].rule([0j], 0.0)
    by_hand = float(mass @ (p(x) - q(x)))
    quadratic = polynomial_kl(*laplace, 2)
    return [
        equality("KL, Laplace, linear", TABLE, linear[0], polynomial_kl(*laplace, 1), 1e-7),
        equality("KL, Laplace, linear, d = 2: sum", TABLE, linear[1], sum(parts), 1e-7),
        equality("KL, Laplace, unrestricted", TABLE, whole, by_hand, 1e-7),
        equality(
            "KL, Gaussian, linear", TABLE, gaussian_kl_of_shift(1 / eps), polynomial_kl(*normal, 1)
        ),
        inequality("KL, Laplace: linear <= quadratic", PAPER, linear[0], quadratic),
        inequality("KL, Laplace: quadratic <= unrestricted", PAPER, quadratic, whole),
    ]


def renyi_records(regime: Regime) -> list[Record]:
    """One Rényi row of the table at one setting: exact, valid, unrestricted, and as printed.

    Parameters
    ----------
    regime
        Values of the row.

    Returns
    -------
    list of Record
        The printed bound is a counterexample where it is below the exact value.

    Examples
    --------
    >>> [record.relation for record in renyi_records(laplace_regime(0.2, 3.0))]
    ['<=', '<=', 'not <=']
    """
    name = f"Rényi, {regime.row}, linear"
    records = [
        inequality(f"{name}: exact <= valid", "centred noise", regime.exact, regime.valid, 1e-6),
        inequality(
            f"{name}: valid <= unrestricted", "by construction", regime.valid, regime.unrestricted
        ),
    ]
    source = f"{PAPER}, Theorem 5" if regime.row == "matrix mechanism" else TABLE
    is_false = regime.verdict == "fails"
    state = counterexample if is_false else inequality
    order = "orders above 2, little loss" if is_false else "elsewhere"
    text = f"{name}: as printed, {order}"
    return [*records, state(text, source, regime.exact, regime.printed, 1e-5)]


def table_checks() -> list[Check]:
    """Check the table where its printed bounds hold and where they fail.

    Examples
    --------
    >>> all(check.holds for check in table_checks())
    True
    """
    checks = []
    for eps in (0.1, 1.0, 5.0):
        checks += exact_checks(kl_records(eps), f"eps = {eps:g}")
    for eps in (0.05, 0.2, 1.0):
        for alpha in (1.5, 2.0, 3.0, 8.0):
            case = f"1/scale = {eps:g}, alpha = {alpha:g}"
            rows = [laplace_regime(eps, alpha), gaussian_regime(1 / eps, alpha)]
            if alpha >= 2:
                rows.append(laplace_regime(eps, alpha, [0.5, 0.5]))
            rows.append(gaussian_regime(1 / eps, alpha, [0.5, 0.5]))
            for row in rows:
                checks += exact_checks(renyi_records(row), case)
            low = laplace_unrestricted_renyi_lower(eps, alpha)
            high = laplace_unrestricted_renyi(eps, alpha)
            name = "Rényi, Laplace, unrestricted: >= eps - log 2/(alpha - 1)"
            checks += exact_checks([inequality(name, TABLE, low, high)], case)
    for eps, alpha in ((0.001, 3.0), (0.5, 2.0), (0.5, 3.0)):
        checks += exact_checks(renyi_records(matrix_regime(eps, alpha)), f"eps = {eps:g}")
    return checks + exact_checks(figure_records(), "eps = 1")


def figure_records() -> list[Record]:
    """Compute points of Figures 1a and 1b, and order 2 by linear algebra.

    Examples
    --------
    >>> all(record.holds for record in figure_records())
    True
    """
    laws = laplace_line(1.0, 1.0), laplace_line(0.0, 1.0)
    records = []
    for alpha in (2.0, 3.0, 10.0, 40.0):
        values = [polynomial_renyi(*laws, alpha, degree).renyi for degree in (1, 2, 3)]
        free = laplace_unrestricted_renyi(1.0, alpha)
        steps = zip(("1", "2", "3"), values, (*values[1:], free), strict=True)
        records += [
            inequality(f"Figure 1: degree {degree} <= more", PAPER, low, high, 1e-7)
            for degree, low, high in steps
        ]
    for degree in (1, 2, 3):
        exact = product_renyi2(laplace_moments(2 * degree + 1), degree, 1.0)
        found = laplace_renyi_of_polynomials(1.0, 2.0, degree)
        records.append(
            equality("Rényi of order 2 by moments", "linear algebra", found, exact, 1e-6)
        )
    two = laplace_renyi_of_linear(1.0, 2.0, [0.6, 0.8]), math.log1p(0.5)
    near = laplace_renyi_of_polynomials(0.001, ALPHA) / (ALPHA * 0.001**2 / 4)
    normal = gaussian_renyi_of_polynomials(1.0, 2.0, 1, [0.6, 0.8])
    crossing = printed_laplace(1.0, 3.3147), laplace_unrestricted_renyi(1.0, 3.3147)
    return [
        *records,
        equality("Rényi, Laplace, order 2: log(1 + eps^2/2)", TABLE, *two),
        equality("Rényi, Gaussian, order 2: log(1 + 1/sigma^2)", TABLE, normal, math.log(2)),
        equality("small losses: alpha eps^2/4", "expansion", near, 1.0, 0.01),
        equality("Figure 1: printed meets unrestricted at 3.3147", PAPER, *crossing, 1e-4),
    ]
