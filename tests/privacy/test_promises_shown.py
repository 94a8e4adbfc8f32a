"""What notebooks and prompts show of promises, ledgers and releases: no more than they hold."""

import sqlite3

import numpy as np
import pytest

import gibbs_dp as gdp
from gibbs_dp.privacy.chain_calibration import ChainCalibration
from gibbs_dp.privacy.releases.release import Release

POSTERIOR = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.box(-2.0, 2.0, 1)))
DOMAIN = gdp.Domain(x_bound=1.0, y_range=(-2.0, 2.0))
SETTINGS = {"n": 100, "adjacency": "replace-one", "domain": DOMAIN}


@pytest.fixture(scope="module")
def accountant():
    return gdp.privacy.account(POSTERIOR, gamma=1 / 32, num_draws=2, **SETTINGS)


@pytest.fixture(scope="module")
def guarantee(accountant):
    return accountant.guarantee(1e-6)


def test_guarantee_is_never_shown_without_what_it_rests_on(guarantee):
    assert repr(guarantee).startswith("Guarantee((")
    assert "1e-06)-DP, replace-one neighbours, 2 draws at gamma = 0.03125" in repr(guarantee)
    assert "exact draw, idealized, 2 assumptions, 1 caveat" in repr(guarantee)
    assert len(repr(guarantee)) < 200
    text = guarantee._repr_html_()
    assert "<strong>IDEALIZED</strong> of exact draws" in text
    for sentence in (*guarantee.assumptions, *guarantee.caveats):
        assert gdp.results.table.safe(sentence) in text
    assert f"{guarantee.zcdp:.6g}" in text
    close = guarantee.within_total_variation(1e-8)
    assert "IDEALIZED" not in close._repr_html_()
    assert "idealized" not in repr(close)
    assert "total variation of draws from exact ones" in close._repr_html_()


def test_a_guarantee_of_nothing_says_inf():
    none = gdp.Guarantee("add-remove", "chain", 1, 1.0, epsilon=float("inf"), delta=0.0)
    assert "(inf, 0)-DP" in repr(none)
    assert "(inf, 0)-DP" in none._repr_html_()


def test_accountant_shows_routes_and_what_is_missing(accountant):
    assert repr(accountant) == (
        "Accountant(2 exact draws at gamma = 0.03125, replace-one neighbours, "
        "routes: bounded range, convex)"
    )
    text = accountant._repr_html_()
    assert f">{accountant.pure():.6g}</td>" in text
    without = gdp.privacy.account(POSTERIOR, gamma=1.0, n=10, adjacency="replace-one")
    assert "routes: none" in repr(without)
    assert ">inf</td>" in without._repr_html_()


def test_calibrations_show_gamma_and_guarantee():
    found = gdp.calibrate(POSTERIOR, pure_epsilon=1.0, **SETTINGS)
    assert repr(found).startswith("Calibration(gamma=0.03125, Guarantee((1, 0)-DP")
    assert "gamma = 0.03125" in found._repr_html_()
    assert "IDEALIZED" in found._repr_html_()


def test_a_calibrated_chain_shows_its_run(guarantee):
    kernel = gdp.ULA(step_size=0.125, num_steps=77)
    found = ChainCalibration(kernel, 0.5, 0.25, guarantee)
    assert repr(found).startswith("ChainCalibration(gamma=0.5, ULA(step_size=0.125, num_steps=77")
    assert "inaccuracy 0.25" in found._repr_html_()
    assert guarantee._repr_html_() in found._repr_html_()


def test_a_release_shows_its_draws_and_nothing_computed_from_them(guarantee):
    theta = {"w": np.arange(6.0).reshape(2, 3) ** 2 + 0.125, "b": np.array([7.5, 8.5])}
    released = Release(theta, guarantee, 3)
    assert repr(released).startswith("Release(2 draws of 4 numbers, charge 3, Guarantee((")
    text = released._repr_html_()
    for value in (0.125, 1.125, 4.125, 9.125, 16.125, 25.125, 7.5, 8.5):
        assert f">{value:.6g}</td>" in text
    for word in ("mean", "sd", "ess", "r_hat", "R-hat", "accept", "5%"):
        assert word not in text.replace(guarantee._repr_html_(), "")
    assert guarantee._repr_html_() in text


def test_many_released_numbers_are_cut(guarantee):
    released = Release(np.zeros((50, 5000)), guarantee, 1)
    text = released._repr_html_()
    assert len(text) < 60_000
    assert "… and 4,980 more numbers" in text
    assert "42 further draws not shown" in text
    assert len(repr(released)) < 300


def test_ledger(tmp_path):
    path = tmp_path / "study.ledger"
    ledger = gdp.Ledger.create(path, adjacency="replace-one", epsilon=2.0, delta=1e-5)
    expected = f"Ledger({str(path)!r}, replace-one neighbours, budget epsilon 2, delta 1e-05)"
    assert repr(ledger) == expected
    assert "charge" not in ledger._repr_html_()
    ledger.charge(purpose="<b>a mean</b>", epsilon=0.5)
    text = ledger._repr_html_()
    assert "&lt;b&gt;a mean&lt;/b&gt;" in text
    assert all(f">{amount}</td>" in text for amount in ("2", "0.5", "1.5", "1e-05"))
    for i in range(45):
        ledger.charge(purpose=f"number {i}", epsilon=0.01)
    text = ledger._repr_html_()
    assert "a mean" not in text
    assert "number 44" in text
    assert "… and 6 more earlier charges" in text


def test_ledger_that_cannot_be_read_is_shown_as_such(tmp_path):
    path = tmp_path / "study.ledger"
    ledger = gdp.Ledger.create(path, adjacency="replace-one", zcdp=0.5)
    path.unlink()
    assert "<strong>UNREADABLE</strong>" in ledger._repr_html_()
    assert "budget zcdp 0.5" in repr(ledger)


def test_repr_of_a_ledger_does_not_wait_for_a_lock(tmp_path):
    path = tmp_path / "study.ledger"
    ledger = gdp.Ledger.create(path, adjacency="replace-one", zcdp=0.5)
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert "budget zcdp 0.5" in repr(ledger)
        other.execute("ROLLBACK")
    other.close()
