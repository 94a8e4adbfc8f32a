"""Classes of adversaries: what each may compute, and which theorems apply to it.

A class is closed under post-processing by a map if its adversaries, applied after the map, still
belong to it. `Adversary.before` finds the class that remains after a map, or says why none does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from gibbs_dp.information import checks


@dataclass(frozen=True)
class PolynomialMap:
    """A post-processing whose outputs are polynomials of at most ``degree``; 1 is affine.

    Examples
    --------
    >>> PolynomialMap(2)
    PolynomialMap(degree=2)
    """

    degree: int = 1

    def __post_init__(self) -> None:
        checks.count("degree", self.degree)


@dataclass(frozen=True)
class AnyMap:
    """A post-processing about which nothing is known."""


Map = PolynomialMap | AnyMap


@runtime_checkable
class Adversary(Protocol):
    """A class of functions of the output."""

    @property
    def is_convex(self) -> bool:
        """Whether mixtures of its functions belong to it."""
        ...

    @property
    def is_translation_invariant(self) -> bool:
        """Whether its functions plus constants belong to it."""
        ...

    @property
    def is_negation_closed(self) -> bool:
        """Whether its functions with their sign changed belong to it."""
        ...

    @property
    def is_unit_range(self) -> bool:
        """Whether every function has a range of at most ``[-1, 1]``, up to constants."""
        ...

    def before(self, mapping: Map) -> Adversary:
        """Return the adversaries that, after ``mapping``, still belong to this class."""
        ...


@dataclass(frozen=True)
class _Closed:
    """Properties of most classes: vector spaces that hold the constants."""

    is_convex = True
    is_translation_invariant = True
    is_negation_closed = True
    is_unit_range = False


@dataclass(frozen=True)
class Unrestricted(_Closed):
    """Every function: ordinary divergences."""

    def before(self, mapping: Map) -> Adversary:
        """Any post-processing leaves every function."""
        return self


@dataclass(frozen=True)
class Polynomial(_Closed):
    """Polynomials of total degree at most ``degree`` in the output; 1 is the linear adversary.

    Raises
    ------
    ValueError
        If the degree is below 1.

    Examples
    --------
    >>> Polynomial(6).before(PolynomialMap(2))
    Polynomial(degree=3)
    """

    degree: int = 1

    def __post_init__(self) -> None:
        checks.count("degree", self.degree)

    def before(self, mapping: Map) -> Adversary:
        """Divide the degree: ``i(g(x))`` has the product of the two degrees."""
        if not isinstance(mapping, PolynomialMap):
            raise ValueError(
                f"mapping: nothing is known of it, and a critic after it need not be a polynomial "
                f"of degree {self.degree}; pass a PolynomialMap."
            )
        left = self.degree // mapping.degree
        if left == 0:
            raise ValueError(
                f"mapping: after a map of degree {mapping.degree} even a linear critic has that "
                f"degree, and the bound is for degree {self.degree}; bound a class of degree "
                f"{mapping.degree} or more first."
            )
        return Polynomial(left)


@dataclass(frozen=True)
class RandomFeatures(_Closed):
    """Combinations of random Fourier features of standardized outputs (Rahimi & Recht 2007)."""

    num_features: int = 64
    bandwidth: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        checks.count("num_features", self.num_features)
        checks.positive("bandwidth", self.bandwidth)

    def before(self, mapping: Map) -> Adversary:
        """Refuse: the features are functions of the unmapped output."""
        raise ValueError(
            "mapping: random features of a mapped output are not combinations of the features of "
            "the output; bound the class on the mapped output instead."
        )


@dataclass(frozen=True)
class TwoLayerReLU(_Closed):
    """Networks ``c + sum_j a_j max(0, w_j . x + b_j)`` of a given width.

    Not convex: the mean of two networks may need twice the width.

    Raises
    ------
    ValueError
        If the width is below 1.

    Examples
    --------
    >>> TwoLayerReLU(8).before(PolynomialMap(1))
    TwoLayerReLU(width=8)
    """

    is_convex = False
    width: int = 16

    def __post_init__(self) -> None:
        checks.count("width", self.width)

    def before(self, mapping: Map) -> Adversary:
        """Affine maps go into the first layer; no other map does."""
        if isinstance(mapping, PolynomialMap) and mapping.degree == 1:
            return self
        raise ValueError(
            "mapping: a network after a map that is not affine is not a two-layer network of the "
            "output; pass PolynomialMap(1)."
        )


@dataclass(frozen=True)
class QueryHull(_Closed):
    """Mechanisms that output a query: mixtures of ``+-(q -> q(x))`` over points, and constants."""

    is_unit_range = True

    def before(self, mapping: Map) -> Adversary:
        """Refuse: a mapped query is another output."""
        raise ValueError(
            "mapping: critics of a mapped query need not evaluate the query itself; bound the "
            "class on the mapped output instead."
        )


@dataclass(frozen=True)
class Classifiers(_Closed):
    """Critics ``a + b 1[x in A]``: on which side of a threshold (of a line, in the plane) it is.

    Not convex: two thresholds tell three parts of the line apart. See `classifier_divergence`.

    Examples
    --------
    >>> Classifiers().before(PolynomialMap(1))
    Classifiers()
    """

    is_convex = False

    def before(self, mapping: Map) -> Adversary:
        """Affine maps turn thresholds and lines into such, or into constants; no other map does."""
        if isinstance(mapping, PolynomialMap) and mapping.degree == 1:
            return self
        raise ValueError(
            "mapping: what a threshold tells of a mapped output need not be on one side of a "
            "threshold of the output; pass PolynomialMap(1)."
        )


@dataclass(frozen=True)
class SumClass:
    """Critics ``h_1(x_1) + h_2(x_2)`` of two outputs, the class of composition."""

    first: Adversary
    second: Adversary

    @property
    def is_convex(self) -> bool:
        """Both are."""
        return self.first.is_convex and self.second.is_convex

    @property
    def is_translation_invariant(self) -> bool:
        """One is enough."""
        return self.first.is_translation_invariant or self.second.is_translation_invariant

    @property
    def is_negation_closed(self) -> bool:
        """Both are."""
        return self.first.is_negation_closed and self.second.is_negation_closed

    @property
    def is_unit_range(self) -> bool:
        """Never: ranges add."""
        return False

    def before(self, mapping: Map) -> Adversary:
        """Affine maps of both outputs leave linear critics of linear critics; nothing else does."""
        if mapping == PolynomialMap(1) and _has_linear(self):
            return Polynomial(1)
        raise ValueError(
            "mapping: composition bounds sums of critics of each output alone, and a critic after "
            "this map would mix them; map each output before composing, or pass PolynomialMap(1) "
            "over polynomial classes."
        )


def _has_linear(adversary: Adversary) -> bool:
    if isinstance(adversary, SumClass):
        return _has_linear(adversary.first) and _has_linear(adversary.second)
    return isinstance(adversary, Polynomial | Unrestricted)
