"""``gibbs-dp release`` without a prior: a rule picks mechanism and prior from public facts."""

import json
from pathlib import Path

import numpy as np
import pytest

import gibbs_dp as gdp
from gibbs_dp.privacy import Levels, Number, Range, Schema
from gibbs_dp.sklearn.tables import release_by_rule

REPLACE = ("--adjacency", "replace-one")
BOTH = ("--accept", "exact-draw", "float-arithmetic")
SHARED = ("release", "--data", "t.csv", *REPLACE, "--ledger", "l", *BOTH, "--json", "--quiet")
FEATURES = ("--range", "age", 0, 100, "--levels", "smoker", "no", "yes")


@pytest.fixture
def table(run, tmp_path, monkeypatch):
    """3,000 people who fall ill with age, and cost more; every twentieth line is empty."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    lines = ["age,smoker,ill,cost"]
    for i in range(3000):
        age, smoker = rng.integers(0, 101), rng.choice(["no", "yes"])
        ill = "yes" if rng.random() < 1 / (1 + np.exp(-(age - 50) / 10)) else "no"
        lines.append(",,," if i % 20 == 0 else f"{age},{smoker},{ill},{2 * age + 50}")
    Path("t.csv").write_text("\n".join(lines) + "\n")
    run("ledger", "create", "--ledger", "l", *REPLACE, "--epsilon", 50, "--delta", 1e-4)


@pytest.mark.parametrize("target", [("--pure-epsilon", 2), ("--epsilon", 2, "--delta", 1e-5)])
def test_draws_are_weights_of_what_the_rules_say(run, table, target):
    """Log-odds rise by about ten over the range of age; the sign of the rest is not known."""
    _, out, _ = run(*SHARED, "--target", "ill", "--label", "no", "yes", *FEATURES, *target)
    draw, model, promise = (json.loads(line) for line in out.splitlines())
    assert set(draw) == {"kind", "intercept", "age", "smoker=yes"}
    assert 2 < draw["age"] < 30
    assert -0.75 < draw["intercept"] / draw["age"] < -0.25  # even odds near 50
    assert "moved towards the middle" in model["model"]
    assert promise["epsilon"] == 2.0
    _, out, _ = run(
        *SHARED, "--target", "cost", "--y-range", 0, 300, "--loss", "huber", *FEATURES, *target
    )
    draw = json.loads(out.splitlines()[0])
    assert draw["intercept"] + 0.5 * draw["age"] + 0.5 * draw["smoker=yes"] == pytest.approx(
        150, abs=15
    )
    assert draw["age"] == pytest.approx(200, abs=60)


def test_lines_that_cannot_be_read_count_for_nothing(tmp_path):
    """However many there are, a draw is of the same law: the noise is small, and so is the gap."""
    schema = Schema({"a": Range(0.0, 1.0)}, "y", Levels(["no", "yes"]))
    x = np.stack([np.ones(400), np.linspace(0, 1, 400)], axis=1)
    y = (x[:, 1] > 0.3) * 1.0
    found = []
    for copies in (0, 1):
        ledger = gdp.Ledger.create(
            tmp_path / f"ledger{copies}", epsilon=1e9, delta=0.5, adjacency="replace-one"
        )
        rows = np.concatenate([x, np.zeros((400 * copies, 2))])
        labels = np.concatenate([y, np.zeros(400 * copies)])
        out, *_ = release_by_rule(
            (rows, labels),
            schema=schema,
            ledger=ledger,
            adjacency="replace-one",
            epsilon=3000.0,
            accept=["exact-draw", "float-arithmetic"],
            purpose="a test",
        )
        found.append(-out.theta[0, 0] / out.theta[0, 1])
        assert ledger.charges()[0].purpose == "a test"
    assert found[0] == pytest.approx(0.3, abs=0.1)  # a straight line through a step
    assert found[1] == pytest.approx(found[0], abs=0.03)


def test_numbers_without_ends_need_room_beside_the_intercept(tmp_path):
    ledger = gdp.Ledger.create(tmp_path / "ledger", epsilon=9.0, adjacency="replace-one")
    data = np.ones((10, 2)), np.zeros(10)
    given = {"ledger": ledger, "adjacency": "replace-one", "epsilon": 1.0}
    given["accept"] = ["exact-draw", "float-arithmetic"]
    small = Schema({"a": Number()}, "y", Levels(["n", "y"]), x_bound=0.5)
    with pytest.raises(ValueError, match=r"x_bound: 0\.5 leaves nothing"):
        release_by_rule(data, schema=small, **given)
    plain = Schema({"a": Range(0.0, 1.0)}, "y", Levels(["n", "y"]), intercept=False)
    with pytest.raises(ValueError, match="schema: the rule needs an intercept"):
        release_by_rule(data, schema=plain, **given)
    assert ledger.spent()["epsilon"] == 0
    enough = Schema({"a": Number()}, "y", Levels(["n", "y"]), x_bound=3.0)
    assert release_by_rule(data, schema=enough, **given)[0].theta.shape == (1, 2)


CELLS = ("50", "1.7e308", "-1e999", "nan", "5e-324", "", "text", '"', "1" * 400)


@pytest.mark.trust
def test_no_cell_changes_what_is_said(run, tmp_path, monkeypatch):
    """Of a table and its neighbours: the same status, keys and words, and nothing on stderr."""
    monkeypatch.chdir(tmp_path)
    run("ledger", "create", "--ledger", "l", *REPLACE, "--epsilon", 500)
    words = ("--target", "ill", "--label", "no", "yes", *FEATURES[:4], "--pure-epsilon", 0.1)
    rest = "".join(f"{age},{'yes' if age > 50 else 'no'}\n" for age in range(0, 101, 5))
    numbers = ("--target", "age", "--y-range", 0, 100, "--loss", "huber")
    numbers = (*numbers, "--numbers", "dose", "--x-bound", 1e300, "--pure-epsilon", 0.1)
    first, seen = [], set()
    for cell in CELLS:
        for record in (f"{cell},no", f"50,{cell}"):
            Path("t.csv").write_text(f"age,ill\n{record}\n{rest}")
            status, out, err = run(*SHARED, *words)
            lines = [json.loads(line) for line in out.splitlines()]
            first.append((status, err, [sorted(line) for line in lines]))
        Path("t.csv").write_text(f"dose,age\n{cell},3\n1,{cell}\n" + "1,5\n" * 20)
        seen.add(tuple(run(*SHARED, *numbers)[::2]))
    assert all(found == first[0] for found in first)
    assert first[0][:2] == (0, "")
    assert seen == {(0, "")}
