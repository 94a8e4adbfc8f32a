"""Options of problems and commands, read from Python signatures without importing anything."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple

from gibbs_dp._source import find, value_of

Kind = Literal["int", "float", "str", "flag"]
_NAMES: dict[str, Kind] = {"int": "int", "float": "float", "str": "str", "bool": "flag"}
_LISTS = ("Sequence", "Collection", "Iterable", "list", "tuple")


@dataclass(frozen=True)
class Option:
    """One setting of a problem or command, in Python (``keyword``) and on the command line.

    Examples
    --------
    >>> Option("num_draws", "int", "draws to release", shown="1").text
    'draws to release (default 1)'
    """

    # Name of the argument in Python; ``theta_bound`` is ``--theta-bound`` on the command line, and
    # ``is_full`` would be ``--full``.
    keyword: str
    kind: Kind  # what its value is
    help: str  # one line
    # Value if the option is not given. None leaves it to the function that takes it, whose
    # own default is ``shown``.
    default: Any = None
    # The only texts allowed, if there are only a few; of a number, texts allowed instead.
    choices: tuple[str, ...] = ()
    shown: str = ""  # the default in words, for the help
    is_list: bool = False  # takes several values
    is_required: bool = False  # the function has no default
    # What its value is called in the help; the keyword in capitals by default. Several names:
    # it takes that many values (with ``is_list`` two names, the second of which may be
    # repeated).
    metavar: str | tuple[str, ...] | None = None
    # May be given several times; its value is then a list of what each took.
    is_repeatable: bool = False

    @property
    def is_off(self) -> bool:
        """Whether it is a flag that turns off what is on by default."""
        return self.kind == "flag" and self.shown == "True"

    @property
    def flag(self) -> str:
        """Spelling on the command line."""
        name = self.keyword.removeprefix("is_").replace("_", "-")
        return f"--no-{name}" if self.is_off else f"--{name}"

    @property
    def text(self) -> str:
        """The help, with the default."""
        shown = self.shown or _show(self.default)
        if not shown or self.kind == "flag" or "(default" in self.help:
            return self.help
        return f"{self.help} (default{':' * (' ' in shown)} {shown})".lstrip()


def options_of(where: str, /, **own: str | Mapping[str, Any] | None) -> tuple[Option, ...]:
    """Make options of some parameters of a function or fields of a dataclass, in the order given.

    ``own`` has a help text for each, or other fields of its `Option`; None takes the beginning of
    its description in the docstring. Defaults are left to the function.

    >>> (n, kl) = options_of("gibbs_dp:calibrate", num_draws="draws together", on_average_kl=None)
    >>> n.flag, n.kind, n.text
    ('--num-draws', 'int', 'draws together (default 1)')
    >>> kl.text
    'target for on-average KL-privacy of all draws together, nats'
    """
    found = parameters(where)
    changes = {k: {"help": v} if isinstance(v, str) else v or {} for k, v in own.items()}
    return tuple(replace(found[keyword], **changes[keyword]) for keyword in own)


@cache
def parameters(where: str) -> dict[str, Option]:
    """Read which parameters of a function or dataclass a command line can give, by name.

    ``where`` is ``module:function``, ``module:Class`` or ``module:Class.method`` of this package;
    the module may import the name from another one. Given can be what is annotated as a number,
    text, bool, ``Literal`` of texts or sequence of these, even if it may also be something else,
    and any other whose default is a text: the function refuses texts that it does not know. An
    option's help is the docstring's description up to the first full stop or semicolon, its default
    the signature's; for a default of None, what the description says after "None:" or "By default".
    """
    module, _, path = where.partition(":")
    name, *inner = path.split(".")
    module, node = find(module, name)
    for name in inner:
        body = node.body if isinstance(node, ast.ClassDef) else []
        node = next((n for n in body if isinstance(n, ast.FunctionDef) and n.name == name), None)
    if isinstance(node, ast.FunctionDef):
        return _of_function(module, node)
    if isinstance(node, ast.ClassDef):
        return _of_class(module, node)
    raise ValueError(f"{where}: there is no such function or class.")


def _of_function(module: str, node: ast.FunctionDef) -> dict[str, Option]:
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    padding = [None] * (len(positional) - len(given.defaults))
    defaults = [*padding, *given.defaults, *given.kw_defaults]
    arguments = zip([*positional, *given.kwonlyargs], defaults, strict=True)
    return _options(module, node, {a.arg: (a.annotation, default) for a, default in arguments})


def _of_class(module: str, node: ast.ClassDef) -> dict[str, Option]:
    fields: dict[str, tuple[ast.expr | None, ast.expr | None]] = {}
    found: dict[str, Option] = {}
    for base in node.bases:
        home, name = module, getattr(base, "id", "")
        if isinstance(base, ast.Attribute) and isinstance(base.value, ast.Name):  # gdp.HMC
            home, name = find(module, base.value.id)[0], base.attr
        home, parent = find(home, name)
        found |= _of_class(home, parent) if isinstance(parent, ast.ClassDef) else {}
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            if ast.unparse(field.annotation).startswith("ClassVar"):
                continue
            default = field.value
            if isinstance(default, ast.Call):  # dataclasses.field(...)
                settings = {k.arg: k.value for k in default.keywords}
                if "init" in settings:
                    continue
                default = settings.get("default", settings.get("default_factory"))
            fields[field.target.id] = (field.annotation, default)
    described = _descriptions(node)
    for name in found.keys() & described.keys():
        found[name] = _described(found[name], described[name])
    return found | _options(module, node, fields)


def _options(
    module: str,
    node: ast.FunctionDef | ast.ClassDef,
    given: Mapping[str, tuple[ast.expr | None, ast.expr | None]],
) -> dict[str, Option]:
    found = {}
    described = _descriptions(node)
    for name, (annotation, default) in given.items():
        value = value_of(module, default)
        form = _form(module, annotation) or (_Form("str") if isinstance(value, str) else None)
        if form is not None:
            option = Option(
                name,
                form.kind,
                "",
                choices=form.choices,
                shown=_show(value),
                is_list=form.is_list,
                is_required=default is None,
            )
            found[name] = _described(option, described.get(name, ""))
    return found


def _described(option: Option, text: str) -> Option:
    """Add what a docstring says: its first clause, and what None stands for."""
    if not text or text.startswith("As in "):
        return option
    none = re.search(r"\b(?:None:|By default) (.*?)(?:;|\.(?= [A-Z]|$))", text)
    first = re.split(r";|\.(?= [A-Z\"]|$)", text)[0]
    if first[1:2].islower() or first[1:2] == " ":
        first = first[0].lower() + first[1:]
    shown = option.shown or ("" if option.is_required or none is None else none[1])
    return replace(option, help=first, shown=shown)


def _descriptions(node: ast.FunctionDef | ast.ClassDef) -> dict[str, str]:
    """Read the descriptions of a numpydoc section of parameters, each on one line."""
    section = (ast.get_docstring(node) or "").partition("\nParameters\n----------\n")[2]
    section = re.split(r"\n\n\w+\n---", section)[0]
    found = {}
    for names, text in re.findall(r"^(\w.*)\n((?:[ ]+.*\n?|\n)+)", section, re.MULTILINE):
        for name in re.findall(r"\w+", names.partition(":")[0]):
            found[name] = " ".join(text.replace("`", "").split())
    return found


class _Form(NamedTuple):
    """How a command line gives a value."""

    kind: Kind
    choices: tuple[str, ...] = ()
    is_list: bool = False


def _form(module: str, node: ast.AST | None) -> _Form | None:
    """Read an annotation; None if a command line cannot give such a value."""
    match node:
        case ast.Constant(value=str(quoted)):
            return _form(module, ast.parse(quoted, mode="eval").body)
        case ast.Name(id=name) if name in _NAMES:
            return _Form(_NAMES[name])
        case ast.Name(id=name):
            return _form(*find(module, name))
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _either(_form(module, left), _form(module, right))
        case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
            words = [e.value for e in _elements(inner) if isinstance(e, ast.Constant)]
            return _Form("str", tuple(word for word in words if isinstance(word, str)))
        case ast.Subscript(value=ast.Name(id=name), slice=inner) if name in _LISTS:
            form = _form(module, _elements(inner)[0])
            return None if form is None else form._replace(is_list=True)
    return None


def _either(one: _Form | None, other: _Form | None) -> _Form | None:
    if one is None or other is None:
        return one or other
    if one.is_list != other.is_list:
        return one if one.is_list else other
    if one.kind == other.kind:
        has_others = one.choices and other.choices
        return one._replace(choices=one.choices + other.choices if has_others else ())
    if "str" in (one.kind, other.kind):  # a number, or one of a few texts
        number, text = (other, one) if one.kind == "str" else (one, other)
        return number._replace(choices=text.choices)
    return one._replace(kind="float")


def _elements(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _show(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (tuple, list)):
        return " ".join(map(_show, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
