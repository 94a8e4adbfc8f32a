import importlib
import operator
import sys
from types import ModuleType

import pytest

import gibbs_dp as gdp

MODULES = (
    *("exact", "holdout", "information", "losses", "papers", "populations", "privacy"),
    *("priors", "problems", "random", "sklearn", "supports"),
)


def test_tab_shows_the_public_names_and_no_inner_room():
    shown = dir(gdp)
    assert shown == sorted(set(gdp.__all__))
    assert {n for n in shown if isinstance(getattr(gdp, n), ModuleType)} == set(MODULES)
    loaded = {n.split(".")[1] for n in sys.modules if n.startswith("gibbs_dp.")}
    assert {"io", "sampling", "estimators", "model"} <= loaded - set(shown)


def test_other_names_are_classes_functions_and_the_version():
    for name in set(gdp.__all__) - {*MODULES, "__version__", "DEFAULT"}:
        assert callable(getattr(gdp, name))
        assert getattr(gdp, name).__module__.startswith("gibbs_dp.")
    assert all(isinstance(quantity, gdp.Quantity) for quantity in gdp.DEFAULT)
    assert gdp.problems.build_problem("gaussian-mean").name == "gaussian-mean"


PAPERS = ("bayesian_dp", "capacity", "on_average_kl", "reusable_holdout")


@pytest.mark.parametrize("name", [*MODULES, *(f"papers.{name}" for name in PAPERS)])
def test_namespaces_import_from_where_they_are_said_to_be(name):
    """``from gibbs_dp.losses import Huber`` is the object that ``gdp.losses.Huber`` is."""
    module = importlib.import_module(f"gibbs_dp.{name}")
    assert module is operator.attrgetter(name)(gdp)
    public = [n for n in dir(module) if not n.startswith("_")]
    for inner in public:
        given = {}
        exec(f"from gibbs_dp.{name} import {inner} as found", given)
        assert given["found"] is getattr(module, inner)


@pytest.mark.parametrize("name", ["losses", "populations", "priors", "supports"])
def test_no_module_is_among_the_names_of_a_model(name):
    module = getattr(gdp, name)
    public = {n for n in dir(module) if not n.startswith("_")} - {"jaxtyping"}  # the checks' own
    assert public == set(module.__all__)
    assert not [n for n in public if isinstance(getattr(module, n), ModuleType)]
    assert not hasattr(gdp.losses, "pinball")
    with pytest.raises(TypeError, match="positional"):
        gdp.audit(None, None, 10, [1.0], 64)
