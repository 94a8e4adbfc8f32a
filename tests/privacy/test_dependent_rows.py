"""Bayesian DP of Gibbs posteriors on dependent rows, against enumeration of all adversaries."""

import math

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp.holdout import DeclaredRows
from gibbs_dp.papers.bayesian_dp import BayesianNetwork, MarkovChain, MarkovNetwork, quilt_profile
from gibbs_dp.papers.bayesian_dp.row_law import exact_bdp_leakage
from gibbs_dp.privacy import account, explain
from gibbs_dp.privacy.accountant import rows
from gibbs_dp.privacy.calibrate import Target, calibrate_gamma

POSTERIOR = gdp.GibbsPosterior(gdp.losses.linear, gdp.Flat(gdp.supports.box(-1.0, 1.0, 1)))
DOMAIN = gdp.Domain(x_bound=1.0, y_range=(-1.0, 1.0))
GIVEN = {"adjacency": "replace-one", "domain": DOMAIN}
STICKY = MarkovChain([[0.9, 0.1], [0.2, 0.8]], 5)
# Every row taken for independent: what is wrong where rows depend on each other.
IGNORED = DeclaredRows(lambda n, tau: -math.inf, lambda n, epsilon: epsilon)


def posterior_table(n, gamma, points=41):
    """``P(theta | x)`` on a finite class of the interval, by the posterior's own density."""
    theta = jnp.linspace(-1.0, 1.0, points)[:, None]
    shape = (2,) * n
    table = np.empty((*shape, points))
    for x in np.ndindex(shape):
        data = (jnp.ones((n, 1)), jnp.asarray(x, jnp.float32) * 2 - 1)
        log = jax.vmap(lambda t, data=data: POSTERIOR.log_density(t, data, gamma))(theta)
        weights = np.exp(np.asarray(log, np.float64) - float(log.max()))
        table[x] = weights / weights.sum()
    return table


def collider():
    tables = {0: [0.3, 0.7], 1: [0.6, 0.4], 3: [[0.9, 0.1], [0.3, 0.7]]}
    tables[2] = [[[0.9, 0.1], [0.4, 0.6]], [[0.5, 0.5], [0.1, 0.9]]]
    graph = nx.DiGraph()
    graph.add_nodes_from(range(4))
    graph.add_edges_from([(0, 2), (1, 2), (2, 3)])
    return BayesianNetwork(graph, tables)


LAWS = {
    "slow chain": STICKY,
    "fast chain": MarkovChain([[0.55, 0.45], [0.4, 0.6]], 6),
    "chain that starts elsewhere": MarkovChain([[0.95, 0.05], [0.05, 0.95]], 4, [0.8, 0.2]),
    "network": collider(),
    "markov network": MarkovNetwork.ising(nx.cycle_graph(5), 0.6, 0.2),
    "2x3 grid": MarkovNetwork.ising(nx.grid_2d_graph(2, 3), 0.3),
}


@pytest.mark.trust(but=["0.02-network", "1.0-slow chain", *(f"0.2-{name}" for name in LAWS)])
@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("gamma", [0.02, 0.2, 1.0])
def test_the_posterior_leaks_no_more_than_the_accountant_says(name, gamma):
    rows = LAWS[name]
    found = account(POSTERIOR, gamma=gamma, n=rows.length, rows=rows, **GIVEN)
    leaks = exact_bdp_leakage(posterior_table(rows.length, gamma), rows.joint())
    assert leaks <= found.bayesian() * (1 + 1e-5)  # the densities are float32
    assert found.pure() <= found.bayesian() <= rows.length * found.pure() * (1 + 1e-12)
    assert found.guarantee().bayesian_epsilon == found.bayesian()


@pytest.mark.parametrize("name", ["network", "markov network", "2x3 grid"])
def test_the_bound_for_networks_of_any_size_is_above_the_leak(name):
    rows, gamma = LAWS[name], 0.2
    pure = account(POSTERIOR, gamma=gamma, n=rows.length, **GIVEN).pure()
    bound = quilt_profile(rows, form="contraction").bdp_epsilon(pure)
    leak = exact_bdp_leakage(posterior_table(rows.length, gamma), rows.joint())
    assert pure < leak <= bound * (1 + 1e-5)


def test_networks_of_hundreds_of_rows_have_a_bayesian_epsilon():
    rows = MarkovNetwork.ising(nx.balanced_tree(2, 7), 0.1)
    found = account(POSTERIOR, gamma=0.001, n=255, rows=rows, **GIVEN)
    assert found.pure() < found.bayesian() < 0.1 * 255 * found.pure()
    assert "MarkovNetwork of 255 rows" in repr(found)
    target = calibrate_gamma(POSTERIOR, Target(bayesian_epsilon=0.5), n=255, rows=rows, **GIVEN)
    assert target.guarantee.bayesian_epsilon == pytest.approx(0.5)


def test_an_accountant_that_ignores_dependence_is_caught():
    """Rows that stick together: the leak is twice the epsilon of independent rows, and more."""
    rows, gamma = LAWS["chain that starts elsewhere"], 0.2
    table = posterior_table(4, gamma)
    ignored = account(POSTERIOR, gamma=gamma, n=4, rows=IGNORED, **GIVEN).bayesian()
    assert ignored == pytest.approx(4 * gamma)
    assert exact_bdp_leakage(table, rows.joint()) > 1.5 * ignored
    assert exact_bdp_leakage(table, np.full((2,) * 4, 2.0**-4)) <= ignored * (1 + 1e-5)


