import numpy as np

from gibbs_dp.estimators import average


def test_error_is_over_datasets_and_in_float64():
    values = (1e6 + np.arange(1000)).astype(np.float32)
    found = average(values)
    assert found.value == values.astype(np.float64).mean()
    assert np.isclose(found.se, np.arange(1000).std(ddof=1) / np.sqrt(1000), rtol=1e-6)


def test_dropped_datasets_do_not_count():
    found = average(np.array([1.0, np.nan, 3.0]), np.array([True, False, True]))
    assert (found.value, found.num_datasets) == (2.0, 2)


def test_too_few_datasets_have_no_error():
    assert np.isnan(average(np.array([1.0])).se)
    assert np.isnan(average(np.array([])).value)
