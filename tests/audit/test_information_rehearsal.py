"""What is compiled beside the first block is what the comparison of datasets runs later."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from problems import gaussian_examples, gaussian_mean

import gibbs_dp as gdp
from gibbs_dp._jaxlib import compile as _compile
from gibbs_dp.estimators import table_sums
from gibbs_dp.quantities import dataset_comparison as comparison
from gibbs_dp.quantities import dataset_losses as tables
from gibbs_dp.quantities import mutual_information

PROGRAMS = {
    tables._look_at: ("posterior", "plan"),
    tables._quadratic_losses: ("posterior",),
    tables._point_losses: ("posterior",),
    tables._swap_terms: ("posterior",),
    table_sums._consistency_sums: (),
    table_sums._contrast_sums: (),
}


def compiled():
    """How often each of the comparison's programs has been compiled in this process."""
    return [
        _compile.program(f, static, jax.default_backend()).jitted._cache_size()
        for f, static in PROGRAMS.items()
    ]


@pytest.mark.trust
def test_the_comparison_finds_its_programs_compiled_and_a_second_audit_rehearses_nothing(
    monkeypatch,
):
    counts, looks = [], []
    compare, look_at = comparison.DatasetComparison.run, comparison.look_at

    def counted(self):
        counts.append(compiled())
        found = compare(self)
        counts.append(compiled())
        return found

    monkeypatch.setattr(comparison.DatasetComparison, "run", counted)
    monkeypatch.setattr(comparison, "look_at", lambda *a: looks.append(1) or look_at(*a))
    posterior = gaussian_mean(1)
    for key, expected in ((0, 2), (1, 3)):  # the rehearsal's and the comparison's; the latter's
        report = gdp.audit(
            posterior,
            gaussian_examples(1),
            8,
            [0.5],
            num_datasets=64,
            learn=[*gdp.DEFAULT, gdp.MutualInformation(64)],
            key=key,
            progress=False,
        )
        assert len(looks) == expected
        assert np.isfinite(report["mutual_information_lower"]).all()
    before, after = counts[:2]
    assert all(before)
    assert before == after


@pytest.mark.trust
def test_only_quadratic_losses_that_will_be_compared_are_rehearsed(monkeypatch):
    logistic = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(0.0, 1.0).expand([3]))
    assert not tables.has_statistics(logistic)
    begun = []
    monkeypatch.setattr(mutual_information, "Shared", lambda *a: begun.append(1))
    gdp.audit(
        gaussian_mean(1),
        gaussian_examples(1),
        20,
        [0.5],
        num_datasets=32,
        learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
        progress=False,
    )
    assert not begun
