"""Every implemented theorem and identity, both sides computed, in one list of checks."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from gibbs_dp import io
from gibbs_dp._extras import install_hint
from gibbs_dp.papers.bayesian_dp.verify import bayesian_checks, field_checks
from gibbs_dp.papers.capacity.verify import capacity_checks
from gibbs_dp.papers.on_average_kl.verify import all_exact_checks, max_entropy_checks
from gibbs_dp.papers.on_average_kl.verify_attacker import attacker_checks
from gibbs_dp.papers.on_average_kl.verify_closed_forms import (
    closed_form_checks,
    dependent_exact_checks,
)
from gibbs_dp.papers.reusable_holdout.verify import mechanism_checks
from gibbs_dp.papers.verify.attained.checks import attained_checks
from gibbs_dp.papers.verify.check import Check


def verify(*, sampled: bool = True, say: io.Say = io.silent) -> list[Check]:
    """Check everything: by enumeration, in closed form and, unless told not to, by sampling.

    Seeds are fixed. The exact part takes seconds; sampling, nearly all of which is compiling,
    takes most of a minute on two cores.
    """
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
    """Count what holds, and name what fails.

    >>> verdict([])
    '0 of 0 checks hold (0 exact, 0 sampled).'
    """
    failed = [check for check in checks if not check.holds]
    sampled = sum(check.z is not None for check in checks)
    text = (
        f"{len(checks) - len(failed)} of {len(checks)} checks hold "
        f"({len(checks) - sampled} exact, {sampled} sampled)."
    )
    return "\n".join([text, *(f"FAILS: {check.name} [{check.case}]" for check in failed)])
