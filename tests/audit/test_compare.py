"""Differences of reports, paired and independent, against their definition."""

import flat
import numpy as np
import pytest
from matplotlib.figure import Figure
from problems import QUICK, gaussian_examples, gaussian_mean

import gibbs_dp as gdp


def make(values, gammas=(0.1, 1.0), key=(0, 1), loss="squared", n=10, **settings):
    rows, per_dataset = [], []
    for gamma, column in zip(gammas, values, strict=True):
        column = np.asarray(column, float)
        mean, se = column.mean(), column.std(ddof=1) / np.sqrt(column.size)
        names = ("on_average_kl", "excess_risk")
        row = {"gamma": gamma, "n": n, "dp_epsilon": 10 * gamma}
        for name in names:
            row |= {name: mean, f"{name}_se": se}
        rows.append(row)
        per_dataset.append(dict.fromkeys(names, column))
    described = {"n": n, "group_size": 1, "loss": loss, "key": list(key), **settings}
    return gdp.Report(tuple(rows), described, per_dataset=tuple(per_dataset))


RNG = np.random.default_rng(0)
NOISE = RNG.exponential(size=(2, 50))
BASE, MORE = make(NOISE), make(NOISE + 0.1 * RNG.random((2, 50)))


def test_one_key_is_compared_dataset_by_dataset():
    table = gdp.compare({"base": BASE, "more": MORE}).table
    assert list(table["quantity"]) == ["on_average_kl"] * 2 + ["excess_risk"] * 2
    assert table["paired"].all()
    gaps = np.stack([p["on_average_kl"] for p in MORE.per_dataset]) - NOISE
    np.testing.assert_allclose(table["difference"][:2], gaps.mean(axis=1))
    np.testing.assert_allclose(table["se"][:2], gaps.std(axis=1, ddof=1) / np.sqrt(50))
    np.testing.assert_allclose(table["z"], table["difference"] / table["se"])


def test_failed_and_missing_datasets_are_no_pairs():
    holed = [p["on_average_kl"][:40].copy() for p in MORE.per_dataset]
    for column in holed:
        column[3] = np.nan
    found = tuple({"on_average_kl": c, "excess_risk": c} for c in holed)
    short = gdp.Report(MORE.rows, MORE.settings, per_dataset=found)
    row = gdp.compare([BASE, short]).table.iloc[0]
    gaps = np.delete(holed[0] - NOISE[0, :40], 3)
    assert row["difference"] == pytest.approx(gaps.mean())
    assert row["se"] == pytest.approx(gaps.std(ddof=1) / np.sqrt(39))


def test_other_keys_are_independent():
    table = gdp.compare([BASE, make(NOISE + 1, key=(0, 2))]).table
    assert not table["paired"].any()
    np.testing.assert_allclose(table["difference"], 1.0)
    np.testing.assert_allclose(table["se"][0], np.sqrt(2) * BASE["on_average_kl_se"][0])


def test_only_common_gammas_and_with_another_loss_only_kls():
    other = make(NOISE, gammas=(1.0, 10.0), loss="absolute")
    found = gdp.compare({"a": BASE, "b": other})
    assert list(found.table["gamma"]) == [1.0]
    assert list(found.table["quantity"]) == ["on_average_kl"]
    assert "'b' has another loss" in found.summary()


@pytest.mark.parametrize(
    ("reports", "message"),
    [
        ([BASE], "at least two"),
        ([BASE, {}], "'1' is a dict"),
        ([BASE, make(NOISE, n=20)], "n=10 and '1' n=20; gamma multiplies the total"),
        ([BASE, make(NOISE, gammas=(2.0, 3.0))], "share no gamma"),
    ],
)
def test_what_cannot_be_compared_is_refused(reports, message):
    with pytest.raises(ValueError, match=message):
        gdp.compare({str(i): report for i, report in enumerate(reports)})


def test_group_sizes_must_agree():
    other = gdp.Report(BASE.rows, {**BASE.settings, "group_size": 2})
    with pytest.raises(ValueError, match="different numbers of examples replaced"):
        gdp.compare([BASE, other])


def test_overlays_name_and_colour_every_report():
    axes = Figure().add_subplot()
    for report, name in ((BASE, "one"), (MORE, "two")):
        figure = report.plot(ax=axes, label=name)
    assert figure is axes.figure
    lines = {line.get_label(): line.get_color() for line in axes.lines}
    assert axes.get_ylabel() == "privacy (nats)"
    assert len(lines) == 4
    assert lines["one: on-average KL (direct)"] == lines["one: DP epsilon (worst case)"]
    assert lines["one: on-average KL (direct)"] != lines["two: on-average KL (direct)"]
    with pytest.raises(ValueError, match="pass ax="):
        BASE.plot(label="alone")


def test_the_picture_of_a_comparison_shows_z_scores():
    figure = gdp.compare({"base": BASE, "more": MORE}).plot("title")
    privacy, risk, *differences = figure.axes
    assert figure.get_suptitle() == "title"
    assert privacy.get_ylabel() == "privacy (nats)"
    assert risk.get_ylabel() == "excess risk (units of the loss)"
    table = gdp.compare({"base": BASE, "more": MORE}).table
    for axes, name in zip(differences, ("on_average_kl", "excess_risk"), strict=True):
        (line,) = [line for line in axes.lines if line.get_marker() == "o"]
        np.testing.assert_array_equal(line.get_ydata(), table[table["quantity"] == name]["z"])
    (legend,) = figure.legends
    texts = [text.get_text().strip() for text in legend.get_texts()]
    assert [text for text in texts if text] == [
        "base (baseline)",
        "more",
        "on-average KL (direct)",
        "DP epsilon (worst case)",
        "excess risk",
        "differences of equal ones: 95%",
    ]


def test_other_losses_have_no_risk_in_the_picture():
    figure = gdp.compare({"base": BASE, "other": make(NOISE, loss="hinge")}).plot()
    assert [axes.get_ylabel()[:7] for axes in figure.axes] == ["privacy", "differe"]


def test_six_reports_with_long_names_fit_in_their_picture():
    names = [f"report {i}, sampled with NUTS after a long warm-up of many steps" for i in range(6)]
    figure = gdp.compare({name: make(NOISE + 0.1 * i) for i, name in enumerate(names)}).plot()
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert figure.bbox.contains(*legend.get_window_extent().min)
    assert figure.bbox.contains(*legend.get_window_extent().max)
    lines = figure.axes[0].lines
    assert len({line.get_color() for line in lines}) == 6


@pytest.mark.trust
def test_audits_of_the_same_datasets_are_paired_and_survive_saving(tmp_path):
    """Two burn-ins on one population: the difference's truth is 0, and its error tiny."""
    reports = {}
    for name, warmup in (("short", 16), ("long", 23)):
        report = flat.audit(
            gaussian_mean(1),
            gaussian_examples(1),
            20,
            [1.0],
            num_datasets=256,
            num_warmup=warmup,
            **QUICK,
        )
        np.testing.assert_allclose(
            np.mean(report.per_dataset[0]["on_average_kl"]), report["on_average_kl"][0]
        )
        report.save(tmp_path / f"{name}.nc")
        reports[name] = gdp.load_report(tmp_path / f"{name}.nc")
        assert reports[name].columns == report.columns
    table = gdp.compare(reports).table.set_index("quantity")
    assert table["paired"].all()
    assert (table["z"].abs() < 4).all()  # six, dependent: a false alarm below 4 in 10,000
    independent = np.sqrt(2) * reports["short"]["population_risk_se"][0]
    assert table["se"]["population_risk"] < 0.2 * independent
