import sys
from types import ModuleType

import gibbs_dp as gdp

MODULES = (
    *("adaptive", "capacity", "exact", "information", "losses", "populations", "privacy"),
    *("priors", "problems", "random", "sklearn", "supports"),
)


def test_tab_shows_the_public_names_and_no_inner_room():
    shown = dir(gdp)
    assert shown == sorted(set(gdp.__all__))
    assert {n for n in shown if isinstance(getattr(gdp, n), ModuleType)} == set(MODULES)
    loaded = {n.split(".")[1] for n in sys.modules if n.startswith("gibbs_dp.")}
    assert {"io", "sampling", "estimators", "model"} <= loaded - set(shown)


def test_other_names_are_classes_functions_and_the_version():
    for name in set(gdp.__all__) - {*MODULES, "__version__"}:
        assert callable(getattr(gdp, name))
        assert getattr(gdp, name).__module__.startswith("gibbs_dp.")
    assert gdp.problems.build_problem("gaussian-mean").name == "gaussian-mean"
