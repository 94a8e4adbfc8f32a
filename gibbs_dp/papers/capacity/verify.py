"""Chaudhuri, Imola & Machanavajjhala (2019), verified: Table 1, Figure 1 and the theorems.

Restricted divergences by quadrature against closed forms; every printed Rényi bound where it holds
and where it fails, with a valid one beside it; composition, convexity and post-processing on random
finite laws, the matrix mechanism, and what restricted divergences say of overfitting. Where a
condition is dropped, the counterexample.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import linprog, minimize
from scipy.special import logsumexp

from gibbs_dp.exact import FiniteChannel
from gibbs_dp.information import checks, divergences
from gibbs_dp.papers.capacity import (
    CapacityBound,
    MatrixMechanism,
    Polynomial,
    classifier_divergence,
    generalization_from_kl,
    ipm_from_kl,
    laplace_line,
    laplace_linear_kl,
    laplace_regime,
    laplace_renyi_of_polynomials,
    laplace_unrestricted_kl,
    laplace_unrestricted_renyi,
    linear_splits,
    polynomial_renyi,
    post_process,
    printed_laplace,
    threshold_splits,
)
from gibbs_dp.papers.capacity.adversaries import PolynomialMap, QueryHull
from gibbs_dp.papers.capacity.bound import (
    ipm_from_kl_by_hoeffding,
    mixture,
    parallel,
    query_hull_kl,
    sequential,
)
from gibbs_dp.papers.capacity.closed_forms import (
    above_one,
    gaussian_kl_of_shift,
    laplace_moments,
    laplace_unrestricted_renyi_lower,
    product_renyi2,
)
from gibbs_dp.papers.capacity.matrix_mechanism import (
    Regime,
    gaussian_regime,
    hierarchical_strategy,
    matrix_regime,
)
from gibbs_dp.papers.capacity.polynomial import gaussian_line, polynomial_kl
from gibbs_dp.papers.capacity.several import gaussian_renyi_of_polynomials, laplace_renyi_of_linear
from gibbs_dp.papers.verify.check import (
    Check,
    Record,
    counterexample,
    equality,
    exact_checks,
    inequality,
    reaches,
)

Law = Float[np.ndarray, " outcomes"]
Functions = Float[np.ndarray, "k outcomes"]
Free = Float[np.ndarray, " free"]

# Restricted divergences of finite laws, for the span of given functions: convex problems.

# Shares of the critic's size at which absolute values are smoothed, in steps.
_ROUNDING = (1e-2, 1e-4, 1e-6, 1e-8)


def _checked(
    functions: Functions, p: Law, q: Law
) -> tuple[Functions, Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    laws = checks.law("p", p), checks.law("q", q)
    checks.same_length("p", laws[0], "q", laws[1])
    if functions.shape[1] != laws[0].size or not np.isfinite(functions).all():
        raise ValueError(
            f"functions must be finite with one column per outcome ({laws[0].size}), got shape "
            f"{functions.shape}; give every critic's value at every outcome."
        )
    return functions, *laws


def finite_class_kl(functions: Functions, p: Law, q: Law) -> float:
    """Restricted KL of finitely many critics, nats; it may be negative without constants."""
    functions, p, q = _checked(functions, p, q)
    return float(np.max(functions @ p - np.exp(functions - 1) @ q))


def span_kl(functions: Functions, p: Law, q: Law, has_constants: bool = True) -> float:
    """Restricted KL for all combinations of some functions, in nats."""
    functions, p, q = _checked(functions, p, q)
    inside = q > 0
    target = functions @ p
    terms, log_q = functions[:, inside], np.log(q[inside])
    # A density w >= 0 with E_Q[w f] = E_P[f] must exist; E_Q[w] = 1 only with constants.
    rows, right = terms, target
    if has_constants:
        rows, right = np.vstack([terms, np.ones(terms.shape[1])]), np.append(target, 1.0)
    if linprog(np.zeros(rows.shape[1]), A_eq=rows, b_eq=right, method="highs").status == 2:
        return math.inf

    def loss(c: Float[np.ndarray, " k"]) -> tuple[float, Float[np.ndarray, " k"]]:
        exponent = log_q + c @ terms
        if has_constants:
            total = float(logsumexp(exponent))
            return total - float(c @ target), terms @ np.exp(exponent - total) - target
        density = np.exp(np.minimum(exponent - 1, 700))
        return float(density.sum() - c @ target), terms @ density - target

    def bend(c: Float[np.ndarray, " k"]) -> Float[np.ndarray, "k k"]:
        exponent = log_q + c @ terms
        if has_constants:
            density = np.exp(exponent - logsumexp(exponent))
            mean = terms @ density
            return (terms * density) @ terms.T - np.outer(mean, mean)
        return (terms * np.exp(np.minimum(exponent - 1, 700))) @ terms.T

    start = np.zeros(len(functions))
    found = minimize(loss, start, jac=True, hess=bend, method="trust-exact", options={"gtol": 1e-9})
    return -float(found.fun)


def span_renyi(functions: Functions, p: Law, q: Law, alpha: float) -> float:
    """Restricted Rényi divergence for all combinations of some functions, in nats."""
    conjugate = alpha / above_one(alpha)
    functions, p, q = _checked(functions, p, q)
    inside = q > 0
    weight = q[inside]
    # Orthonormal combinations under Q.
    left, sizes, _ = np.linalg.svd(functions[:, inside] * np.sqrt(weight), full_matrices=False)
    seen = sizes > 1e-12 * sizes.max(initial=1e-300)
    target = functions @ p
    mean = (left[:, seen].T @ target) / sizes[seen]
    lost = target - left[:, seen] @ (left[:, seen].T @ target)
    if np.abs(lost).max() > 1e-9 * np.abs(target).max(initial=1e-300):
        return math.inf
    if not mean.any():
        return -math.inf  # every critic has mean 0 under P
    terms = (left[:, seen].T @ functions[:, inside]) / sizes[seen, None]
    origin = mean / float(mean @ mean)
    free = np.linalg.svd(mean[None, :])[2][1:]

    def loss(y: Free, rounding: float) -> tuple[float, np.ndarray, np.ndarray]:
        g = (origin + y @ free) @ terms
        size = np.sqrt(g**2 + rounding**2)
        ways = free @ terms
        power = size ** (conjugate - 2)
        curve = weight * power * (1 + (conjugate - 2) * g**2 / size**2)
        slope = ways @ (weight * power * g)
        return float(weight @ size**conjugate) / conjugate, slope, (ways * curve) @ ways.T

    y = np.zeros(len(free))
    unit = float(np.sqrt(weight @ (origin @ terms) ** 2))
    for share in _ROUNDING if len(free) else ():
        y = _settle(partial(loss, rounding=share * unit), y)
    return -math.log(conjugate * loss(y, 0.0)[0])


def _settle(loss: Callable[[Free], tuple[float, np.ndarray, np.ndarray]], start: Free) -> Free:
    """Minimize a smooth convex function, given with its gradient and Hessian."""

    def first(y: Free) -> tuple[float, Free]:
        value, gradient, _ = loss(y)
        return value, gradient

    def second(y: Free) -> Float[np.ndarray, "free free"]:
        return loss(y)[2]

    found = minimize(
        first, start, jac=True, hess=second, method="trust-exact", options={"gtol": 1e-10}
    )
    return found.x


PAPER = "Chaudhuri, Imola & Machanavajjhala 2019"
TABLE = f"{PAPER}, table of section 5"
ALPHA = 3.0


def kl_records(eps: float) -> list[Record]:
    """KL rows of the table: linear and unrestricted adversaries of Laplace and normal noise."""
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
    quadratic, shifted = polynomial_kl(*laplace, 2), gaussian_kl_of_shift(1 / eps)
    return [
        equality("KL, Laplace, linear", TABLE, linear[0], polynomial_kl(*laplace, 1), 1e-7),
        equality("KL, Laplace, linear, d = 2: sum", TABLE, linear[1], sum(parts), 1e-7),
        equality("KL, Laplace, unrestricted", TABLE, whole, by_hand, 1e-7),
        equality("KL, Gaussian, linear", TABLE, shifted, polynomial_kl(*normal, 1)),
        inequality("KL, Laplace: linear <= quadratic", PAPER, linear[0], quadratic),
        inequality("KL, Laplace: quadratic <= unrestricted", PAPER, quadratic, whole),
    ]


def renyi_records(regime: Regime) -> list[Record]:
    """One Rényi row of the table at one setting: exact, valid, unrestricted, and as printed."""
    name, whole = f"Rényi, {regime.row}, linear", regime.unrestricted
    records = [
        inequality(f"{name}: exact <= valid", "centred noise", regime.exact, regime.valid, 1e-6),
        inequality(f"{name}: valid <= unrestricted", "by construction", regime.valid, whole),
    ]
    source = f"{PAPER}, Theorem 5" if regime.row == "matrix mechanism" else TABLE
    is_false = regime.verdict == "fails"
    state = counterexample if is_false else inequality
    order = "orders above 2, little loss" if is_false else "elsewhere"
    text = f"{name}: as printed, {order}"
    return [*records, state(text, source, regime.exact, regime.printed, 1e-5)]


def table_checks() -> list[Check]:
    """Check the table where its printed bounds hold and where they fail."""
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
    """Compute points of Figures 1a and 1b, and order 2 by linear algebra."""
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


SECTION_4 = f"{PAPER}, section 4"
NUM_SEEDS = 3


def _linear(p: Law, q: Law, x: np.ndarray) -> tuple[CapacityBound, CapacityBound]:
    """Return restricted KL and Rényi divergences of linear critics of outcomes at ``x``."""
    kl = span_kl(x, p, q)
    renyi = span_renyi(np.vstack([np.ones(p.size), x]), p, q, ALPHA)
    return (
        CapacityBound(kl, "kl", Polynomial(1)),
        CapacityBound(renyi, "renyi", Polynomial(1), alpha=ALPHA),
    )


def property_records(seed: int) -> list[Record]:
    """Post-processing, convexity, parallel and sequential composition on random laws."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.normal(size=4))[None]
    p1, q1, p2, q2 = rng.dirichlet(np.ones(4), 4)
    grid = np.stack([g.ravel() for g in np.meshgrid(x[0], x[0], indexing="ij")])

    def pair(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.outer(a, b).ravel()

    first, second = _linear(p1, q1, x), _linear(p2, q2, x)
    # Alike, so that the bound is nearly reached.
    p3, q3 = 0.9 * p1 + 0.1 * p2, 0.9 * q1 + 0.1 * q2
    third = _linear(p3, q3, x)
    mixed = _linear(0.3 * p1 + 0.7 * p3, 0.3 * q1 + 0.7 * q3, x)
    both = _linear(pair(p1, p2), pair(q1, q2), grid)
    apart = _linear(pair(p1, q2), pair(q1, q2), grid)
    records = []
    for i, word in enumerate(("KL", "Rényi")):
        found = [first[i], second[i]]
        total, most = sequential(found).value, parallel(found).value
        average = mixture([first[i], third[i]], [0.3, 0.7]).value
        for name, left, right in (
            (f"convexity, {word}", mixed[i].value, average),
            (f"sequential composition, {word}", both[i].value, total),
            (f"parallel composition, {word}", apart[i].value, most),
        ):
            records.append(inequality(f"{name}: <= bound", SECTION_4, left, right, 1e-6))
    quadratic = CapacityBound(span_kl(np.vstack([x, x**2]), p1, q1), "kl", Polynomial(2))
    passed = post_process(quadratic, PolynomialMap(2))
    squared = span_kl(x**2, p1, q1)
    kl_total = sequential([first[0], second[0]]).value
    return [
        *records,
        equality("sequential composition, KL: attained", "sums", both[0].value, kl_total, 1e-6),
        inequality("post-processing by a square", SECTION_4, squared, passed.value, 1e-6),
    ]


def theorem_records(seed: int) -> list[Record]:
    """Theorems 6 and 7 on a random mechanism that selects a query."""
    rng = np.random.default_rng(seed)
    queries = rng.uniform(-1, 1, (4, 3))  # values at the three points of the population
    table = 0.25 + 0.1 * (rng.dirichlet(5 * np.ones(4), 3) - 0.25)
    population = rng.dirichlet(np.ones(3))
    kls = [query_hull_kl(queries, table[a], table[b]) for a in range(3) for b in range(3) if a != b]
    bound = CapacityBound(max(kls), "kl", QueryHull())
    metric = max(
        float(np.abs(queries.T @ (table[a] - table[b])).max()) for a in range(3) for b in range(3)
    )
    channel = FiniteChannel(table, population, 1)
    gap = abs(channel.generalization_error(queries))
    theorem, better = ipm_from_kl(bound).value, ipm_from_kl_by_hoeffding(bound).value
    return [
        inequality("Theorem 7: IPM <= 8 sqrt(KL)", PAPER, metric, theorem),
        inequality("Theorem 7 by Hoeffding: sqrt(2 KL)", "Hoeffding's lemma", metric, better, 1e-6),
        inequality("Theorem 6: |E gen| <= 8 sqrt(eps)", PAPER, gap, generalization_from_kl(bound)),
    ]


def condition_records() -> list[Record]:
    """Compute what fails where a theorem's condition is dropped."""
    # One fair bit; the query that counts it is selected with probability 0.55.
    queries, d = np.eye(2), 0.05
    rows = np.array([[0.5 + d, 0.5 - d], [0.5 - d, 0.5 + d]])
    ways = ((0, 1), (1, 0))
    few = max(finite_class_kl(queries, rows[a], rows[b]) for a, b in ways)
    hull = max(query_hull_kl(queries, rows[a], rows[b]) for a, b in ways)
    gap = abs(FiniteChannel(rows, [0.5, 0.5], 1).generalization_error(queries))
    wide, narrow = gaussian_line(0.0, 2.0), gaussian_line(0.0, 1.0)
    point = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    # One noise N of 0 to 3 for two outputs: (N, N), and on a neighbour (N + 1 up to 3, N).
    even, moved = np.full(4, 0.25), np.array([0.0, 0.25, 0.25, 0.5])
    same, ahead = np.eye(4) / 4, np.zeros((4, 4))
    ahead[[1, 2, 3, 3], [0, 1, 2, 3]] = 0.25
    x = np.arange(4.0)
    grid = np.stack([g.ravel() for g in np.meshgrid(x, x, indexing="ij")])
    shared = span_kl(grid, ahead.ravel(), same.ravel())
    apart = sequential([_linear(moved, even, x[None])[0], _linear(even, even, x[None])[0]]).value
    full = generalization_from_kl(CapacityBound(hull, "kl", QueryHull()))
    # A selection that moves a little between two queries of opposite sign.
    tilt = 1e-3
    rows_of_two = np.array([[0.5 + tilt, 0.5 - tilt], [0.5 - tilt, 0.5 + tilt]])
    signs = np.array([[1.0], [-1.0]])
    small = CapacityBound(query_hull_kl(signs, *rows_of_two), "kl", QueryHull())
    moved_by = float(np.abs(signs.T @ (rows_of_two[0] - rows_of_two[1])).max())
    sharp, wrong = ipm_from_kl_by_hoeffding(small).value, 8 * math.sqrt(max(few, 0.0))
    kls = polynomial_kl(wide, narrow, 2), polynomial_kl(wide, narrow, 1)
    without_noise = span_kl(np.array([[0.0, 1.0]]), *point)
    return [
        reaches("Theorem 7: IPM <= 8 sqrt(KL)", PAPER, moved_by, ipm_from_kl(small).value, 0.17678),
        reaches("Theorem 7 by Hoeffding: sqrt(2 KL)", "Hoeffding's lemma", moved_by, sharp),
        reaches("Theorem 6: |E gen| <= 8 sqrt(eps)", PAPER, gap, full, 0.04412),
        inequality("two critics: restricted KL is negative", "counterexample", few, -1e-6),
        counterexample("Theorem 6 without its conditions", PAPER, gap, wrong),
        counterexample("post-processing by a square keeps linear critics' KL", "wrong class", *kls),
        counterexample("sequential composition with one noise", "wrong noise", shared, apart),
        equality("no noise: no finite linear KL", PAPER, without_noise, math.inf),
        equality("no noise: Laplace's closed form", PAPER, laplace_linear_kl(math.inf), math.inf),
    ]


def matrix_records(eps: float) -> list[Record]:
    """Matrix mechanism: its DP, its two forms, and linear adversaries of both."""
    records = []
    source = "Li et al. 2010"
    for name, strategy in (("tree", hierarchical_strategy(4)), ("single counts", np.eye(4))):
        mechanism = MatrixMechanism(np.tril(np.ones((4, 4))), strategy, eps)
        columns = strategy.T * eps / np.abs(strategy).sum(axis=0).max()
        added = max(float(np.abs(a).sum()) for a in columns)
        replaced = max(float(np.abs(a - b).sum()) for a in columns for b in columns)
        title = f"matrix mechanism, {name}"
        claims = mechanism.pure_dp("add-remove"), mechanism.pure_dp("replace-one")
        unbiased = float(np.abs(mechanism.reconstruction @ strategy - mechanism.workload).max())
        seen = mechanism.linear_renyi(ALPHA, "replace-one").value
        released = mechanism.linear_renyi(ALPHA, "replace-one", "release").value
        valid = mechanism.linear_renyi_valid(ALPHA, "replace-one").value
        records += [
            equality(f"{title}: eps-DP, add/remove", source, claims[0], added),
            equality(f"{title}: DP, replace-one", source, claims[1], replaced),
            inequality(f"{title}: replace-one <= 2 eps", source, claims[1], 2 * eps),
            inequality(f"{title}: W A^+ A = W", source, unbiased, 0.0, 1e-8),
            inequality(f"{title}: answers tell less than measurements", SECTION_4, released, seen),
            inequality(f"{title}: linear Rényi <= valid", "centred noise", seen, valid, 1e-6),
        ]
        if name == "single counts":
            wrong = f"{title}: eps-DP, replace-one"
            records.append(counterexample(wrong, "wrong adjacency", replaced, eps))
    return records


def separable_sets(points: Float[np.ndarray, "outcomes dim"]) -> Bool[np.ndarray, "sets outcomes"]:
    """List sets without the first outcome that a hyperplane separates: a linear program each."""
    size = len(points)
    sets = (np.arange(2 ** (size - 1))[:, None] >> np.arange(size) & 1).astype(bool)[:, ::-1]
    ones = np.hstack([points, np.ones((size, 1))])
    found = []
    for side in sets:
        signed = np.where(side, -1.0, 1.0)[:, None] * ones
        free = [(None, None)] * ones.shape[1]
        if not linprog(np.zeros(ones.shape[1]), signed, -np.ones(size), bounds=free).status:
            found.append(side)
    return np.stack(found)


def classifier_records(seed: int) -> list[Record]:
    """Thresholds and lines: against every critic, all functions, and the theorems of their hull."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(5), 2)
    records = []
    for name, x in (("thresholds", rng.normal(size=(5, 1))), ("lines", rng.normal(size=(5, 2)))):
        splits = threshold_splits(x[:, 0]) if name == "thresholds" else linear_splits(x)
        bits = separable_sets(x).astype(float)
        kl = max(span_kl(bit[None], p, q) for bit in bits)
        renyi = max(span_renyi(np.vstack([np.ones(5), bit]), p, q, ALPHA) for bit in bits)
        metric = float(np.abs((2 * bits - 1) @ (p - q)).max())
        found = {
            word: classifier_divergence(splits, p, q, word, ALPHA if word == "renyi" else None)
            for word in ("kl", "renyi", "ipm")
        }
        queries = 2.0 * splits.T - 1
        hull = CapacityBound(query_hull_kl(queries, p, q), "kl", QueryHull())
        whole = divergences.kl_divergence(p, q)
        sharp = ipm_from_kl_by_hoeffding(hull).value
        records += [
            equality(f"{name}: KL is that of the best critic", PAPER, found["kl"].value, kl, 1e-6),
            equality(f"{name}: Rényi", PAPER, found["renyi"].value, renyi, 1e-6),
            equality(f"{name}: metric", PAPER, found["ipm"].value, metric),
            inequality(f"{name}: KL <= that of all functions", PAPER, found["kl"].value, whole),
            inequality(f"{name}, mixed: Theorem 7 by Hoeffding", PAPER, metric, sharp, 1e-6),
        ]
    # A likelihood ratio that rises with the output, and one that rises with its square.
    x, base = np.arange(-3.0, 4.0), rng.dirichlet(np.ones(7))
    splits, base = threshold_splits(x), (base + base[::-1]) / 2
    up, both = (base * np.exp(tilt) for tilt in (0.8 * x, 0.2 * x**2))
    up, both = up / up.sum(), both / both.sum()
    seen = classifier_divergence(splits, up, base, "ipm").value
    least = classifier_divergence(splits, both, base).value
    squared = classifier_divergence(threshold_splits(x**2), both, base).value
    rising = "thresholds see all of total variation if the likelihood ratio rises"
    return [
        *records,
        equality(rising, "Neyman & Pearson 1933", seen, 2 * divergences.total_variation(up, base)),
        counterexample("post-processing by a square keeps thresholds' KL", PAPER, squared, least),
    ]


def capacity_checks() -> list[Check]:
    """Run every check of the paper."""
    checks = table_checks()
    for seed in range(NUM_SEEDS):
        checks += exact_checks(property_records(seed), f"random laws {seed}")
        checks += exact_checks(theorem_records(seed), f"random selection {seed}")
        checks += exact_checks(classifier_records(seed), f"random outputs {seed}")
    checks += exact_checks(condition_records(), "conditions dropped")
    for eps in (0.2, 1.0):
        checks += exact_checks(matrix_records(eps), f"eps = {eps:g}")
    return checks
