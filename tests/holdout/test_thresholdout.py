"""Thresholdout: its two forms, its budget through restarts and kills, its promise, refusals."""

import math
import re
import signal
import subprocess
import sys
import textwrap
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gibbs_dp as gdp
from gibbs_dp.holdout import thresholdout
from gibbs_dp.holdout.promise import IndependentRows
from gibbs_dp.papers import bayesian_dp
from gibbs_dp.papers.bounds import adaptive_event_tail
from gibbs_dp.papers.reusable_holdout.data import Gate, Gates
from gibbs_dp.privacy import BudgetExceededError
from gibbs_dp.privacy.composition import composed_pure_dp

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
    gates = Gates(jax.random.key(0), Gate(**settings), runs)
    simulated, _ = gates.ask(np.tile(train, (runs, 1)), np.tile(holdout, (runs, 1)))

    def phi(rows):  # the first row of either set says which it is
        return np.tile(train if rows[0] == 0 else holdout, (len(rows), 1))

    patterns = np.isfinite(simulated) & (simulated != train)
    share = np.array([(patterns == p).all(axis=1).mean() for p in np.ndindex(2, 2, 2)])
    counts = np.zeros(8)
    released = 1000
    for _ in range(released):
        gate = gdp.Thresholdout(np.zeros(4), np.ones(5), **settings)
        try:
            said = gate.query_batch(phi).from_holdout
        except gdp.holdout.HoldoutSpentError as spent:
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
    answers = simulated[patterns]
    truth = np.broadcast_to(holdout, patterns.shape)[patterns]
    error = np.abs(answers - truth)
    assert abs(error.mean() - sigma) < 4.5 * error.std() / math.sqrt(error.size)
    assert np.isnan(simulated[patterns[:, :2].all(axis=1), 2]).all()


def test_answers_agreement_from_train_and_corrects_the_rest():
    gate = make(sigma=1e-4)
    assert gate.query(lambda rows: rows % 2) == 0.5  # both means are 1/2: the training set's own
    assert gate.budget_left == 3
    assert gate.query(low) == pytest.approx(1.0, abs=5e-3)
    assert gate.budget_left == 2
    batch = gate.query_batch(lambda rows: np.stack([rows % 2, rows < 50], axis=1))
    assert list(batch.from_holdout) == [False, True]
    with pytest.raises(gdp.holdout.HoldoutSpentError, match="collect a new holdout") as spent:
        gate.query_batch(lambda rows: np.stack([rows < 50, rows % 2, rows < 50], axis=1))
    assert list(spent.value.answers.from_holdout) == [True]
    assert gate.budget_left == 0


def test_privacy_is_two_steps_a_round():
    gate = make()
    assert gate.guarantee().epsilon == pytest.approx(2 * 3 / (1e-3 * 50))
    assert gate.guarantee(rounds=0).epsilon == 0
    part = gate.guarantee(delta=1e-6)
    assert part.epsilon == composed_pure_dp(6, 1 / (1e-3 * 50), delta=1e-6)
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
    with pytest.raises(gdp.holdout.HoldoutSpentError):
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
        except gdp.holdout.HoldoutSpentError:
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


HELD, HELD_SIZE = np.arange(1000, 1050), 50


def only_on_holdout(act):
    """A query that is 1/2 on the training rows, and does something on rows of the holdout."""
    return lambda rows: act(rows) if np.max(rows) >= 1000 else rows % 2


def fail(error):
    raise error


def wide_warning(rows):
    warnings.warn("50 rows, the first is 1000", stacklevel=1)
    return rows % 2


