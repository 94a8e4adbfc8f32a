"""Whether PAC-Bayes certificates hold as often as they say, and how far above the risk they are.

Datasets of 50 examples of laws on finitely many values, so that every true risk is a sum. Two
finite classes by exact sums: a loss that no parameter changes, where Catoni's bound is sharpest,
and thresholds under 0/1 loss with 15% of labels flipped. And linear regression in two dimensions
with a squared loss clipped at 1, by few particles: their normalizers are noisy, which the bounds
are to survive. A repetition counts as violated where a bound is below the true risk at any gamma
of the grid: of the posterior (sums), or of a draw from the weighted particles and, for Catoni's
bound, of the posterior itself (by quadrature). The moment that Catoni's proof puts below 1 is
measured too, at the second gamma or the only one.

    python benchmarks/certificates.py [--repeats 1000]
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import machine
import numpy as np
from scipy.special import logsumexp, softmax

import gibbs_dp as gdp
from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.auditing.certify import bound_rows, run_frozen

N, DELTA = 50, 0.05
BOUNDS = ("catoni", "maurer")
OF_POSTERIOR = ("catoni",)
SAMPLER = gdp.SMC(num_particles=32, num_islands=4)
GAMMAS = {
    "one risk": (1.0,),
    "thresholds": (0.1, 0.3, 1.0, 3.0),
    "clipped": (0.1, 0.5, 2.0),
}


def one_risk():
    """Loss z in {0, 1} whatever theta is, of mean 0.3."""
    posterior = gdp.GibbsPosterior(lambda theta, z: z + 0.0 * theta, gdp.Flat(unit_interval()))
    return posterior, np.array([0.0, 1.0]), np.array([0.7, 0.3]), np.array([0.25, 0.75])


def thresholds():
    """0/1 loss of classes by whether x is above theta."""
    x = (np.arange(20) + 0.5) / 20
    atoms = (np.tile(x, 2), np.repeat([0.0, 1.0], 20))
    is_right = atoms[1] == (atoms[0] > 0.5)
    posterior = gdp.GibbsPosterior(
        lambda theta, z: ((z[0] > theta).astype(float) - z[1]) ** 2, gdp.Flat(unit_interval())
    )
    return posterior, atoms, np.where(is_right, 0.85, 0.15) / 20, (np.arange(41) + 0.5) / 41


def clipped():
    """Regression with a loss of at most 1; a lattice stands for the posterior."""
    corners = np.array(np.meshgrid([-1, -0.3, 0.3, 1], [-1, -0.3, 0.3, 1])).reshape(2, -1).T
    noise = np.array([-1.2, -0.3, 0.0, 0.3, 1.2])
    x = np.repeat(corners, len(noise), axis=0)
    y = x @ [0.8, -0.5] + np.tile(noise, len(corners))
    probs = np.tile([0.1, 0.2, 0.4, 0.2, 0.1], len(corners)) / len(corners)
    posterior = gdp.GibbsPosterior(
        lambda theta, z: jnp.minimum((z[1] - jnp.dot(z[0], theta, precision="highest")) ** 2, 1.0),
        gdp.Flat(gdp.supports.box(-2.0, 2.0, 2)),
    )
    axis = -2 + 4 * (np.arange(64) + 0.5) / 64
    return posterior, (x, y), probs, np.array(np.meshgrid(axis, axis)).reshape(2, -1).T


def unit_interval():
    """Support of one number."""
    return gdp.supports.box(0.0, 1.0, ())


def draw_rows(probs, repeats, seed):
    """Numbers of the values that make each dataset, ``[repeats, n]``."""
    return np.random.default_rng(seed).choice(len(probs), (repeats, N), p=probs)


def losses_on_atoms(posterior, points, atoms):
    """``[points, values]``, in double precision from single losses."""
    values = jax.tree.map(lambda a: jnp.asarray(a, jnp.zeros(()).dtype), atoms)
    found = jax.jit(jax.vmap(lambda p: posterior.losses(p, values)))(
        jnp.asarray(points, jnp.zeros(()).dtype)
    )
    return np.asarray(found, np.float64)


def true_risks(losses, probs, rows, gammas):
    """Risk of the posterior on the points, ``[repeats, gammas]``."""
    counts = np.stack([np.bincount(r, minlength=len(probs)) for r in rows])
    risk, total = losses @ probs, counts @ losses.T
    return np.stack([softmax(-g * total, axis=1) @ risk for g in gammas], axis=1)


def by_sums(name, case, repeats, seed):
    """Certificates of a finite class, as users make them, and true risks."""
    posterior, atoms, probs, points = case()
    rows = draw_rows(probs, repeats, seed)
    grid = gdp.Grid(candidates=points)
    found = []
    for row in rows:
        data = jax.tree.map(lambda a, row=row: a[row], atoms)
        certificate = gdp.certify(
            posterior, data, GAMMAS[name], DELTA, loss_range=(0.0, 1.0), sampler=grid
        )
        found.append(certificate.rows)
    losses = losses_on_atoms(posterior, points, atoms)
    return found, {"posterior": true_risks(losses, probs, rows, GAMMAS[name])}


def _risks_of(posterior, sampler, keys, batch, segments, atoms, probs):
    """Risk of each island's particles, and log normalizers, ``[datasets, gammas, islands]``."""

    def one(pair):
        draws = sampler.draw_path(pair[0], posterior, pair[1], segments)

        def risk(u):
            losses = posterior.losses(posterior.constrain(u), atoms)
            return jnp.einsum("k,k->", losses, probs, precision="highest")

        flat = draws.u.reshape(-1, draws.u.shape[-1])
        risks = jax.vmap(risk)(flat).reshape(draws.u.shape[:-1])
        return jnp.mean(risks, axis=-1), draws.island_log_normalizer

    return jax.lax.map(one, (keys, batch))


