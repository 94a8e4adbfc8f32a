"""A table's front door: what it decides, and that it is the audit that one would have written."""

import numpy as np
import pandas as pd
import pytest

import gibbs_dp as gdp
from gibbs_dp.problems.table import table

RNG = np.random.default_rng(5)
AGE = RNG.integers(20, 70, 90).astype(float)
FRAME = pd.DataFrame(
    {
        "age": AGE,
        "town": RNG.choice(["a", "b", "c"], 90),
        "since": pd.Timestamp("2020-03-01") + pd.to_timedelta(RNG.integers(0, 900, 90), "D"),
        "born": [f"19{60 + int(a) % 40}-05-17" for a in AGE],
        "income": 1000 + 20 * AGE + RNG.normal(size=90),
        "ill": RNG.choice(["no", "yes"], 90),
    }
)
SMALL = {"gammas": [1.0], "num_datasets": 16, "learn": [gdp.OnAverageKL()], "progress": False}
# Of six coefficients and an intercept, at once.
AT_ONCE = SMALL | {"sampler": gdp.Grid(candidates=RNG.normal(size=(64, 7)))}


def test_it_is_the_audit_that_one_would_write():
    first = {"since": FRAME["since"].min().date().isoformat(), "born": FRAME["born"].min()}
    problem = table(FRAME, "income", loss="squared", date=first, prior_scale=2.0)
    own = gdp.audit(problem.posterior, problem.population, n=30, key=3, **AT_ONCE)
    report = gdp.audit_table(FRAME, target="income", prior_scale=2.0, n=30, key=3, **AT_ONCE)
    assert report.rows == own.rows
    assert report.notes == (
        "the loss is squared, as 'income' holds numbers (loss= takes another).",
        *problem.notes,
        *own.notes,
    )
    for name, day in first.items():
        assert f"column {name!r} is days since {day}." in report.notes


@pytest.mark.trust(but="ill-logistic")
@pytest.mark.parametrize(("target", "loss"), [("ill", "logistic"), ("town", "softmax")])
def test_the_loss_is_the_targets(tmp_path, target, loss):
    FRAME.to_csv(tmp_path / "people.csv", index=False)
    given = AT_ONCE if loss == "logistic" else SMALL
    report = gdp.audit_table(tmp_path / "people.csv", target, **given)
    assert report.settings["loss"].lower().startswith(loss)
    assert any("'since' is days since" in note for note in report.notes)
    assert any("the loss is softmax" in note for note in report.notes) == (loss == "softmax")


@pytest.mark.trust
def test_other_frames_than_those_of_pandas():
    class Other:
        def to_pandas(self):
            return FRAME[["age", "ill"]]

    report = gdp.audit_table(Other(), "ill", **SMALL)
    assert report.rows == gdp.audit_table(FRAME[["age", "ill"]], "ill", **SMALL).rows


def test_a_frame_of_polars_is_one_of_pandas():
    """Texts, categories, dates, and an absent value."""
    polars = pytest.importorskip("polars")
    frame = FRAME.assign(since=FRAME["since"].dt.date)
    other = polars.DataFrame({name: list(frame[name]) for name in frame}).with_columns(
        polars.col("town").cast(polars.Categorical), age=polars.col("age").replace(20.0, None)
    )
    absent = FRAME.assign(age=FRAME["age"].replace(20.0, np.nan))
    report = gdp.audit_table(other, "income", missing="drop", **AT_ONCE)
    assert report.rows == gdp.audit_table(absent, "income", missing="drop", **AT_ONCE).rows
    assert any("'since' is days since" in note for note in report.notes)
    model = gdp.privacy.ReleasedModel(
        gdp.privacy.Schema(
            {
                "town": gdp.privacy.Levels("abc"[i] for i in range(3)),
                "since": gdp.privacy.Date("2020-01-01", "2023-01-01"),
            }
        ),
        np.array([[0.5, 1.0, 2.0, 3.0]]),
    )
    assert model.predict(other).equals(model.predict(FRAME))


def test_mistakes_are_named():
    with pytest.raises(TypeError, match="no keyword 'gamma'; did you mean 'gammas'"):
        gdp.audit_table(FRAME, "ill", gamma=1.0)
    with pytest.raises(ValueError, match=r"target: .*'Ill'.* did you mean 'ill'"):
        gdp.audit_table(FRAME, "Ill", **SMALL)
    with pytest.raises(ValueError, match=r"audit_table\(frame, target=...\)"):
        gdp.populations.Table(FRAME)
    with pytest.raises(ValueError, match="column 'since' holds"):
        gdp.audit_table(FRAME, "ill", date={}, **SMALL)