def test_several_draws_are_one_release_of_their_sum():
    rows, gamma = STICKY, 0.1
    one = posterior_table(5, gamma, points=5)
    pair = (one[..., :, None] * one[..., None, :]).reshape(*one.shape[:-1], -1)
    found = account(POSTERIOR, gamma=gamma, n=5, num_draws=2, rows=rows, **GIVEN)
    assert found.bayesian() == gdp.papers.bayesian_dp.bdp_epsilon(2 * 4 * gamma, rows)
    assert exact_bdp_leakage(pair, rows.joint()) <= found.bayesian() * (1 + 1e-5)


@pytest.mark.trust
def test_calibration_and_release_meet_a_bayesian_target(tmp_path):
    found = calibrate_gamma(POSTERIOR, Target(bayesian_epsilon=0.5), n=5, rows=STICKY, **GIVEN)
    assert 0.5 * (1 - 1e-10) < found.guarantee.bayesian_epsilon <= 0.5
    assert found.guarantee.pure_epsilon < 0.5
    assert gdp.calibrate(POSTERIOR, bayesian_epsilon=0.5, n=5, rows=STICKY, **GIVEN) == found
    plain = gdp.calibrate(POSTERIOR, pure_epsilon=0.5, n=5, rows=STICKY, **GIVEN)
    assert plain.guarantee.pure_epsilon == pytest.approx(0.5)
    assert plain.guarantee.bayesian_epsilon > 0.5  # the target is DP, and it says what more leaks
    ledger = gdp.Ledger.create(tmp_path / "ledger", epsilon=1.0, adjacency="replace-one")
    released = gdp.release(
        POSTERIOR,
        (np.ones((5, 1)), np.array([1.0, 1.0, -1.0, 1.0, 1.0])),
        ledger=ledger,
        bayesian_epsilon=0.5,
        rows=STICKY,
        accept=["exact-draw", "float-arithmetic"],
        **GIVEN,
    )
    assert released.guarantee.bayesian_epsilon == found.guarantee.bayesian_epsilon
    assert ledger.left()["epsilon"] == pytest.approx(1 - found.guarantee.pure_epsilon)


def test_what_is_only_dp_is_said_so():
    with_rows = account(POSTERIOR, gamma=0.2, n=5, rows=STICKY, **GIVEN)
    without = account(POSTERIOR, gamma=0.2, n=5, **GIVEN)
    told = with_rows.guarantee(1e-6)
    assert told.gdp == without.guarantee(1e-6).gdp
    assert "MarkovChain of 5 rows" in "".join(told.assumptions)
    assert any("no other figure has a Bayesian counterpart" in c for c in told.caveats)
    assert f"{told.bayesian_epsilon:.6g}-Bayesian DP of dependent rows" in repr(told)
    assert told.to_dict()["bayesian_epsilon"] == told.bayesian_epsilon
    shown = explain(with_rows)
    assert f"Bayesian DP, eps         {told.bayesian_epsilon:.9g}" in shown
    assert "no other figure has a Bayesian counterpart" in shown
    assert "dependent rows:" in with_rows._repr_html_()
    assert "MarkovChain of 5 rows" in repr(with_rows)
    assert without.guarantee().bayesian_epsilon is None
    for text in (explain(without), repr(without), without._repr_html_(), str(without.guarantee())):
        assert "Bayesian" not in text
        assert "dependent rows" not in text
    with pytest.raises(ValueError, match="rows: no law of dependent rows was declared"):
        without.bayesian()


def test_without_pure_dp_there_is_none_and_the_reason():
    posterior = gdp.GibbsPosterior(gdp.losses.linear, dist.Normal(jnp.zeros(1), 1.0))
    found = account(posterior, gamma=0.2, n=5, rows=STICKY, **GIVEN)
    assert found.bayesian() == math.inf
    told = found.guarantee(1e-6)
    assert told.bayesian_epsilon == math.inf
    assert told.to_dict()["bayesian_epsilon"] == "inf"
    assert any("follows from pure DP, which this release does not have" in c for c in told.caveats)
    assert not any(a.startswith("Bayesian") for a in told.assumptions)
    assert "no: Bayesian DP: none" in rows(found)[-1].because
    with pytest.raises(ValueError, match="no guarantee of bayesian_epsilon"):
        calibrate_gamma(posterior, Target(bayesian_epsilon=0.5), n=5, rows=STICKY, **GIVEN)
    near = account(POSTERIOR, gamma=0.2, n=5, rows=STICKY, **GIVEN).guarantee()
    near = near.within_total_variation(1e-6)
    assert near.bayesian_epsilon == math.inf
    assert sum("Bayesian DP: none" in c for c in near.caveats) == 1
    assert not any(text.startswith("Bayesian") for text in near.assumptions)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"rows": 3.0},
            "rows: give a law of the rows, such as a gibbs_dp.papers.bayesian_dp.MarkovChain",
        ),
        ({"rows": MarkovChain}, "got the class MarkovChain"),
        ({"n": 6}, "rows: the chain has 5 rows and the dataset 6"),
        ({"n": 6, "rows": collider()}, "rows: the network has 4 rows and the dataset 6"),
        ({"adjacency": "add-remove"}, "adjacency: Bayesian DP of dependent rows is for replace-on"),
        ({"rows": DeclaredRows(lambda n, t: 0.0, lambda n, e: math.nan)}, "must be a number >= 0"),
    ],
)
def test_refusals(change, message):
    with pytest.raises(ValueError, match=message):
        account(POSTERIOR, gamma=0.2, **({"n": 5, "rows": STICKY} | GIVEN | change))


def test_targets_and_rows_belong_together():
    with pytest.raises(ValueError, match="rows: a target bayesian_epsilon is for a declared law"):
        gdp.calibrate(POSTERIOR, bayesian_epsilon=0.5, n=5, **GIVEN)
    with pytest.raises(ValueError, match="rows: for a worst-case target only"):
        gdp.calibrate(POSTERIOR, on_average_kl=0.1, n=5, rows=STICKY)
