"""The reference: a page a room, and a check at the end that no public name is missing."""

import inspect
from types import ModuleType

from docutils import nodes
from sphinx.errors import ExtensionError

import gibbs_dp
from pages import write_page

ROOMS = {
    "gibbs_dp": gibbs_dp,
    "gibbs_dp.losses": gibbs_dp.losses,
    "gibbs_dp.populations": gibbs_dp.populations,
    "gibbs_dp.supports": gibbs_dp.supports,
    "gibbs_dp.priors": gibbs_dp.priors,
    "gibbs_dp.problems": gibbs_dp.problems,
    "gibbs_dp.random": gibbs_dp.random,
    "gibbs_dp.privacy": gibbs_dp.privacy,
    "gibbs_dp.holdout": gibbs_dp.holdout,
    "gibbs_dp.sklearn": gibbs_dp.sklearn,
    "gibbs_dp.exact": gibbs_dp.exact,
    "gibbs_dp.information": gibbs_dp.information,
    "gibbs_dp.papers.bayesian_dp": gibbs_dp.papers.bayesian_dp,
    "gibbs_dp.papers.capacity": gibbs_dp.papers.capacity,
}
"""What users reach through ``import gibbs_dp``, and what extensions of it need."""
# The front door in an order to read it in; all that it has must be here.
DOOR = {
    "Posteriors and populations": ("GibbsPosterior", "Flat", "Domain", "temper"),
    "Audits": ("audit", "audit_table", "Report", "load_report", "compare", "Comparison", "Store"),
    "What an audit learns": (
        "DEFAULT",
        "OnAverageKL",
        "Risks",
        "AbsoluteGap",
        "MutualInformation",
        "WorstCase",
        "Attacker",
        "FurtherInformation",
        "Exposure",
        "CertifiedKL",
        "Quantity",
        "Column",
        "Style",
    ),
    "Audits of one posterior": (
        "audit_log_likelihood",
        "audit_inference_data",
        "OneDatasetReport",
        "load_one_dataset_report",
    ),
    "Certificates of one posterior": ("certify", "Certificate"),
    "Draws": ("sample", "Draws", "load_draws", "as_draws", "shard_examples"),
    "Draws on minibatches": (
        "sample_minibatches",
        "MinibatchDraws",
        "MinibatchState",
        "load_minibatch_draws",
        "StochasticLangevin",
        "Cyclical",
    ),
    "Calibration by simulation": ("check_calibration", "Calibration"),
    "Samplers": (
        "HMC",
        "AdaptiveHMC",
        "SMC",
        "MALA",
        "UnderdampedLangevin",
        "ULA",
        "SGLD",
        "Grid",
        "Line",
        "Kernel",
        "Sampler",
        "ChainDraws",
        "Chains",
    ),
    "Privacy": ("calibrate", "release", "Guarantee", "Ledger", "Thresholdout"),
    "Errors and warnings": (
        "AuditInterrupted",
        "AuditIncomplete",
        "StoreError",
        "ExecutorError",
        "ImproperPosteriorError",
        "AuditWarning",
        "DoNotUseWarning",
        "DrawsWarning",
    ),
}
# Bases whose methods nobody looks for here.
BASES = "tuple, str, Generic, Protocol, BaseEstimator, ClassifierMixin, RegressorMixin"
# What scikit-learn sets on every estimator, and describes itself.
FOREIGN = (
    "get_metadata_routing, get_params, set_params, score, set_fit_request, set_score_request, "
    "set_predict_request"
)


def is_own(value):
    """Whether a value is of this library."""
    return getattr(value, "__module__", "").startswith("gibbs_dp")


def members(module):
    """Public names of a module: what it says, what it re-exports, or what it defines."""
    names = getattr(module, "__all__", None)
    if names is None:
        is_face = hasattr(module, "__path__")
        names = [
            name
            for name, value in vars(module).items()
            if not name.startswith("_")
            and (isinstance(value, ModuleType) or is_own(value))
            and (is_face or getattr(value, "__module__", "") == module.__name__)
        ]
    return {name: getattr(module, name) for name in names if not name.startswith("_")}


