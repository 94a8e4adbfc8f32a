"""The order of jobs: one worker compiles what is new while the others have work."""

from gibbs_dp.audit.plan import Plan
from gibbs_dp.audit.runner import Job, new_plans_first

KNOWN, NEW, OTHER = (Plan(n, 16, 1, 0, 8, 8, 0) for n in (10, 20, 30))


def test_new_plans_go_first_once_and_known_ones_before_the_rest():
    jobs = [
        Job(None, None, first, plan, None) for first in (0, 64, 128) for plan in (KNOWN, NEW, OTHER)
    ]
    ordered = new_plans_first(jobs, {KNOWN})
    found = [(job.plan, job.first) for job in ordered]
    assert found[:2] == [(NEW, 0), (OTHER, 0)]
    assert found[2:5] == [(KNOWN, 0), (KNOWN, 64), (KNOWN, 128)]
    assert set(found[5:]) == {(plan, first) for plan in (NEW, OTHER) for first in (64, 128)}
    assert len(found) == len(jobs)
