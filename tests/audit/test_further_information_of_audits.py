"""Further information in reports, against exact sums and closed forms.

Bounds hold within 4 standard errors, a false-alarm rate of 3e-5 a number.
"""

from types import SimpleNamespace
from unittest.mock import Mock

import jax
import numpy as np
import pytest
from problems import gaussian_examples, gaussian_mean
from scipy import integrate, stats

import gibbs_dp as gdp
from gibbs_dp.engine.view import GammaResult
from gibbs_dp.quantities.further_information import _conditional, check_names, gap_of_tail

NAMES = ("mutual", "alpha", "leakage", "tv", "conditional", "membership")
THETA, Z, PROBS = np.linspace(0.0, 1.0, 5), np.array([0.0, 0.5, 1.0]), np.array([0.5, 0.3, 0.2])
# Of the finite class at gamma 0.2, 1 and 3, enumerated.
TRUTH = {
    "alpha_information_2": (0.011113, 0.155986, 0.455580),
    "alpha_information_8": (0.041642, 0.369277, 0.778106),
    "leakage": (0.208701, 0.630805, 1.031130),
    "t_information": (0.03655, 0.14797, 0.28949),
    "conditional_information": (0.002806, 0.044720, 0.163150),
    "membership_advantage": (0.020127, 0.076633, 0.128835),
    "membership_auc": (0.514592, 0.554309, 0.590521),
}


@pytest.fixture(scope="module")
def finite():
    # A loss that knows its range: (theta - z)^2 / 2 at twice the gammas is the same posterior.
    posterior = gdp.GibbsPosterior(
        gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.box(-0.1, 1.1, 1))
    )
    return gdp.audit(
        posterior,
        gdp.populations.Finite(Z[:, None], PROBS),
        4,
        [0.4, 2.0, 6.0],
        num_datasets=256,
        sampler=gdp.Grid(THETA[:, None]),
        domain=gdp.Domain(x_bound=1.0),
        learn=[*gdp.DEFAULT, gdp.FurtherInformation()],
        progress=False,
    )


@pytest.mark.trust
def test_bounds_of_a_finite_class_are_on_their_sides(finite):
    for name, truth in TRUTH.items():
        for end, sign in (("lower", 1.0), ("upper", -1.0)):
            column = f"{name}_{end}"
            if column in finite.columns:
                error = finite[f"{column}_se"] if f"{column}_se" in finite.columns else 0.0
                beyond = sign * (finite[column] - np.array(truth))
                assert not (beyond > 4 * error).any(), column
    z = finite["jensen_shannon"] - np.array([0.000703, 0.011559, 0.045658])
    assert (np.abs(z) < 4 * finite["jensen_shannon_se"] + 1e-6).all()
    assert finite["leakage_upper_from"][2] == "log candidates"
    assert finite.warnings == ()


def test_generalization_is_within_every_bound(finite):
    gap = finite["generalization_error"] - 3 * finite["generalization_error_se"]
    bounds = [c for c in finite.columns if c.startswith("generalization_upper") and "_se" not in c]
    assert len(bounds) == 2 + 2 + 1 + 1 + 1 + 1
    for column in bounds:
        assert not (gap > finite[column]).any(), column
    for order in ("alpha_2", "alpha_8", "leakage"):
        seen = finite[f"generalization_tail_{order}"]
        assert (seen[~np.isnan(seen)] > finite["generalization_upper"][~np.isnan(seen)]).all()


