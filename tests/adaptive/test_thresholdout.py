"""Thresholdout: its two forms, its budget through restarts and kills, its promise, refusals."""

import math
import signal
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gibbs_dp as gdp
from gibbs_dp import adaptive
from gibbs_dp.privacy import BudgetExceededError

ROWS = np.arange(100)
SETTINGS = {"threshold": 0.1, "sigma": 1e-3, "budget": 3}


def low(rows):
    """1/2 on the training rows below, 1 on the holdout."""
    return rows < 50


def make(**changes):
    return gdp.Thresholdout(ROWS, ROWS[:50], **(SETTINGS | changes))


def ledger_at(path, **budget):
    budget = budget or {"epsilon": 1000.0}
    return gdp.Ledger.create(path, adjacency="replace-one", **budget)


def test_both_forms_have_one_law():
    runs, sigma = 3000, 0.05
    settings = {"threshold": 0.2, "sigma": sigma, "budget": 2}
    train, holdout = np.array([0.5, 0.5, 0.5]), np.array([0.4, 0.75, 0.75])
    keys = jax.random.split(jax.random.key(0), runs)
    simulated = jax.vmap(
        lambda k: adaptive.simulate_thresholdout(
            k, jnp.asarray(train), jnp.asarray(holdout), **settings
        )
    )(keys)

    def phi(rows):  # the first row of either set says which it is
        return np.tile(train if rows[0] == 0 else holdout, (len(rows), 1))

    patterns = np.asarray(simulated.from_holdout)
    share = np.array([(patterns == p).all(axis=1).mean() for p in np.ndindex(2, 2, 2)])
    counts = np.zeros(8)
    released = 1000
    for _ in range(released):
        gate = gdp.Thresholdout(np.zeros(4), np.ones(5), **settings)
        try:
            said = gate.query_batch(phi).from_holdout
        except adaptive.HoldoutSpentError as spent:
            said = spent.answers.from_holdout
        said = [*said, *[False] * (3 - len(said))]
        counts[int(np.ravel_multi_index(np.array(said, dtype=int), (2, 2, 2)))] += 1
    spread = np.sqrt(share * (1 - share) * (1 / runs + 1 / released)) + 1e-3
    # 4.5 standard errors of 8 cells: false alarm 6e-5.
    assert np.all(np.abs(share - counts / released) < 4.5 * spread)
    # Exactly, for the first answer: the gap 0.1 against 0.2 + Lap(2 s) + Lap(4 s).
    noise = np.random.default_rng(1).laplace(size=(400_000, 2)) @ [2 * sigma, 4 * sigma]
    p = float((noise < -0.1).mean())
    assert abs(patterns[:, 0].mean() - p) < 4.5 * math.sqrt(p * (1 - p) / runs)
    # Noise of the corrected answers is Lap(sigma), whose mean size is sigma.
    answers = np.asarray(simulated.values)[patterns]
    truth = np.broadcast_to(holdout, patterns.shape)[patterns]
    error = np.abs(answers - truth)
    assert abs(error.mean() - sigma) < 4.5 * error.std() / math.sqrt(error.size)
    assert np.isnan(np.asarray(simulated.values)[:, 2][np.asarray(simulated.left)[:, 1] == 0]).all()


def test_answers_agreement_from_train_and_corrects_the_rest():
    gate = make(sigma=1e-4)
    assert gate.query(lambda rows: rows % 2) == 0.5  # both means are 1/2: the training set's own
    assert gate.budget_left == 3
    assert gate.query(low) == pytest.approx(1.0, abs=5e-3)
    assert gate.budget_left == 2
    batch = gate.query_batch(lambda rows: np.stack([rows % 2, rows < 50], axis=1))
    assert list(batch.from_holdout) == [False, True]
    with pytest.raises(adaptive.HoldoutSpentError, match="collect a new holdout") as spent:
        gate.query_batch(lambda rows: np.stack([rows < 50, rows % 2, rows < 50], axis=1))
    assert list(spent.value.answers.from_holdout) == [True]
    assert gate.budget_left == 0


