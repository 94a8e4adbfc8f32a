"""Options that are read from signatures: against Python's own reading of them."""

import argparse
import dataclasses
import importlib
import inspect

import pytest

import gibbs_dp as gdp
from gibbs_dp import _source
from gibbs_dp._options import options_of, parameters
from gibbs_dp.cli import COMMANDS, samplers
from gibbs_dp.cli.extensions import Extensions
from gibbs_dp.cli.parser import Parser, add_options, given
from gibbs_dp.problems.registry import PROBLEMS

FUNCTIONS = (
    *("gibbs_dp:audit", "gibbs_dp:sample", "gibbs_dp:calibrate", "gibbs_dp:release"),
    *("gibbs_dp:Store", "gibbs_dp:Ledger.create", "gibbs_dp.privacy:calibrate_chain"),
    *("gibbs_dp.privacy:read_table", "gibbs_dp.papers.on_average_kl.figure2:figure2"),
    "gibbs_dp.papers.capacity.figures:run_capacity",
    "gibbs_dp.papers.on_average_kl.double_descent:double_descent",
    "gibbs_dp.papers.reusable_holdout.data:Sizes",
    *(entry.where for entry in PROBLEMS.values()),
    *samplers.SAMPLERS.values(),
)
TYPES = {int: "int", float: "float", str: "str", bool: "flag"}


def imported(where):
    module, _, path = where.partition(":")
    found = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found


@pytest.mark.parametrize("where", FUNCTIONS)
def test_defaults_and_kinds_are_those_of_the_function(where):
    signature = inspect.signature(imported(where)).parameters
    found = parameters(where)
    for name, option in found.items():
        default = signature[name].default
        assert option.is_required == (default is inspect.Parameter.empty)
        if isinstance(default, tuple(TYPES)):
            assert option.kind == TYPES[type(default)]
            assert option.shown == (f"{default:g}" if type(default) is float else str(default))
    plain = {n for n, p in signature.items() if isinstance(p.default, tuple(TYPES))}
    assert plain <= found.keys()


TOY = """
raise RuntimeError("this module is read and not imported")
from typing import Literal
from toy.names import Color, LIMIT
Schedule = Callable[[int], float]

class Base:
    '''A base.

    Parameters
    ----------
    rate, steps
        Step sizes. None: 0.5, or less; more.
    '''
    rate: float | Schedule | None = None
    steps: int = field(default=3, kw_only=True)

class Child(Base):
    '''A child.

    Parameters
    ----------
    rate
        As in `Base`.
    color
        Of the child; or of another. And more.

    Examples
    --------
    >>> None
    '''
    color: Color | None = None
    is_shown: bool = True
    hook: Schedule | None = None
    mode: Mode = "fast"
    sigma: Literal["auto"] | float = "auto"
    limits: int | Sequence[int] = (1, 7)
    limit: "int" = LIMIT
    tags: list[str] = field(default_factory=list)
    count: int = field(default=0, init=False)
"""
NAMES = """
from toy.names import LIMIT as LIMIT
from typing import Literal
Color = Literal["red", "blue"]
LIMIT, OTHER = 7, 8
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    folder = tmp_path / "toy"
    folder.mkdir()
    (folder / "kernels.py").write_text(TOY)
    (folder / "names.py").write_text(NAMES)
    _source._names.cache_clear()
    monkeypatch.setattr(_source, "ROOT", folder)
    yield parameters("toy.kernels:Child")
    _source._names.cache_clear()
    parameters.cache_clear()


def test_fields_are_read_without_importing(toy):
    names = ["rate", "steps", "color", "is_shown", "mode", "sigma", "limits", "limit", "tags"]
    assert list(toy) == names
    assert (toy["mode"].kind, toy["mode"].choices) == ("str", ())
    assert {option.text for option in toy.values()} == {
        "step sizes (default: 0.5, or less)",
        "step sizes (default 3)",
        "of the child",
        "",
        "(default auto)",
        "(default fast)",
        "(default: 1 7)",
        "(default 7)",
    }
    assert {n: o.choices for n, o in toy.items() if o.choices} == {
        "color": ("red", "blue"),
        "sigma": ("auto",),
    }
    assert [name for name, option in toy.items() if option.is_list] == ["limits", "tags"]
    parser = Parser()
    add_options(parser, toy.values(), "all")
    assert given(parser.parse_args([]), toy.values()) == {}
    words = ["--no-shown", "--sigma", "2", "--steps", "0", "--limits", "1", "2", "--color", "red"]
    assert given(parser.parse_args(words), toy.values()) == {
        **{"is_shown": False, "sigma": 2.0, "steps": 0, "limits": [1, 2], "color": "red"},
    }
    assert given(parser.parse_args(["--sigma", "auto"]), toy.values()) == {"sigma": "auto"}
    with pytest.raises(ValueError, match="--sigma: 'x' is not a number or 'auto'"):
        parser.parse_args(["--sigma", "x"])


def test_what_is_not_there_is_refused():
    for where in ("gibbs_dp:nothing", "gibbs_dp:privacy", "gibbs_dp.nowhere:audit"):
        with pytest.raises(ValueError, match=f"{where}: there is no such function"):
            parameters(where)
    with pytest.raises(KeyError):
        options_of("gibbs_dp:audit", nothing="at all")


def test_every_plain_field_of_every_kernel_is_an_option():
    flags = {option.keyword for option in samplers.SAMPLER}
    for where in samplers.SAMPLERS.values():
        # What moves SMC's particles is its own choice here.
        assert {f.name for f in dataclasses.fields(imported(where))} - {"kernel"} <= flags
    (accept,) = (o for o in samplers.SAMPLER if o.keyword == "target_accept")
    assert accept.text.startswith("hmc, mala, underdamped-langevin, adaptive-hmc: ")
    shown = "(default: hmc 0.8, mala 0.6, underdamped-langevin 0.9, adaptive-hmc 0.85)"
    assert accept.text.endswith(shown)


def test_a_new_kernel_is_one_line_of_the_table(monkeypatch):
    monkeypatch.setitem(samplers.SAMPLERS, "new", "gibbs_dp.sampling.kernels.langevin:ULA")
    options = samplers.sampler_options()
    parser = Parser()
    add_options(parser, options, "sampler")
    none = argparse.Namespace(extensions=Extensions())
    made = samplers.make_sampler(parser.parse_args(["--sampler", "new", "--clip", "2"], none))
    assert made == gdp.ULA(clip=2.0)
    foreign = argparse.Namespace(sampler="hmc", clip=2.0, extensions=Extensions())
    with pytest.raises(ValueError, match=r"--clip: hmc has no .* use --sampler sgld or ula or new"):
        samplers.make_sampler(foreign)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_can_be_shown(run, command):
    names = PROBLEMS if command in ("audit", "sample", "calibrate") else ()
    for words in [(command,), *((command, name) for name in names)]:
        ran = run(*words, "--help")
        assert ran.status == 0
        assert ran.out.startswith("usage: gibbs-dp")
        assert "(default None)" not in ran.out