HIDDEN = {
    "another number of rows": (lambda rows: (rows % 2)[:-1], 0.0),
    "no number of rows": (lambda rows: np.zeros(()), 0.0),
    "more axes": (lambda rows: np.ones((len(rows), 3)), 0.0),
    "nothing": (lambda rows: np.zeros(0), 0.0),
    "None": (lambda rows: None, 0.0),
    "text": (lambda rows: ["a"] * len(rows), 0.0),
    "ragged": (lambda rows: [[1], [1, 2]] * len(rows), 0.0),
    "complex numbers": (lambda rows: rows + 1j, 0.0),
    "a mask": (lambda rows: np.ma.masked_array(np.ones(len(rows)), mask=rows > 0), 0.0),
    "an error": (lambda rows: fail(KeyError(f"patient {rows[0]}")), 0.0),
    "an exit": (lambda rows: fail(SystemExit(f"patient {rows[0]}")), 0.0),
    "an error at one row": (lambda rows: fail(ValueError) if 1001 in rows else rows % 2, 24 / 50),
    "a shape at one row": (lambda rows: (rows % 2)[: len(rows) - (1001 in rows)], 24 / 50),
    "a division": (lambda rows: (rows % 2) / (rows % 2), 25 / 50),
    "an overflow": (lambda rows: (rows % 2) * np.exp(1e6 + rows), 25 / 50),
    "a warning": (wide_warning, 25 / 50),
    "NaN": (lambda rows: np.where(rows == 1001, math.nan, rows % 2), 24 / 50),
    "infinity": (lambda rows: np.where(rows == 1001, math.inf, rows % 2), 25 / 50),
    "minus infinity": (lambda rows: np.where(rows == 1001, -math.inf, rows % 2), 24 / 50),
    "large numbers": (lambda rows: rows * 1e300, 1.0),
    "writing": (lambda rows: rows.__setitem__(0, 1) or rows % 2, 0.0),
}


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("case", HIDDEN)
def test_what_a_query_does_on_the_holdout_is_not_told(case, batch, recwarn, capfd):
    """The answer is the mean over rows of each row's own value, 0 where it has none."""
    act, mean = HIDDEN[case]
    phi = only_on_holdout(act)
    gate = gdp.Thresholdout(np.arange(40), HELD, threshold=0.0, sigma=1e-7, budget=200)
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("default")
        if batch:
            said = [gate.query_batch(lambda rows: _column(phi(rows))).values[0] for _ in range(20)]
        else:
            said = [gate.query(phi) for _ in range(20)]
    # Half of the answers at least are the holdout's; noise beyond 40 scales: once in 1e16.
    assert min(abs(value - mean) for value in said) < 1e-5
    assert all(isinstance(value, float) for value in said)
    assert not recwarn.list
    assert capfd.readouterr() == ("", "")


def _column(values):
    return np.asanyarray(values)[:, None] if np.ndim(values) == 1 else values


def test_one_row_moves_an_answer_by_one_nth_whatever_it_does():
    """The sensitivity that the noise is for, on every outcome of every row."""
    rng = np.random.default_rng(0)
    outcomes = [0.3, 1.0, 7.0, math.nan, -math.inf, None]

    def phi(rows):
        picked = [outcomes[int(i)] for i in rows]
        return np.array([fail(ValueError(str(rows))) if v is None else v for v in picked])

    for _ in range(20):
        rows = rng.integers(len(outcomes), size=13)
        other = rows.copy()
        other[rng.integers(13)] = rng.integers(len(outcomes))
        means = [thresholdout.holdout_values(phi, r, 13, 1, False).mean() for r in (rows, other)]
        assert abs(means[0] - means[1]) <= 1 / 13 + 1e-12


