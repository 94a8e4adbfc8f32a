"""Priors: NumPyro distributions or flat measures, arranged in any pytree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, PRNGKeyArray, PyTree
from numpyro.distributions import constraints

from gibbs_dp._jaxlib.devices import key_of
from gibbs_dp.information.checks import refuse_masked
from gibbs_dp.model.charts import BoxChart, NormalInBall, SimplexChart, chart_of
from gibbs_dp.model.supports import Support, as_shape

_WRAPPERS = (dist.Independent, dist.ExpandedDistribution)
_TRUNCATED = (
    dist.TwoSidedTruncatedDistribution,
    dist.LeftTruncatedDistribution,
    dist.RightTruncatedDistribution,
)


@dataclass(frozen=True, eq=False)
class Flat:
    """Constant (Lebesgue) prior density on a declared support, proper or not.

    Parameters
    ----------
    support
        A :class:`~gibbs_dp.model.supports.Support` (see ``gibbs_dp.supports``) or a NumPyro
        constraint.
    shape
        Shape of the parameter; only with a NumPyro constraint.

    Examples
    --------
    >>> import gibbs_dp as gdp
    >>> gdp.Flat(gdp.supports.real(3)).support.shape
    (3,)
    """

    support: Any
    shape: tuple[int, ...] | int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.support, Support):
            if self.shape is not None:
                raise ValueError("Flat(support, shape): the support has a shape; drop `shape`.")
        elif isinstance(self.support, constraints.Constraint):
            shape = as_shape(() if self.shape is None else self.shape)
            object.__setattr__(self, "support", Support(self.support, shape))
        else:
            raise ValueError(
                "Flat(support) takes one of gibbs_dp.supports.* or a NumPyro constraint, "
                f"got {type(self.support).__name__}."
            )

    def log_prob(self, theta: Float[Array, ...]) -> Float[Array, ""]:
        """Zero: the density is constant on its support."""
        return jnp.zeros_like(theta, shape=())


def _unwrapped(law: Any) -> Any:
    """Return the law that is expanded, or whose components are one event."""
    while isinstance(law, _WRAPPERS):
        law = law.base_dist
    return law


def flat_if_improper(law: Any) -> Any:
    """Return a law, or the flat measure that an improper uniform one is."""
    if not isinstance(_unwrapped(law), dist.ImproperUniform):
        return law
    return Flat(Support(law.support, tuple(law.batch_shape + law.event_shape)))


def _without_improper(tree: Any) -> Any:
    """Put flat measures in place of improper uniform laws; dicts keep their order."""
    if type(tree) is dict:
        return {name: _without_improper(part) for name, part in tree.items()}
    return jax.tree.map(flat_if_improper, tree, is_leaf=_is_leaf)


def _is_leaf(x: Any) -> bool:
    return isinstance(x, (dist.Distribution, Flat)) or is_conditional(x)


def _sample_leaf(leaf: Any, key: PRNGKeyArray) -> Array:
    """Draw one part: its law's draw, or (flat) uniform on (-2, 2) unconstrained."""
    if not isinstance(leaf, Flat):
        return leaf.sample(key)
    s = leaf.support
    return s.constrain(jax.random.uniform(key, s.unconstrained_shape, minval=-2.0, maxval=2.0))


def _draw_leaf(leaf: Any, key: PRNGKeyArray) -> Array:
    """Draw one part exactly: a flat one is a standard normal in its chart."""
    if not isinstance(leaf, Flat):
        return leaf.sample(key)
    s = leaf.support
    return s.constrain(jax.random.normal(key, s.unconstrained_shape))


def _has_draws(leaf: Any) -> bool:
    law = _unwrapped(leaf)
    if isinstance(law, Flat):
        return chart_of(law.support.constraint) is not None
    return not isinstance(law, dist.ImproperUniform)


