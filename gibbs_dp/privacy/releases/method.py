"""The contract of a release method: what it promises, what must be accepted, and how it draws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from jaxtyping import PyTree

from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.calibrate import Calibration, Target, calibrate_gamma
from gibbs_dp.privacy.dependent_rows import DependentRows
from gibbs_dp.privacy.figures import ABSOLUTE, RELATIVE
from gibbs_dp.privacy.guarantee import FINITE_PRECISION, Guarantee

EXACT_DRAW = "exact-draw"
FLOAT_ARITHMETIC = "float-arithmetic"
IDEALIZATIONS = {
    EXACT_DRAW: "the draws of a Markov chain are taken for draws of the posterior itself",
    FLOAT_ARITHMETIC: "floating-point arithmetic is taken for real numbers",
}
TIMING_CAVEAT = "running time is not protected; do not let an adversary measure it."


@dataclass(frozen=True, eq=False)
class ReleaseRequest:
    """What is asked of a release method: all of it public, so that its answer may depend on it.

    Parameters
    ----------
    posterior
        Loss and prior.
    n
        Number of examples; under add/remove a public upper bound.
    domain
        Bounds that the data are clipped to before the method sees them.
    adjacency
        Which datasets count as neighbours.
    num_draws
        Draws to release together.
    asked
        The figures that were asked for, by name: ``{"epsilon": 1.0, "delta": 1e-6}``.
    rows
        Declared law of dependent rows; None where rows are not said to depend on each other.
    """

    posterior: GibbsPosterior
    n: int
    domain: Domain
    adjacency: Adjacency
    num_draws: int
    asked: Mapping[str, float]
    rows: DependentRows | Any | None = None

    @property
    def target(self) -> Target:
        """The target; a ValueError unless exactly one was asked for, in numbers of its range."""
        return Target(**self.asked)

    def calibrate(self, target: Target | None = None) -> Calibration:
        """Find the largest gamma at which exact draws meet a target, and their guarantee.

        Parameters
        ----------
        target
            By default the one that was asked for.

        Returns
        -------
        Calibration
            Gamma, and the guarantee of so many exact draws.

        Raises
        ------
        ValueError
            If no gamma meets it.
        """
        return calibrate_gamma(
            self.posterior,
            self.target if target is None else target,
            n=self.n,
            adjacency=self.adjacency,
            domain=self.domain,
            num_draws=self.num_draws,
            rows=self.rows,
        )

    def check(self, guarantee: Guarantee) -> None:
        """Raise a ValueError unless a guarantee is of this request, and of all that it asks for."""
        for name in ("adjacency", "num_draws"):
            if getattr(guarantee, name) != getattr(self, name):
                raise ValueError(
                    f"method: its guarantee is for {name} = {getattr(guarantee, name)!r}, and "
                    f"{getattr(self, name)!r} is asked for; return one of this request."
                )
        wanted = dict(self.asked)
        if "epsilon" in wanted:
            wanted.setdefault("delta", 0.0)
        for name, value in wanted.items():
            stated = getattr(guarantee, name)
            if stated is None or stated > value * (1 + RELATIVE) + ABSOLUTE * (name != "delta"):
                has = "none" if stated is None else f"{stated:.6g}"
                raise ValueError(
                    f"{name}: {value:g} is asked for, and what the method guarantees "
                    f"({guarantee.mechanism}) has {has}; ask for a figure that it has."
                )
        if self.rows is not None and guarantee.bayesian_epsilon is None:
            raise ValueError(
                "rows: the guarantee of this method says nothing about dependent rows; leave them "
                "out, or use gibbs_dp.privacy.ExactDraw."
            )


@dataclass(frozen=True, eq=False)
class ReleasePlan:
    """What a method settles before it sees data: the guarantee to charge for, and how to draw.

    Parameters
    ----------
    guarantee
        Of all draws together; it is what is charged, handed out, shown and saved.
    draw
        From a posterior whose loss inspects no data, the clipped data and a secret JAX key to the
        prior's pytree with leaves ``[draws, ...]``; None where they are no good. Whatever it raises
        becomes the method's one sentence, since messages may quote the data.
    traced
        From that posterior and data to anything: traced before the charge on data without values,
        where a whole draw would take long. By default the draw itself is made once from zeros.
    idealizations
        What has to be accepted beside the method's own, where that depends on the request.
    """

    guarantee: Guarantee
    draw: Callable[[GibbsPosterior, PyTree, Any], PyTree | None]
    traced: Callable[[GibbsPosterior, PyTree], Any] | None = None
    idealizations: Mapping[str, str] = field(default_factory=dict)


class ReleaseMethod(ABC):
    """How `gibbs_dp.release` draws, and what that promises; subclass it for a method of your own.

    A subclass is a frozen dataclass whose fields are settings chosen without looking at the data.
    Ledgers, tables, pages and files need nothing else: they show the guarantee that `plan` returns.

    Attributes
    ----------
    mechanism
        Name of what is drawn, which the guarantee carries.
    holds
        Ends the sentence "this holds ..." of pages, for mechanisms of your own: "for ...".
    failed
        The one sentence for whatever fails after the charge.

    Examples
    --------
    >>> import numpy as np, gibbs_dp as gdp
    >>> @dataclass(frozen=True)
    ... class NoisyMean(ReleaseMethod):
    ...     mechanism = "noisy mean"
    ...     holds = "for a mean with exact Laplace noise"
    ...     idealizations = {}                             # nothing has to be accepted
    ...
    ...     def plan(self, request):
    ...         if request.adjacency != "replace-one" or request.num_draws != 1:
    ...             raise ValueError("method: it is for one draw, replace-one; ask for that.")
    ...         epsilon, dim = request.target.pure_epsilon, request.posterior.dim
    ...         move = 2 * request.domain.x_bound * dim**0.5 / request.n  # in the 1-norm
    ...         noise = gdp.privacy.LaplaceMechanism(move, epsilon, adjacency="replace-one")
    ...
    ...         def draw(posterior, data, key):
    ...             return noise.release(data.mean(axis=0))[None]
    ...
    ...         return ReleasePlan(self.promise(request, epsilon=epsilon, caveats=()), draw)
    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = gdp.Ledger.create(pathlib.Path(folder.name) / "ledger", epsilon=1.0,
    ...                            adjacency="replace-one")
    >>> p = gdp.GibbsPosterior(gdp.losses.half_squared_distance,
    ...                        gdp.Flat(gdp.supports.real(1)))
    >>> out = gdp.release(p, np.ones((50, 1)), domain=gdp.Domain(x_bound=1.0), ledger=ledger,
    ...                   adjacency="replace-one", pure_epsilon=0.5, method=NoisyMean())
    >>> print(out.guarantee)
    (0.5, 0)-DP, replace-one neighbours
    also pure epsilon 0.5
    holds    for a mean with exact Laplace noise
    >>> folder.cleanup()
    """

    mechanism: ClassVar[str]
    holds: ClassVar[str] = ""
    failed: ClassVar[str] = "release: the draws failed; nothing is released and the charge stands."

    @property
    def idealizations(self) -> Mapping[str, str]:
        """What has to be accepted by name, and what each name means; by default floats for reals.

        A class attribute does as well.
        """
        return {FLOAT_ARITHMETIC: IDEALIZATIONS[FLOAT_ARITHMETIC]}

    @abstractmethod
    def plan(self, request: ReleaseRequest) -> ReleasePlan:
        """Settle guarantee and draw from what is public, before anything is charged.

        Parameters
        ----------
        request
            What is asked for.

        Returns
        -------
        ReleasePlan
            Its guarantee must be for the request's neighbours and number of draws, and at most what
            is asked for.

        Raises
        ------
        ValueError
            For a request that the method cannot meet; nothing is charged.
        """

    def promise(
        self,
        request: ReleaseRequest,
        *,
        epsilon: float,
        delta: float = 0.0,
        gamma: float | None = None,
        caveats: tuple[str, ...] = (FINITE_PRECISION,),
        **more: Any,
    ) -> Guarantee:
        """Make the guarantee of a mechanism of your own.

        Parameters
        ----------
        request
            Its neighbours and number of draws are the guarantee's.
        epsilon, delta
            ``(epsilon, delta)``-DP of all draws together; pure DP where ``delta`` is 0.
        gamma
            Inverse temperature of the posterior that is drawn from; None where there is none.
        caveats
            What it does not cover.
        **more
            Other fields of `gibbs_dp.Guarantee`: ``zcdp``, ``gdp``, ``renyi``, ``assumptions``.

        Returns
        -------
        Guarantee
            To be returned in a plan.
        """
        if delta == 0:
            more.setdefault("pure_epsilon", epsilon)
        return Guarantee(
            request.adjacency,
            self.mechanism,
            request.num_draws,
            gamma,
            epsilon,
            delta,
            caveats=caveats,
            holds=self.holds or None,
            **more,
        )
