"""The order of jobs: one worker compiles what is new while the others have work."""

from types import SimpleNamespace

from gibbs_dp.audit.runner import Job, Runner


def job(plan, first):
    return Job((plan, first), None, first, plan, None)


def test_new_plans_go_first_once_and_known_ones_before_the_rest():
    runner = Runner(SimpleNamespace())
    runner._ready.add(("known", "device"))
    jobs = [job(plan, first) for first in (0, 64, 128) for plan in ("known", "new", "other")]
    tags = [j.tag for j in runner.in_order(jobs)]
    assert tags[:2] == [("new", 0), ("other", 0)]
    assert tags[2:5] == [("known", 0), ("known", 64), ("known", 128)]
    assert set(tags[5:]) == {(p, f) for p in ("new", "other") for f in (64, 128)}
    assert len(tags) == len(jobs)
