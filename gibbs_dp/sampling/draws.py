"""Draws of a posterior, or of a batch: diagnostics, pages, files, forms of other libraries."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from gibbs_dp import io
from gibbs_dp._cautions import Warned
from gibbs_dp._extras import require
from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp._version import __version__
from gibbs_dp.model.changes import notice_changes
from gibbs_dp.model.check import examples_for
from gibbs_dp.model.examples import as_examples, num_examples
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.results import page
from gibbs_dp.results.base import ResultWithPage, damage_named
from gibbs_dp.results.table import (
    MOST_LINES,
    WIDTH,
    Heading,
    TextTable,
    block,
    counted,
    remark_lines,
    remarks,
    visible,
    warnings_below,
)
from gibbs_dp.sampling.cautions import CAUTIONS, judge, verdict_on_draws
from gibbs_dp.sampling.diagnostics import coordinates, describe, named_leaves
from gibbs_dp.sampling.modes import NOT_LOOKED_FOR, Modes

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


def as_xarray(
    leaves: dict[str, np.ndarray],
    stats: dict[str, np.ndarray],
    attributes: dict[str, Any],
    log_likelihood: Float[np.ndarray, "*batch chain draw n"] | None = None,
) -> xr.DataTree:
    """Make a tree with groups ``posterior``, ``sample_stats`` and, if given, ``log_likelihood``."""
    import xarray as xr  # slow to import

    sizes = max((values.shape for values in stats.values()), key=len)
    lead = ("dataset",) * (len(sizes) - 2) + ("chain", "draw")
    posterior = {
        name: ((*lead, *(f"{name}_dim_{k}" for k in range(leaf.ndim - len(lead)))), leaf)
        for name, leaf in leaves.items()
    }
    chains = {name: (lead[: values.ndim], values) for name, values in stats.items()}
    coordinates = {name: np.arange(size) for name, size in zip(lead, sizes, strict=True)}
    told = {"gibbs_dp_kind": "draws", "gibbs_dp_version": __version__} | attributes
    groups = {
        "/": xr.Dataset(attrs=told),
        "/posterior": xr.Dataset(posterior, coordinates),
        "/sample_stats": xr.Dataset(chains, coordinates),
    }
    if log_likelihood is not None:
        examples = {"example": np.arange(log_likelihood.shape[-1])}
        # The group goes on without its root, and must say whose gamma is in it.
        own = {name: told[name] for name in ("gibbs_dp_kind", "gamma") if name in told}
        groups["/log_likelihood"] = xr.Dataset(
            {"loss": ((*lead, "example"), log_likelihood)},
            coordinates | examples,
            {"description": "minus gamma times the loss of every example, in nats"} | own,
        )
    return xr.DataTree.from_dict(groups)


# Log-likelihoods of single examples at draws of a posterior.

# Losses that are in memory at a time, beside the result.
AT_ONCE = 2**22


def _of_draws(posterior: GibbsPosterior, size: int, theta: PyTree, data: PyTree) -> Array:
    return jax.lax.map(lambda t: posterior.losses(t, data), theta, batch_size=size)


_losses = on_default_backend(_of_draws, "posterior", "size")


def log_likelihoods(
    posterior: GibbsPosterior, data: PyTree, theta: PyTree, gamma: float, is_batch: bool
) -> Float[np.ndarray, "*batch chain draw n"]:
    """Return minus gamma times the loss of every example at every draw."""
    if is_batch:
        parts = [
            log_likelihoods(posterior, _row(data, i), _row(theta, i), gamma, False)
            for i in range(jax.tree.leaves(theta)[0].shape[0])
        ]
        return np.stack(parts)
    lead = jax.tree.leaves(theta)[0].shape[:2]
    flat = jax.tree.map(lambda a: jnp.asarray(a).reshape(-1, *np.shape(a)[2:]), theta)
    size = max(1, min(lead[0] * lead[1], AT_ONCE // num_examples(data)))
    found = np.asarray(_losses(posterior, size, flat, data))
    return -gamma * found.reshape(*lead, -1)


def _row(tree: PyTree, index: int) -> Any:
    return jax.tree.map(lambda a: a[index], tree)


# Draws from one posterior, or from a batch of them, with their diagnostics.

MOST_LIKELIHOODS = 2**27
# Draws that are described at a time.
NUMBERS_AT_ONCE = 2**22
TITLE = "Draws from a Gibbs posterior"
# Settings that warnings are made of.
SEEN = ("rounding", "at_ends", "reach")
MEANINGS = {
    "mean": "Mean of the draws.",
    "sd": "Their standard deviation.",
    "5%": "Their 5% quantile.",
    "95%": "Their 95% quantile.",
    "ess": "Effective number of draws: so many independent ones would know the mean as well.",
    "r_hat": "Split R-hat: about 1 where the chains agree.",
}
# Diagnostics, which a pointer on their titles explains in a notebook.
EXPLAINED = ("ess", "r_hat")
ONLY_SHOWN = (
    "ess and r_hat are computed for the coordinates above only; .warnings looks at all of them."
)
NO_PROMISE = (
    "The draws of a Markov chain are approximate. Diagnostics find chains that disagree; they "
    "cannot find a mode that no chain has visited.",
    "There is no privacy here: the draws are made with a known key and charged to no budget. What "
    "is to be published is released under declared bounds (gibbs-dp release).",
    "The numbers are computed from the data without noise: this page is as confidential as the "
    "data.",
)


@dataclass(frozen=True, eq=False, repr=False)
class Draws(ResultWithPage):
    """Posterior draws, chain by chain.

    Parameters
    ----------
    theta
        The prior's pytree; leaves are ``[chain, draw, ...]``, with a leading ``dataset`` axis
        for a batch.
    log_density
        Unnormalized log density of each draw in unconstrained coordinates, relative to the mode;
        ``[chain, draw]`` or ``[dataset, chain, draw]``.
    accept_rate
        Mean acceptance probability, ``[chain]`` or ``[dataset, chain]``; NaN for kernels without
        an acceptance step.
    is_stuck
        Chains that never moved; same shape. Their draws are kept, and counted in ``warnings``.
    gamma
        Inverse temperature that was sampled.
    settings
        How, as plain numbers and strings.
    source
        Posterior and data, where they are known; not written to files.
    """

    theta: PyTree
    log_density: Float[np.ndarray, "*batch chain draw"]
    accept_rate: Float[np.ndarray, "*batch chain"]
    is_stuck: Bool[np.ndarray, "*batch chain"]
    gamma: float
    settings: dict[str, Any]
    source: tuple[GibbsPosterior, PyTree] | None = None

    @property
    def is_batch(self) -> bool:
        """True if the draws are of several datasets."""
        return self.log_density.ndim == 3

    @property
    def named(self) -> dict[str, np.ndarray]:
        """Leaves of theta by name: ``theta`` for a single array, the path for a tree."""
        return {name: np.asarray(leaf) for name, leaf in named_leaves(self.theta)}

    # -- diagnostics ----------------------------------------------------------------------

    def to_dataframe(self) -> pd.DataFrame:
        """Mean, sd, 5% and 95% quantiles, effective draws and split R-hat, a row a coordinate."""
        import pandas as pd  # slow to import

        frame = pd.DataFrame(self._rows(None))
        if not self.is_batch:
            return frame.drop(columns="dataset").set_index("parameter")
        return frame.set_index(["dataset", "parameter"])

    def _rows(self, most: int | None) -> list[dict[str, Any]]:
        """Describe the first coordinates, or all of them."""
        rows: list[dict[str, Any]] = []
        names = list(coordinates(self.named, self.log_density.ndim))
        for first, found in self._every if most is None else self._described(most):
            for i in range(first, first + found["mean"].shape[0]):
                told = {key: values[i - first] for key, values in found.items()}
                rows += [
                    {"dataset": i, "parameter": name, **{k: float(v[j]) for k, v in told.items()}}
                    for j, name in enumerate(names[: found["mean"].shape[1]])
                ]
        return rows[:most]

    def _described(
        self, most: int | None = None
    ) -> Iterator[tuple[int, dict[str, Float[np.ndarray, "datasets coordinates"]]]]:
        """Describe some datasets at a time, the first of each time named."""
        is_path, lead = self.num_particles is not None, self.log_density.shape
        num_datasets = lead[0] if self.is_batch else 1
        flat = [
            np.reshape(leaf, (num_datasets, *lead[-2:], -1))[..., :most]
            for leaf in self.named.values()
        ]
        width = max(1, sum(leaf.shape[-1] for leaf in flat))
        size = max(1, NUMBERS_AT_ONCE // (math.prod(lead[-2:]) * width))
        for first in range(0, num_datasets, size):
            if most is not None and first * width >= most:
                return
            part = np.concatenate([leaf[first : first + size] for leaf in flat], axis=-1)
            part = part[..., :most]
            yield first, describe(np.moveaxis(part, 0, 2), is_path)

    @cached_property
    def _every(self) -> list[tuple[int, dict[str, Float[np.ndarray, "datasets coordinates"]]]]:
        """All datasets described, once for table, warnings and verdict."""
        return list(self._described())

    @property
    def mixing(self) -> tuple[Float[np.ndarray, " datasets"], Float[np.ndarray, " datasets"]]:
        """Largest R-hat, and fewest effective draws, of any coordinate of each dataset."""
        found = [told for _, told in self._every]
        r_hat = np.concatenate([np.fmax.reduce(told["r_hat"], axis=1) for told in found])
        return r_hat, np.concatenate([np.fmin.reduce(told["ess"], axis=1) for told in found])

    @property
    def worst_r_hat(self) -> float:
        """Largest R-hat of any coordinate."""
        return float(np.fmax.reduce(self.mixing[0]))

    @property
    def variance_inflation(self) -> float | None:
        """Estimated relative excess of the draws' variance over the posterior's.

        From the theory of Gaussian posteriors at the chains' last draws, a mean over coordinates,
        first order in the step: an estimate and no bound. None for kernels that have no such bias.
        """
        value = self.settings.get("variance_inflation")
        return None if value is None else float(value)

    @property
    def modes(self) -> Modes:
        """A search for other modes: what was tried, and what was found."""
        found = self.settings.get("modes")
        return NOT_LOOKED_FOR if found is None else Modes.of_plain(found)

    @property
    def warnings(self) -> tuple[Warned, ...]:
        """One sentence for everything that makes these draws less than they seem."""
        return self._warnings(self._rows(None))

    def _warnings(self, rows: Sequence[dict[str, Any]]) -> tuple[Warned, ...]:
        """Warn of the chains, and of what these rows say of them."""
        found = {name: float(self.settings.get(name, 0.0)) for name in SEEN}
        inflation, is_path = self.variance_inflation, self.num_particles is not None
        advice = self.settings.get("advice")  # in a file, anything
        return judge(
            self.is_stuck,
            self.log_density,
            inflation,
            rows,
            self.modes,
            is_path,
            **found,
            advice=advice if isinstance(advice, str) else None,
        )

    @property
    def num_particles(self) -> int | None:
        """Particles that SMC followed; None for draws of chains."""
        found = self.settings.get("num_particles")
        return None if found is None else int(found)

    @property
    def trust(self) -> str:
        """One verdict: "checked" or "doubtful", what was checked, and what it showed."""
        rows = self._rows(None)
        r_hat = float(np.fmax.reduce([row["r_hat"] for row in rows]))
        ess = float(np.fmin.reduce([row["ess"] for row in rows]))
        return verdict_on_draws(self._warnings(rows), self.modes, self.num_particles, r_hat, ess)

    @property
    def notes(self) -> tuple[str, ...]:
        """Samplers that were tried, where it took several, and coordinates that were moved."""
        return tuple(self.settings.get("notes", ()))

    # -- views ----------------------------------------------------------------------------

    def summary(self) -> str:
        """Return the diagnostics table as text, then the warnings."""
        table = self.to_dataframe().to_string(float_format=lambda x: f"{x:.4g}")
        told = [("WARNING", str(text)) for text in self.warnings]
        marks = remark_lines(told + [("note", text) for text in self.notes], WIDTH)
        return "\n".join([visible(f"{self._at()}, {self._how()}\n{table}"), *marks])

    def _at(self) -> str:
        chains, draws = self.log_density.shape[-2:]
        return f"gamma={self.gamma:g}, {chains} chains x {draws} draws"

    def _how(self) -> str:
        if self.variance_inflation is not None:
            return f"no acceptance step: variance too large by {self.variance_inflation:.1%} (est.)"
        rate = float(self.accept_rate.mean())
        return f"accepted {rate:.0%}" if rate == rate else str(self.settings.get("kernel", ""))

    def _head(self) -> str:
        batch = f"{self.log_density.shape[0]:,} datasets, " if self.is_batch else ""
        return f"{batch}{counted(self.num_coordinates, 'coordinate')}, {self._at()}"

    @property
    def num_coordinates(self) -> int:
        """Coordinates of one dataset's parameter."""
        skipped = self.log_density.ndim
        return sum(math.prod(np.shape(x)[skipped:]) for x in jax.tree.leaves(self.theta))

    def _table_of(self, rows: Sequence[dict[str, Any]]) -> TextTable:
        """Make a table of the first coordinates."""
        names = [name for name in rows[0] if name != "dataset" or self.is_batch]
        headings = [
            Heading(name, MEANINGS[name] if name in EXPLAINED else "", name == "parameter")
            for name in names
        ]
        cells = [
            [f"{x:.4g}" if isinstance(x, float) else str(x) for x in map(row.get, names)]
            for row in rows
        ]
        total = self.num_coordinates * (self.log_density.shape[0] if self.is_batch else 1)
        return TextTable(headings, cells, total - len(rows), "coordinates")

    def _repr_html_(self) -> str:
        rows = self._rows(MOST_LINES // 2)
        table = self._table_of(rows)
        marks = [("WARNING", str(text)) for text in self._warnings(rows)]
        marks += [("note", text) for text in self.notes]
        marks += [("note", ONLY_SHOWN)] * (table.num_hidden > 0)
        return block(f"{repr(self)[:-1]}, {self._how()})", table, remarks(marks))

    def _page(self, title: str | None, about: Iterable[str]) -> page.Page:
        rows, warnings, what = self._rows(page.MOST_ROWS), self.warnings, self._head()
        table = self._table_of(rows)
        names = [heading.text for heading in table.headings]
        plain = [heading._replace(meaning="") for heading in table.headings]
        return page.Page(
            title or TITLE,
            what,
            verdict(rows, warnings),
            (
                page.warned(warnings, CAUTIONS),
                page.section("What was sampled", page.bullets([*about, *self.notes])),
                page.section(
                    "Draws",
                    page.paragraphs([f"{what}, {self._how()}."]),
                    replace(table, headings=plain),
                    page.meanings((name, MEANINGS[name]) for name in names if name in MEANINGS),
                ),
                page.section("What it does not promise", page.bullets(NO_PROMISE)),
                page.settings(self.settings),
            ),
            is_warned=bool(warnings),
        )

    # -- other formats --------------------------------------------------------------------

    def log_likelihood(
        self, posterior: GibbsPosterior | None = None, data: PyTree | None = None
    ) -> Float[np.ndarray, "*batch chain draw n"]:
        """Minus gamma times the loss of every example at every draw, in nats.

        That is what each example adds to the log density: the log-likelihood where gamma is 1 and
        the loss a negative one. `gibbs_dp.audit_log_likelihood` takes the draws themselves; of
        this array it would want what is left without gamma.

        Parameters
        ----------
        posterior, data
            What was sampled, for draws that do not know it: those of a file, or with a mask.

        Returns
        -------
        array
            An axis of examples after chains and draws.

        Raises
        ------
        ValueError
            If the draws do not know posterior and data, or single examples have no loss.
        """
        if (posterior is None) != (data is None):
            raise ValueError("log_likelihood: give both posterior and data, or neither.")
        source = self.source if posterior is None else (posterior, self._examples(posterior, data))
        if source is None:
            raise ValueError(
                "log_likelihood: these draws (of a file, or with a mask) do not know what was "
                "sampled; pass posterior and data."
            )
        notice_changes(source)
        return log_likelihoods(*source, self.theta, self.gamma, self.is_batch)

    def _examples(self, posterior: GibbsPosterior, data: PyTree) -> PyTree:
        return as_examples(data) if self.is_batch else examples_for(posterior, data)

    def unconstrained(self, posterior: GibbsPosterior | None = None) -> Float[Array, ...]:
        """Draws in the flat coordinates of the posterior, to start other samplers from.

        Parameters
        ----------
        posterior
            What was sampled, for draws that do not know it: those of a file, or with a mask.

        Returns
        -------
        array
            ``[chain, draw, dim]``, with a leading axis of datasets for a batch.

        Raises
        ------
        ValueError
            If the draws do not know the posterior.
        """
        if posterior is None and self.source is None:
            raise ValueError("posterior: these draws do not know what was sampled; pass it.")
        known = self.source[0] if posterior is None and self.source is not None else posterior
        assert known is not None
        convert: Any = known.unconstrain
        for _ in self.log_density.shape:
            convert = jax.vmap(convert)
        return convert(jax.tree.map(jnp.asarray, self.theta))

    def to_xarray(self, log_likelihood: bool = False) -> xr.DataTree:
        """Tree with groups ``posterior`` and ``sample_stats``, dims ``(chain, draw, ...)``.

        Parameters
        ----------
        log_likelihood
            Add the group of that name: :meth:`log_likelihood`.

        Returns
        -------
        xarray.DataTree
            The draws.

        Raises
        ------
        ValueError
            If there is no log-likelihood to add.
        """
        return as_xarray(
            self.named,
            {"lp": self.log_density, "acceptance_rate": self.accept_rate, "stuck": self.is_stuck},
            {"gamma": self.gamma, "settings": json.dumps(self.settings)},
            self.log_likelihood() if log_likelihood else None,
        )

    def to_arviz(self, log_likelihood: bool | None = None) -> Any:
        """Return ArviZ's own container: InferenceData before 1.0, the same DataTree from 1.0 on.

        Parameters
        ----------
        log_likelihood
            Whether to have the group of that name, which ``az.loo`` and ``az.compare`` need. None:
            where the draws know posterior and data, examples have losses of their own, and it has
            no more than 2^27 numbers.

        Returns
        -------
        InferenceData or DataTree
            The draws.

        Raises
        ------
        ValueError
            If ArviZ is not installed (``pip install arviz``), or there is no log-likelihood.
        """
        if log_likelihood is None:
            log_likelihood = self._has_small_likelihood()
        return in_arviz(self.to_xarray(log_likelihood))

    def _has_small_likelihood(self) -> bool:
        if self.source is None or not self.source[0].has_example_losses:
            return False
        return self.log_density.size * num_examples(self.source[1]) <= MOST_LIKELIHOODS

    def save(self, path: str | os.PathLike[str], log_likelihood: bool = False) -> None:
        """Write to NetCDF, whole or not at all.

        Parameters
        ----------
        path
            The file.
        log_likelihood
            Add the group of that name, for ArviZ and ``gibbs-dp audit --idata``.

        Raises
        ------
        OSError
            If the folder cannot be written.
        ValueError
            If there is no log-likelihood to add.
        """
        tree = self.to_xarray(log_likelihood)
        # NetCDF has no booleans of its own, and no names with slashes.
        tree["sample_stats"]["stuck"] = tree["sample_stats"]["stuck"].astype(np.int8)
        io.save_netcdf(tree, path)


def in_arviz(tree: Any) -> Any:
    """Return a tree as ArviZ's own container: InferenceData before 1.0, the tree from 1.0 on."""
    arviz = require("arviz")
    is_old = arviz.__version__.startswith("0.")
    return arviz.InferenceData.from_datatree(tree) if is_old else tree


def verdict(rows: Sequence[Mapping[str, Any]], warnings: Sequence[str] = ()) -> str:
    """Say in one sentence whether the draws look like the posterior's.

    >>> verdict([{"r_hat": 1.002, "ess": 812.4}])
    'The chains agree: R-hat is at most 1.002, and every coordinate shown has at least 812 \
effective draws.'
    """
    worst = float(np.fmax.reduce([row["r_hat"] for row in rows]))
    fewest = float(np.fmin.reduce([row["ess"] for row in rows]))
    begin = (
        "Do not trust these draws before reading the warnings" if warnings else "The chains agree"
    )
    return (
        f"{begin}{warnings_below(warnings)}: R-hat is at most {worst:.4g}, and every coordinate "
        f"shown has at least {fewest:.0f} effective draws."
    )


def load_draws(path: str | os.PathLike[str]) -> Draws:
    """Read draws that :meth:`Draws.save` wrote; runs no code from the file.

    A single array comes back as an array and anything else as a dict of named leaves. Only what
    the file itself holds is read, and no more bytes than it has: links to other files, virtual
    and compressed arrays are refused.

    Raises
    ------
    ValueError
        If the file is missing or holds something else; :class:`gibbs_dp.io.DamagedFileError`, one
        of them, if it is damaged or not as :meth:`Draws.save` writes it.
    """
    contents = io.load_netcdf(path, "draws")
    with damage_named(path, "holds damaged draws"):
        leaves = contents.groups["posterior"].variables
        stats = contents.groups["sample_stats"].variables
        _check_shapes(leaves, stats)
        gamma = contents.attributes["gamma"]
        settings = io.parse_json(contents.attributes["settings"], dict)
        inflation = settings.get("variance_inflation")
        numbers = (gamma,) if inflation is None else (gamma, inflation)
        if not all(isinstance(x, (int, float)) for x in numbers):
            raise ValueError("gamma or variance_inflation is no number")
        if not all(isinstance(x, str) for x in settings.get("notes", [])):
            raise ValueError("its notes are no texts")
        if "modes" in settings:
            _check_modes(settings["modes"])
    return Draws(
        theta=leaves["theta"] if set(leaves) == {"theta"} else leaves,
        log_density=stats["lp"],
        accept_rate=stats["acceptance_rate"],
        is_stuck=stats["stuck"].astype(bool),
        gamma=float(gamma),
        settings=settings,
    )


def _check_modes(found: Any) -> None:
    if not isinstance(found, dict):
        raise ValueError("what it says of other modes is no table")
    Modes.of_plain(found)


def _check_shapes(leaves: dict[str, np.ndarray], stats: dict[str, np.ndarray]) -> None:
    lead = stats["lp"].shape
    if stats["lp"].dtype.kind != "f" or len(lead) not in (2, 3) or min(lead) < 1 or not leaves:
        raise ValueError("its log densities are no table of chains and draws")
    for name, kinds in (("acceptance_rate", "f"), ("stuck", "bi")):
        if stats[name].shape != lead[:-1] or stats[name].dtype.kind not in kinds:
            raise ValueError(f"{name!r} has not one number for every chain")
    for name, leaf in leaves.items():
        if leaf.shape[: len(lead)] != lead or leaf.dtype.kind not in "fiu":
            raise ValueError(f"{name!r} has not one array of numbers for every draw")
