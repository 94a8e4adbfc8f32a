"""NumPyro models whose likelihood is tempered, for NumPyro's own samplers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jaxtyping import Array
from numpyro.distributions.distribution import Unit
from numpyro.primitives import Messenger

from gibbs_dp.model.check import check_gamma


class _Tempered(Messenger):  # type: ignore[misc]  # it has no types
    """Scale observed sites by their names, and remember which were there."""

    def __init__(self, fn: Any, gamma: Any, sites: tuple[str, ...] | None) -> None:
        super().__init__(fn)
        self.gamma, self.sites = gamma, sites
        self.seen: set[str] = set()

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] != "sample" or not msg["is_observed"] or isinstance(msg["fn"], Unit):
            return
        if self.sites is None or msg["name"] in self.sites:
            self.seen.add(msg["name"])
            msg["scale"] = self.gamma if msg["scale"] is None else self.gamma * msg["scale"]


def temper(
    model: Callable[..., Any],
    gamma: float | Array,
    sites: str | Sequence[str] | None = None,
) -> Callable[..., Any]:
    """Multiply the log-likelihood of a NumPyro model's observed sites by gamma, and nothing else.

    The posterior of the new model is the Gibbs posterior of the old one's negative log-likelihood:
    for ``numpyro.infer.MCMC`` and everything else that takes a model. ``handlers.scale`` around a
    whole model would temper its prior too.

    Parameters
    ----------
    model
        A NumPyro model.
    gamma
        Inverse temperature, finite and >= 0; may be traced.
    sites
        Observed sites to temper; None: all of them.

    Returns
    -------
    callable
        A model with the same arguments.

    Raises
    ------
    ValueError
        For a gamma below 0; and when the new model runs, if it has no such observed site.

    Examples
    --------
    >>> import numpyro, numpyro.distributions as dist
    >>> from numpyro.infer.util import log_density
    >>> def model(y):
    ...     numpyro.sample("y", dist.Normal(numpyro.sample("mean", dist.Normal())), obs=y)
    >>> at = {"mean": 1.0}
    >>> round(float(log_density(temper(model, 0.0), (0.0,), {}, at)[0]), 4)  # the prior's alone
    -1.4189
    >>> round(float(log_density(temper(model, 2.0), (0.0,), {}, at)[0]), 4)
    -4.2568
    """
    scale = check_gamma(gamma) if gamma is None or isinstance(gamma, (int, float, str)) else gamma
    names = (sites,) if isinstance(sites, str) else None if sites is None else tuple(sites)

    @functools.wraps(model)
    def tempered(*args: Any, **kwargs: Any) -> Any:
        program = _Tempered(model, scale, names)
        result = program(*args, **kwargs)
        missing = set(names or ()) - program.seen
        if missing or not program.seen:
            told = ", ".join(sorted(map(repr, missing))) or "any name"
            raise ValueError(
                f"sites: the model has no observed site of {told} (it observes "
                f"{', '.join(sorted(program.seen)) or 'none of those asked for'})."
            )
        return result

    return tempered
