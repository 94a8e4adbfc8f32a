import numpy as np
import pytest

import gibbs_dp as gdp
from gibbs_dp.papers.on_average_kl import figure2


def test_version_and_help(run, capsys):
    assert run("--version").out.strip() == f"gibbs-dp {gdp.__version__}"
    assert "audit" in run("--help").out
    assert "linear-regression" in run("audit", "--help").out
    helped = run("audit", "gaussian-mean", "--help").out
    assert "--data-scale" in helped
    assert "--theta-bound" not in helped


@pytest.mark.trust
def test_figure2_prints_z_scores_and_saves_both_panels(run, tmp_path):
    words = ("figure2", "--num-datasets", 256, "--gammas", 1, 10, "--out", tmp_path)
    ran = run(*words, "--json")
    assert ran.status == 0
    assert [row["gamma"] for row in ran.rows] == [1, 10, 1, 10]
    assert {row["panel"] for row in ran.rows} == {"private mean", "linear regression"}
    assert max(abs(row["z"]) for row in ran.rows) < 5
    assert max(abs(row["z_excess_risk"]) for row in ran.rows if "z_excess_risk" in row) < 5
    names = {
        "figure2.png",
        "figure2.svg",
        "figure2_private_mean.nc",
        "figure2_linear_regression.nc",
    }
    assert {p.name for p in tmp_path.iterdir()} == names
    panel = gdp.load_report(tmp_path / "figure2_private_mean.nc")
    np.testing.assert_allclose(panel["dp_epsilon"], 4 * panel["gamma"] / 100)


def test_figure2_has_two_gammas_a_decade_and_refuses_other_panels():
    for gammas in figure2.GAMMAS.values():
        ratios = np.diff(np.log10(gammas))
        assert (ratios > 0.45).all()
        assert (ratios < 0.55).all()
    message = "gammas: panels are 'private mean' and 'linear regression'; .* got .'a'"
    with pytest.raises(ValueError, match=message):
        figure2.figure2(gammas={"a": (1.0,)})


@pytest.mark.trust
def test_sample_writes_draws_and_prints_diagnostics(run, tmp_path):
    words = ("sample", "gaussian-mean", "--dim", 2, "--gamma", 1, "--n", 50, "--num-samples", 100)
    ran = run(*words, "--json", "--out", tmp_path)
    assert ran.status == 0
    assert [row["parameter"] for row in ran.rows] == ["theta[0]", "theta[1]"]
    draws = gdp.load_draws(tmp_path / "draws.nc")
    assert draws.theta.shape == (4, 100, 2)
    means = [row["mean"] for row in ran.rows]
    np.testing.assert_allclose(draws.theta.mean(axis=(0, 1)), means, rtol=1e-5)
    sd = [row["sd"] for row in ran.rows]
    np.testing.assert_allclose(sd, 50**-0.5, rtol=0.25)


@pytest.mark.trust
def test_sample_takes_all_rows_of_a_table(run, tmp_path):
    pytest.importorskip("sklearn")
    ran = run("sample", "breast-cancer", "--gamma", 0.1, "--num-samples", 50, "--out", tmp_path)
    assert ran.status == 0
    assert "r_hat" in ran.out
    assert gdp.load_draws(tmp_path / "draws.nc").settings["rows"] == 569
