"""Every implemented theorem and identity, both sides computed, in one list of checks.

A bound is tried on the case that attains it, or comes as close as is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from gibbs_dp import io
from gibbs_dp._extras import install_hint
from gibbs_dp.papers.bayesian_dp.verify import bayesian_checks, field_checks
from gibbs_dp.papers.capacity.verify import capacity_checks
from gibbs_dp.papers.on_average_kl.verify import all_exact_checks
from gibbs_dp.papers.on_average_kl.verify_attacker import attacker_checks
from gibbs_dp.papers.on_average_kl.verify_closed_forms import (
    closed_form_checks,
    dependent_exact_checks,
)
from gibbs_dp.papers.on_average_kl.verify_max_entropy import max_entropy_checks
from gibbs_dp.papers.reusable_holdout.verify import mechanism_checks
from gibbs_dp.papers.verify import attained_generalization, attained_privacy
from gibbs_dp.papers.verify.cases import Case
from gibbs_dp.papers.verify.check import Check, exact_check, least_noticed, reaches

CASES: dict[str, list[Case]] = {**attained_privacy.CASES, **attained_generalization.CASES}
# The share of its bound that the best known case reaches, where that is not 1 (name and number of
# the case); where a total eps is spent, the share of delta, whatever the bound is on.
REACHED = {
    ("advanced_composition", 0): 8.742e-6,
    ("advanced_composition_inverse", 0): 8.810e-6,
    ("advanced_composition_inverse_small_epsilon", 0): 1.780e-4,
    ("I <= n eps_KL", 0): 0.9599,
    ("generalization_lower_from_mutual_information", 0): 0.9599,
    ("gibbs_mutual_information", 0): 0.25,
    ("gibbs_generalization_subgaussian", 0): 0.5,
    ("generalization_from_dp", 0): 0.24875,
    ("generalization_from_dp", 1): 0.98,
    ("I^- <= n eps_KL", 0): 0.9599,
    ("generalization_tail_from_alpha_information", 0): 0.67957,
    ("generalization_from_cmi", 0): 0.8348,
    ("gen <= mean range sqrt(2 I(W; U_i | Zt))", 0): 0.8348,
    ("gen <= range sqrt(2 E JS)", 0): 0.8348,
    ("gen <= range sqrt(eps_KL / 2)", 0): 0.7071,
    ("dp_max_information_bits_published", 0): 0.9804,
    ("dp_max_information_bits_published", 1): 0.2458,
    ("dp_max_information_bits_eighth", 0): 0.9888,
    ("dp_max_information_bits_eighth", 1): 0.9735,
    ("max_information_bits", 1): 0.9919,
    ("max_information_bits", 2): 0.4931,
    ("approximate_dp_bits_at", 0): 0.4882,
    ("statistical_query_tail", 0): 0.2769,
    ("statistical_query_tail_root", 0): 0.04454,
    ("low_sensitivity_tail", 0): 9.67e-4,
    ("general_event_tail", 0): 0.2280,
    ("adaptive_event_tail", 0): 0.4769,
}


def attained_check(name: str, case: Case, reached: float) -> Check:
    """Check that a case does not exceed its bound, and reaches its known share of it."""
    source = "attaining case" if not case.loose else "nearest known case"
    record = reaches(name, source, *case.sides(), reached)
    return exact_check(record, case.loose or "attained, or approached in a limit")


def attained_checks() -> list[Check]:
    """Run every bound on its cases.

    Each row states what share of the bound its case reaches: 1 where it is attained, to rounding or
    in a limit. A row fails where the case exceeds the bound, or where the share differs by half a
    percent, so that no constant changes unnoticed. A share far from 1 does not contradict the
    theorem: no closer case is known.
    """
    return [
        attained_check(name, case, REACHED.get((name, i), 1.0))
        for name, cases in CASES.items()
        for i, case in enumerate(cases)
    ]


def verify(*, sampled: bool = True, say: io.Say = io.silent) -> list[Check]:
    """Check everything: by enumeration, in closed form and, unless told not to, by sampling."""
    say("checking identities, inequalities and counterexamples by enumeration")
    checks = all_exact_checks() + max_entropy_checks()
    say("checking bounds on the cases that attain them")
    checks += attained_checks()
    say("checking closed forms against each other")
    checks += closed_form_checks()
    say("checking attackers")
    checks += attacker_checks()
    say("checking dependent examples")
    checks += dependent_exact_checks()
    say("checking mechanisms of adaptive analysis, and wrong variants of them")
    checks += mechanism_checks()
    say("checking Bayesian differential privacy")
    has_networks = find_spec("networkx") is not None
    if not has_networks:
        say(f"leaving out networks of rows: {install_hint('networkx')}")
    checks += bayesian_checks(has_networks) + field_checks()
    say("checking capacity-bounded privacy")
    checks += capacity_checks()
    if sampled:
        from gibbs_dp.papers.on_average_kl.verify_sampled import moved_checks, sampled_checks

        say("sampling problems with known answers")
        checks += sampled_checks(say) + moved_checks()
    return checks


def verdict(checks: Sequence[Check]) -> str:
    """Count what holds and what would have been noticed, and name what fails."""
    failed = [check for check in checks if not check.holds]
    sampled = sum(check.z is not None for check in checks)
    statements: dict[str, list[Check]] = {}
    for check in checks:
        statements.setdefault(check.name, []).append(check)
    least = [least_noticed(group) for group in statements.values()]
    seen = [sum(found <= error for found in least) for error in (0.01, 0.1, 0.5)]
    text = (
        f"{len(checks) - len(failed)} of {len(checks)} checks hold "
        f"({len(checks) - sampled} exact, {sampled} sampled).\n"
        f"Of {len(least)} statements {seen[0]} notice a right side that is 1% wrong, {seen[1]} one "
        f"that is 10%, {seen[2]} one that is 50%."
    )
    return "\n".join([text, *(f"FAILS: {check.name} [{check.case}]" for check in failed)])