def inner_modules(module):
    """Modules that a room's face shows as its own."""
    shown = {} if module is gibbs_dp else members(module)
    return {
        name: value
        for name, value in shown.items()
        if isinstance(value, ModuleType) and value.__name__ == f"{module.__name__}.{name}"
    }


def entry(path, value):
    """The directive that documents a name."""
    if inspect.isclass(value):
        if issubclass(value, gibbs_dp.Quantity) and value is not gibbs_dp.Quantity:
            return f".. autoclass:: {path}\n"  # the contract's methods are told there
        inherited = "" if issubclass(value, Exception) else f"   :inherited-members: {BASES}\n"
        foreign = f"   :exclude-members: {FOREIGN}\n" if hasattr(value, "__sklearn_tags__") else ""
        return f".. autoclass:: {path}\n   :members:\n{inherited}{foreign}"
    if inspect.isroutine(value):
        return f".. autofunction:: {path}\n"
    if isinstance(value, dict):  # names, and what they mean
        listed = "\n".join(f"   ``{name}``\n      {meaning}\n" for name, meaning in value.items())
        return f".. py:data:: {path}\n   :module:\n\n{listed}"
    return f".. autodata:: {path}\n"


def documented(module, prefix):
    """Paths of what a room shows, and their values."""
    found = {}
    for name, value in members(module).items():
        if not isinstance(value, ModuleType):
            found[f"{prefix}.{name}"] = value
    for name, inner in inner_modules(module).items():
        found |= documented(inner, f"{prefix}.{name}")
    return found


def room_page(path, module, known):
    """The page of a room; ``known`` are the values of earlier pages, which it only names."""
    lines = [*heading(path, "="), f".. module:: {path}", "", inspect.getdoc(module) or "", ""]
    if module is gibbs_dp:
        for title, names in DOOR.items():
            lines += heading(title, "-")
            for name in names:
                known[id(getattr(module, name))] = f"{path}.{name}"
                lines.append(entry(f"{path}.{name}", getattr(module, name)))
        return "\n".join(lines)
    for name, value in documented(module, path).items():
        first = known.setdefault(id(value), name)
        short = name.removeprefix(f"{path}.")
        lines.append(entry(name, value) if first == name else ALIAS.format(short, first))
    return "\n".join(lines)


def heading(text, line):
    """A heading and an empty line."""
    return [text, line * len(text), ""]


ALIAS = """
.. py:data:: {0}

   The same as :py:obj:`{1}`.
"""


def write(app):
    known: dict[int, str] = {}
    lines = ["| room | has |", "|---|---|"]
    for path, module in ROOMS.items():
        page, told = path.removeprefix("gibbs_dp."), inspect.getdoc(module).partition("\n")[0]
        lines.append(f"| {{doc}}`{path} </generated/api/{page}>` | {told.replace('``', '`')} |")
    write_page(app, "api_rooms.txt", "\n".join(lines) + "\n")
    for path, module in ROOMS.items():
        write_page(app, f"api/{path.removeprefix('gibbs_dp.')}.rst", room_page(path, module, known))


def check(app, error):
    """Every public name has an entry; Sphinx has warned of those whose page it could not make."""
    if error is not None or app.builder.format != "html":
        return
    known = {name for name, *_ in app.env.get_domain("py").get_objects()}
    wanted = {path for room, module in ROOMS.items() for path in documented(module, room)}
    missing = sorted(wanted - known)
    if missing:
        raise ExtensionError(f"not in the reference: {', '.join(missing)}")
    print(f"reference: {len(wanted)} of {len(wanted)} public names documented (100%)")


def skip(app, what, name, value, is_skipped, options):
    """Leave out the fields of named tuples that say nothing but their number."""
    return True if (getattr(value, "__doc__", None) or "").startswith("Alias for field") else None


def shorten(app, doctree):
    """Arrays are called as in the code, not by where JAX keeps their class."""
    for text in list(doctree.findall(nodes.Text)):
        if "jaxlib._jax." in text:
            text.parent.replace(text, nodes.Text(text.replace("jaxlib._jax.", "")))


def setup(app):
    app.connect("autodoc-skip-member", skip)
    app.connect("doctree-read", shorten)
    app.connect("builder-inited", write)
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
