"""Arguments of a release, checked before its charge: a mistake must cost no budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from gibbs_dp.information import checks
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.losses import Loss
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.constants import on_support
from gibbs_dp.privacy.ledger import Ledger
from gibbs_dp.sampling.as_sampler import as_sampler
from gibbs_dp.sampling.cautions import ESS_LIMIT
from gibbs_dp.sampling.grid import Grid

# Most elements of one array, and most steps of one loop: the reach of 32-bit indices.
MOST = 2**31 - 1


def check_kinds(posterior: Any, domain: Any, ledger: Any) -> None:
    """Raise a ValueError unless these are a posterior, a domain and a ledger."""
    for name, value, kind in (
        ("posterior", posterior, GibbsPosterior),
        ("domain", domain, Domain),
        ("ledger", ledger, Ledger),
    ):
        if not isinstance(value, kind):
            raise ValueError(f"{name}: give a gibbs_dp.{kind.__name__}, got {checks.shown(value)}.")


def check_kernel(kernel: Any, is_exact: bool) -> None:
    """Refuse what `gibbs_dp.sample` cannot run, and a biased chain that would pass for exact.

    A `gibbs_dp.Grid` is refused too: its draws are lattice points, not draws of the posterior that
    the guarantee is for, and the exponential mechanism releases from a finite class as it is.

    >>> from gibbs_dp.sampling.kernels import HMC
    >>> check_kernel(HMC(), is_exact=True)
    """
    if kernel is None:
        return
    if isinstance(kernel, Grid):
        raise ValueError(
            "kernel: a Grid draws lattice points, which are not draws of this posterior; release "
            "from a finite class with gibbs_dp.adaptive.ExponentialMechanism."
        )
    sampler = as_sampler(kernel)
    if sampler.traits.is_path:
        raise ValueError(
            f"kernel: particles of {type(kernel).__name__} share ancestors, and draws of one run "
            "are not independent draws of the posterior; use gibbs_dp.HMC()."
        )
    if is_exact and not sampler.traits.is_adjusted:
        raise ValueError(
            f"kernel: {type(kernel).__name__} has no acceptance step, so its draws are biased and "
            "pass for no exact ones; use gibbs_dp.HMC(), release_chain, or declare total_variation."
        )


def check_run(
    dim: int, num_draws: int, num_chains: int, num_warmup: int, num_samples: int
) -> tuple[int, int]:
    """Return ``num_warmup`` and ``num_samples``, refused where no run could pass the checks.

    >>> check_run(2, num_draws=1, num_chains=4, num_warmup=500, num_samples=1000)
    (500, 1000)
    """
    warmup = checks.count("num_warmup", num_warmup, minimum=0)
    samples = checks.count("num_samples", num_samples)
    if num_chains * samples < ESS_LIMIT:
        raise ValueError(
            f"num_samples: {samples} draws of {num_chains} chains are too few for the convergence "
            f"checks, which ask for {ESS_LIMIT:g} effective ones; give at least "
            f"{-int(-ESS_LIMIT // num_chains)}."
        )
    if warmup + samples > MOST or num_chains * samples * (dim + 1) > MOST:
        raise ValueError(
            f"num_samples: {num_draws} draws after {warmup} + {samples} steps in {dim} dimensions "
            "are more than one array holds; lower num_draws, num_samples or num_warmup."
        )
    return warmup, samples


def check_fits(name: str, value: float) -> None:
    """Refuse a setting that is zero or infinite in JAX's default precision.

    >>> check_fits("gamma", 0.5)
    """
    limits = jnp.finfo(jnp.zeros(()).dtype)
    if not float(limits.tiny) <= value <= float(limits.max):
        raise ValueError(
            f"{name}: {value:g} is zero or infinite in {limits.dtype}; choose a number between, or "
            "compute in double precision."
        )


def check_proper(posterior: GibbsPosterior, domain: Domain) -> None:
    """Refuse a flat prior on an unbounded support with a bounded loss: nothing normalizes it."""
    if not (posterior.prior.is_flat and isinstance(posterior.loss, Loss)):
        return
    if posterior.loss.constants(on_support(posterior, domain)).oscillation < float("inf"):
        raise ValueError(
            "posterior: a flat prior on an unbounded support and a bounded loss have no posterior "
            "that could be drawn from; use a bounded support or a proper prior."
        )


def check_program(run: Callable[[PyTree], Any], blank: PyTree) -> None:
    """Trace what will run on data of these shapes, without values, so that it cannot fail later.

    Raises
    ------
    ValueError
        If JAX cannot trace or differentiate the loss.
    """
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(jnp.shape(a), jnp.result_type(a)), blank)
    with one_sentence():
        jax.eval_shape(run, shapes)


@contextmanager
def one_sentence() -> Iterator[None]:
    """Put what a loss raises on blank data, which reveals nothing, in one sentence.

    >>> with one_sentence():
    ...     jax.eval_shape(lambda x: float(x), 1.0)                      # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: loss: JAX cannot trace and differentiate it; write it with jax.numpy ...
    """
    try:
        yield
    except Exception as error:
        if type(error) is ValueError and str(error).startswith("loss: "):
            raise
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(
            "loss: JAX cannot trace and differentiate it; write it with jax.numpy and without "
            f"branches on values ({first})"
        ) from error


@contextmanager
def finite_figures() -> Iterator[None]:
    """Turn an overflow of the accounting into a sentence.

    >>> with finite_figures():
    ...     1e200 ** 2
    Traceback (most recent call last):
    ...
    ValueError: target: its figures leave floating-point numbers; use settings of moderate size.
    """
    try:
        yield
    except (OverflowError, ZeroDivisionError):
        raise ValueError(
            "target: its figures leave floating-point numbers; use settings of moderate size."
        ) from None
