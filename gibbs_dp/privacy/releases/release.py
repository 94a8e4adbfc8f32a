"""`gibbs_dp.release`: check what was asked, charge, draw by a method, hand out."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from gibbs_dp.information import checks
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.losses import Loss
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.charge import charge_and_draw, cost_of
from gibbs_dp.privacy.dependent_rows import DependentRows
from gibbs_dp.privacy.guarantee import Guarantee, promise_in_words, promise_sections
from gibbs_dp.privacy.ledger import Ledger
from gibbs_dp.privacy.noise import secret_key
from gibbs_dp.privacy.releases.arguments import (
    as_traced,
    blank_data,
    check_kinds,
    check_program,
    check_shapes,
    check_structure,
    finite_figures,
    require_accepted,
    without_checks,
)
from gibbs_dp.privacy.releases.inference import Simulator, infer_population
from gibbs_dp.privacy.releases.method import EXACT_DRAW, ReleaseMethod, ReleasePlan, ReleaseRequest
from gibbs_dp.privacy.releases.methods import ExactDraw
from gibbs_dp.privacy.releases.population_posterior import PopulationPosterior
from gibbs_dp.privacy.releases.proven import ProvenDraw
from gibbs_dp.privacy.schema import Schema
from gibbs_dp.privacy.table import clip_data, dataset_size, unobserved
from gibbs_dp.results import page
from gibbs_dp.results.page import Page
from gibbs_dp.results.table import Heading, TextTable, block, counted, remarks
from gibbs_dp.sampling.diagnostics import label, named_leaves

# By default the first of these that the request allows.
PROVEN, EXACT = ProvenDraw(), ExactDraw()


@dataclass(frozen=True, eq=False)
class Release:
    """What is handed out: draws and their guarantee, nothing else about the data.

    Parameters
    ----------
    theta
        The prior's pytree; leaves ``[draws, ...]``.
    guarantee
        What holds, and under which assumptions.
    charge
        Number of the charge in the ledger.
    posterior, domain
        What was drawn from, and what the data were clipped to, for :meth:`infer`; no posterior with
        a loss that is no `gibbs_dp.losses.Loss`, since functions may hold data.
    n
        Number of examples, where it is public.
    """

    theta: Any
    guarantee: Guarantee
    charge: int
    posterior: GibbsPosterior | None = None
    domain: Domain | None = None
    n: int | None = None

    def __repr__(self) -> str:
        return f"Release({draws_in_words(self.theta)}, charge {self.charge}, {self.guarantee!r})"

    def _repr_html_(self) -> str:
        head = f"Release of {draws_in_words(self.theta)}, charge {self.charge}"
        return block(head, draws_as_html(self.theta), self.guarantee._repr_html_())

    def to_html(
        self,
        path: str | os.PathLike[str],
        title: str | None = None,
        about: Iterable[str] = (),
        schema: Schema | None = None,
    ) -> None:
        """Write a page for a browser in one file, whole or not at all; it loads nothing else.

        There is nothing in it about the data but what is released, and what is declared.

        Parameters
        ----------
        path
            The file, which ends in ``.html``.
        title
            Its heading.
        about
            Sentences on what was released, to be shown with it; they must be public.
        schema
            What the table was declared to hold: it names the numbers of a draw.

        Raises
        ------
        ValueError
            If the name does not end so.
        OSError
            If the folder cannot be written.
        """
        release_page(self.theta, self.guarantee, self.charge, schema, title, about).save(path)

    def infer(
        self, prior: Any, population: Simulator | Any, *, n: int | None = None, **settings: Any
    ) -> PopulationPosterior:
        """Infer the parameters of the population that the data came from, the noise included.

        It uses what is public and costs no privacy. The data are latent: chains move on the
        parameters and on the random numbers that rows are made of (after Ju, Awan, Gong & Rao,
        *Data Augmentation MCMC for Bayesian Inference from Privatized Data*, NeurIPS 2022), rows
        are clipped as those of the release were, and the posterior's normalizer is exchanged for
        draws of it (Murray, Ghahramani & MacKay, *MCMC for Doubly-Intractable Distributions*, UAI
        2006). There is no large-sample approximation. Approximate are the chains, as all are, and
        those draws, which ``num_auxiliary`` steps bring near the posterior; both are checked. A
        proven draw is within its total variation of the one that is assumed. The model is not
        checked: that rows are independent and come from such a population is the analyst's
        assumption.

        Chains mix fast where the noise of the draws is as large as the data's own or larger
        (``gamma`` times the number of draws up to about 1, for a loss that is minus a
        log-likelihood), and slowly where it is much smaller.

        Parameters
        ----------
        prior
            Of the population's parameters: a NumPyro distribution, or a pytree of them, proper.
        population
            ``population(phi, key, n)`` makes ``n`` independent rows from a draw ``phi`` of the
            prior, as the loss takes them, before they are clipped; all their randomness comes from
            the key, and with a fixed key rows had better change little with ``phi``.
        n
            Number of examples, where the release does not say it (add-remove neighbours).
        **settings
            ``key`` (0), ``num_chains`` (4), ``num_warmup`` (300) and ``num_samples`` (2000) of
            each, and ``num_auxiliary`` (8), steps of the chain that makes an auxiliary draw.

        Returns
        -------
        PopulationPosterior
            Draws, intervals, warnings.

        Raises
        ------
        ValueError
            For bad input, and for mechanisms that do not draw from the Gibbs posterior.

        Examples
        --------
        >>> import jax, jax.numpy as jnp, numpyro.distributions as dist, gibbs_dp as gdp
        >>> box = gdp.Flat(gdp.supports.box(-1.0, 1.0, 1))
        >>> posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, box)
        >>> domain, settings = gdp.Domain(x_bound=1.0), dict(n=100, adjacency="replace-one")
        >>> found = gdp.calibrate(posterior, pure_epsilon=1.0, domain=domain, **settings)
        >>> out = Release(np.full((1, 1), 0.3), found.guarantee, 1, posterior, domain, n=100)
        >>> def population(mean, key, n):
        ...     return mean + 0.5 * jax.random.normal(key, (n, 1))
        >>> inferred = out.infer(dist.Normal(0.0, 1.0), population, num_samples=100)
        >>> inferred.draws.theta.shape, inferred.interval(0.5).shape
        ((4, 100), (2,))
        """
        if self.posterior is None or self.domain is None:
            raise ValueError(
                "release: it does not say what was drawn from; make one that does, with posterior "
                "and domain, gibbs_dp.privacy.Release(theta, guarantee, charge, posterior, domain)."
            )
        known = self.n if n is None else n
        if known is None:
            raise ValueError("n: the release does not say how many examples it is of; give n.")
        if self.n is not None and known != self.n:
            raise ValueError(f"n: the release is of {self.n} examples, got {known}; leave n out.")
        return infer_population(
            self.theta,
            self.guarantee,
            self.posterior,
            self.domain,
            known,
            prior,
            population,
            **settings,
        )


def release(
    posterior: GibbsPosterior,
    data: PyTree,
    *,
    domain: Domain,
    adjacency: Adjacency,
    ledger: Ledger,
    method: ReleaseMethod | None = None,
    accept: Collection[str] = (),
    pure_epsilon: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    zcdp: float | None = None,
    gdp: float | None = None,
    bayesian_epsilon: float | None = None,
    num_draws: int = 1,
    n: int | None = None,
    rows: DependentRows | Any | None = None,
    purpose: str = "gibbs_dp release",
) -> Release:
    """Release draws from the Gibbs posterior of private data.

    In this order: check everything that can be checked without the data's values, and let the
    method settle its guarantee; try the method on data without values; charge the ledger; clip the
    data to the domain; draw with a key of the operating system's entropy; hand out.
    Whatever fails after the charge raises one fixed sentence, and the charge stands.

    Parameters
    ----------
    posterior
        Loss and prior.
    data
        Private examples.
    domain
        Bounds that the data are clipped to; chosen without looking at them.
    adjacency
        Which datasets count as neighbours.
    ledger
        Budget of this dataset, charged before anything is drawn.
    method
        How to draw, and what that promises: `gibbs_dp.privacy.ProvenDraw`, ``ExactDraw``,
        ``ChainDraw`` or one of your own, a `gibbs_dp.privacy.ReleaseMethod`. By default proven
        draws of the proximal sampler where it applies, and ``ExactDraw`` elsewhere.
    accept
        The idealizations that you accept, by name, of those that the method needs: "exact-draw" and
        "float-arithmetic".
    pure_epsilon, epsilon, delta, zcdp, gdp, bayesian_epsilon
        One target, as in `gibbs_dp.calibrate`.
    num_draws
        Draws to release.
    n
        Under add/remove: a public upper bound on the number of examples.
    rows
        Law of examples that depend on each other, chosen without looking at them, as in
        `gibbs_dp.privacy.account`; it is for ``bayesian_epsilon``. The ledger is charged in DP.
    purpose
        For the ledger's record.

    Returns
    -------
    Release
        Draws, their guarantee and the number of the charge.

    Raises
    ------
    ValueError
        For bad input, before anything is charged.
    BudgetExceededError
        If the budget does not suffice; nothing is charged.
    FullDiskError
        If the ledger's disk is full; nothing is charged, and nothing drawn.
    ReleaseError
        If the draws fail, or do not pass the method's checks; the charge stands.

    Examples
    --------
    >>> import tempfile, pathlib, jax.numpy as jnp, gibbs_dp as gdp
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = gdp.Ledger.create(pathlib.Path(folder.name) / "ledger", epsilon=1.0, delta=1e-5,
    ...                            adjacency="replace-one")
    >>> p = gdp.GibbsPosterior(gdp.losses.half_squared_distance,
    ...                        gdp.Flat(gdp.supports.box(-1.0, 1.0, 1)))
    >>> settings = dict(domain=gdp.Domain(x_bound=1.0), ledger=ledger, adjacency="replace-one")
    >>> gdp.release(p, jnp.ones((50, 1)), epsilon=0.5, delta=1e-6, **settings).guarantee.mechanism
    'proven draw'
    >>> gdp.release(p, jnp.ones((50, 1)), pure_epsilon=0.5, **settings)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: accept: the guarantee is idealized, so name what you accept: 'float-arithmetic' ...
    >>> folder.cleanup()
    """
    check_kinds(posterior, domain, ledger, EXACT if method is None else method)
    require_accepted(accept, {} if method is None else method.idealizations)
    figures = {
        "pure_epsilon": pure_epsilon,
        "epsilon": epsilon,
        "delta": delta,
        "zcdp": zcdp,
        "gdp": gdp,
        "bayesian_epsilon": bayesian_epsilon,
    }
    request = ReleaseRequest(
        posterior,
        dataset_size(check_shapes(data), adjacency, n),
        domain,
        adjacency,
        checks.count("num_draws", num_draws),
        {name: value for name, value in figures.items() if value is not None},
        rows,
    )
    with finite_figures():
        if method is None:
            method, plan = _default_plan(request, ledger, accept)
        else:
            plan = method.plan(request)
    if not isinstance(plan, ReleasePlan):
        raise ValueError(
            f"method: the plan of {type(method).__name__} is no gibbs_dp.privacy.ReleasePlan; "
            "return one."
        )
    if plan.guarantee.is_idealized and EXACT_DRAW not in method.idealizations:
        raise ValueError(
            f"method: {type(method).__name__} guarantees exact draws; name {EXACT_DRAW!r} in its "
            "idealizations."
        )
    request.check(plan.guarantee)
    require_accepted(accept, plan.idealizations)
    unchecked = without_checks(posterior)
    with unobserved():
        blank = blank_data(posterior, data, domain)
        check_structure(unchecked, as_traced(blank), adjacency)
        _rehearse(request, plan, unchecked, blank)
    key = secret_key()

    def draw() -> PyTree | None:
        theta = plan.draw(unchecked, clip_data(posterior, data, domain), key)
        theta = None if theta is None else jax.tree.map(np.asarray, theta)
        return None if theta is None or mistake_in(theta, request) else theta

    charge, theta = charge_and_draw(
        ledger, plan.guarantee, draw, purpose=purpose, failed=method.failed
    )
    assert charge is not None
    holds_no_data = isinstance(posterior.loss, Loss)  # nor does a posterior with such a loss
    return Release(
        theta,
        plan.guarantee,
        charge,
        posterior if holds_no_data else None,
        domain,
        request.n if adjacency == "replace-one" else None,
    )


def _default_plan(
    request: ReleaseRequest, ledger: Ledger, accept: Collection[str]
) -> tuple[ReleaseMethod, ReleasePlan]:
    """Plan proven draws by the proximal sampler; where there are none, exact ones, and say why."""
    _ = request.target  # a wrong one is no reason for other draws
    try:
        plan = PROVEN.plan_proximal(request)
        cost_of(plan.guarantee, ledger)
        return PROVEN, plan
    except ValueError as error:
        why = str(error).partition(";")[0].rstrip(".")
    except ArithmeticError:
        why = "target: its figures leave floating-point numbers"
    require_accepted(accept, EXACT.idealizations, f" Draws are not proven here ({why}).")
    return EXACT, EXACT.plan(request)


def _rehearse(
    request: ReleaseRequest, plan: ReleasePlan, unchecked: GibbsPosterior, blank: PyTree
) -> None:
    """Trace what will run, or draw once from zeros: what fails there costs nothing."""
    if plan.traced is not None:
        check_program(partial(plan.traced, unchecked), as_traced(blank), request.adjacency)
        return
    try:
        theta = plan.draw(unchecked, blank, secret_key())
        wrong = "it returned None" if theta is None else mistake_in(theta, request)
    except Exception as error:  # the data are zeros: nothing is told
        wrong = (str(error).splitlines() or [type(error).__name__])[0]
        if request.adjacency == "add-remove":  # but for their number, which is private
            wrong = f"{type(error).__name__}."
    if wrong:
        raise ValueError(f"method: its draw from zeros of the data's shape failed: {wrong}")


def mistake_in(theta: PyTree, request: ReleaseRequest) -> str:
    """Say what keeps draws from being handed out; an empty text where nothing does."""
    blank = jax.eval_shape(lambda: request.posterior.prior.initial(jax.random.key(0)))
    wanted = [(request.num_draws, *leaf.shape) for leaf in jax.tree.leaves(blank)]
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(theta)]
    structure: Any = jax.tree.structure(theta)
    if structure != jax.tree.structure(blank):
        return "it has not the structure of the prior."
    if [leaf.shape for leaf in leaves] != wanted:
        if request.adjacency == "add-remove":  # a shape may be the private number of rows
            return "it has another shape than the prior's."
        found = ", ".join(str(leaf.shape) for leaf in leaves)
        return f"its leaves have shapes {found}, not {', '.join(map(str, wanted))}."
    return "" if all(np.isfinite(leaf).all() for leaf in leaves) else "it is not finite."


# Released draws as people see them, in notebooks and on pages: nothing computed from them.


TITLE = "A private release"
# Draws, and numbers of each, on a page and in a notebook.
MOST_DRAWS, MOST_NUMBERS = 50, 1000
FEW_DRAWS, FEW_NUMBERS = 8, 20
NO_PROMISE_OF_DRAWS = (
    "Nothing says how well a draw predicts, or whether the declared bounds fit the data: that "
    "would be a further release. Records that could not be read as declared count as zeros, and "
    "nobody is told how many there were.",
)


def draws_in_words(theta: PyTree) -> str:
    """Count draws and their numbers.

    >>> draws_in_words(np.zeros((2, 3)))
    '2 draws of 3 numbers'
    """
    leaves = [np.shape(leaf) for _, leaf in named_leaves(theta)]
    num_draws = leaves[0][0] if leaves else 0
    of = counted(sum(math.prod(shape[1:]) for shape in leaves), "number")
    return f"{counted(num_draws, 'draw')} of {of}"


def draws_as_html(theta: PyTree) -> str:
    """Show the first draws, a column each."""
    table, told = _draws(theta, FEW_DRAWS, FEW_NUMBERS)
    return table + remarks([("note", text) for text in told])


def _draws(
    theta: PyTree, most_draws: int, most_numbers: int, schema: Schema | None = None
) -> tuple[str, list[str]]:
    """Show a line a number and a column a draw, and say what is left out."""
    leaves = [(name, np.asarray(leaf)) for name, leaf in named_leaves(theta)]
    every = ((name, leaf, index) for name, leaf in leaves for index in np.ndindex(leaf.shape[1:]))
    rows = [
        [label(name, index), *(f"{value:.6g}" for value in leaf[(slice(most_draws), *index)])]
        for name, leaf, index in islice(every, most_numbers)
    ]
    num_numbers, num_draws = (
        sum(leaf[0].size for _, leaf in leaves),
        max((len(leaf) for _, leaf in leaves), default=0),
    )
    if schema is not None and len(schema.names) == num_numbers:
        rows = [[name, *row[1:]] for name, row in zip(schema.names, rows, strict=False)]
    shown = min(num_draws, most_draws)
    headings = [Heading("parameter", is_text=True)]
    headings += [Heading(f"draw {i + 1}") for i in range(shown)]
    table = TextTable(headings, rows, num_numbers - len(rows), "numbers").to_html() if rows else ""
    more = num_draws - shown
    return table, [f"{counted(more, 'further draw')} not shown."] * (more > 0)


def release_page(
    theta: PyTree,
    promise: Guarantee,
    charge: int,
    schema: Schema | None = None,
    title: str | None = None,
    about: Iterable[str] = (),
) -> Page:
    """Say on a page what was released, and nothing else about the data."""
    table, told = _draws(theta, MOST_DRAWS, MOST_NUMBERS, schema)
    return Page(
        title or TITLE,
        f"{draws_in_words(theta)}, charge {charge} of the ledger",
        promise_in_words(promise),
        (
            page.section("What is released", table, page.paragraphs(told), page.bullets(about)),
            page.section("How its numbers follow from a record", _rules(schema)),
            *promise_sections(promise, NO_PROMISE_OF_DRAWS),
            page.settings({"charge in the ledger": charge}),
        ),
    )


def _rules(schema: Schema | None) -> str:
    if schema is None:
        return ""
    told = list(schema.rules().items())
    if schema.label is not None and schema.target is not None:
        told.append((f"{schema.target} (label)", schema.label.label_rule(schema.target)))
    if schema.domain.x_bound < schema.norm:
        bound = f"at most {schema.domain.x_bound:.12g}; a longer feature vector is shortened to it"
        told.append(("norm of the features", bound))
    return page.facts(told)