def _support_of(leaf: Any) -> Support:
    if isinstance(leaf, Flat):
        support = leaf.support
    elif isinstance(leaf, dist.Distribution):
        shape = tuple(leaf.batch_shape + leaf.event_shape)
        support = Support(leaf.support, shape, is_flat=_is_uniform(leaf))
    else:
        raise ValueError(
            "prior: every leaf must be a NumPyro distribution or gibbs_dp.Flat(support), "
            f"got {type(leaf).__name__}."
        )
    if isinstance(leaf, dist.Delta):
        raise ValueError(
            "prior: a Delta fixes a parameter, and leaves nothing to sample; leave it out, and put "
            "its value into the loss."
        )
    if support.constraint.is_discrete:
        raise ValueError(
            "prior: discrete distributions have no gradients to sample with; "
            "put finitely many hypotheses on a Grid instead."
        )
    try:
        support.unconstrained_shape  # noqa: B018  (asks NumPyro for the bijection)
    except (NotImplementedError, ValueError) as error:
        raise ValueError(
            f"prior: no bijection from Euclidean space onto {support.constraint} of shape "
            f"{support.shape}; use a support of gibbs_dp.supports."
        ) from error
    return support


def _is_uniform(law: dist.Distribution) -> bool:
    return isinstance(_unwrapped(law), dist.Uniform)


def _refuse_moving(some: list[Support], others: list[Support]) -> None:
    """Refuse a support that depends on other parts: one bijection must serve all values."""
    for a, b in zip(some, others, strict=True):
        if a.shape != b.shape or a.bounds() != b.bounds():
            raise ValueError(
                f"prior: a support depends on other parts ({a.bounds()} of shape {a.shape} for "
                f"one draw, {b.bounds()} of shape {b.shape} for another); scale a fixed one "
                "inside the loss."
            )


def leaf_curvature(leaf: Any) -> tuple[float, float]:
    """Smallest and largest eigenvalue of the Hessian of ``-log density`` of one part of a prior.

    >>> leaf_curvature(dist.Normal(0.0, 2.0).expand([3]))
    (0.25, 0.25)
    """
    if isinstance(leaf, (Flat, dist.Uniform)):
        return 0.0, 0.0
    if isinstance(leaf, (*_WRAPPERS, *_TRUNCATED)):
        return leaf_curvature(leaf.base_dist)
    if isinstance(leaf, (dist.Normal, NormalInBall)):
        precision = np.asarray(leaf.scale, np.float64) ** -2.0
    elif isinstance(leaf, dist.MultivariateNormal):
        precision = np.linalg.eigvalsh(np.asarray(leaf.precision_matrix, np.float64))
    else:
        return -np.inf, np.inf
    return float(precision.min()), float(precision.max())