risks_of = on_default_backend(_risks_of, "posterior", "sampler")


def by_particles(name, case, repeats, seed):
    """Certificates of particles, along a path that was found on other datasets."""
    posterior, atoms, probs, points = case()
    gammas = np.array(GAMMAS[name])
    rows = draw_rows(probs, repeats + 8, seed)
    values = jax.tree.map(lambda a: jnp.asarray(a, jnp.zeros(()).dtype), atoms)
    datasets = jax.tree.map(lambda a: a[rows], values)
    pilots, batch = (
        jax.tree.map(lambda a, s=s: a[s], datasets) for s in (slice(8), slice(8, None))
    )
    path_key, run_key = jax.random.split(jax.random.key(seed))
    segments = SAMPLER.find_path(path_key, posterior, pilots, list(GAMMAS[name]))
    keys = jax.random.split(run_key, repeats)
    evidence = run_frozen(posterior, batch, gammas, SAMPLER, segments, keys)
    found = [bound_rows(gammas, e, N, DELTA, (0.0, 1.0), False) for e in evidence]
    weights = jnp.asarray(probs, jnp.zeros(()).dtype)
    each, level = risks_of(posterior, SAMPLER, keys, batch, segments, values, weights)
    each, level = np.asarray(each, np.float64), np.asarray(level, np.float64)
    share = np.exp(level - logsumexp(level, axis=-1, keepdims=True))
    losses = losses_on_atoms(posterior, points, atoms)
    return found, {
        "particles": (share * each).sum(axis=-1),
        "posterior": true_risks(losses, probs, rows[8:], GAMMAS[name]),
    }


def moment(found, risk):
    """Mean of C exp(n F(R)), F(R) = -log(1 - R (1 - e^-gamma)), and its standard error."""
    i = min(1, risk.shape[1] - 1)
    gamma = found[0][i]["gamma"]
    log_c = np.array([rows[i]["log_normalizer"] for rows in found])
    values = np.exp(log_c - N * np.log1p(risk[:, i] * np.expm1(-gamma)))
    return values.mean(), values.std(ddof=1) / len(values) ** 0.5


def judge(name, found, risks):
    """One row a law that a draw comes from: violations, and bounds beside risks."""
    rows = []
    for of, risk in risks.items():
        names = OF_POSTERIOR if len(risks) > 1 and of == "posterior" else BOUNDS
        values = {b: np.array([[row[b] for row in r] for r in found]) for b in names}
        empirical = np.array([[row["empirical_risk"] for row in r] for r in found])
        best = values["catoni"].argmin(axis=1)
        at = np.arange(len(best)), best
        row = {
            "problem": name,
            "of": of,
            "repeats": len(found),
            "empirical_risk": empirical[at].mean(),
            "true_risk": risk[at].mean(),
            "log_normalizer_se": np.mean([[r["log_normalizer_se"] for r in f] for f in found]),
        }
        row["moment"], row["moment_se"] = moment(found, risk)
        for b in names:
            row[b] = values[b].min(axis=1).mean()
            row[f"{b}_violated"] = (values[b] < risk).any(axis=1).mean()
            row[f"{b}_least_margin"] = (values[b] - risk).min()
        rows.append(row)
    return rows


PROBLEMS = {
    "one risk": (by_sums, one_risk),
    "thresholds": (by_sums, thresholds),
    "clipped": (by_particles, clipped),
}


def main():
    """Certify repeatedly, print shares of violations and save them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=1000, help="datasets of each problem")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="20 datasets of each problem")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    repeats = 20 if parsed.quick else parsed.repeats
    rows = []
    for name, (route, case) in PROBLEMS.items():
        rows += judge(name, *route(name, case, repeats, parsed.seed))
    machine.show(rows)
    settings = {"n": N, "delta": DELTA, "gammas": GAMMAS, "sampler": repr(SAMPLER)}
    settings |= {"repeats": repeats, "seed": parsed.seed}
    print("saved", machine.save("certificates", rows, settings, parsed.out))


if __name__ == "__main__":
    main()
