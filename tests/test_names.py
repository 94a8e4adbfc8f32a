"""What public names may not do: hide a module, or call one thing by two names."""

import importlib
import inspect
import pkgutil
import types

import pytest

# Rooms whose names were brought up to this standard.
ROOMS = ("information", "exact", "privacy", "holdout", "papers.bayesian_dp")


def modules(room):
    package = importlib.import_module(f"gibbs_dp.{room}")
    names = [found.name for found in pkgutil.walk_packages(package.__path__, f"gibbs_dp.{room}.")]
    return [importlib.import_module(name) for name in names]


@pytest.mark.parametrize("room", ROOMS)
def test_no_module_is_hidden_by_what_its_package_exports(room):
    for module in modules(room):
        package, _, name = module.__name__.rpartition(".")
        assert getattr(importlib.import_module(package), name) is module


@pytest.mark.parametrize("room", ROOMS)
def test_privacy_losses_are_called_epsilon(room):
    for module in modules(room):
        for name, value in vars(module).items():
            if not isinstance(value, type | types.FunctionType) or name.startswith("_"):
                continue
            if value.__module__ != module.__name__:
                continue
            members = vars(value).values() if isinstance(value, type) else ()
            functions = [f for f in (value, *members) if isinstance(f, types.FunctionType)]
            words = {name, *getattr(value, "__annotations__", ())}
            words.update(p for f in functions for p in inspect.signature(f).parameters)
            assert not [w for w in words if "eps" in w.split("_")], f"{module.__name__}.{name}"