@dataclass(frozen=True, eq=False)
class Prior:
    """A pytree of independent priors with the bijections of their supports.

    Leaves are NumPyro distributions, `Flat`, or in a dict functions of the entries before them.
    """

    tree: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "tree", _without_improper(self.tree))
        leaves, treedef = jax.tree.flatten(self.tree, is_leaf=_is_leaf)
        if not leaves:
            raise ValueError("prior: it is empty; give a NumPyro distribution or gibbs_dp.Flat.")
        object.__setattr__(self, "leaves", tuple(leaves))
        object.__setattr__(self, "treedef", treedef)
        is_hierarchical = any(map(is_conditional, leaves))
        object.__setattr__(self, "is_hierarchical", is_hierarchical)
        supports = [_support_of(leaf) for leaf in self._laws_at_a_draw(0)]
        if self.is_hierarchical:
            _refuse_moving(supports, [_support_of(leaf) for leaf in self._laws_at_a_draw(1)])
        object.__setattr__(self, "supports", tuple(supports))

    leaves: tuple[Any, ...] = ()
    supports: tuple[Support, ...] = ()
    treedef: Any = None
    is_hierarchical: bool = False  # whether some part's law depends on other parts

    def _laws(self, theta: PyTree) -> list[Any]:
        """Return the law of every part, given the others where it depends on them."""
        if not self.is_hierarchical:
            return list(self.leaves)
        return self.treedef.flatten_up_to(laws_at(self.tree, theta))

    def _laws_at_a_draw(self, seed: int) -> list[Any]:
        if not self.is_hierarchical:
            return list(self.leaves)
        check_hierarchy(self.tree)
        return self._laws(draw_entries(self.tree, key_of(seed), _sample_leaf))

    @property
    def is_flat(self) -> bool:
        """Whether any part of the prior is a flat measure on an unbounded support."""
        return any(
            isinstance(leaf, Flat) and not np.isfinite(s.l2_bound())
            for leaf, s in zip(self.leaves, self.supports, strict=True)
        )

    @property
    def is_bounded_flat(self) -> tuple[bool, ...]:
        """Whether each flat coordinate belongs to a flat part on a box or a simplex."""
        found: list[bool] = []
        for s in self.supports:
            chart = chart_of(s.constraint) if s.is_flat else None
            is_one = isinstance(chart, (BoxChart, SimplexChart))
            found += [is_one] * prod(s.unconstrained_shape)
        return tuple(found)

    def lowest(self, dtype: Any) -> tuple[float, ...]:
        """Flat coordinates below which a type's numbers do not tell a flat half line from its end.

        Minus infinity for all others.

        >>> from gibbs_dp import Flat, supports
        >>> prior = Prior({"mean": Flat(supports.real()), "scale": Flat(supports.positive())})
        >>> [round(low, 1) for low in prior.lowest(np.float32)]
        [-inf, -86.0]
        """
        found: list[float] = []
        for s in self.supports:
            low, high = s.bounds()
            is_half = s.is_flat and np.isfinite(low) != np.isfinite(high)
            end = abs(low if np.isfinite(low) else high)
            info = np.finfo(dtype)
            least = float(np.log(4 * max(info.eps * end, info.tiny))) if is_half else -np.inf
            found += [least] * prod(s.unconstrained_shape)
        return tuple(found)

    def l2_bound(self) -> float:
        """Largest Euclidean norm of the whole parameter on the support."""
        return float(sum(s.l2_bound() ** 2 for s in self.supports) ** 0.5)

    def diameter(self) -> float:
        """Largest Euclidean distance of two points of the support; infinite where unbounded."""
        return float(sum(s.diameter() ** 2 for s in self.supports) ** 0.5)

    def curvature(self) -> tuple[float, float]:
        """Smallest and largest eigenvalue of the Hessian of ``-log prior`` on the support.

        ``(-inf, inf)`` unless every part is flat, uniform, Gaussian or truncated Gaussian. On a
        support not known to be convex the smallest is ``-inf``: no density is log-concave there.
        """
        parts = [leaf_curvature(leaf) for leaf in self.leaves]
        low = min(low for low, _ in parts) if self.is_on_convex_set else -np.inf
        return low, max(high for _, high in parts)

    @property
    def is_on_convex_set(self) -> bool:
        """Whether every part's support is known to be convex."""
        return all(s.is_convex for s in self.supports)

    @property
    def is_translation_invariant(self) -> bool:
        """Whether this is Lebesgue measure on all of Euclidean space."""
        return self.is_euclidean and all(isinstance(leaf, Flat) for leaf in self.leaves)

    @property
    def is_gaussian(self) -> bool:
        """Whether every part is a Gaussian, or flat, on all of Euclidean space."""
        laws = (_unwrapped(leaf) for leaf in self.leaves)
        kinds = Flat, dist.Normal, dist.MultivariateNormal
        return self.is_euclidean and all(isinstance(law, kinds) for law in laws)

    @property
    def is_euclidean(self) -> bool:
        """Whether the support is all of Euclidean space, so that flat coordinates are theta."""
        return all(s.is_real for s in self.supports)

    def log_prob(self, theta: PyTree) -> Float[Array, ""]:
        """Log prior density (up to a constant for flat parts); ``theta`` must be on the support."""
        values = self.treedef.flatten_up_to(theta)
        pairs = zip(self._laws(theta), values, strict=True)
        parts = [jnp.sum(law.log_prob(x)) for law, x in pairs]
        return jnp.sum(jnp.stack(parts))

    def contains(self, theta: PyTree) -> Array:
        """Whether ``theta`` lies on the support."""
        values = self.treedef.flatten_up_to(theta)
        inside = [s.contains(x) for s, x in zip(self.supports, values, strict=True)]
        return jnp.all(jnp.stack(inside))

    def initial(self, key: PRNGKeyArray) -> PyTree:
        """Draw an overdispersed start: a prior draw, or uniform on (-2, 2) unconstrained."""
        if self.is_hierarchical:
            return draw_entries(self.tree, key, _sample_leaf)
        keys = [jax.random.fold_in(key, i) for i in range(len(self.leaves))]
        draws = [_sample_leaf(leaf, k) for leaf, k in zip(self.leaves, keys, strict=True)]
        return self.treedef.unflatten(draws)

    @property
    def has_draws(self) -> bool:
        """Whether it can be drawn from: proper, and flat parts on boxes, simplexes or balls."""
        return all(_has_draws(law) for law in self._laws_at_a_draw(0))

    def sample(self, key: PRNGKeyArray) -> PyTree:
        """Draw from it; needs :attr:`has_draws`."""
        if self.is_hierarchical:
            return draw_entries(self.tree, key, _draw_leaf)
        keys = [jax.random.fold_in(key, i) for i in range(len(self.leaves))]
        draws = [_draw_leaf(leaf, k) for leaf, k in zip(self.leaves, keys, strict=True)]
        return self.treedef.unflatten(draws)

    @property
    def log_mass(self) -> Float[Array, ""]:
        """Log of its integral: 0, plus the log volume of every flat part's support."""
        total = jnp.zeros(())
        for leaf, s in zip(self.leaves, self.supports, strict=True):
            if isinstance(leaf, Flat):
                # Under its chart a flat law is a standard normal times its volume.
                zeros = jnp.zeros(s.unconstrained_shape)
                total += s.log_det(zeros) - jnp.sum(jax.scipy.stats.norm.logpdf(zeros))
        return total

    def check(self, theta: PyTree) -> None:
        """Raise a ValueError unless ``theta`` has this prior's structure and shapes."""
        refuse_masked("theta", theta)
        try:
            values = self.treedef.flatten_up_to(theta)
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"theta: its structure differs from the prior's ({self.treedef}); "
                "give every named part of the prior a value."
            ) from error
        for x, s in zip(values, self.supports, strict=True):
            if not isinstance(x, (jax.Array, np.ndarray, np.generic, float, int)):
                raise ValueError(
                    f"theta: got {type(x).__name__} where the prior has an array of shape "
                    f"{s.shape}."
                )
            if jnp.shape(x) != s.shape:
                raise ValueError(
                    f"theta: got an array of shape {jnp.shape(x)} where the prior has {s.shape}."
                )


