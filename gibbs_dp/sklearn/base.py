"""The base of private estimators: settle everything without values, charge, draw, promise."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from gibbs_dp.information import checks
from gibbs_dp.privacy.charge import charge_and_draw
from gibbs_dp.privacy.guarantee import FINITE_PRECISION, Guarantee
from gibbs_dp.privacy.ledger import Ledger
from gibbs_dp.privacy.noise import Noise, SecretNoise, SeededNoise
from gibbs_dp.privacy.releases.arguments import require_accepted
from gibbs_dp.privacy.releases.method import FLOAT_ARITHMETIC, IDEALIZATIONS
from gibbs_dp.privacy.table import dataset_size
from gibbs_dp.sklearn.plan import SECRET, Draw, Family, leak, warn_again

FAILED = (
    "fit: the chains failed or did not agree, run as planned and up to 64 times longer; nothing is "
    "released, and a charge stands. Choose another loss or mechanism, or another epsilon."
)


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators; not for use by itself."""

    # Parameters are whatever scikit-learn puts there; fits check them.
    epsilon: Any
    delta: Any
    adjacency: Any
    n: Any
    ledger: Any
    accept: Any
    random_state: Any
    # What a ledger records; the class by default.
    purpose = ""

    # -- scikit-learn's habits ------------------------------------------------------------

    def __sklearn_clone__(self) -> Any:
        """Clone as scikit-learn does; clones count their fits together."""
        family = self.__dict__.setdefault("_family", Family())
        twin = type(self)(**{k: _copied(v) for k, v in self.get_params(deep=False).items()})
        twin._family = family
        # What scikit-learn's own clone keeps besides parameters: routing, and set_output.
        for name in ("_metadata_request", "_sklearn_output_config"):
            if hasattr(self, name):
                setattr(twin, name, copy.deepcopy(getattr(self, name)))
        return twin

    def __sklearn_tags__(self) -> Any:
        """Return tags; fits are random."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

    def to_html(
        self, path: str | os.PathLike[str], title: str | None = None, about: Iterable[str] = ()
    ) -> None:
        """Save what was fitted and what it promises as one HTML file, which needs nothing else.

        Nothing of the data is in it beyond what the fit released.

        Parameters
        ----------
        path
            Ending in ``.html``.
        title
            Its heading.
        about
            Further sentences.

        Raises
        ------
        ValueError
            For another ending, and before `fit`.
        """
        check_is_fitted(self, "guarantee_")
        told = [*self._description(), *about]
        self.guarantee_.to_html(path, title or f"A private {type(self).__name__}", told)

    def _description(self) -> list[str]:
        """Say in sentences what was released."""
        return []

    @property
    def _columns(self) -> list[str] | None:
        """Names of the columns that were fitted, where they have any."""
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    # -- what fits do ---------------------------------------------------------------------

    def _check_target(self, rows: int) -> int:
        """Check what is asked for; return the public ``n``."""
        checks.adjacency(self.adjacency)
        checks.positive("epsilon", self.epsilon)
        checks.unit_interval("delta", self.delta)
        if not isinstance(getattr(self, "fit_intercept", True), (bool, np.bool_)):
            raise ValueError(
                f"fit_intercept: give True or False, got {checks.shown(self.fit_intercept)}."
            )
        require_accepted(self.accept, {})
        return dataset_size(rows, self.adjacency, self.n)

    def _noise(self, leaks: list[str]) -> Noise:
        """Return the source of randomness; a seeded one voids the guarantee, and says so."""
        if self.random_state is None:
            return SecretNoise()
        leak(
            "random_state: the noise can be repeated by whoever knows it, which no guarantee "
            "covers; it is for tests, so leave it out of a release.",
            leaks,
        )
        state = check_random_state(self.random_state)
        return SeededNoise(state.randint(2**31, size=4))

    def _release(
        self, guarantee: Guarantee, draw: Draw, x: Any, y: Any, noise: Noise, leaks: list[str]
    ) -> Float[np.ndarray, "draws dim"]:
        """Charge the ledger, then draw; set ``guarantee_``, ``gamma_`` and ``charge_``."""
        if FINITE_PRECISION in guarantee.caveats:
            require_accepted(self.accept, {FLOAT_ARITHMETIC: IDEALIZATIONS[FLOAT_ARITHMETIC]})
        family = self.__dict__.setdefault("_family", Family())
        warn_again(family.fitted(guarantee.epsilon), guarantee.epsilon, self.ledger is not None)
        if not isinstance(self.ledger, (Ledger, str, os.PathLike, type(None))):
            raise ValueError(
                "ledger: give a gibbs_dp.Ledger or the path of one, got "
                f"{checks.shown(self.ledger)}."
            )
        ledger = self.ledger
        if not isinstance(ledger, Ledger | None):
            ledger = Ledger(ledger)

        def thetas_or_none() -> Float[np.ndarray, "draws dim"] | None:
            thetas = draw(x, y, noise)
            return None if thetas is None or not np.isfinite(thetas).all() else thetas

        charge, thetas = charge_and_draw(
            ledger,
            guarantee,
            thetas_or_none,
            purpose=self.purpose or f"fit of {type(self).__name__}",
            failed=FAILED,
        )
        voids = tuple(f"NOT COVERED: {sentence}" for sentence in leaks)
        caveats = guarantee.caveats
        if self.random_state is not None:
            caveats = tuple(text for text in caveats if text != SECRET)
        self.guarantee_ = replace(guarantee, caveats=(*caveats, *voids))
        self.gamma_, self.charge_ = guarantee.gamma, charge
        return thetas


def _copied(value: Any) -> Any:
    """Copy a parameter as ``sklearn.clone`` does; a ledger is its file, not a copy of it."""
    from sklearn.base import clone

    if isinstance(value, (Ledger, os.PathLike)):
        return value
    return clone(value, safe=False)
