"""Draws from the Gibbs posterior of one dataset, or of a batch of equally long ones."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PRNGKeyArray, PyTree
from numpy.typing import ArrayLike

from gibbs_dp.model.check import (
    as_key,
    check_gamma,
    check_loss,
    check_posterior,
    positive_count,
)
from gibbs_dp.model.keywords import names_keywords
from gibbs_dp.model.losses import Loss
from gibbs_dp.model.masked import check_mask, masked
from gibbs_dp.model.populations.base import as_examples, num_examples
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.spread import on_every_device
from gibbs_dp.sampling.chains import ChainDraws, run_chains
from gibbs_dp.sampling.draws import Draws
from gibbs_dp.sampling.errors import ImproperPosteriorError
from gibbs_dp.sampling.evolve import Schedule, make_schedule
from gibbs_dp.sampling.kernels import HMC, Kernel, Unadjusted, check_kernel
from gibbs_dp.sampling.langevin_walk import check_unadjusted

DEFAULT_WARMUP = 200
ADAPT_ROUNDS = 12
LOW_ACCEPT = 0.5


@partial(
    jax.jit,
    static_argnames=("posterior", "kernel", "num_chains", "num_samples"),
)
def _sample_batch(
    posterior: GibbsPosterior,
    kernel: Kernel | Unadjusted,
    num_chains: int,
    num_samples: int,
    data: PyTree,
    gamma: Array,
    keys: Key[Array, " datasets"],
    starts: Array,
    schedule: Schedule,
) -> tuple[ChainDraws, PyTree]:
    def one(key: PRNGKeyArray, data: PyTree, starts: Array) -> tuple[ChainDraws, PyTree]:
        draws = run_chains(
            key, posterior, data, gamma, starts, kernel, schedule, num_chains, num_samples
        )
        return draws, jax.vmap(jax.vmap(posterior.constrain))(draws.u)

    return jax.vmap(one)(keys, data, starts)


@names_keywords
def sample(
    posterior: GibbsPosterior,
    data: PyTree,
    gamma: float = 1.0,
    key: int | PRNGKeyArray = 0,
    kernel: Kernel | Unadjusted | Any | None = None,
    num_chains: int = 4,
    num_warmup: int = DEFAULT_WARMUP,
    num_samples: int = 1000,
    init: PyTree | None = None,
    is_batch: bool = False,
    mask: ArrayLike | None = None,
) -> Draws:
    """Draw from the Gibbs posterior of one dataset, or of each dataset of a batch.

    Every chain searches for a mode from an overdispersed start of its own and is whitened by the
    Laplace fit at the best one; where that fit is of no use, whitening and step size are learned
    from draws pooled over the chains. The draws are those of a Markov chain: no privacy
    guarantee of an exact draw applies to them.

    Parameters
    ----------
    posterior
        Loss and prior.
    data
        Examples, a pytree whose leaves have leading axis ``n``; for a batch, ``[datasets, n]``.
        Spread over devices or machines where :func:`gibbs_dp.shard_examples` made them so.
    gamma
        Inverse temperature, finite and >= 0; multiplies the total loss.
    key
        Integer seed or JAX key.
    kernel
        ``gibbs_dp.HMC()`` by default, or ``gibbs_dp.MALA()``; ``gibbs_dp.ULA()`` and
        ``gibbs_dp.SGLD()`` for long or large-``n`` chains without an acceptance step, whose draws
        are biased: the summary estimates by how much.
    num_chains, num_samples
        Chains (at least 2, for R-hat) and draws kept per chain (at least 4).
    num_warmup
        Steps discarded per chain, after any adaptation; each is ``num_steps`` Langevin steps
        of ULA and SGLD.
    init
        A parameter where all mode searches start; overdispersed points by default.
    is_batch
        The data are a batch of datasets of the same size.
    mask
        Which examples count, ``[n]`` or ``[datasets, n]`` of 0 and 1: datasets of different
        length under one compiled shape. `gibbs_dp.populations.pad` makes data and mask.

    Returns
    -------
    Draws
        With ``warnings`` when the chains cannot be trusted.

    Raises
    ------
    ValueError
        For arguments that make no sense or do not fit together.
    ImproperPosteriorError
        If a posterior cannot be normalized.

    Examples
    --------
    >>> import jax.numpy as jnp, numpyro.distributions as dist, gibbs_dp as gdp
    >>> posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance,
    ...                                dist.Normal(jnp.zeros(1), 1.0))
    >>> draws = gdp.sample(posterior, jnp.ones((3, 1)), num_samples=500)
    >>> draws.theta.shape                                            # exactly N(3/4, 1/4)
    (4, 500, 1)
    >>> abs(float(draws.theta.mean()) - 0.75) < 0.1
    True
    """
    num_chains = positive_count("num_chains", num_chains, least=2)
    num_samples = positive_count("num_samples", num_samples, least=4)
    num_warmup = positive_count("num_warmup", num_warmup, least=0)
    check_posterior(posterior)
    gamma = check_gamma(gamma)
    kernel = check_kernel(HMC() if kernel is None else kernel)
    examples = as_examples(data)
    batch = examples if is_batch else jax.tree.map(lambda a: a[None], examples)
    first = jax.tree.map(lambda a: a[0], batch)
    keep = None if mask is None else check_mask(mask, examples, is_batch)
    if keep is not None:
        kept = keep if is_batch else keep[None]
        first = jax.tree.map(lambda a: a[kept[0]], first)
    if isinstance(posterior.loss, Loss):
        posterior.loss.check_data(first)
    check_loss(posterior, first, num_examples(first))
    if keep is not None:
        posterior, batch = masked(posterior), (batch, jnp.asarray(kept))

    if isinstance(kernel, Unadjusted):
        check_unadjusted(kernel, posterior)
    num_datasets = num_examples(batch)
    root = as_key(key)
    keys = jax.vmap(lambda i: jax.random.fold_in(root, i))(jnp.arange(num_datasets))
    start_keys, keys = jax.vmap(jax.random.split, out_axes=1)(keys)
    starts = _starts(posterior, start_keys, num_chains, init)

    def run(*traced: Any) -> tuple[ChainDraws, PyTree]:
        found = _sample_batch(posterior, kernel, num_chains, num_samples, batch, *traced)
        return on_every_device(found, batch)

    tuning = kernel.default_tuning(posterior.dim)
    temperature = jnp.asarray(gamma, jnp.zeros(()).dtype)
    draws, theta = run(temperature, keys, starts, make_schedule(tuning, num_warmup, 0))
    if bool(draws.is_improper.any()):
        raise ImproperPosteriorError(
            f"posterior: improper at gamma={gamma:g} (it does not decay along some direction); "
            "use a proper prior, a bounded support, more data or a larger gamma."
        )
    if isinstance(kernel, Unadjusted):
        draws = draws._replace(accept_prob=jnp.full_like(draws.accept_prob, jnp.nan))
        settings = _describe(kernel, num_warmup, examples)
        settings["variance_inflation"] = float(draws.inflation.mean())
        return _pack(draws, theta, gamma, is_batch, settings)
    trusted = draws.is_curved.all() & (draws.accept_prob.mean() >= LOW_ACCEPT)
    if not bool(trusted) or bool(draws.is_stuck.any()):
        draws, theta = run(
            temperature, keys, starts, make_schedule(tuning, num_warmup, ADAPT_ROUNDS)
        )
    return _pack(draws, theta, gamma, is_batch, _describe(kernel, num_warmup, examples))


def _starts(
    posterior: GibbsPosterior,
    keys: Key[Array, " datasets"],
    num_chains: int,
    init: PyTree | None,
) -> Array:
    if init is not None:
        posterior.prior.check(init)
        if not bool(posterior.prior.contains(init)):
            raise ValueError("init: it lies outside the prior's support; give a point inside.")
        point = posterior.unconstrain(init)
        return jnp.broadcast_to(point, (keys.shape[0], num_chains, posterior.dim))

    def of_dataset(key: PRNGKeyArray) -> Array:
        chains = jax.random.split(key, num_chains)
        return jax.vmap(posterior.initial)(chains)

    return jax.vmap(of_dataset)(keys)


def _describe(kernel: Kernel | Unadjusted, num_warmup: int, examples: PyTree) -> dict[str, Any]:
    return {"kernel": repr(kernel), "num_warmup": num_warmup, "rows": num_examples(examples)}


def _pack(
    draws: ChainDraws, theta: PyTree, gamma: float, is_batch: bool, settings: dict[str, Any]
) -> Draws:
    def trim(leaf: Array) -> np.ndarray:
        return np.asarray(leaf if is_batch else leaf[0])

    return Draws(
        theta=jax.tree.map(trim, theta),
        log_density=-trim(draws.potential),
        accept_rate=trim(draws.accept_prob),
        is_stuck=trim(draws.is_stuck),
        gamma=float(gamma),
        settings=settings,
    )