@pytest.mark.trust
def test_a_gaussian_mean_has_its_closed_forms():
    report = gdp.audit(
        gaussian_mean(1),
        gaussian_examples(1),
        30,
        [1.0],
        num_datasets=256,
        learn=[
            gdp.OnAverageKL(),
            gdp.Risks(),
            gdp.WorstCase(),
            gdp.Attacker(),
            gdp.FurtherInformation(["alpha", "tv", "membership", "conditional"]),
        ],
        progress=False,
    )
    assert "mutual_information_lower" not in report.columns
    truths = {
        "alpha_information_2": 0.5 * np.log(3.0),  # log(1 + a between / within) / 2
        "alpha_information_8": 0.5 * np.log(9.0),
        "t_information": 0.3061,  # quadrature
        "membership_advantage": 0.041586,
    }
    for name, truth in truths.items():
        low, high = f"{name}_lower", f"{name}_upper"
        assert report[low][0] - 4 * report[f"{low}_se"][0] < truth, name
        if high in report.columns:
            assert report[high][0] + 4 * report[f"{high}_se"][0] > truth, name
    # The loss has no range, so that there are no bounds that need one.
    assert not [c for c in report.columns if c.startswith("generalization_upper")]
    assert report["conditional_information_upper"][0] > report["conditional_information_lower"][0]


@pytest.mark.trust
def test_dependent_examples_have_no_membership():
    posterior = gdp.GibbsPosterior(
        total_loss=lambda theta, z: jax.numpy.abs(jax.numpy.mean(z) - theta),
        prior=gdp.Flat(gdp.supports.box(-0.1, 1.1)),
    )
    report = gdp.audit(
        posterior,
        gdp.populations.Finite(Z, PROBS),
        4,
        [1.0],
        num_datasets=32,
        sampler=gdp.Grid(THETA),
        learn=[
            gdp.OnAverageKL(),
            gdp.Risks(),
            gdp.WorstCase(),
            gdp.Attacker(),
            gdp.FurtherInformation(["membership", "conditional"]),
        ],
        progress=False,
    )
    assert not [c for c in report.columns if c.startswith("membership")]
    assert [note for note in report.notes if note.startswith("membership is absent")]
    assert report["conditional_information_upper"][0] > 0


@pytest.mark.trust
def test_nothing_asked_for_is_nothing_found():
    report = gdp.audit(
        gaussian_mean(1),
        gaussian_examples(1),
        20,
        [0.5],
        num_datasets=32,
        learn=[gdp.OnAverageKL(), gdp.Risks(), gdp.WorstCase(), gdp.Attacker()],
        progress=False,
    )
    assert "num_information" not in report.settings
    assert not [c for c in report.columns if "information" in c]


@pytest.mark.parametrize(
    ("names", "said"), [(("alpa",), "'alpa' is not 'alpha'"), ("alpha", "give a list of names")]
)
def test_wrong_names_are_refused(names, said):
    with pytest.raises(ValueError, match=f"names: .*{said}"):
        check_names(names)


@pytest.mark.parametrize("alpha", [1.5, 2.0, np.inf])
def test_a_gap_of_the_tail_has_its_probability(alpha):
    """Esposito, Gastpar & Issa 2021: the tail bound of a subgaussian loss is delta there."""
    gap = gap_of_tail(0.3, 40, 0.6, alpha, 0.02)
    share = 1.0 if np.isinf(alpha) else (alpha - 1) / alpha
    assert np.exp(share * (0.3 + np.log(2) - 40 * gap**2 / (2 * 0.6**2))) == pytest.approx(0.02)


@pytest.mark.parametrize("mu", [0.02, 0.5])
def test_a_coin_is_told_by_no_more_than_a_quarter_of_the_divergence(mu):
    """Two normals, one for each side of the coin: by quadrature, and all but attained if close."""
    settings = SimpleNamespace(
        n=10, group_size=1, is_exact=False, population=SimpleNamespace(is_dependent=False)
    )
    row = {"on_average_kl": 0.5 * mu**2, "on_average_kl_se": 0.0}
    found = _conditional(Mock(GammaResult, settings=settings), row, None, None)

    def integrand(x):
        return stats.norm.pdf(x) * (np.log(2.0) - np.logaddexp(0.0, mu * x - 0.5 * mu**2))

    told = 10 * integrate.quad(integrand, -12.0, 12.0)[0]
    assert told <= found["conditional_information_upper"] < told * (1 + mu**2)
