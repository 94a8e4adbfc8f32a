"""The reusable holdout: thousands of adaptive queries, and a budget for those that overfit."""

from __future__ import annotations

from fractions import Fraction
from typing import cast

import numpy as np
from jaxtyping import Float, PyTree

from gibbs_dp.adaptive.composition import composed_pure_dp
from gibbs_dp.adaptive.guarantee import MechanismGuarantee
from gibbs_dp.adaptive.promise import INDEPENDENT, Promise, thresholdout_promise
from gibbs_dp.adaptive.queries import (
    HoldoutAnswers,
    HoldoutSpentError,
    Query,
    check_alike,
    collect,
    count_rows,
    holdout_values,
    read_only,
    some_pairs,
    train_values,
)
from gibbs_dp.adaptive.rows import Rows
from gibbs_dp.adaptive.state import Held, Stateful
from gibbs_dp.information import checks
from gibbs_dp.privacy.ledger import Ledger
from gibbs_dp.privacy.noise import add_laplace, exact_means, to_double


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
    40-DP, replace-one neighbours; 1 round of Thresholdout, n = 50, sigma = 0.001
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

    def guarantee(self, *, rounds: int | None = None, delta: float = 0.0) -> MechanismGuarantee:
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
        MechanismGuarantee
            Replace-one DP of what is asked about.
        """
        count = self.budget if rounds is None else checks.count("rounds", rounds, minimum=0)
        step = self.round_epsilon / 2
        eps = composed_pure_dp(2 * count, step, delta=delta) if count else 0.0
        text = "1 round" if count == 1 else f"{count} rounds"
        return MechanismGuarantee(
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
