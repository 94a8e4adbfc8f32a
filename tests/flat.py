"""An audit asked for by one flat dict of words, so that tests can merge and vary them."""

from typing import Any

import gibbs_dp as gdp

OF = {
    gdp.OnAverageKL: ("estimator", "group_size", "num_ghosts"),
    gdp.MutualInformation: ("num_information", "sigma", "b"),
    gdp.WorstCase: ("adjacency",),
    gdp.Attacker: ("num_releases",),
}
CHAINS = ("kernel", "num_chains", "num_samples", "num_warmup")


def asked(
    attack: bool = True, exposure: bool = False, information: Any = ("mutual",), **words: Any
) -> dict[str, Any]:
    """Sort words into the arguments of ``gibbs_dp.audit``."""
    learn = [*gdp.DEFAULT]
    for kind, names in OF.items():
        own = {name: words.pop(name) for name in names if name in words}
        learn += [kind(**own)] if own else []
    if not attack:
        learn = [q for q in learn if not isinstance(q, gdp.Attacker)]
    if "mutual" not in information:
        learn = [q for q in learn if not isinstance(q, gdp.MutualInformation)]
    further = [name for name in information if name != "mutual"]
    learn += [gdp.FurtherInformation(further)] if further else []
    learn += [gdp.Exposure()] if exposure else []
    chains = {name: words.pop(name) for name in CHAINS if name in words}
    if chains:
        kernel = chains.get("kernel")
        is_alone = list(chains) == ["kernel"] or isinstance(kernel, (gdp.SMC, gdp.Grid))
        words["sampler"] = kernel if is_alone else gdp.Chains(**chains)
    if "max_datasets" in words:
        words["num_datasets"] = words.get("num_datasets", 1024), words.pop("max_datasets")
    return {"learn": learn} | words


def audit(*arguments: Any, **words: Any) -> gdp.Report:
    """Audit as a dict of words says."""
    return gdp.audit(*arguments, **asked(**words))
