"""Draws that another sampler made."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.information.checks import refuse_masked
from gibbs_dp.model.check import check_gamma, check_posterior, examples_for
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.diagnostics import refuse_copies
from gibbs_dp.sampling.draws import Draws


def _energies_of(posterior: GibbsPosterior, u: Array, data: PyTree, gamma: Array) -> Array:
    target = posterior.unconstrained(data, gamma)
    return jax.lax.map(target.log_density, u, batch_size=64)


def _points_of(posterior: GibbsPosterior, theta: PyTree) -> Array:
    return jax.vmap(posterior.unconstrain)(theta)


def _thetas_of(posterior: GibbsPosterior, u: Array) -> PyTree:
    return jax.vmap(posterior.constrain)(u)


_energies = on_default_backend(_energies_of, "posterior")
_points = on_default_backend(_points_of, "posterior")
_thetas = on_default_backend(_thetas_of, "posterior")


def as_draws(
    posterior: GibbsPosterior,
    data: PyTree,
    samples: PyTree,
    gamma: float = 1.0,
    is_unconstrained: bool = False,
) -> Draws:
    """Take draws of BlackJAX, NumPyro or any other sampler, for everything that draws are good for.

    Parameters
    ----------
    posterior, data, gamma
        What was sampled; ``posterior.unconstrained(data, gamma).log_density`` for samplers that
        want a function of a vector.
    samples
        The prior's pytree with leaves ``[chain, draw, ...]``, as ``mcmc.get_samples(True)`` has
        them (other names of a dict, such as deterministic sites, are left out).
    is_unconstrained
        They are points ``[chain, draw, dim]`` of ``posterior.unconstrained(...)`` instead.

    Returns
    -------
    Draws
        Without acceptance rates, which are not known here.

    Raises
    ------
    ValueError
        If the samples do not fit the posterior, or chains are copies of each other.

    Examples
    --------
    >>> import numpyro.distributions as dist, gibbs_dp as gdp
    >>> posterior = gdp.GibbsPosterior.from_log_density(
    ...     lambda theta, z: -((theta - z) ** 2) / 2, dist.Normal(0.0, 1.0))
    >>> theirs = np.random.default_rng(0).normal(0.5, 0.5, (4, 500))
    >>> draws = as_draws(posterior, np.array([0.5, 0.5, 1.0]), theirs)
    >>> draws.theta.shape, draws.log_likelihood().shape
    ((4, 500), (4, 500, 3))
    """
    check_posterior(posterior)
    refuse_masked("samples", samples)
    gamma, examples = check_gamma(gamma), examples_for(posterior, data)
    if is_unconstrained:
        points = jnp.asarray(chains_of("samples", samples), jnp.result_type(float))
        if points.ndim != 3 or points.shape[2] != posterior.dim:
            raise ValueError(
                f"samples: shape {points.shape}; unconstrained ones are [chain, draw, "
                f"{posterior.dim}]."
            )
        lead = points.shape[:2]
        u = points.reshape(-1, posterior.dim)
        theta = _thetas(posterior, u)
    else:
        theta, lead = _flat(posterior, samples)
        u = _points(posterior, theta)
    if not bool(jnp.isfinite(u).all()):
        raise ValueError(
            "samples: some are NaN, infinite, or not inside the prior's support; give [chain, "
            "draw, ...] values of the parameters themselves."
        )
    log_density = np.asarray(_energies(posterior, u, examples, jnp.asarray(gamma, u.dtype)))
    if not np.isfinite(log_density).all():
        bad = int((~np.isfinite(log_density)).sum())
        raise ValueError(
            f"samples: {bad} of {log_density.size} have no density under this posterior and these "
            "data (their loss is NaN or infinite); give the data and the prior that were sampled."
        )
    by_chain = np.asarray(u).reshape(*lead, -1)
    refuse_copies("samples", by_chain)
    return Draws(
        theta=jax.tree.map(lambda a: np.asarray(a).reshape(*lead, *a.shape[1:]), theta),
        log_density=(log_density - log_density.max()).reshape(lead),
        accept_rate=np.full(lead[:1], np.nan, log_density.dtype),
        is_stuck=(by_chain == by_chain[:, :1]).all(axis=(1, 2)),
        gamma=gamma,
        settings={"kernel": "another library's"},
        source=(posterior, examples),
    )


def chains_of(argument: str, given: Any) -> Any:
    """Make one array of chains that come as a list.

    >>> chains_of("samples", [np.zeros(3), np.ones(3)]).shape
    (2, 3)
    """
    is_list = isinstance(given, (list, tuple))
    is_of_objects = isinstance(given, np.ndarray) and given.dtype.kind == "O"
    if not (is_list or is_of_objects):
        return given if isinstance(given, jax.Array) else np.asarray(given)
    shapes = [np.shape(chain) for chain in given] if is_list or np.ndim(given) == 1 else []
    if len(set(shapes)) > 1:
        listed = ", ".join(str(len_of[0]) if len_of else "none" for len_of in shapes[:4])
        listed += ", ..." if len(shapes) > 4 else ""
        raise ValueError(
            f"{argument}: its {len(shapes)} chains differ in shape (draws: {listed}), and all "
            "weigh alike here; cut them to the shortest, as np.stack([chain[-shortest:] for chain "
            "in chains])."
        )
    return np.stack([np.asarray(chain) for chain in given]) if shapes else np.asarray(given)


def _is_array(tree: Any, name: str) -> bool:
    """Return True if the prior has a single law of this name."""
    return isinstance(tree, dict) and name in tree and not isinstance(tree[name], (list, tuple))


def _flat(posterior: GibbsPosterior, samples: PyTree) -> tuple[PyTree, tuple[int, int]]:
    """Lay chains end to end, and say how many and how long they were."""
    tree: Any = posterior.prior.tree
    if isinstance(tree, dict) and isinstance(samples, dict):
        samples = {name: value for name, value in samples.items() if name in tree}
    dtype = jnp.result_type(float)
    # A list where the prior has one array is one of chains.
    if isinstance(samples, (list, tuple)) and not isinstance(tree, (list, tuple, dict)):
        samples = chains_of("samples", samples)
    elif isinstance(samples, dict):
        samples = {
            k: chains_of("samples", v) if isinstance(v, (list, tuple)) and _is_array(tree, k) else v
            for k, v in samples.items()
        }
    arrays = jax.tree.map(lambda a: jnp.asarray(chains_of("samples", a), dtype), samples)
    leads = {a.shape[:2] for a in jax.tree.leaves(arrays)}
    lead: tuple[int, ...] = next(iter(leads), ())
    if len(leads) != 1 or len(lead) != 2 or not all(lead):
        raise ValueError(
            f"samples: leaves begin with axes {sorted(leads)}; all need the same [chain, draw]; of "
            "a single chain give array[None]."
        )
    posterior.prior.check(jax.tree.map(lambda a: a[0, 0], arrays))
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), arrays), (lead[0], lead[1])
