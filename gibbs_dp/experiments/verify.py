"""Every implemented theorem and identity, both sides computed, in one list of checks."""

from __future__ import annotations

from collections.abc import Sequence

from gibbs_dp import io
from gibbs_dp.experiments.verify_attacker import attacker_checks
from gibbs_dp.experiments.verify_attained import attained_checks
from gibbs_dp.experiments.verify_bounds import bound_checks
from gibbs_dp.experiments.verify_check import Check
from gibbs_dp.experiments.verify_closed_forms import closed_form_checks
from gibbs_dp.experiments.verify_dependent import dependent_exact_checks
from gibbs_dp.experiments.verify_exact import all_exact_checks


def verify(*, sampled: bool = True, say: io.Say = io.silent) -> list[Check]:
    """Check everything: by enumeration, in closed form and, unless told not to, by sampling.

    Seeds are fixed. The exact part takes seconds; sampling, nearly all of which is compiling,
    takes most of a minute on two cores.

    Parameters
    ----------
    sampled
        Whether to audit problems with known answers as well.
    say
        Called with a line of text at every step.

    Returns
    -------
    list of Check
        In the order of the theory. All of them should hold.

    Examples
    --------
    >>> checks = verify(sampled=False)
    >>> len(checks) > 500, [check for check in checks if not check.holds]
    (True, [])
    """
    say("checking identities, inequalities and counterexamples by enumeration")
    checks = all_exact_checks()
    say("checking bounds on the cases that attain them")
    checks += bound_checks()
    checks += attained_checks()
    say("checking closed forms against each other")
    checks += closed_form_checks()
    say("checking attackers")
    checks += attacker_checks()
    say("checking dependent examples")
    checks += dependent_exact_checks()
    if sampled:
        from gibbs_dp.experiments.verify_sampled import sampled_checks

        say("sampling problems with known answers")
        checks += sampled_checks(say)
    return checks


def verdict(checks: Sequence[Check]) -> str:
    """Count what holds, and name what fails.

    Examples
    --------
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
