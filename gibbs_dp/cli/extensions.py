"""``--with FILE``: whatever of the user's own file joins: kernels, losses, release methods ..."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import re
import sys
import traceback
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from gibbs_dp._options import Option, parameters
from gibbs_dp._source import add_own
from gibbs_dp.cli.options import LEARN, RELEASE, SAMPLE, with_dashes
from gibbs_dp.cli.output import UsageError, one_line
from gibbs_dp.cli.parser import missing_file
from gibbs_dp.problems.registry import PROBLEMS, Entry

if TYPE_CHECKING:
    from gibbs_dp.engine.quantity import Quantity
    from gibbs_dp.model.losses import Loss
    from gibbs_dp.problems.base import Problem

WITH = Option(
    "with",
    "str",
    "your own Python file, which is run (repeatable): its kernels, samplers, quantities, losses, "
    "problems and release methods join those that there are, also in this help",
    is_repeatable=True,
    metavar="FILE",
)
LOSS = "loss"
JOINS = (
    "subclasses of gibbs_dp.Kernel, gibbs_dp.Sampler, gibbs_dp.Quantity, gibbs_dp.losses.Loss or "
    "gibbs_dp.privacy.ReleaseMethod, objects of gibbs_dp.problems.Problem, and functions annotated "
    "to return one"
)


@dataclass(frozen=True)
class ExtensionProblem(Entry):
    """A user's problem: a function, or an object if ``made`` is one."""

    made: Problem | None = None

    @property
    def where(self) -> str:
        """Module and name of the function."""
        return f"{self.module}:{self.function}"

    @property
    def options(self) -> tuple[Option, ...]:
        """The function's parameters; none of an object."""
        return tuple(parameters(self.where).values()) if self.made is None else ()


@dataclass(frozen=True)
class Extensions:
    """Definitions of users' files, by the names that a command line has for them."""

    modules: tuple[ModuleType, ...] = ()
    samplers: dict[str, type] = field(default_factory=dict)
    quantities: dict[str, type[Quantity]] = field(default_factory=dict)
    losses: dict[str, Loss] = field(default_factory=dict)
    problems: dict[str, ExtensionProblem] = field(default_factory=dict)
    methods: dict[str, type] = field(default_factory=dict)

    @property
    def sampler_paths(self) -> dict[str, str]:
        """Modules and names of the samplers, by name."""
        return {name: _where(kind) for name, kind in self.samplers.items()}

    @property
    def method_paths(self) -> dict[str, str]:
        """Modules and names of the release methods, by name."""
        return {name: _where(kind) for name, kind in self.methods.items()}

    @property
    def all_problems(self) -> dict[str, Entry]:
        """Built-in problems, of a table with all losses, and one's own."""
        if not self.losses:
            return PROBLEMS | self.problems
        table = PROBLEMS["table"]
        (loss,) = (option for option in table.options if option.keyword == LOSS)
        shown = {LOSS: {"help": loss.help, "choices": (*loss.choices, *self.losses)}}
        return PROBLEMS | {"table": replace(table, help={**table.help, **shown})} | self.problems

    def quantity_options(self) -> tuple[Option, ...]:
        """Return an option for each setting of a quantity."""
        found = {}
        for kind in self.quantities.values():
            for option in parameters(_where(kind)).values():
                if option.keyword in found:
                    raise UsageError(
                        f"{WITH.flag}: two quantities have a setting {option.keyword!r}; rename "
                        "one."
                    )
                found[option.keyword] = option
        return tuple(found.values())

    def learnt(self, given: Mapping[str, Any]) -> list[Quantity]:
        """Make the quantities, with the settings that were given."""
        made = []
        for kind in self.quantities.values():
            own = {name: given[name] for name in parameters(_where(kind)) if name in given}
            try:
                made.append(kind(**own))
            except TypeError as error:
                raise UsageError(
                    f"{WITH.flag}: {kind.__name__} cannot be made of the command line ({error}); "
                    "give its settings defaults."
                ) from error
        return made

    def groups(
        self, groups: Mapping[str, Iterable[Option]], sampler: Iterable[Option]
    ) -> dict[str, Sequence[Option]]:
        """Return a command's options with those of what joined; ``sampler``: of how to sample."""
        found = {title: tuple(options) for title, options in groups.items()}
        if not self.modules:
            return dict(found)
        if SAMPLE in found:
            found[SAMPLE] = tuple(sampler)
        if LEARN in found:
            found[LEARN] += self.quantity_options()
        of_problems = {o.flag: o for p in self.all_problems.values() for o in p.options}
        check_flags((*of_problems.values(), *(o for some in found.values() for o in some)))
        return dict(found)

    def check_use(self, command: str, titles: Iterable[str]) -> None:
        """Refuse files of which a command with options of these titles has no use."""
        useful: list[Any] = [self.losses, self.problems]
        if RELEASE in titles:
            useful = [self.methods, [o for o in self.losses.values() if o.labels == "numbers"]]
        useful += [self.samplers] * (SAMPLE in titles) + [self.quantities] * (LEARN in titles)
        if self.modules and not any(useful):
            names = [*self.samplers, *self.quantities, *self.problems, *self.methods]
            names += self.losses
            raise UsageError(
                f"{WITH.flag}: 'gibbs-dp {command}' has no use for what is defined there "
                f"({', '.join(names)}); leave it out."
            )

    def listing(self) -> str:
        """Say in a line each what joined, for the help."""
        lines = [("--sampler", name, _first(kind)) for name, kind in self.samplers.items()]
        lines += [
            ("column", column.name, column.meaning)
            for kind in self.quantities.values()
            for column in kind.columns
        ]
        lines += [("--loss", name, _first(type(loss))) for name, loss in self.losses.items()]
        lines += [("problem", name, entry.summary) for name, entry in self.problems.items()]
        lines += [("--method", name, _first(kind)) for name, kind in self.methods.items()]
        width = max((len(name) for _, name, _ in lines), default=0)
        told = "\n".join(f"  {kind:<10} {name:<{width}}  {text}" for kind, name, text in lines)
        return f"joined by {WITH.flag}:\n{told}\n\n" if lines else ""


