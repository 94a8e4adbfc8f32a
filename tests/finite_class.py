"""A class of adversaries of which no theorem holds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class FiniteClass:
    """Two functions and nothing else: none of the closure properties."""

    is_convex = is_translation_invariant = is_negation_closed = is_unit_range = False

    def before(self, mapping):
        raise NotImplementedError