NOT_OF_ONE_ROW = {
    "centred": lambda rows: rows > rows.mean(),
    "scaled": lambda rows: (rows - rows.min()) / max(np.ptp(rows), 1),
    "ranks": lambda rows: np.argsort(np.argsort(rows)) / len(rows),
    "above the median": lambda rows: rows > np.median(rows),
    "the largest": lambda rows: rows == rows.max(),
    "running": lambda rows: np.cumsum(rows % 2) / len(rows),
    "the row before": lambda rows: np.roll(rows, 1) % 2,
    "the row's number": lambda rows: np.arange(len(rows)) % 2,
    "one value for all": lambda rows: np.full(len(rows), rows[0] % 2),
    "the mean for all": lambda rows: np.full(len(rows), rows.mean() / 100),
    "softmax": lambda rows: np.exp(-rows / 50.0) / np.exp(-rows / 50.0).sum(),
    "random": lambda rows: np.random.default_rng().random(len(rows)),
    "sorted": lambda rows: np.sort(rows) / 100,
    "the number of rows": lambda rows: np.full(len(rows), len(rows) % 10 / 10),
}


@pytest.mark.parametrize("case", NOT_OF_ONE_ROW)
def test_values_that_are_not_of_one_row_are_found_on_training_rows(tmp_path, case):
    ledger = ledger_at(tmp_path / "l")
    gate = make(ledger=ledger)
    seen = []

    def phi(rows):
        seen.append(len(rows))
        return NOT_OF_ONE_ROW[case](rows)

    with pytest.raises(ValueError, match="a value must be of its row alone"):
        gate.query(phi)
    with pytest.raises(ValueError, match="a value must be of its row alone"):
        gate.query_batch(lambda rows: np.stack([rows % 2, phi(rows)], axis=1))
    assert 50 not in seen  # the holdout was not looked at
    assert ledger.charges() == ()


OF_ONE_ROW = {
    "a matrix product": lambda rows: 1 / (1 + np.exp(-(rows @ np.linspace(-1, 1, 30)))),
    "jitted": jax.jit(lambda rows: jax.nn.sigmoid(rows @ jnp.linspace(-1, 1, 30))),
    "vmapped": jax.vmap(lambda row: jnp.tanh(row).sum() > 0),
    "a list": lambda rows: [float(row[0] > 0) for row in rows],
}


@pytest.mark.parametrize("case", OF_ONE_ROW)
def test_values_of_one_row_pass_whatever_they_are_made_with(case):
    rows = np.random.default_rng(0).normal(size=(300, 30))
    gate = gdp.Thresholdout(rows[:200], rows[200:], threshold=0.9, sigma=1e-4, budget=1)
    for train in (rows[:200], rows[:1]):
        gate = gdp.Thresholdout(train, rows[200:], threshold=2.0, sigma=1e-4, budget=1)
        assert 0 <= gate.query(OF_ONE_ROW[case]) <= 1


def test_queries_cannot_write_into_the_rows():
    rows = {"x": np.arange(10.0), "y": np.arange(10)}
    gate = gdp.Thresholdout(rows, rows, threshold=0.9, sigma=1e-4, budget=1)
    with pytest.raises(ValueError, match="read-only"):
        gate.query(lambda r: r["x"].fill(0.0) or r["y"] > 3)
    rows["x"][0] = 3.0  # they are still the caller's


def test_no_frame_of_a_refusal_holds_means_of_the_holdout(tmp_path):
    """Debuggers and reporters of errors print the locals of every frame of the traceback."""
    gate = make(ledger=ledger_at(tmp_path / "l", epsilon=50.0))  # one round
    # The mean itself, as a double or a fraction: answers with noise begin like it.
    secret = re.compile(r"0\.62(?!\d)|\(31, 50\)|31/50")
    with pytest.raises(gdp.holdout.HoldoutSpentError) as spent:
        gate.query_batch(lambda rows: np.stack([rows < 31, rows < 31, rows < 31], axis=1))
    with pytest.raises(BudgetExceededError) as refused:
        gate.query_batch(lambda rows: (rows < 31)[:, None])
    for error in (spent.value, refused.value):
        assert (error.__cause__, error.__context__) == (None, None)
        trace = error.__traceback__
        while trace:
            if trace.tb_frame.f_code.co_filename.endswith("holdout/thresholdout.py"):
                assert not secret.search(str(trace.tb_frame.f_locals))
            trace = trace.tb_next


