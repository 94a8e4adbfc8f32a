"""Whether prior, simulator, loss and draws belong together: simulation-based calibration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, PyTree
from scipy import special

from gibbs_dp._cautions import Caution, DrawsWarning, Warned, warns
from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.model.check import (
    LOOKS_AT_VALUES,
    as_key,
    check_posterior,
    names_keywords,
    positive_count,
)
from gibbs_dp.model.examples import as_examples, num_examples
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.results import page
from gibbs_dp.results.base import Remarks, ResultWithPage
from gibbs_dp.results.table import Heading, TextTable, counted, warnings_below
from gibbs_dp.sampling import cautions
from gibbs_dp.sampling.diagnostics import label, named_leaves
from gibbs_dp.sampling.kernels import Kernel, Unadjusted
from gibbs_dp.sampling.sample import DEFAULT_WARMUP, sample
from gibbs_dp.sampling.sampler import Sampler

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Simulator = Callable[[PRNGKeyArray, Any, int], Any]
# One correct call in a hundred has a quantity below it.
LEVEL = 0.01
LOSS = "total loss"
TITLE = "Calibration by simulation"
# Panels of a picture, beside each other in a figure and on a page, and inches of each.
MOST_PANELS, ACROSS, ACROSS_PAGE, SIZE = 12, 4, 2, (2.9, 2.4)
RANK, SHARE = "rank, as a share of the largest", "share of datasets up to it, less expected"
# Names in a warning.
NAMED = 5

RANKS_NOT_UNIFORM = Caution(
    "ranks-not-uniform",
    "ranks of {count} of {total} quantities are not uniform ({which}; p at most {p:.2g} for all "
    "together): prior, simulate, loss and sampler do not belong together.",
    "A parameter that made the data is as likely to have any rank among draws of its posterior. "
    "Here it has not: the draws are of another law than the one that prior and simulate imply.",
    "Where the draws are warned of, first help the sampler. Otherwise compare simulate with the "
    "loss, term by term: a scale that is a variance in one of them, a factor or a log-determinant "
    "that the loss leaves out, a prior that simulate does not know of.",
)
DEPENDENT_RANKS = Caution(
    "dependent-ranks",
    "the draws of a dataset are worth {ess:.0f} independent ones in the worst coordinate ({which}; "
    "a mean over datasets), and {ranked} of them are ranked: ranks may pile up at both ends where "
    "nothing is wrong.",
    "The test takes the draws that are ranked for independent ones. Chains that move slowly give "
    "draws that are close together, and the parameter lies outside of them too often.",
    "Raise num_samples, lower num_ranked, or take a sampler that mixes.",
)
CAUTIONS = (RANKS_NOT_UNIFORM, DEPENDENT_RANKS)
"""Beside those of draws."""

HEADINGS = {
    "p": Heading("p", "Of uniform ranks, for this quantity alone."),
    "p_all": Heading("p (all)", "The same, times the number of quantities; at most 1."),
    "mean_rank": Heading("mean rank", "As a share of the largest: 0.5 where draws are right."),
    "covered": Heading("90% covers", "How often the middle 90% of ranks: 0.9 where right."),
    "draws_are": Heading("draws are", "Which way ranks are off, where they are.", is_text=True),
}
COLUMNS = ("quantity", *HEADINGS)
NO_PROMISE = (
    "It is of datasets that the prior makes. Where your data are like none of those, it says "
    "nothing of them; nor whether the model fits your data.",
    "A loss that leaves out some of what simulate makes passes: draws given part of the data have "
    "uniform ranks too.",
    "A departure that is small beside the band passes: raise num_datasets to see it.",
)


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(ResultWithPage):
    """Ranks of parameters that made data among draws given these data.

    Made by :func:`gibbs_dp.check_calibration`. Draws are right where all ranks are uniform on
    0 to ``num_ranked``.

    Parameters
    ----------
    ranks
        How many of the ranked draws of a dataset are below the truth, ``[datasets, quantities]``.
    names
        The quantities: every coordinate of the parameter, and the total loss.
    num_ranked
        Draws of a dataset that were ranked.
    settings
        How, as plain numbers and strings.
    draws_warnings
        Warnings of the draws of all datasets together.
    notes
        Samplers that were tried, where it took several.
    """

    ranks: Int[np.ndarray, "datasets quantities"]
    names: tuple[str, ...]
    num_ranked: int
    settings: dict[str, Any]
    draws_warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @cached_property
    def p_values(self) -> Float[np.ndarray, " quantities"]:
        """P-value of uniform ranks, of each quantity alone; none is below 1e-12."""
        return np.array([p_value(column, self.num_ranked) for column in self.ranks.T])

    @property
    def p(self) -> float:
        """P-value of all together: the smallest, times their number (Bonferroni), at most 1."""
        return float(min(1.0, self.p_values.min() * len(self.names)))

    @property
    def is_uniform(self) -> bool:
        """Whether ranks are uniform at level 0.01, so that one right call in 100 is not."""
        return self.p >= LEVEL

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence for everything that speaks against model or draws."""
        off = [row["quantity"] for row in self._rows() if row["p_all"] < LEVEL]
        if not off:
            return self.draws_warnings
        which = ", ".join(off[:NAMED]) + (", ..." if len(off) > NAMED else "")
        told = RANKS_NOT_UNIFORM(count=len(off), total=len(self.names), which=which, p=self.p)
        return (told, *self.draws_warnings)

    # -- views ----------------------------------------------------------------------------

    def _rows(self) -> list[dict[str, Any]]:
        found = []
        num_ranks = self.num_ranked + 1
        for name, ranks, p in zip(self.names, self.ranks.T, self.p_values.tolist(), strict=True):
            # A rank stands for an interval of that length: what of it is inside counts.
            inside = np.minimum(ranks + 1, 0.95 * num_ranks) - np.maximum(ranks, 0.05 * num_ranks)
            p_all = min(1.0, p * len(self.names))
            way = way_off(ranks, num_ranks) if p_all < LEVEL else ""
            covered, mean = np.clip(inside, 0.0, 1.0).mean(), ranks.mean() / self.num_ranked
            found.append(dict(zip(COLUMNS, (name, p, p_all, mean, covered, way), strict=True)))
        return found

    def to_dataframe(self) -> pd.DataFrame:
        """P-values, mean rank, coverage of 90% intervals and which way off, a row a quantity."""
        import pandas as pd  # slow to import

        return pd.DataFrame(self._rows()).set_index("quantity")

    def _head(self) -> str:
        of = f"{counted(len(self.ranks), 'dataset')}, {len(self.names):,} quantities"
        return f"{of}, {self.num_ranked} draws ranked, p {self.p:.2g}"

    def _table(self, most: int | None = None) -> TextTable:
        rows = sorted(self._rows(), key=lambda row: row["p"]) if most else self._rows()
        cells = [
            [cell if isinstance(cell, str) else f"{cell:.3g}" for cell in row.values()]
            for row in rows[:most]
        ]
        headings = [Heading("quantity", is_text=True), *HEADINGS.values()]
        return TextTable(headings, cells, len(rows) - len(cells), "quantities")

    def _remarks(self) -> Remarks:
        marks = [("WARNING", text) for text in self.warnings]
        return marks + [("note", text) for text in self.notes]

    def plot(
        self, title: str | None = None, axes: Sequence[Axes] | np.ndarray | None = None
    ) -> Figure:
        """Draw how far the distribution of ranks is from uniform, a panel a quantity.

        Each line is the share of datasets whose rank is at most so large, less the share expected.
        If all is right, all lines of all quantities stay in their bands in 99 of 100 calls. Of more
        than 12 quantities the 12 with the smallest p-values are drawn.

        Parameters
        ----------
        title
            Of the figure.
        axes
            As many as are drawn, in their style; by default those of a new figure.

        Returns
        -------
        Figure
            The figure. Notebooks show it, and ``plt.show()`` where pyplot was imported before.

        Raises
        ------
        ValueError
            If ``axes`` are not so many.
        """
        return self._picture(title, ACROSS, axes)

    def _picture(
        self,
        title: str | None,
        across: int,
        axes: Sequence[Axes] | np.ndarray | None = None,
        is_known: bool = True,
    ) -> Figure:
        from gibbs_dp.results import plotting  # slow to import

        count = min(len(self.names), MOST_PANELS)
        rows = -(-count // across)
        columns = -(-count // rows)
        size = SIZE[0] * columns, SIZE[1] * rows + 0.6
        shared = {"sharex": True, "sharey": True}
        drawn = plotting.drawing(axes, size, rows, columns, count, is_known, **shared)
        with drawn as (figure, places):
            self._draw(places, columns)
            hidden = len(self.names) - count
            told = f"the {count} smallest p of {len(self.names)} quantities" if hidden else ""
            if title is not None or told:
                figure.suptitle(title or told)
            if axes is None:
                told = "; grey: all lines of 99 in 100 right calls"
                figure.supxlabel(f"{RANK}{told}", fontsize=10)
                figure.supylabel(SHARE, fontsize=10)
            else:
                for place in places:
                    place.set(xlabel=RANK, ylabel=SHARE)
        return figure

    def _draw(self, places: Sequence[Axes], columns: int) -> None:
        from gibbs_dp.results import plotting

        shown = np.sort(np.argsort(self.p_values, kind="stable")[: len(places)])
        num_datasets, level = len(self.ranks), LEVEL / len(self.names)
        expected = np.arange(self.num_ranked + 2) / (self.num_ranked + 1)
        low, high = (
            np.concatenate([[0], ends, [num_datasets]]) / num_datasets - expected
            for ends in band(num_datasets, self.num_ranked, level)
        )
        for axes, at in zip(places, shown.tolist(), strict=True):
            p_all = min(1.0, self.p_values[at] * len(self.names))
            counts = np.concatenate([[0], steps(self.ranks[:, at], self.num_ranked)])
            found = np.concatenate([counts, [num_datasets]]) / num_datasets - expected
            name = plotting.literal(self.names[at])
            axes.set_title(f"{name}: p {p_all:.2g}")
            axes.fill_between(expected, low, high, color="0.85", lw=0)
            axes.axhline(0.0, color="0.5", lw=0.8)
            color = plotting.VERMILION if p_all < LEVEL else plotting.BLUE
            axes.plot(expected, found, color=color, lw=1.3)
        for axes in places[-columns:]:  # the last ones of their columns
            axes.tick_params(labelbottom=True)

    def _page(self, title: str | None, about: Iterable[str]) -> page.Page:
        warnings, picture = self.warnings, self._picture(None, ACROSS_PAGE, is_known=False)
        caption = (
            "Distribution of ranks less the uniform one. Grey: where all lines of all quantities "
            "stay in 99 of 100 calls if all is right."
        )
        meanings = ((heading.text, heading.meaning) for heading in HEADINGS.values())
        verdict = "Ranks are uniform" if self.is_uniform else "Ranks are not uniform"
        return page.Page(
            title or TITLE,
            self._head(),
            f"{verdict}{warnings_below(warnings)}: p is {self.p:.2g} for "
            f"{len(self.names):,} quantities together.",
            (
                page.warned(warnings, (*CAUTIONS, *cautions.CAUTIONS)),
                page.section("What was checked", page.bullets([*about, *self.notes])),
                page.section(
                    "Ranks",
                    page.pictures([(page.inline_svg(picture, TITLE, "ranks-"), caption)]),
                    self._table(page.MOST_ROWS),
                    page.meanings(meanings),
                ),
                page.section("What it does not promise", page.bullets(NO_PROMISE)),
                page.settings(self.settings),
            ),
            is_warned=bool(warnings),
        )


@names_keywords
@warns(lambda _: DrawsWarning)
def check_calibration(
    posterior: GibbsPosterior,
    simulate: Simulator | None = None,
    n: int | None = None,
    *,
    num_datasets: int = 256,
    num_ranked: int = 63,
    sampler: Kernel | Unadjusted | Sampler | None = None,
    num_warmup: int = DEFAULT_WARMUP,
    num_samples: int = 1000,
    key: int | PRNGKeyArray = 0,
) -> Calibration:
    """Check by simulation that prior, likelihood and draws belong together.

    A parameter is drawn from the prior, data given it, then draws of the posterior given these
    data; all datasets in one call of :func:`gibbs_dp.sample`. The rank of the parameter among the
    draws is uniform where everything is right, for every coordinate and for the total loss (Talts,
    Betancourt, Simpson, Vehtari & Gelman 2018; Modrák et al. 2023 on quantities that depend on the
    data, of which one is needed: draws of the prior have uniform ranks as well). P-values are exact
    for the largest departure of the ranks' distribution at any rank (Säilynoja, Bürkner & Vehtari
    2022), and multiplied by the number of quantities. It has nothing to do with
    :func:`gibbs_dp.calibrate`, which chooses gamma.

    It holds for Bayesian posteriors only, at gamma 1: the loss must be minus the log-likelihood,
    up to what does not depend on the parameter, of the law that ``simulate`` draws from. With any
    other loss a Gibbs posterior is no conditional law, and ranks are not uniform however good the
    draws.

    Parameters
    ----------
    posterior
        Loss and a prior that can be drawn from.
    simulate
        ``simulate(key, theta, n) -> data``: ``n`` examples of the law at ``theta``, with the
        posterior's structure. Written in JAX it is called once for all datasets, otherwise once
        for each. None: the NumPyro model that the posterior was made of, run forwards.
    n
        Examples in a dataset. None: as many as the posterior's own data have, whose arguments that
        are not observed stay as they are; with another number their rows are drawn at random.
    num_datasets
        How many; where the ranks' distribution is off by ``2 / sqrt(num_datasets)`` it is mostly
        seen.
    num_ranked
        Draws of each that are ranked, evenly spaced over all chains (of 4 times 1000 draws every
        63rd), so that they are nearly independent; that they are is checked by effective draws.
    sampler, num_warmup, num_samples
        As in :func:`gibbs_dp.sample`: take those of your own draws.
    key
        Integer seed or JAX key.

    Returns
    -------
    Calibration
        Ranks and p-values, with ``warnings``, ``summary()``, ``plot()`` and ``to_html()``.

    Raises
    ------
    ValueError
        For a prior that cannot be drawn from, data that do not fit, or where there is no model to
        simulate from.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, numpyro.distributions as dist, gibbs_dp as gdp
    >>> posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance,
    ...                                dist.Normal(jnp.zeros(1), 1.0))
    >>> def simulate(key, theta, n):
    ...     return theta + jax.random.normal(key, (n, 1))
    >>> found = gdp.check_calibration(posterior, simulate, 5, num_datasets=128)
    >>> found.is_uniform, found.names
    (True, ('theta[0]', 'total loss'))
    """
    num_datasets = positive_count("num_datasets", num_datasets, least=10)
    num_ranked = positive_count("num_ranked", num_ranked, least=3)
    num_samples = positive_count("num_samples", num_samples, least=4)
    check_posterior(posterior, simulate, sampler)
    _check_prior(posterior)
    if n is None and posterior.data is None:
        raise ValueError("n: give the number of examples in a dataset.")
    n = num_examples(posterior.data) if n is None else positive_count("n", n)

    theta_key, data_key, draw_key, tie_key = jax.random.split(as_key(key), 4)
    truth = jax.jit(jax.vmap(posterior.prior.sample))(jax.random.split(theta_key, num_datasets))
    keys = jax.random.split(data_key, num_datasets)
    if simulate is None:
        make = _forwards(posterior, n)
        data = jax.jit(jax.vmap(lambda k, t: make(k, t, n)))(keys, truth)
    else:
        data = _simulated(simulate, keys, truth, n)
    _check_finite(data)
    draws = sample(
        posterior,
        data,
        key=draw_key,
        sampler=sampler,
        num_warmup=num_warmup,
        num_samples=num_samples,
        is_batch=True,
    )
    total = draws.log_density[0].size
    if num_ranked > total:
        raise ValueError(f"num_ranked: there are {total} draws of a dataset, not {num_ranked}.")
    chosen = np.linspace(0, total - 1, num_ranked).round().astype(int)
    values = _values(posterior, data, truth, draws.theta, chosen)
    lost = int((~np.isfinite(values[:, 0])).any(axis=1).sum())
    if lost:
        raise ValueError(
            f"simulate: in {lost} of {num_datasets} datasets the loss is not finite at the "
            "parameter that made them; simulate data that the likelihood can have."
        )
    names = [
        label(name, index)
        for name, leaf in named_leaves(truth)
        for index in np.ndindex(leaf.shape[1:])
    ]
    seed = np.asarray(jax.random.key_data(tie_key)).tolist()
    rows = draws._rows(None)
    warnings = (*_dependent(rows, names, num_ranked), *draws._warnings(rows))
    settings = {
        "num_datasets": num_datasets,
        "n": n,
        "num_chains": draws.log_density.shape[1],
        "num_samples": draws.log_density.shape[2],
        **{k: v for k, v in draws.settings.items() if k in ("kernel", "num_warmup")},
    }
    ranks = _ranks(values, np.random.default_rng(seed))
    return Calibration(ranks, (*names, LOSS), num_ranked, settings, warnings, draws.notes)


def _check_prior(posterior: GibbsPosterior) -> None:
    prior = posterior.prior
    known = getattr(prior, "known", ())
    if known:
        raise ValueError(
            f"posterior: its prior is conditional on what {', '.join(known)} observed, and cannot "
            "be drawn from; name these sites in observed= too."
        )
    if not prior.has_draws:
        raise ValueError(
            "posterior: its prior is flat and cannot be drawn from; give a proper prior, or a flat "
            "one on a box, simplex or ball."
        )


def _forwards(posterior: GibbsPosterior, n: int) -> Simulator:
    """Run the model that a posterior was made of."""
    from gibbs_dp.model.populations import predictive  # of NumPyro models alone

    loss: Any = posterior.total_loss if posterior.structured else posterior.loss
    likelihood, data = getattr(loss, "likelihood", None), posterior.data
    if likelihood is None or data is None:
        raise ValueError(
            "simulate: give a function (key, theta, n) -> data; only posteriors of "
            "GibbsPosterior.from_numpyro know how to make data."
        )
    size = num_examples(data)
    if posterior.structured and n != size:
        raise ValueError(f"n: the model has places for {size} examples, not {n}; leave n out.")
    sources = predictive.find_sources(likelihood, data, loss.latent)

    def simulate(key: PRNGKeyArray, theta: dict[str, Array], n: int) -> PyTree:
        row_key, own_key = jax.random.split(key)
        rows = jnp.arange(n) if n == size else jax.random.randint(row_key, (n,), 0, size)
        others = jax.tree.map(lambda a: a[rows], data)
        return predictive.simulate(likelihood, sources, own_key, theta, others)

    return simulate


def _simulated(simulate: Simulator, keys: Key[Array, " datasets"], truth: PyTree, n: int) -> PyTree:
    """Make a dataset for each parameter, in one program where the function allows it."""

    def row(i: int) -> Any:
        return simulate(keys[i], jax.tree.map(lambda a: a[i], truth), n)

    first, again = as_examples(row(0), "simulate"), row(0)
    pairs = zip(jax.tree.leaves(first), jax.tree.leaves(again), strict=True)
    if not all(np.array_equal(a, np.asarray(b, a.dtype)) for a, b in pairs):
        raise ValueError(
            "simulate: it gives other data for the same key; draw with jax.random and the key."
        )
    if num_examples(first) != n:
        raise ValueError(f"simulate: it made {num_examples(first)} examples, not n={n}.")
    try:
        return jax.jit(jax.vmap(lambda key, theta: simulate(key, theta, n)))(keys, truth)
    except LOOKS_AT_VALUES:
        found = [as_examples(row(i), "simulate") for i in range(len(keys))]
        return jax.tree.map(lambda *a: jnp.stack(a), *found)


def _check_finite(data: PyTree) -> None:
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(data)]
    bad = ~np.all([np.isfinite(a).reshape(len(a), -1).all(axis=1) for a in leaves], axis=0)
    if bad.any():
        raise ValueError(
            f"posterior: of {bad.size} datasets simulated with parameters from the prior, "
            f"{bad.sum()} hold values that are NaN or infinite (dataset {int(np.argmax(bad))} "
            "first), none of which a sampler takes; give a prior that leaves out the parameters "
            "that make them, or compute in double precision."
        )


def _values(
    posterior: GibbsPosterior, data: PyTree, truth: PyTree, drawn: PyTree, chosen: np.ndarray
) -> Float[np.ndarray, "datasets draws quantities"]:
    """Return coordinates and loss of the truth and the chosen draws, computed alike."""

    def joined(true: Array, leaf: np.ndarray) -> Array:
        flat = leaf.reshape(leaf.shape[0], -1, *leaf.shape[3:])[:, chosen]
        return jnp.concatenate([true[:, None], jnp.asarray(flat, true.dtype)], axis=1)

    every = jax.tree.map(joined, truth, drawn)
    losses = np.asarray(_losses(posterior, every, data))
    flat = [np.asarray(a).reshape(*losses.shape, -1) for a in jax.tree.leaves(every)]
    return np.concatenate([*flat, losses[:, :, None]], axis=2)


def _losses_of(posterior: GibbsPosterior, theta: PyTree, data: PyTree) -> Array:
    def of_dataset(pair: tuple[PyTree, PyTree]) -> Array:
        return jax.vmap(lambda t: posterior.empirical_loss(t, pair[1]))(pair[0])

    return jax.lax.map(of_dataset, (theta, data))


_losses = on_default_backend(_losses_of, "posterior")


def _ranks(
    values: Float[np.ndarray, "datasets draws quantities"], rng: np.random.Generator
) -> Int[np.ndarray, "datasets quantities"]:
    """Rank the first of each dataset among the others; ties are broken by chance."""
    true, drawn = values[:, :1], values[:, 1:]
    return (drawn < true).sum(axis=1) + rng.integers(0, (drawn == true).sum(axis=1), endpoint=True)


def _dependent(rows: list[dict[str, Any]], names: list[str], num_ranked: int) -> list[Warned]:
    """Warn where chains are worth fewer draws than are ranked."""
    ess = np.nan_to_num([row["ess"] for row in rows]).reshape(-1, len(names)).mean(axis=0)
    worst = int(np.argmin(ess))
    if ess[worst] >= num_ranked:
        return []
    return [DEPENDENT_RANKS(ess=ess[worst], which=names[worst], ranked=num_ranked)]


# Exact test and band of uniform ranks: largest departure of their distribution, at any rank.

# Below it, a p-value is what rounding leaves.
LEAST = 1e-12
# Of tails that differ by rounding alone.
NEAR = 1e-9


def steps(ranks: Int[np.ndarray, " datasets"], num_ranked: int) -> Int[np.ndarray, " ranked"]:
    """How many ranks are at most 0, 1, ..., one below the largest."""
    return np.cumsum(np.bincount(ranks, minlength=num_ranked + 1))[:-1]


def _tails(num_datasets: int, num_ranked: int) -> Float[np.ndarray, "ranked counts"]:
    """Two-sided tail of every count (of ranks that are at most so large), under uniform ranks."""
    share = np.arange(1, num_ranked + 1)[:, None] / (num_ranked + 1)
    count = np.arange(num_datasets + 1)
    below = special.bdtr(count, num_datasets, share)
    above = special.bdtrc(count - 1.0, num_datasets, share)
    return np.minimum(1.0, 2.0 * np.minimum(below, above))


def _poisson(count: Any, mean: float) -> Any:
    """Masses of a Poisson law."""
    return np.exp(special.xlogy(count, mean) - mean - special.gammaln(count + 1.0))


def _inside(tails: Float[np.ndarray, "ranked counts"], least: float) -> float:
    """Probability that all counts have tails above a number."""
    num_ranked, num_datasets = tails.shape[0], tails.shape[1] - 1
    count = np.arange(num_datasets + 1)
    increment = _poisson(count, num_datasets / (num_ranked + 1))
    law = np.zeros(num_datasets + 1)
    law[0] = 1.0
    for row in tails:
        law = np.convolve(law, increment)[: num_datasets + 1] * (row > least * (1.0 + NEAR))
    last = float(law @ increment[::-1])
    return last / float(_poisson(num_datasets, float(num_datasets)))


def p_value(ranks: Int[np.ndarray, " datasets"], num_ranked: int) -> float:
    """P-value of ranks that are uniform on 0 to ``num_ranked`` and independent.

    The statistic is the smallest two-sided binomial tail of the number of ranks that are at most
    r, over all r; its law is computed, not simulated (Säilynoja, Bürkner & Vehtari 2022).
    """
    tails = _tails(len(ranks), num_ranked)
    found = tails[np.arange(num_ranked), steps(ranks, num_ranked)].min()
    return min(1.0, max(LEAST, 1.0 - _inside(tails, found)))


def band(
    num_datasets: int, num_ranked: int, level: float
) -> tuple[Int[np.ndarray, " ranked"], Int[np.ndarray, " ranked"]]:
    """Bound the counts of :func:`steps`; ranks leave it where `p_value` is at most ``level``."""
    tails = _tails(num_datasets, num_ranked)
    known = np.unique(tails)
    # Bisection over the tails that there are: known[at] leaves little enough outside.
    at, above = -1, int(np.searchsorted(known, level)) + 1
    while above - at > 1:
        middle = (at + above) // 2
        is_enough = middle < known.size and 1.0 - _inside(tails, float(known[middle])) <= level
        at, above = (middle, above) if is_enough else (at, middle)
    inside = tails > (known[at] if at >= 0 else -1.0) * (1.0 + NEAR)
    return inside.argmax(axis=1), num_datasets - inside[:, ::-1].argmax(axis=1)


def way_off(ranks: Int[np.ndarray, " datasets"], num_ranks: int) -> str:
    """Say which way draws are off, by mean and spread of the truth's ranks among them."""
    place = (ranks + 0.5) / num_ranks - 0.5
    shift = place.mean() * np.sqrt(12.0 * len(ranks))
    spread = ((place**2).mean() - 1.0 / 12.0) * np.sqrt(180.0 * len(ranks))
    if abs(shift) > abs(spread):
        return "too small" if shift > 0 else "too large"
    return "too narrow" if spread > 0 else "too wide"
