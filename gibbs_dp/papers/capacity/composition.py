"""Post-processing, mixtures and composition of capacity-bounded privacy.

Chaudhuri, Imola & Machanavajjhala (2019), Section 4. Every function checks that its theorem
applies to the given classes, and otherwise refuses with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from gibbs_dp.information import checks
from gibbs_dp.papers.capacity.adversaries import Adversary, Map, SumClass, Unrestricted
from gibbs_dp.papers.capacity.bound import STATUSES, CapacityBound, Status
from gibbs_dp.papers.capacity.polynomial import alpha_from_renyi, renyi_from_alpha


def post_process(bound: CapacityBound, mapping: Map) -> CapacityBound:
    """Bound a mapped output, for adversaries that belong to the class when applied after the map.

    Parameters
    ----------
    bound
        Bound for the output.
    mapping
        `PolynomialMap` or `AnyMap`; it must not look at the data again.

    Returns
    -------
    CapacityBound
        The same value for the remaining class.

    Raises
    ------
    ValueError
        If no class remains, with the reason.

    Examples
    --------
    >>> from gibbs_dp.papers.capacity import Polynomial, PolynomialMap
    >>> post_process(CapacityBound(0.3, "kl", Polynomial(3)), PolynomialMap(1)).adversary
    Polynomial(degree=3)
    """
    return replace(bound, adversary=bound.adversary.before(mapping), status=_at_least(bound.status))


def mixture(bounds: Sequence[CapacityBound], weights: Sequence[float]) -> CapacityBound:
    """Run one mechanism at random: f-divergences are jointly convex, so their bounds average.

    Rényi bounds average as the alpha-divergences they stand for; the label of the mechanism that
    ran is not released.

    Parameters
    ----------
    bounds
        One per mechanism, of one class.
    weights
        Probabilities of the mechanisms, which must not depend on the data.

    Returns
    -------
    CapacityBound
        For the output of the mixture.

    Raises
    ------
    ValueError
        If the bounds are of different kinds or classes, or the weights are not a distribution.

    Examples
    --------
    >>> from gibbs_dp.papers.capacity import Polynomial
    >>> one, two = (CapacityBound(v, "kl", Polynomial(1)) for v in (0.1, 0.3))
    >>> round(mixture([one, two], [0.5, 0.5]).value, 9)
    0.2
    """
    first = _same_kind(bounds)
    law = checks.law("weights", np.asarray(weights, dtype=np.float64))
    if law.size != len(bounds):
        raise ValueError(f"weights must be one per bound, got {law.size} for {len(bounds)}.")
    if any(bound.adversary != first.adversary for bound in bounds):
        raise ValueError(
            "bounds must be of one class: the mixture's critic does not know which mechanism ran; "
            "bound all of them for the same adversary."
        )
    alpha = first.alpha
    values = [bound.value for bound in bounds]
    if first.divergence == "renyi" and alpha is not None:
        values = [alpha_from_renyi(value, alpha) for value in values]
    mean = float(sum(w * v for w, v in zip(law, values, strict=True) if w > 0))
    if first.divergence == "renyi" and alpha is not None:
        mean = renyi_from_alpha(mean, alpha)
    return replace(first, value=mean, status=_worst(bounds))


def parallel(bounds: Sequence[CapacityBound]) -> CapacityBound:
    """Run mechanisms on disjoint parts of the data: the largest bound, for sums of critics.

    Which part an example is in must not depend on its value, so that a change stays in its part.

    Raises
    ------
    ValueError
        If a class is not convex and translation invariant, or the bounds are of different kinds.

    Examples
    --------
    >>> from gibbs_dp.papers.capacity import Polynomial
    >>> one, two = (CapacityBound(v, "kl", Polynomial(1)) for v in (0.1, 0.3))
    >>> parallel([one, two]).value
    0.3
    """
    first = _same_kind(bounds)
    adversary = _sum_class(bounds, "parallel")
    value = max(bound.value for bound in bounds)
    return replace(first, value=value, adversary=adversary, status=_worst(bounds))


def sequential(bounds: Sequence[CapacityBound]) -> CapacityBound:
    """Run mechanisms on the same data, chosen beforehand, with independent noise: bounds add.

    KL, Rényi and integral probability metrics add; alpha-divergences through their Rényi
    divergences. The critics are sums of critics of each output: those that look at both outputs
    jointly are not bounded, and neither is a mechanism chosen after seeing an earlier output.

    Raises
    ------
    ValueError
        If a class is not convex and translation invariant, or the bounds are of different kinds.

    Examples
    --------
    >>> from gibbs_dp.papers.capacity import Polynomial
    >>> one, two = (CapacityBound(v, "kl", Polynomial(1)) for v in (0.1, 0.3))
    >>> sequential([one, two]).value
    0.4
    """
    first = _same_kind(bounds)
    adversary = _sum_class(bounds, "sequential")
    values = [bound.value for bound in bounds]
    if first.divergence == "alpha" and first.alpha is not None:
        total = sum(renyi_from_alpha(value, first.alpha) for value in values)
        value = alpha_from_renyi(total, first.alpha)
    else:
        value = sum(values)
    return replace(first, value=float(value), adversary=adversary, status=_worst(bounds))


def _same_kind(bounds: Sequence[CapacityBound]) -> CapacityBound:
    if not bounds:
        raise ValueError("bounds must hold at least one bound; got none.")
    first = bounds[0]
    for bound in bounds[1:]:
        for name in ("divergence", "alpha", "adjacency"):
            if getattr(bound, name) != getattr(first, name):
                raise ValueError(
                    f"bounds must agree in {name}, got {getattr(first, name)!r} and "
                    f"{getattr(bound, name)!r}; compute all of them for one."
                )
    return first


def _sum_class(bounds: Sequence[CapacityBound], name: str) -> Adversary:
    classes = [bound.adversary for bound in bounds]
    for adversary in classes:
        missing = [
            text
            for text, holds in (
                ("convex", adversary.is_convex),
                ("translation invariant", adversary.is_translation_invariant),
            )
            if not holds
        ]
        if missing:
            raise ValueError(
                f"bounds: {name} composition is proved for convex, translation invariant classes, "
                f"and {adversary!r} is not {' nor '.join(missing)}; bound a larger class that is."
            )
    # Divergences of independent outputs add for all functions of both.
    if all(isinstance(adversary, Unrestricted) for adversary in classes):
        return classes[0]
    return reduce(SumClass, classes)


def _at_least(status: Status) -> Status:
    """Downgrade an exact value to a bound, as a theorem does."""
    return "bound" if status == "exact" else status


def _worst(bounds: Sequence[CapacityBound]) -> Status:
    return _at_least(max((bound.status for bound in bounds), key=STATUSES.index))
