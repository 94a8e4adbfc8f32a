import pytest

from gibbs_dp.papers.on_average_kl.figure2 import linear_regression_figure2b_exact


def test_linear_regression_far_from_the_walls_is_that_on_the_line():
    for gamma in (1.0, 10.0, 100.0):
        found = linear_regression_figure2b_exact(gamma, 100, support=(-6.0, 6.0))
        exact = linear_regression_figure2b_exact(gamma, 100)
        assert found.on_average_kl == pytest.approx(exact.on_average_kl, rel=1e-10)
        assert found.excess_risk == pytest.approx(exact.excess_risk, rel=1e-10)
        assert found.on_average_kl_se < 1e-9 * found.on_average_kl