def test_promise_is_kept_by_hand():
    """The event's pieces, recomputed one by one from their closed forms."""
    n, m, sigma, budget, beta = 50_000, 500, 1e-3, 2, 0.05
    found = gdp.holdout.thresholdout_promise(
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
    p_rows = adaptive_event_tail(n, fixed_tail=fixed, epsilon=found.epsilon)
    assert p_noise + p_rows <= beta
    assert p_noise + p_rows > 0.2 * beta  # and not wasteful


def test_plans_keep_their_promise_and_say_what_is_impossible():
    plan = gdp.holdout.plan_thresholdout(100_000, 1000, 0.2)
    settings = {"threshold": plan.threshold, "sigma": plan.sigma}
    promise = gdp.holdout.thresholdout_promise(100_000, 1000, budget=plan.budget, **settings)
    assert promise.tau <= plan.tau
    with pytest.raises(ValueError, match="no number of rows"):
        gdp.holdout.plan_thresholdout(1000, 10, 0.1, overfit=0.1)
    # Queries that do not overfit cost nothing: with probability 1 - beta none of 1000.
    gates = Gates(jax.random.key(2), Gate(budget=plan.budget, **settings), 200)
    _, corrected = gates.ask(np.zeros((200, 1000)), np.full((200, 1000), plan.overfit))
    assert (corrected > 0).mean() <= 0.05


def test_dependent_rows_need_more_of_them():
    chain = bayesian_dp.MarkovChain([[0.6, 0.4], [0.4, 0.6]], 1000)
    rows = bayesian_dp.chain_rows(chain, reach=16)
    assert rows.variance_inflation == pytest.approx(1.5)
    settings = {"threshold": 0.05, "sigma": 2e-3, "budget": 1}
    independent, dependent = (
        gdp.holdout.thresholdout_promise(100_000, 100, rows=r, **settings)
        for r in (IndependentRows(), rows)
    )
    assert independent.tau < dependent.tau < 0.5
    assert dependent.epsilon == pytest.approx(
        bayesian_dp.bdp_epsilon(
            independent.epsilon, bayesian_dp.MarkovChain(chain.transition, 100_000), reach=16
        )
    )
    copies = gdp.holdout.DeclaredRows(lambda n, tau: 0.0, lambda n, eps: n * eps)
    assert gdp.holdout.thresholdout_promise(100_000, 100, rows=copies, **settings).tau == math.inf
    with pytest.raises(ValueError, match="no number of rows"):
        gdp.holdout.plan_thresholdout(1000, 10, 0.5, rows=copies)


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
            lambda: make().query_batch(lambda rows: np.zeros((len(rows), len(rows) // 2))),
            "a value must be of its row alone",
        ),
        (lambda: make().query(lambda rows: rows + 1j), "values must be plain numbers"),
        (lambda: make().query(lambda rows: rows.astype(str)), "values must be plain numbers"),
        (
            lambda: make().query(lambda rows: np.ma.masked_array(rows % 2, rows > 3)),
            "phi: a masked array",
        ),
        (
            lambda: gdp.Thresholdout({"a": ROWS}, {"b": ROWS}, **SETTINGS),
            "holdout: its rows have other arrays",
        ),
        (
            lambda: gdp.Thresholdout(ROWS[:, None], ROWS, **SETTINGS),
            "holdout: its rows have other arrays",
        ),
        (
            lambda: gdp.Thresholdout({"a": ROWS, "b": ROWS[:3]}, ROWS, **SETTINGS),
            "train: its arrays must have",
        ),
        (lambda: gdp.Thresholdout(ROWS, 3.0, **SETTINGS), "holdout: its arrays must have"),
        (lambda: gdp.holdout.plan_thresholdout(100, 10, 1.5), "tau must lie"),
        (
            lambda: gdp.papers.bayesian_dp.ReversibleChainRows(0.0, lambda n, e: e),
            "absolute_gap must lie",
        ),
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
