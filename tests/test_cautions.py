"""Every warning is declared, explained, and listed once."""

import importlib
import logging
import pkgutil
import string
import warnings

import jax
import numpy as np
import pytest

import gibbs_dp as gdp
from gibbs_dp._cautions import Caution, Warned, told_elsewhere, warns
from gibbs_dp.auditing.summary import CAUTIONS, explain_warnings, kind_of
from gibbs_dp.cli.main import main
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


# As Python's warnings.

BOX = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.box(-2.0, 2.0, 1)))


def draw(**more):
    data = (np.array([[0.5], [1.0]]), np.array([0.3, 1.2]))
    sizes = {"num_chains": 2, "num_samples": 8}
    return gdp.sample(BOX, data, gamma=1.0, sampler=gdp.HMC(), **sizes, **more)


def test_draws_warn_by_name_and_python_at_the_line_of_the_call():
    with pytest.warns(gdp.DrawsWarning, match=r"\[few-effective-draws\]$") as told:
        draws = draw()
    assert any(w.endswith("[few-effective-draws]") for w in draws.warnings)
    assert [str(w.message) for w in told] == list(draws.warnings)
    assert {w.category for w in told} == {gdp.DrawsWarning}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=gdp.AuditWarning)
        draw(key=1)
        warnings.filterwarnings("error", r".*\[few-effective-draws\]")
        with pytest.raises(gdp.DrawsWarning, match="few-effective-draws"):
            draw(key=1)


def population(key, n):
    return jax.numpy.ones((n, 1)), jax.random.normal(key, (n,))


def test_an_audit_warns_python_once_a_kind_and_a_file_and_the_command_line_do_not(tmp_path, capsys):
    lattice = gdp.Grid(low=-2.0, high=2.0, num_points=3)
    sizes = {"n": 5, "num_datasets": 4, "learn": [gdp.OnAverageKL()], "progress": False}
    with pytest.warns(gdp.AuditWarning) as told:
        report = gdp.audit(BOX, population, gammas=[8.0, 9.0], sampler=lattice, **sizes)
    coarse = [w for w in told if str(w.message).endswith("[lattice-too-coarse]")]
    assert [str(w.message) for w in coarse] == [
        f"(first of 2) {next(w for w in report.warnings if 'too-coarse' in w)}"
    ]
    assert coarse[0].category is gdp.DoNotUseWarning
    assert set(report.verdicts) == {"do not use"}
    report.save(tmp_path / "audit.nc")
    with warnings.catch_warnings():
        warnings.simplefilter("error", gdp.AuditWarning)
        gdp.load_report(tmp_path / "audit.nc")
        words = "sample gaussian-mean --n 5 --gamma 1 --num-chains 2 --num-samples 8"
        status = main([*words.split(), "--sampler", "hmc"])
    assert status == 0
    assert "WARNING  only " in capsys.readouterr().out


def test_what_calls_a_function_that_warns_tells_for_it():
    class Found:
        warnings = ("gamma=1: odd. [virial]", "gamma=2: odd. [virial]", "even. [interrupted]")

    inner = warns(kind_of)(Found)
    outer = warns(lambda _: gdp.DrawsWarning)(inner)
    with pytest.warns(gdp.AuditWarning) as told:
        outer()
    assert [str(w.message) for w in told] == [
        f"(first of 2) {Found.warnings[0]}",
        Found.warnings[2],
    ]
    assert {w.category for w in told} == {gdp.DrawsWarning}
    with pytest.warns(gdp.AuditWarning) as told:
        inner()
    assert [w.category for w in told] == [gdp.DoNotUseWarning, gdp.AuditWarning]
    with warnings.catch_warnings(), told_elsewhere():
        warnings.simplefilter("error")
        inner()


def test_stages_are_logged(caplog):
    from gibbs_dp._progress import Progress

    with caplog.at_level(logging.INFO, "gibbs_dp"), Progress(enabled=False) as progress:
        progress.stage("sampling", 2, "block")
        progress.stage("mutual information")
    assert caplog.messages == ["sampling 2 blocks", "mutual information"]
