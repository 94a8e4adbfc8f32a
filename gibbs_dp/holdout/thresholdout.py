"""The reusable holdout: thousands of adaptive queries, and a budget for those that overfit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple, cast

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree

from gibbs_dp.holdout.promise import INDEPENDENT, Promise, Rows, thresholdout_promise
from gibbs_dp.holdout.sparse_vector import Held, Stateful
from gibbs_dp.information import checks
from gibbs_dp.privacy.composition import composed_pure_dp
from gibbs_dp.privacy.guarantee import Guarantee
from gibbs_dp.privacy.ledger import Ledger
from gibbs_dp.privacy.mechanisms import run_guarantee
from gibbs_dp.privacy.noise import add_laplace, exact_means, to_double

# Queries on rows, checked, and the answers that a holdout gives to them.

Query = Callable[[Any], Any]

# Pairs of training rows that a query is asked about once more, and how close it must come.
NUM_PAIRS, CLOSE = 8, 1e-4


class HoldoutAnswers(NamedTuple):
    """Answers to a batch of queries, in order.

    Parameters
    ----------
    values
        Answers.
    from_holdout
        Where train and holdout were found to differ: such an answer is the noisy holdout mean and
        ends a round; the others are the training set's means.
    """

    values: Float[np.ndarray, " answered"]
    from_holdout: Bool[np.ndarray, " answered"]


class HoldoutSpentError(ValueError):
    """The budget is spent: the holdout answers no more.

    Parameters
    ----------
    message
        What happened.
    answers
        Those of the batch that were given before.
    """

    def __init__(self, message: str, answers: HoldoutAnswers) -> None:
        super().__init__(message)
        self.answers = answers


def count_rows(name: str, rows: PyTree) -> int:
    """Return how many rows a pytree has; a ValueError where its arrays disagree."""
    checks.refuse_masked(name, rows, is_private=True)
    sizes = {np.shape(leaf)[0] if np.ndim(leaf) else 0 for leaf in jax.tree.leaves(rows)}
    if len(sizes) != 1 or 0 in sizes:
        raise ValueError(
            f"{name}: its arrays must have one row an example along the first axis, and as many "
            f"rows each, got {sorted(sizes)}; give at least one row (a list is not an array)."
        )
    return int(sizes.pop())


def check_alike(train: PyTree, holdout: PyTree) -> None:
    """Raise a ValueError unless both have the same arrays, of the same shape but for the rows."""
    kinds = []
    for rows in (train, holdout):
        leaves, structure = jax.tree.flatten(rows)
        kinds.append((str(structure), [np.shape(leaf)[1:] for leaf in leaves]))
    if kinds[0] != kinds[1]:
        raise ValueError(
            "holdout: its rows have other arrays, or arrays of another shape, than those of train; "
            "give the same columns in both."
        )


def read_only(rows: PyTree) -> PyTree:
    """Show rows to queries, which can then not write into them by mistake."""

    def view(leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray):
            return leaf
        shown = leaf.view()
        shown.flags.writeable = False
        return shown

    return jax.tree.map(view, rows)


def take(rows: PyTree, index: Any) -> PyTree:
    """Rows of a slice or of some numbers."""
    return jax.tree.map(lambda a: a.iloc[index] if hasattr(a, "iloc") else a[index], rows)


def query_values(found: Any, num_rows: int, which: str, batch: bool) -> Float[np.ndarray, "rows q"]:
    """Return a query's values ``[rows, queries]``; a ValueError where they are something else."""
    checks.refuse_masked("phi", found, is_private=True)
    values = np.asarray(found)
    wanted = "[rows, queries]" if batch else "[rows]"
    if values.ndim != (2 if batch else 1) or values.shape[0] != num_rows or values.size == 0:
        raise ValueError(
            f"phi: on {num_rows} {which} rows it gives shape {list(values.shape)}; give {wanted}, "
            "a value for every row."
        )
    if values.dtype.kind not in "biuf":
        raise ValueError(
            f"phi: its values must be plain numbers, got {values.dtype}; convert them."
        )
    values = values.astype(np.float64)
    return values if batch else values[:, None]


