"""Langevin chains in exactly the form their privacy theorems cover."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.precision import traced_exactly
from gibbs_dp.model.check import as_key, positive_count
from gibbs_dp.model.examples import as_examples, num_examples
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.projection import in_theta, is_projectable, project
from gibbs_dp.sampling.kernels.unadjusted import (
    SGLD,
    ULA,
    PlainForm,
    ULAState,
    everything,
    loss_gradient,
    poisson_batch,
    prior_gradient,
    ula_init,
    ula_step,
)


def run_langevin(
    posterior: GibbsPosterior,
    data: PyTree,
    *,
    gamma: float,
    kernel: ULA | SGLD,
    start: PyTree | None = None,
    num_draws: int = 1,
    key: int | PRNGKeyArray,
) -> Float[Array, "draws dim"]:
    """Run independent chains and keep the last iterate of each.

    Nothing but the gradients sees the data: start, step, length, gamma and clip are the caller's,
    there is no preconditioner, no adaptation and no acceptance step. On a box or a ball each step
    ends at the nearest point of it, in theta's own coordinates: draws may lie on the boundary.

    Parameters
    ----------
    posterior
        A per-example loss and a prior on all of Euclidean space, a box or a ball.
    data
        Examples, a pytree whose leaves have leading axis ``n``.
    gamma
        Inverse temperature.
    kernel
        `gibbs_dp.ULA` (full batch) or `gibbs_dp.SGLD` (Poisson minibatches), with a fixed step and
        no preconditioner.
    start
        Where all chains begin; zeros by default, or the nearest point to them. For a guarantee it
        must be free of the data.
    num_draws
        Independent chains.
    key
        Integer seed or JAX key.

    Returns
    -------
    Array
        Last iterates, flat, ``[draws, dim]``, in theta's own coordinates.

    Raises
    ------
    ValueError
        For a structured loss, a prior on another support, or a kernel outside the form that the
        theorems cover.

    Examples
    --------
    >>> import jax.numpy as jnp, numpyro.distributions as dist, gibbs_dp as gdp
    >>> p = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(2), 1.0))
    >>> run_langevin(p, jnp.ones((5, 2)), gamma=1.0, kernel=gdp.ULA(0.05, 100), key=0).shape
    (1, 2)
    """
    require_langevin(posterior)
    num_draws = positive_count("num_draws", num_draws)
    if not 0 <= gamma < float("inf"):
        raise ValueError(f"gamma: {gamma:g} is not a finite number >= 0.")
    flat = in_theta(posterior)
    position = jnp.zeros(flat.dim) if start is None else flat.unconstrain(start)
    keys = jax.random.split(as_key(key), num_draws)
    return run_form(
        posterior, kernel.plain_form(), as_examples(data), jnp.asarray(float(gamma)), position, keys
    )


def require_langevin(posterior: GibbsPosterior) -> None:
    """Raise a ValueError unless the posterior is one that Langevin chains here can run on."""
    if posterior.structured:
        raise ValueError(
            "posterior: Langevin steps clip gradients per example, but a total_loss has none; use "
            "a per-example loss."
        )
    if not is_projectable(posterior.prior):
        raise ValueError(
            "posterior: Langevin steps leave this support, and only a box or a ball is projected "
            "onto; use a prior on one of them or on all of Euclidean space, such as a Gaussian one."
        )


@partial(jax.jit, static_argnames=("posterior", "form"))
@traced_exactly
def run_form(
    posterior: GibbsPosterior,
    form: PlainForm,
    data: PyTree,
    gamma: Float[Array, ""],
    start: Float[Array, " dim"],
    keys: Array,
) -> Float[Array, "draws dim"]:
    """Run the chains of `run_langevin` from checked arguments, in a form that can be traced."""
    n = num_examples(data)
    flat, pull = in_theta(posterior), theta_prior_gradient(posterior)

    def chain(key: PRNGKeyArray) -> Float[Array, " dim"]:
        def one(index: Array, state: ULAState) -> ULAState:
            noise_key, batch_key = jax.random.split(jax.random.fold_in(key, index))
            batch = everything(data, n, start.dtype)
            if form.sampling_rate is not None:
                rate = form.sampling_rate
                batch = poisson_batch(batch_key, data, n, rate, start.dtype)

            def gradient(theta: Float[Array, " dim"]) -> Float[Array, " dim"]:
                loss = loss_gradient(flat, theta, batch, form.clip)
                return gamma * loss + pull(theta)

            moved = ula_step(noise_key, state, gradient, form.step_size)
            return ULAState(project(posterior.prior, moved.position))

        first = ula_init(project(posterior.prior, start))
        return jax.lax.fori_loop(0, form.num_steps, one, first).position

    return jax.vmap(chain)(keys)


def theta_prior_gradient(
    posterior: GibbsPosterior,
) -> Callable[[Float[Array, " dim"]], Float[Array, " dim"]]:
    """Gradient of ``-log prior`` in theta's own coordinates."""
    if posterior.prior.is_euclidean:
        return partial(prior_gradient, posterior)
    flat = in_theta(posterior)

    def cost(theta: Float[Array, " dim"]) -> Float[Array, ""]:
        return -posterior.prior.log_prob(flat.constrain(theta))

    return jax.grad(cost)