def test_privacy_is_two_steps_a_round():
    gate = make()
    assert gate.guarantee().epsilon == pytest.approx(2 * 3 / (1e-3 * 50))
    assert gate.guarantee(rounds=0).epsilon == 0
    part = gate.guarantee(delta=1e-6)
    assert part.epsilon == adaptive.composed_pure_dp(6, 1 / (1e-3 * 50), delta=1e-6)
    assert part.zcdp == pytest.approx(6 * 20.0**2 / 2)


@pytest.mark.parametrize("currency", ["epsilon", "zcdp"])
def test_a_restart_never_gives_budget_back(tmp_path, currency):
    ledger = ledger_at(tmp_path / "l", **{currency: 1e4})
    first = make(ledger=ledger)
    assert ledger.charges() == ()  # nothing has been asked
    first.query(lambda rows: rows % 2)
    assert first.rounds_started == 1
    assert first.budget_left == 3
    # A new process finds the round paid and gone, though nothing was corrected in it.
    second = make(ledger=gdp.Ledger(ledger.path))
    assert second.budget_left == 2
    second.query(low)
    second.query(low)
    with pytest.raises(adaptive.HoldoutSpentError):
        second.query(low)
    assert len(ledger.charges()) == 3
    assert ledger.spent()[currency] == pytest.approx(3 * (40.0 if currency == "epsilon" else 400.0))
    first.query(lambda rows: rows % 2)  # the first process's open round is still its own
    assert len(ledger.charges()) == 3


def test_two_processes_share_one_budget(tmp_path):
    ledger = ledger_at(tmp_path / "l")
    gates = [make(ledger=ledger) for _ in range(5)]
    answered = 0
    for gate in gates:
        try:
            gate.query(low)
            answered += 1
        except adaptive.HoldoutSpentError:
            pass
    assert answered == 3


def test_a_ledger_without_room_refuses_before_answering(tmp_path):
    ledger = ledger_at(tmp_path / "l", epsilon=50.0)
    gate = make(ledger=ledger)
    gate.query(low)
    with pytest.raises(BudgetExceededError, match="nothing was recorded"):
        gate.query(lambda rows: rows % 2)
    assert len(ledger.charges()) == 1