def some_pairs(rows: PyTree, num_rows: int) -> list[tuple[Int[np.ndarray, " pair"], PyTree]]:
    """Numbers of a few pairs of rows, and the rows."""
    rng = np.random.default_rng(0)
    found = [rng.choice(num_rows, size=min(2, num_rows), replace=False) for _ in range(NUM_PAIRS)]
    return [(pair, take(rows, pair)) for pair in found]


def train_values(
    phi: Query, rows: PyTree, pairs: list[tuple[Int[np.ndarray, " pair"], PyTree]], batch: bool
) -> Float[np.ndarray, "rows queries"]:
    """Values on training rows, about which errors may tell everything.

    A value must be of its row alone; centred, ranked or random ones are found by asking again about
    a few pairs of rows.

    >>> rows = np.arange(10.0)
    >>> train_values(lambda x: x > x.mean(), rows, some_pairs(rows, 10), batch=False)
    Traceback (most recent call last):
    ...
    ValueError: phi: a training row has another value when phi is asked about two rows alone; a \
value must be of its row alone, so use constants in place of means, ranks or random numbers.
    """
    values = query_values(phi(rows), count_rows("train", rows), "training", batch)
    if not np.all((values >= 0) & (values <= 1)):  # NaN too
        raise ValueError("phi: its values must lie in [0, 1] on every row; rescale or clip it.")
    for pair, two in pairs:
        again = query_values(phi(two), len(pair), "training", batch)
        same = again.shape[1] == values.shape[1]
        if not (same and np.all(np.abs(again - values[pair]) <= CLOSE)):
            raise ValueError(
                "phi: a training row has another value when phi is asked about two rows alone; a "
                "value must be of its row alone, so use constants in place of means, ranks or "
                "random numbers."
            )
    return values


def holdout_values(
    phi: Query, rows: PyTree, num_rows: int, num_queries: int, batch: bool
) -> Float[np.ndarray, "rows queries"]:
    """Values in [0, 1] on rows about which nothing may be told: no error, no warning, no shape.

    Where ``phi`` fails on some rows, or gives something else, they are halved until single rows
    are left, which count as 0. So a row's value is its own, whatever the others are.

    >>> holdout_values(lambda x: 1 / x if x.all() else 1 / 0, np.array([1, 0, 2]), 3, 1, False).T
    array([[1. , 0. , 0.5]])
    """
    values = np.zeros((num_rows, num_queries))
    left = [(0, num_rows)]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        while left:
            start, stop = left.pop()
            part = rows if stop - start == num_rows else take(rows, slice(start, stop))
            found = _values_or_none(phi, part, stop - start, batch)
            if found is not None and found.shape[1] == num_queries:
                values[start:stop] = np.clip(np.nan_to_num(found, nan=0.0), 0.0, 1.0)
            elif stop - start > 1:
                middle = (start + stop) // 2
                left += [(start, middle), (middle, stop)]
    return values


def _values_or_none(
    phi: Query, rows: PyTree, num_rows: int, batch: bool
) -> Float[np.ndarray, "rows queries"] | None:
    try:
        return query_values(phi(rows), num_rows, "holdout", batch)
    except KeyboardInterrupt:
        raise
    except BaseException:  # whatever a query raises, it raises it because of these rows
        return None


def collect(given: list[tuple[float, bool]]) -> HoldoutAnswers:
    """Gather answers given one by one."""
    return HoldoutAnswers(
        np.array([value for value, _ in given], dtype=np.float64),
        np.array([flag for _, flag in given], dtype=bool),
    )