# Hierarchical priors: entries of a dict whose law depends on the entries before them.

Conditional = Callable[[dict[str, Any]], Any]
ARRAYS = (jax.Array, np.ndarray)


def is_conditional(leaf: Any) -> bool:
    """Whether a part of a prior is a function of others; networks are trees that can be called."""
    if not callable(leaf) or isinstance(leaf, (dist.Distribution, type)):
        return False
    parts = jax.tree.leaves(leaf, is_leaf=lambda x: isinstance(x, dist.Distribution))
    return not any(isinstance(part, ARRAYS) or hasattr(part, "log_prob") for part in parts)


def laws_at(tree: dict[str, Any], theta: dict[str, Any]) -> dict[str, Any]:
    """Return every entry's law at given values; a function sees the entries before it."""
    found: dict[str, Any] = {}
    for name, leaf in tree.items():
        earlier = {k: theta[k] for k in found if k in theta}
        found[name] = _law(name, leaf, earlier) if is_conditional(leaf) else leaf
    return found


def draw_entries(tree: dict[str, Any], key: PRNGKeyArray, sample: Callable[[Any, Any], Any]) -> Any:
    """Draw the entries in the order of the dict."""
    theta: dict[str, Any] = {}
    for i, (name, leaf) in enumerate(tree.items()):
        law = _law(name, leaf, dict(theta)) if is_conditional(leaf) else leaf
        theta[name] = sample(law, jax.random.fold_in(key, i))
    return theta


def check_hierarchy(tree: Any) -> None:
    """Raise a ValueError unless functions sit directly in a dict."""
    if not isinstance(tree, dict):
        raise ValueError(
            "prior: a function of other parts needs a dict to find them in; write "
            "{'scale': HalfNormal(1.0), 'weights': lambda earlier: Normal(0, earlier['scale'])}."
        )
    if any(isinstance(leaf, (dict, list, tuple)) for leaf in tree.values()):
        raise ValueError(
            "prior: a dict with functions of other parts cannot hold further dicts or lists; give "
            "every part a name of its own in one dict."
        )


