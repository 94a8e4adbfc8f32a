"""Arguments of a release, checked before its charge: a mistake must cost no budget."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property, lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from gibbs_dp._jaxlib.per_example import over_examples
from gibbs_dp.information import checks
from gibbs_dp.model.changes import notice_changes
from gibbs_dp.model.check import check_loss
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.losses import Loss
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.prior import Flat, Prior
from gibbs_dp.privacy.constants import on_support
from gibbs_dp.privacy.ledger import Ledger
from gibbs_dp.privacy.releases.method import IDEALIZATIONS, ReleaseMethod
from gibbs_dp.privacy.table import clip_data, num_rows
from gibbs_dp.sampling.as_sampler import as_sampler
from gibbs_dp.sampling.cautions import ESS_LIMIT, RHAT_LIMIT
from gibbs_dp.sampling.draws import Draws
from gibbs_dp.sampling.grid import Grid

# Most elements of one array, and most steps of one loop: the reach of 32-bit indices.
MOST = 2**31 - 1


def check_kinds(posterior: Any, domain: Any, ledger: Any, method: Any) -> None:
    """Raise a ValueError unless these are a posterior, a domain, a ledger and a method."""
    if not isinstance(method, ReleaseMethod):
        what = f"{method.__name__} is a class" if isinstance(method, type) else "it is none"
        raise ValueError(
            f"method: {what}; give an object of a gibbs_dp.privacy.ReleaseMethod, such as "
            "ExactDraw()."
        )
    for name, value, kind in (
        ("posterior", posterior, GibbsPosterior),
        ("domain", domain, Domain),
        ("ledger", ledger, Ledger),
    ):
        if not isinstance(value, kind):
            raise ValueError(f"{name}: give a gibbs_dp.{kind.__name__}, got {checks.shown(value)}.")
    notice_changes((posterior, method))


def check_kernel(kernel: Any, posterior: GibbsPosterior, is_exact: bool) -> None:
    """Refuse what `gibbs_dp.sample` cannot run here, and biased chains that would pass for exact.

    A `gibbs_dp.Grid` is refused too: its draws are lattice points, not draws of the posterior that
    the guarantee is for, and the exponential mechanism releases from a finite class as it is.

    >>> import gibbs_dp as gdp
    >>> flat = gdp.Flat(gdp.supports.l2_ball(2))
    >>> check_kernel(gdp.HMC(), gdp.GibbsPosterior(gdp.losses.logistic, flat), is_exact=True)
    """
    if kernel is None:
        return
    if isinstance(kernel, Grid):
        raise ValueError(
            "kernel: a Grid draws lattice points, which are not draws of this posterior; release "
            "from a finite class with gibbs_dp.privacy.ExponentialMechanism."
        )
    sampler = as_sampler(kernel, argument="kernel")
    if sampler.traits.is_path:
        raise ValueError(
            f"kernel: particles of {type(kernel).__name__} share ancestors, and draws of one run "
            "are not independent draws of the posterior; use gibbs_dp.HMC()."
        )
    if is_exact and not sampler.traits.is_adjusted:
        raise ValueError(
            f"kernel: {type(kernel).__name__} has no acceptance step, so its draws are biased and "
            "pass for no exact ones; use gibbs_dp.HMC() or ChainDraw, or declare total_variation."
        )
    sampler.check(without_checks(posterior))


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
    limits = jnp.finfo(jnp.result_type(float))
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


def check_program(run: Callable[[PyTree], Any], blank: PyTree, adjacency: str) -> None:
    """Trace what will run on data of these shapes, without values, so that it cannot fail later."""
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(jnp.shape(a), jnp.result_type(a)), blank)
    with one_sentence(adjacency):
        jax.eval_shape(run, shapes)


@contextmanager
def one_sentence(adjacency: str) -> Iterator[None]:
    """Put what a loss raises on blank data in one sentence.

    It tells nothing of blank data but their shape, which is private under add-remove.

    >>> with one_sentence("replace-one"):
    ...     jax.eval_shape(lambda x: float(x), 1.0)                      # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: loss: JAX cannot trace and differentiate it; write it with jax.numpy ...
    """
    try:
        yield
    except Exception as error:
        if adjacency == "add-remove":
            raise ValueError(
                "loss: it fails on zeros of the data's shape; write it with jax.numpy, without "
                "branches on values, and let it return one number for each example "
                f"({type(error).__name__})."
            ) from None
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


# A posterior whose loss accepts any data: a complaint about private data would be a release.


def without_checks(posterior: GibbsPosterior) -> GibbsPosterior:
    """Return the same posterior, whose loss does not inspect its data.

    One object for all posteriors with the same loss and prior: programs are compiled for
    posteriors by identity, and a release should compile once per shape, however its posterior was
    written down. A structured loss has no checks to leave out.

    >>> import gibbs_dp as gdp
    >>> one, other = (gdp.GibbsPosterior(gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball(2)))
    ...               for _ in range(2))
    >>> without_checks(one) is without_checks(other)
    True
    """
    if posterior.loss is None:
        return posterior
    return _unchecked(_Same(_content(posterior), posterior))


@dataclass(frozen=True)
class _Same:
    """A posterior that equals all others of the same content."""

    content: Hashable
    posterior: GibbsPosterior = field(compare=False)


@lru_cache(maxsize=16)
def _unchecked(same: _Same) -> GibbsPosterior:
    posterior = same.posterior
    return GibbsPosterior(_Plain(posterior.loss), posterior.prior)


def _content(posterior: GibbsPosterior) -> Hashable:
    """Loss and prior, by value where it tells all of them and else by identity."""
    if not _is_its_value(posterior.loss):
        return id(posterior)
    found = (posterior.loss, _content_of_prior(posterior.prior))
    try:
        hash(found)
    except TypeError:  # a loss that holds arrays, say
        return id(posterior)
    return found


def _is_its_value(value: Any) -> bool:
    """Whether all that equal it are alike: it alone, or what holds nothing beside its fields."""
    if isinstance(value, (bool, int, float, str, bytes, type(None))):
        return True
    if isinstance(value, tuple):
        return all(map(_is_its_value, value))
    compared: Any = type(value).__eq__
    if compared is object.__eq__:
        return True
    if not is_dataclass(value):
        return False
    known = [f.name for f in fields(value) if f.compare]
    return not hidden_settings(value) and all(_is_its_value(getattr(value, k)) for k in known)


def hidden_settings(value: Any) -> list[str]:
    """Attributes beside the compared fields of a dataclass, in which equal objects may differ."""
    known = {f.name for f in fields(value) if f.compare}
    return [
        key
        for key in vars(value)
        if key not in known and not isinstance(getattr(type(value), key, None), cached_property)
    ]


def _is_known(law: Any) -> bool:
    """Whether a law's arrays and structure tell all of it: a law of NumPyro's or ours."""
    home = type(law).__module__.partition(".")[0]
    inner = getattr(law, "base_dist", None)
    return home in ("numpyro", "gibbs_dp") and (inner is None or _is_known(inner))


def _content_of_prior(prior: Prior) -> Hashable:
    # Functions of other parts, and a user's laws, which may hold what their arrays do not tell.
    if prior.is_hierarchical or not all(map(_is_known, prior.leaves)):
        return id(prior)
    parts = []
    for law, support in zip(prior.leaves, prior.supports, strict=True):
        arrays, structure = jax.tree.flatten(support.constraint if isinstance(law, Flat) else law)
        values = tuple(
            (np.asarray(a).dtype.str, np.shape(a), np.asarray(a).tobytes()) for a in arrays
        )
        parts.append((type(law), support.shape, support.is_flat, structure, values))
    return prior.treedef, tuple(parts)


@dataclass(frozen=True, eq=False)
class _Plain:
    """A loss without its checks of data."""

    loss: Any

    @property
    def is_convex(self) -> bool:
        return getattr(self.loss, "is_convex", False) is True

    def __call__(self, theta: PyTree, z: PyTree) -> Any:
        return self.loss(theta, z)

    def batch(self, theta: PyTree, data: PyTree) -> Any:
        if hasattr(self.loss, "batch"):
            return self.loss.batch(theta, data)
        return over_examples(self.loss, theta, data)


# Checks of a release: before its charge without seeing values, after it without a message.


def require_accepted(accept: Collection[str], needed: Mapping[str, str], why: str = "") -> None:
    """Raise a ValueError unless every needed idealization, a name and its meaning, was accepted.

    ``why`` ends its message.

    >>> require_accepted(["float-arithmetic"], {"float-arithmetic": "floats are real numbers"})
    """
    known = IDEALIZATIONS | dict(needed)
    if isinstance(accept, str):
        accept = [accept]
    if not isinstance(accept, Collection) or not all(isinstance(name, str) for name in accept):
        raise ValueError(
            f"accept: give the names of idealizations, of {', '.join(known)}; got "
            f"{checks.shown(accept)}."
        )
    unknown = set(accept) - set(known)
    if unknown:
        raise ValueError(
            f"accept: {sorted(unknown)[0]!r} is no idealization; the names are {', '.join(known)}."
        )
    missing = [f"{name!r} ({meaning})" for name, meaning in needed.items() if name not in accept]
    if missing:
        raise ValueError(
            "accept: the guarantee is idealized, so name what you accept: "
            f"{'; '.join(missing)}.{why}"
        )


def check_shapes(data: PyTree) -> int:
    """Count the examples; refuse anything but arrays of numbers without quoting a value."""
    for leaf in jax.tree.leaves(data):
        kind = getattr(getattr(leaf, "dtype", None), "kind", "")
        if kind not in "fiub" or not kind:
            raise ValueError(
                "data: give arrays of numbers, as frame.to_numpy() or numpy.asarray(rows); encode "
                "text first, or read a file with gibbs_dp.privacy.read_table."
            )
    return num_rows(data)


def check_structure(unchecked: GibbsPosterior, blank: PyTree, adjacency: str) -> None:
    """Evaluate the loss on zeros of the data's shape, so that no message can depend on values."""
    with one_sentence(adjacency):
        check_loss(unchecked, blank, num_rows(blank))


def blank_data(posterior: GibbsPosterior, data: PyTree, domain: Domain) -> PyTree:
    """Make zeros of the data's shape, clipped as the data will be."""
    zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), data)
    return clip_data(posterior, zeros, domain)


def as_traced(blank: PyTree) -> PyTree:
    """Give data JAX's default precision, as the samplers will see them."""

    def converted(leaf: Any) -> Array:
        kind = int if np.asarray(leaf).dtype.kind in "iu" else float
        return jnp.asarray(np.asarray(leaf).astype(jnp.zeros((), kind).dtype))

    return jax.tree.map(converted, blank)


def has_converged(draws: Draws) -> bool:
    """Whether R-hat, effective draws and movement are what `Draws.warnings` asks for."""
    frame = draws.to_dataframe()
    return bool(
        not draws.is_stuck.any()
        and np.isfinite(draws.log_density).all()
        and (frame["r_hat"] <= RHAT_LIMIT).all()
        and (frame["ess"] >= ESS_LIMIT).all()
    )