class Thresholdout(Stateful):
    """Answers adaptive statistical queries from a training set, checked against a holdout.

    Dwork, Feldman, Hardt, Pitassi, Reingold & Roth 2015 (*The reusable holdout*). The answer is the
    training mean where it agrees with the holdout's to within about ``threshold``; otherwise it is
    the holdout's mean plus noise, which ends a round and spends one unit of the budget. A round may
    have any number of queries, and is ``2/(sigma n)``-DP for the holdout (replace-one): the noise
    is secret and drawn exactly (`gibbs_dp.privacy.noise`).

    With a ``ledger`` a round is charged, durably, **before its first answer**: a process that dies
    has spent its round, the next one begins another, and nothing is ever given back. A copy, by
    ``copy``, ``pickle`` or in a forked process, has no open round: it charges one of its own.
    Without a ledger the state is in this object alone, a copy answers nothing, and a restart would
    forget what was spent. Threads that share the object wait for each other.

    Queries run on the rows of the holdout: let analysts hand in functions of a kind that cannot
    keep or print them. A value must be of its row alone, which is tried on pairs of training rows;
    a function that behaves otherwise on purpose is not stopped. What a query does on holdout rows
    is never told: values are clipped to [0, 1], and NaN, another shape, or an exception are 0 for
    the rows that they come from. On training rows they are errors. How long it takes is not hidden.

    Parameters
    ----------
    train, holdout
        Pytrees of arrays with rows along the first axis.
    threshold
        ``T``: about the largest disagreement that is not corrected.
    sigma
        Noise rate; the noises are ``Lap(2 sigma)``, ``Lap(4 sigma)`` and ``Lap(sigma)``.
    budget
        ``B``, answers that the holdout may correct. `plan_thresholdout` finds all three.
    ledger
        Where spending is recorded, in epsilon or zCDP, replace-one; a `gibbs_dp.Ledger`.
    name
        Of this holdout in the ledger. Rounds under one name share one ``budget``.

    Raises
    ------
    ValueError
        For bad settings, rows of different kinds, and a ledger that is for add/remove or holds
        rounds of this name at another cost.

    Examples
    --------
    >>> rows = np.arange(100) % 2
    >>> gate = Thresholdout(rows, rows[:50], threshold=0.1, sigma=1e-3, budget=2)
    >>> gate.query(lambda x: x == 1), gate.budget_left
    (0.5, 2)
    >>> print(gate.guarantee(rounds=gate.rounds_started))
    (40, 0)-DP, replace-one neighbours
    also pure epsilon 40, zCDP rho 400
    holds    for noise that is drawn exactly, from secret random bits
    assumes  1 round of Thresholdout, n = 50, sigma = 0.001
    """

    def __init__(
        self,
        train: PyTree,
        holdout: PyTree,
        *,
        threshold: float,
        sigma: float,
        budget: int,
        ledger: Ledger | None = None,
        name: str = "holdout",
    ) -> None:
        self.threshold = checks.nonnegative("threshold", threshold)
        self.sigma = checks.positive("sigma", sigma)
        self.budget = checks.count("budget", budget)
        self.n = count_rows("holdout", holdout)
        self.n_train = count_rows("train", train)
        check_alike(train, holdout)
        if not name.strip() or name != name.strip() or "\n" in name:
            raise ValueError(f"name must be a word without spaces around it, got {name!r}.")
        self.name = name
        self._train, self._holdout, self._ledger = read_only(train), read_only(holdout), ledger
        self._pairs = some_pairs(self._train, self.n_train)
        if ledger is not None:
            self._check_ledger(ledger)
        self._held = Held()

    # -- what an analyst may know -----------------------------------------------------------

    @property
    def round_epsilon(self) -> float:
        """Pure DP of one round, ``2/(sigma n)``, nats, replace-one."""
        return 2 / (self.sigma * self.n)

    @property
    def rounds_started(self) -> int:
        """Rounds begun under this name, by any process, an open one included.

        All of them, of a copy without a ledger: it cannot know.
        """
        if self._ledger is None:
            return self.budget if self._held.is_lost else self._held.num_started
        return sum(charge.purpose == self._purpose for charge in self._ledger.charges())

    @property
    def budget_left(self) -> int:
        """Answers that may still be corrected, by this object's open round and by new ones."""
        own = 0 if self._held.is_lost else len(self._held.open)
        return max(0, self.budget - self.rounds_started) + own

    def guarantee(self, *, rounds: int | None = None, delta: float = 0.0) -> Guarantee:
        """Differential privacy of the holdout: of the whole budget, or of some rounds.

        Each round is two ``1/(sigma n)``-DP steps (AboveThreshold, and the corrected answer), so
        ``2B/(sigma n)`` in all, and less at a ``delta`` above 0, by exact composition.

        Parameters
        ----------
        rounds
            Such as ``rounds_started``; the budget by default.
        delta
            Of the whole, in ``[0, 1)``.

        Returns
        -------
        Guarantee
            Replace-one DP of what is asked about.
        """
        count = self.budget if rounds is None else checks.count("rounds", rounds, minimum=0)
        step = self.round_epsilon / 2
        eps = composed_pure_dp(2 * count, step, delta=delta) if count else 0.0
        text = "1 round" if count == 1 else f"{count} rounds"
        return run_guarantee(
            "Thresholdout",
            "replace-one",
            eps,
            delta if count else 0.0,
            zcdp=count * step**2,
            assumption=f"{text} of Thresholdout, n = {self.n}, sigma = {self.sigma:g}",
        )

    def promise(self, num_queries: int, *, beta: float = 0.05, rows: Rows = INDEPENDENT) -> Promise:
        """Accuracy of all answers to ``num_queries`` adaptive queries; see `thresholdout_promise`.

        Parameters
        ----------
        num_queries
            Of all processes together.
        beta
            Failure probability.
        rows
            What is known about the holdout's rows; independent by default.

        Returns
        -------
        Promise
            The accuracy and its parts.
        """
        return thresholdout_promise(
            self.n,
            num_queries,
            threshold=self.threshold,
            sigma=self.sigma,
            budget=self.budget,
            beta=beta,
            rows=rows,
        )

    # -- asking -----------------------------------------------------------------------------

    def query(self, phi: Query) -> float:
        """Answer one query.

        Parameters
        ----------
        phi
            Maps rows (a pytree like ``train``) to one value in [0, 1] per row, ``[rows]``.

        Returns
        -------
        float
            The training set's mean, or a noisy one of the holdout.

        Raises
        ------
        HoldoutSpentError
            If the budget is spent, and of a copy without a ledger.
        BudgetExceededError
            If the ledger has no room for another round; nothing was recorded.
        ValueError
            If ``phi`` gives something else on the training rows, or values that are not of one row.
        """
        return float(self._ask(phi, batch=False).values[0])

    def query_batch(self, phi: Query) -> HoldoutAnswers:
        """Answer a batch of queries, one after another.

        Parameters
        ----------
        phi
            Maps rows to values in [0, 1], ``[rows, queries]``.

        Returns
        -------
        HoldoutAnswers
            Answers, and which of them the holdout gave.

        Raises
        ------
        HoldoutSpentError
            If the budget runs out; it carries the answers that were given.
        BudgetExceededError
            If the ledger has no room for the first round; when it ends later, HoldoutSpentError.
        ValueError
            If ``phi`` gives something else on the training rows, or values that are not of one row.
        """
        return self._ask(phi, batch=True)

    def _ask(self, phi: Query, batch: bool) -> HoldoutAnswers:
        train = train_values(phi, self._train, self._pairs, batch).mean(axis=0)
        given: list[tuple[float, bool]] = []
        refused: BaseException | None = None
        try:
            self._answer(phi, train, batch, given)
        except BaseException as error:
            # Frames of what was raised hold the holdout's means; tracebacks with locals print them.
            refused = error.with_traceback(None)
            refused.__cause__ = refused.__context__ = None
        if refused is None:
            return collect(given)
        if isinstance(refused, ValueError) and given:
            raise HoldoutSpentError(str(refused), collect(given))
        raise refused

    def _answer(
        self,
        phi: Query,
        train: Float[np.ndarray, " queries"],
        batch: bool,
        given: list[tuple[float, bool]],
    ) -> None:
        """Append the answers, one after another; what ends them is raised."""
        held = self._own()
        with held.lock:
            held.open.append(self._paid_round(held))  # before the holdout is looked at
        hidden = holdout_values(phi, self._holdout, self.n, train.size, batch)
        for mean_train, mean_holdout in zip(train.tolist(), exact_means(hidden), strict=True):
            with held.lock:
                given.append(self._one(held, mean_train, mean_holdout))

    def _one(self, held: Held, mean_train: float, mean_holdout: Fraction) -> tuple[float, bool]:
        noisy_threshold = self._paid_round(held)
        gap = abs(mean_holdout - Fraction(mean_train))
        is_corrected = add_laplace(gap, 4 * self.sigma) > noisy_threshold
        answer = mean_train
        if is_corrected:
            answer = to_double(add_laplace(mean_holdout, self.sigma))
        if held.is_lost:  # forked since the round was taken: it is the parent's
            raise self._copied()
        if not is_corrected:
            held.open.append(noisy_threshold)
        return answer, is_corrected

    # -- rounds -----------------------------------------------------------------------------

    @property
    def _purpose(self) -> str:
        return f"Thresholdout {self.name!r}: one round"

    def _own(self) -> Held:
        """Return what this object holds in this process; a copy with a ledger begins anew."""
        if self._held.is_lost:
            if self._ledger is None:
                raise self._copied()
            self._held = Held()
        return self._held

    def _paid_round(self, held: Held) -> Fraction:
        """Take the noisy threshold of a round that is open, or pay for one."""
        found = held.take()
        if found is not None:
            return cast(Fraction, found)
        if self.rounds_started >= self.budget:
            raise self._spent()
        # Whatever noise cannot be made at these settings fails before the charge.
        noisy, *_ = (
            add_laplace(center, factor * self.sigma)
            for center, factor in ((self.threshold, 2), (0.0, 4), (0.0, 1))
        )
        if self._ledger is None:
            held.num_started += 1
        else:
            number = self._ledger.charge(purpose=self._purpose, **self._cost(self._ledger))
            # Another process may have charged in between: ranks are decided by the ledger.
            mine = [c for c in self._ledger.charges() if c.purpose == self._purpose]
            if sum(charge.number <= number for charge in mine) > self.budget:
                raise self._spent()
        return noisy

    def _copied(self) -> HoldoutSpentError:
        return HoldoutSpentError(
            f"holdout: this is a copy of {self.name!r} (or its process was forked), and a round is "
            "paid for once; ask the original, or give a ledger, to which a copy charges its own.",
            collect([]),
        )

    def _spent(self) -> HoldoutSpentError:
        return HoldoutSpentError(
            f"budget: all {self.budget} rounds of holdout {self.name!r} are spent, so it answers "
            "no more; collect a new holdout.",
            collect([]),
        )

    def _cost(self, ledger: Ledger) -> dict[str, float]:
        if ledger.currency == "zcdp":
            return {"zcdp": (self.round_epsilon / 2) ** 2}  # two steps of epsilon^2/2
        return {"epsilon": self.round_epsilon}

    def _check_ledger(self, ledger: Ledger) -> None:
        if not isinstance(ledger, Ledger):
            raise ValueError(f"ledger: give a gibbs_dp.Ledger, got {checks.shown(ledger)}.")
        if ledger.adjacency != "replace-one":
            raise ValueError(
                f"ledger: it is for {ledger.adjacency} neighbours, and a holdout of fixed size is "
                "private for replace-one ones; use such a ledger."
            )
        cost = self._cost(ledger)
        for charge in ledger.charges():
            if charge.purpose == self._purpose and any(
                charge.amounts[part] != amount for part, amount in cost.items()
            ):
                raise ValueError(
                    f"ledger: rounds of {self.name!r} were charged for another sigma or another "
                    "number of rows; use those settings, or another name."
                )