def _law(name: str, leaf: Conditional, earlier: dict[str, Any]) -> Any:
    try:
        law = leaf(earlier)
    except KeyError as error:
        raise ValueError(
            f"prior: the function of {name!r} looks for {error}, which is not among the entries "
            f"written before it ({', '.join(earlier) or 'none'}); write that one first."
        ) from error
    if not isinstance(law, dist.Distribution):
        raise ValueError(
            f"prior: the function of {name!r} returned a {type(law).__name__}; it must return a "
            "NumPyro distribution."
        )
    return law


# Priors for parameters that come as a tree of arrays.


def normal_like(params: PyTree, scale: float | PyTree = 1.0) -> PyTree:
    """Independent normal priors around zero, in the shape of given parameters.

    For the parameters of a network: of Flax (``nnx.split(model, nnx.Param)[1]``), of Equinox
    (``eqx.partition(model, eqx.is_inexact_array)[0]``), or any other pytree of arrays.

    Parameters
    ----------
    params
        A pytree of floating-point arrays, of which only the shapes count.
    scale
        Standard deviation, one for all or a pytree of them like ``params``.

    Returns
    -------
    pytree
        A distribution in place of every array.

    Raises
    ------
    ValueError
        If something else than such arrays is among the parameters, or a scale is not positive.

    Examples
    --------
    >>> prior = normal_like({"weights": jnp.ones((3, 2)), "bias": jnp.zeros(2)}, 0.5)
    >>> prior["weights"].shape()
    (3, 2)
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(params)
    tree: Any = jax.tree.structure(params)
    if not leaves:
        raise ValueError("params: they hold no array; give the parameters of a model.")
    scales = [scale] * len(leaves)
    own: Any = jax.tree.structure(scale)
    if not jax.tree_util.treedef_is_leaf(own):
        if own != tree:
            raise ValueError("scale: give one number, or a tree like params with one for each.")
        scales = jax.tree.leaves(scale)
    return tree.unflatten(
        [_normal(path, leaf, s) for (path, leaf), s in zip(leaves, scales, strict=True)]
    )


def _normal(path: Any, leaf: Any, scale: Any) -> dist.Distribution:
    name = jax.tree_util.keystr(path) or "params"
    is_array = isinstance(leaf, (jax.Array, np.ndarray, np.generic, float, jax.ShapeDtypeStruct))
    if not is_array or not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
        what = f"of {jnp.result_type(leaf)}" if is_array else type(leaf).__name__
        raise ValueError(
            f"params: {name} is {what}, no array of floating-point numbers; keep "
            "such parts aside, as in eqx.partition(model, eqx.is_inexact_array) or "
            "nnx.split(model, nnx.Param, ...)."
        )
    width = np.asarray(scale, np.float64)
    if not (np.isfinite(width) & (width > 0)).all():
        raise ValueError(f"scale: must be positive and finite, got {scale} for {name}.")
    shape = jnp.shape(leaf)
    try:
        return dist.Normal(0.0, scale).expand(shape).to_event(len(shape))
    except (TypeError, ValueError):
        raise ValueError(
            f"scale: shape {width.shape} does not fit {name} of shape {shape}."
        ) from None


def normal_in_ball(dim: int, *, radius: float, scale: float) -> NormalInBall:
    """Gaussian prior around zero, truncated to a ball: strongly log-concave, and bounded.

    Parameters
    ----------
    dim
        Number of parameters.
    radius
        Of the ball.
    scale
        Standard deviation before truncation.

    Returns
    -------
    distribution
        A NumPyro distribution of vectors ``[dim]``.

    Raises
    ------
    ValueError
        Unless ``dim`` is at least 1, and radius and scale are positive and finite.

    Examples
    --------
    >>> normal_in_ball(3, radius=2.0, scale=0.5).shape()
    (3,)
    """
    return NormalInBall(dim, radius, scale)
