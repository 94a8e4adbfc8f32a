import pytest

from gibbs_dp.audit.workers import precision


@pytest.fixture
def float64():
    """Run the test in double precision."""
    with precision(True):
        yield