def check_flags(options: Iterable[Option]) -> None:
    """Raise a UsageError if two options have one name: the later one is a user's own."""
    seen: set[str] = set()
    for option in options:
        if option.flag in seen:
            raise UsageError(
                f"{WITH.flag}: there is an option {option.flag} already; rename the setting "
                f"{option.keyword!r} of your own."
            )
        seen.add(option.flag)


def _where(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _first(value: Any) -> str:
    """First line of a docstring of its own; not the signature that a dataclass has for one."""
    text = (vars(value).get("__doc__") if isinstance(value, type) else value.__doc__) or ""
    line = text.strip().partition("\n")[0]
    return "" if line.startswith(f"{value.__name__}(") else line


def files_of(arguments: Sequence[str]) -> list[str]:
    """Return the files that a command line names after ``--with``."""
    found = []
    for i, word in enumerate(arguments):
        flag, has_value, value = word.partition("=")
        if flag == WITH.flag and has_value:
            found.append(value)
        elif flag == WITH.flag and i + 1 < len(arguments) and arguments[i + 1][:2] != "--":
            found.append(arguments[i + 1])
    return found


def load_extensions(files: Sequence[str], *, is_double: bool = False) -> Extensions:
    """Run users' files, and find what they define."""
    if files and is_double:
        import jax

        jax.config.update("jax_enable_x64", True)
    own = Extensions(modules=tuple(_run(Path(file)) for file in dict.fromkeys(files)))
    for module in own.modules:
        if not _collect(own, module):
            raise UsageError(f"{WITH.flag}: {module.__file__} defines nothing that joins: {JOINS}.")
    return own


def _run(path: Path) -> ModuleType:
    """Import a file under a name of its own content; dataclasses look for it by that."""
    if not path.is_file():
        raise UsageError(missing_file(WITH.flag, str(path)))
    path = path.resolve()
    content = path.read_bytes()
    digest = hashlib.sha256(str(path).encode() + content).hexdigest()[:8]
    name = re.sub(r"\W", "_", path.stem) + f"_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if path.suffix != ".py" or spec is None or spec.loader is None:
        raise UsageError(
            f"{WITH.flag}: {path.name!r} is no Python file; give one that ends in .py."
        )
    module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:  # files beside it, as of a script
        sys.path.append(str(path.parent))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        line = _line(error, path)
        raise UsageError(
            f"{WITH.flag}: {path.name} failed{f' at line {line}' if line else ''} "
            f"({type(error).__name__}: {one_line(error)}); mend it, or see the whole traceback "
            "with --debug."
        ) from error
    add_own(name, path)
    return module


def _line(error: Exception, path: Path) -> int | None:
    """Return the line of a file at which an error was raised."""
    if isinstance(error, SyntaxError):
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    return next((f.lineno for f in reversed(frames) if f.filename == str(path)), None)


def _collect(own: Extensions, module: ModuleType) -> int:
    """Put what a module defines with the rest; return how many things."""
    from gibbs_dp.cli.samplers import SAMPLERS, release_methods
    from gibbs_dp.engine.quantity import Quantity
    from gibbs_dp.model import losses
    from gibbs_dp.model.losses import Loss
    from gibbs_dp.privacy import ReleaseMethod
    from gibbs_dp.problems.base import Problem
    from gibbs_dp.sampling.kernels import Kernel, Unadjusted
    from gibbs_dp.sampling.sampler import Sampler

    (loss_option,) = (o for o in PROBLEMS["table"].options if o.keyword == LOSS)
    count = 0

    def join(where: dict[str, Any], name: str, value: Any, known: Iterable[str]) -> None:
        nonlocal count
        if name in where or name in known:
            raise UsageError(
                f"{WITH.flag}: {name!r} of {Path(module.__file__ or '').name} is the name of "
                "another; rename yours."
            )
        where[name] = value
        count += 1

    of_library = {id(value) for value in vars(losses).values()}
    # Objects first: a class of which there is one is not made again.
    for name, value in sorted(vars(module).items(), key=lambda item: isinstance(item[1], type)):
        is_here = getattr(value, "__module__", module.__name__) == module.__name__
        if name.startswith("_") or not (is_here or isinstance(value, (Loss, Problem))):
            continue
        if id(value) in of_library or any(type(o) is value for o in own.losses.values()):
            continue
        dashed = with_dashes(name)
        if isinstance(value, type):
            if value.__name__ != name:  # another name of a class
                continue
            bases = value.__mro__
            if Kernel in bases or Unadjusted in bases or Sampler in bases:
                join(own.samplers, dashed, value, SAMPLERS)
            elif Quantity in bases:
                join(own.quantities, name, value, ())
            elif Loss in bases:
                join(own.losses, dashed, _made(value), loss_option.choices)
            elif ReleaseMethod in bases:
                join(own.methods, dashed, value, release_methods())
        elif isinstance(value, Loss):
            join(own.losses, dashed, value, loss_option.choices)
        elif isinstance(value, Problem):
            entry = ExtensionProblem(module.__name__, name, value.description, made=value)
            join(own.problems, dashed, entry, PROBLEMS)
        elif isinstance(value, FunctionType) and _returns(value) is Problem:
            entry = ExtensionProblem(module.__name__, name, _first(value))
            join(own.problems, dashed, entry, PROBLEMS)
    return count


def _made(kind: Any) -> Loss:
    """Make a loss of its defaults."""
    if inspect.isabstract(kind):
        missing = ", ".join(sorted(kind.__abstractmethods__))
        raise UsageError(f"{WITH.flag}: the loss {kind.__name__} lacks {missing}; define it.")
    try:
        made: Loss = kind()
    except TypeError as error:
        raise UsageError(
            f"{WITH.flag}: the loss {kind.__name__} cannot be made ({error}); give its settings "
            "defaults."
        ) from error
    return made


def _returns(function: FunctionType) -> Any:
    try:
        return typing.get_type_hints(function).get("return")
    except Exception:  # annotations are anybody's code
        return None
