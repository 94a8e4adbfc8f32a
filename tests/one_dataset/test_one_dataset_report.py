"""The report of one posterior: when it warns, and how it is shown."""

import json

import numpy as np
import pytest

import gibbs_dp as gdp


def normal_mean(z, chains=4, draws=500, seed=0):
    """Log-likelihoods of exact draws of a normal mean under a flat prior."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(z.mean(), z.size**-0.5, size=(chains, draws, 1))
    return -0.5 * (theta - z) ** 2


@pytest.fixture(scope="module")
def values():
    return normal_mean(np.random.default_rng(1).normal(size=30))


def kinds(report):
    return [text.rpartition("[")[2].rstrip("]") for text in report.warnings]


def test_a_sound_posterior_has_no_warning(values):
    assert gdp.audit_log_likelihood(values).warnings == ()


def test_weights_that_do_not_reach_are_told_with_names(values):
    """An example far outside: the posterior without it is ten deviations away."""
    z = np.random.default_rng(1).normal(size=30)
    z[3] = 60.0
    names = [f"p{i}" for i in range(30)]
    report = gdp.audit_log_likelihood(normal_mean(z), names=names)
    (told,) = [text for text in report.warnings if text.endswith("[high-k-hat]")]
    assert "k_hat is above 0.70 for 1 of 30 examples (p3)" in told
    assert report["num_high_k_hat"] == 1
    assert report.most_exposed(1).index.tolist() == ["p3"]


def test_chains_that_disagree_are_told(values):
    shifted = values + np.array([0.0, 0.0, 0.0, 3.0])[:, None, None] * values.std()
    assert "likelihood-r-hat" in kinds(gdp.audit_log_likelihood(shifted))


def test_few_effective_draws_are_told():
    """Every draw twenty times."""
    z = np.random.default_rng(2).normal(size=30)
    repeated = np.repeat(normal_mean(z, draws=15), 20, axis=1)
    report = gdp.audit_log_likelihood(repeated)
    (told,) = [
        text for text in report.warnings if text.endswith("[likelihood-few-effective-draws]")
    ]
    assert "effective draws of 1,200" in told
    assert report.settings["relative_efficiency"] < 0.2
    assert "likelihood-few-effective-draws" not in kinds(gdp.audit_log_likelihood(normal_mean(z)))


def test_routes_that_disagree_are_told():
    """One example in a twentieth of the draws is seven times less likely: not second order."""
    rng = np.random.default_rng(3)
    values = 0.01 * rng.normal(size=(4, 4000, 20))
    values[:, :, 0] -= 2.0 * (rng.random((4, 4000)) < 0.05)
    assert "shortcut-disagrees" in kinds(gdp.audit_log_likelihood(values))


def test_views(values):
    report = gdp.audit_log_likelihood(values, 0.5, names=[f"<b>{i}" for i in range(30)])
    assert len(report) == 30
    assert repr(report) == "OneDatasetReport(30 examples, gamma 0.5, 4 chains of 500 draws)"
    html = report._repr_html_()
    assert "<b>" not in html
    assert "&lt;b&gt;" in html
    assert "on-average KL (replace one)" in html
    row = json.loads(report.to_json())
    assert row["on_average_kl"] == report["on_average_kl"]
    assert row["gamma"] == 0.5
    data = report.to_xarray()
    assert data["exposure"].attrs["units"] == "nats"
    assert float(data["mean_advantage"]) == report["advantage"]
    assert "Monte Carlo error of: " in data["mean_advantage_mcse"].attrs["description"]
    with pytest.raises(KeyError, match="'nothing' is not in the report; it has on_average_kl, "):
        report["nothing"]
    with pytest.raises(ValueError, match="count: must be a positive whole number, got 0"):
        report.most_exposed(0)
    text = report.summary()
    by_waic = 0.25 * report["p_waic"] / 30
    assert f"gamma^2 p_waic / n is {by_waic:.4g}" in text
    assert "elpd_loo and p_loo are of the tempered posterior's predictions" in text
    assert "sensitive" in text


@pytest.mark.parametrize("spoil", [False, True])
def test_pictures_show_every_example(values, spoil):
    """Also those whose weights have no shape, or whose exposure is not above zero."""
    report = gdp.audit_log_likelihood(values)
    if spoil:
        report.examples["k_hat"][3] = np.inf
        report.examples["exposure"][4] = -0.1
    figure = report.plot("a title")
    lines = {line.get_label(): line.get_xdata() for axes in figure.axes for line in axes.lines}
    assert len(lines["each example, 95% Monte Carlo intervals"]) == 30 - spoil
    assert len(lines["k_hat"]) == 30 - spoil
    edges = {line.get_gid() for axes in figure.axes for line in axes.lines}
    assert ({"infinite", "not positive"} <= edges) == spoil
    assert figure.get_suptitle() == "a title"
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_examples_that_never_vary_are_not_exposed():
    """A constant log-likelihood: removing the example changes nothing."""
    values = normal_mean(np.random.default_rng(5).normal(size=10))
    values[:, :, 4] = -3.0
    frame = gdp.audit_log_likelihood(values).to_dataframe()
    assert frame["k_hat"][4] == 0.0
    for column in ("remove_one_kl", "add_one_kl", "remove_one_advantage", "p_waic", "p_loo"):
        assert abs(frame[column][4]) < 1e-12
    still = gdp.audit_log_likelihood(np.zeros((4, 100, 5)))
    assert still["on_average_kl"] == still["on_average_kl_se"] == 0.0
    assert still.warnings == ()
