"""Every warning is declared, explained, and listed once."""

import importlib
import pkgutil
import string

import numpy as np
import pytest

import gibbs_dp as gdp
from gibbs_dp._cautions import Caution, Warned
from gibbs_dp.auditing.explain import CAUTIONS, explain_warnings
from gibbs_dp.papers.attack import trial
from gibbs_dp.papers.capacity import on_average as capacity

EXPLAINED = [caution for group in CAUTIONS.values() for caution in group]
OF_PAPERS = trial.CAUTIONS | capacity.CAUTIONS
LISTED = [*EXPLAINED, *(caution for group in OF_PAPERS.values() for caution in group)]


def declared():
    """All cautions of all modules."""
    found = {}
    for info in pkgutil.walk_packages(gdp.__path__, "gibbs_dp."):
        for value in vars(importlib.import_module(info.name)).values():
            if isinstance(value, Caution):
                found[id(value)] = value
    return list(found.values())


def test_all_are_listed_once():
    assert sorted(c.name for c in declared()) == sorted(c.name for c in LISTED)
    assert len({c.name for c in LISTED}) == len(LISTED)


@pytest.mark.parametrize("caution", LISTED, ids=lambda c: c.name)
def test_they_are_sentences_with_something_to_do(caution):
    assert caution.text.endswith(".")
    assert caution.meaning.endswith(".")
    assert caution.meaning[0].isupper()
    assert caution.remedy.endswith(".")
    assert caution.remedy[0].isupper()
    gaps = [name for _, name, _, _ in string.Formatter().parse(caution.text) if name is not None]
    assert caution.example.count("...") >= len(gaps)
    assert (f"[{caution.name}]" in explain_warnings()) == (caution in EXPLAINED)


def test_a_warning_names_its_kind_and_is_a_string():
    told = Caution("cold", "only {degrees:.0f} degrees.", "Cold.", "Heat.")(degrees=3.2)
    assert isinstance(told, Warned)
    assert told == "only 3 degrees. [cold]"
    with pytest.raises(KeyError, match="degrees"):
        Caution("cold", "only {degrees} degrees.", "Cold.", "Heat.")()


def test_draws_warn_by_name():
    posterior = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.box(-2.0, 2.0, 1)))
    data = (np.array([[0.5], [1.0]]), np.array([0.3, 1.2]))
    draws = gdp.sample(posterior, data, gamma=1.0, sampler=gdp.HMC(), num_chains=2, num_samples=8)
    assert any(w.endswith("[few-effective-draws]") for w in draws.warnings)
