"""The lower end of a KL's interval is not below 0; heavy tails are told of all the same."""

import math

import flat
import jax
import pytest
from problems import QUICK, gaussian_mean

from gibbs_dp.quantities.on_average_kl import KLRow, kl_warnings


@pytest.mark.trust
def test_cauchy_examples():
    report = flat.audit(
        gaussian_mean(1),
        lambda key, n: jax.random.cauchy(key, (n, 1)),
        20,
        [1.0],
        num_datasets=128,
        **QUICK,
    )
    (row,) = report.rows
    assert row["on_average_kl"] - 1.96 * row["on_average_kl_se"] < 0 < row["on_average_kl"]
    assert row["on_average_kl_low"] == 0
    assert row["on_average_kl_high"] > row["on_average_kl"]
    assert any("interval is [0, " in w for w in report.warnings)


@pytest.mark.parametrize(("value", "shown"), [(2.0, "[0, 3]"), (-1.0, "[-9, 3]")])
def test_the_warning_compares_the_whole_reach(value, shown):
    row = KLRow(value, 1.0, -9.0, 3.0, math.nan, math.nan)
    (warning,) = kl_warnings(row, "one-sided")
    assert f"interval is {shown}, up to {value + 9:.1f} standard errors" in warning