def test_a_killed_process_has_spent_its_round(tmp_path):
    ledger = ledger_at(tmp_path / "l")
    program = textwrap.dedent(
        f"""
        import os, signal
        import numpy as np
        import gibbs_dp as gdp
        rows = np.arange(100)
        gate = gdp.Thresholdout(rows, rows[:50], threshold=0.1, sigma=1e-3, budget=3,
                                ledger=gdp.Ledger({str(ledger.path)!r}))
        gate._one = lambda *means: os.kill(os.getpid(), signal.SIGKILL)  # paid, and not answered
        gate.query(lambda rows: rows < 50)
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert make(ledger=ledger).budget_left == 2
    assert ledger.spent()["epsilon"] == 40.0


def test_a_holdout_row_out_of_range_is_never_told():
    """An error on the holdout would tell who is in it; values are clipped there instead."""
    odd = np.array([0.0, 1.0, 7.0, math.nan])
    gate = gdp.Thresholdout(np.zeros(4), odd, threshold=0.9, sigma=1e-4, budget=1)
    assert gate.query(lambda rows: rows) == 0.0


def test_promise_is_kept_by_hand():
    """The event's pieces, recomputed one by one from their closed forms."""
    n, m, sigma, budget, beta = 50_000, 500, 1e-3, 2, 0.05
    found = adaptive.thresholdout_promise(
        n, m, threshold=0.05, sigma=sigma, budget=budget, beta=beta
    )
    assert found.epsilon == pytest.approx(2 * budget / (sigma * n))
    assert found.tau == pytest.approx(found.deviation + found.slack)
    noise = found.slack - 0.05
    splits = np.linspace(0, noise, 2001)
    thresholds = budget / 2 * np.exp(-splits / (2 * sigma))
    queries = m / 2 * np.exp(-(noise - splits) / (4 * sigma))
    p_noise = (thresholds + queries).min() + budget * math.exp(-found.slack / sigma)
    fixed = m * 2 * math.exp(-2 * n * found.deviation**2)
    p_rows = gdp.information.bounds.adaptive_event_tail(n, fixed_tail=fixed, epsilon=found.epsilon)
    assert p_noise + p_rows <= beta
    assert p_noise + p_rows > 0.2 * beta  # and not wasteful


def test_plans_keep_their_promise_and_say_what_is_impossible():
    plan = adaptive.plan_thresholdout(100_000, 1000, 0.2)
    settings = {"threshold": plan.threshold, "sigma": plan.sigma}
    promise = adaptive.thresholdout_promise(100_000, 1000, budget=plan.budget, **settings)
    assert promise.tau <= plan.tau
    with pytest.raises(ValueError, match="no number of rows"):
        adaptive.plan_thresholdout(1000, 10, 0.1, overfit=0.1)
    # Queries that do not overfit cost nothing: with probability 1 - beta none of 1000.
    gap = jnp.full(1000, plan.overfit)
    spent = jax.vmap(
        lambda k: adaptive.simulate_thresholdout(
            k, jnp.zeros(1000), gap, budget=plan.budget, **settings
        ).from_holdout.any()
    )(jax.random.split(jax.random.key(2), 200))
    assert np.asarray(spent).mean() <= 0.05


def test_dependent_rows_need_more_of_them():
    chain = adaptive.MarkovChain([[0.6, 0.4], [0.4, 0.6]], 1000)
    rows = adaptive.chain_rows(chain, reach=16)
    assert rows.variance_inflation == pytest.approx(1.5)
    settings = {"threshold": 0.05, "sigma": 2e-3, "budget": 1}
    independent, dependent = (
        adaptive.thresholdout_promise(100_000, 100, rows=r, **settings)
        for r in (adaptive.IndependentRows(), rows)
    )
    assert independent.tau < dependent.tau < 0.5
    assert dependent.epsilon == pytest.approx(
        adaptive.bdp_epsilon(
            independent.epsilon, adaptive.MarkovChain(chain.transition, 100_000), reach=16
        )
    )
    copies = adaptive.DeclaredRows(lambda n, tau: 0.0, lambda n, eps: n * eps)
    assert adaptive.thresholdout_promise(100_000, 100, rows=copies, **settings).tau == math.inf
    with pytest.raises(ValueError, match="no number of rows"):
        adaptive.plan_thresholdout(1000, 10, 0.5, rows=copies)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make(budget=0), "budget must be at least 1"),
        (lambda: make(sigma=0.0), "sigma must be positive"),
        (lambda: make(sigma=-1.0), "sigma must be positive"),
        (lambda: make(threshold=-0.1), "threshold must be at least 0"),
        (lambda: make(name=" a"), "name must be"),
        (lambda: make().query(lambda rows: rows), r"values must lie in \[0, 1\]"),
        (lambda: make().query(lambda rows: rows * math.nan), r"values must lie in \[0, 1\]"),
        (lambda: make().query(lambda rows: rows[:7] < 50), r"give \[rows\]"),
        (lambda: make().query(lambda rows: 0.5), r"give \[rows\]"),
        (lambda: make().query_batch(low), r"give \[rows, queries\]"),
        (
            lambda: make().query_batch(lambda rows: np.zeros((len(rows), len(rows) // 50))),
            "give as many on both",
        ),
        (
            lambda: gdp.Thresholdout({"a": ROWS, "b": ROWS[:3]}, ROWS, **SETTINGS),
            "train: its arrays must have",
        ),
        (lambda: gdp.Thresholdout(ROWS, 3.0, **SETTINGS), "holdout: its arrays must have"),
        (lambda: adaptive.plan_thresholdout(100, 10, 1.5), "tau must lie"),
        (lambda: adaptive.ReversibleChainRows(0.0, lambda n, e: e), "absolute_gap must lie"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_ledgers_that_do_not_fit(tmp_path):
    removal = gdp.Ledger.create(tmp_path / "a", adjacency="add-remove", epsilon=1.0)
    with pytest.raises(ValueError, match="it is for add-remove neighbours"):
        make(ledger=removal)
    ledger = ledger_at(tmp_path / "b")
    make(ledger=ledger).query(low)
    with pytest.raises(ValueError, match="another sigma or another number of rows"):
        make(ledger=ledger, sigma=0.5)
    assert make(ledger=ledger, sigma=0.5, name="other").budget_left == 3
