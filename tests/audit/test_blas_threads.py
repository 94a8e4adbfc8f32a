"""BLAS's idle threads: none while an audit samples, and as many as before afterwards."""

import pytest
from problems import gaussian_examples, gaussian_mean
from threadpoolctl import threadpool_info, threadpool_limits

import gibbs_dp as gdp


def blas_threads():
    return {
        pool["filepath"]: pool["num_threads"]
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    }


@pytest.fixture(autouse=True)
def three_threads():
    with threadpool_limits(3, user_api="blas"):
        yield


def test_an_audit_has_one(monkeypatch):
    before, seen = blas_threads(), []
    choose = gdp.OnAverageKL.choose

    def watched(*given):
        seen.append(set(blas_threads().values()))
        return choose(*given)

    monkeypatch.setattr(gdp.OnAverageKL, "choose", watched)
    gdp.audit(gaussian_mean(1), gaussian_examples(1), 20, [1.0], num_datasets=32, progress=False)
    assert seen
    assert all(found == {1} for found in seen)
    assert blas_threads() == before
