"""Two holdout experiments: sparse vector's wrong variants, and its approximate calibration."""

from __future__ import annotations

from gibbs_dp.engine.progress import Progress
from gibbs_dp.papers.reusable_holdout.result import Found, Sizes
from gibbs_dp.papers.reusable_holdout.sparse_delta import approximate_rows
from gibbs_dp.papers.reusable_holdout.sparse_variants import variant_rows

REFUSED = ("n", "d", "repetitions", "is_full")


def run_variants(sizes: Sizes, progress: Progress) -> Found:
    """Tabulate every variant of sparse vector: claimed epsilon, losses found, verdict.

    Parameters
    ----------
    sizes
        None is taken.
    progress
        Told when it is done.

    Returns
    -------
    Found
        The table to read has the largest number of queries.
    """
    sizes.refuse("sparse", *REFUSED)
    progress.expect(1)
    rows = variant_rows()
    progress.advance(1)
    most = max(row["queries"] for row in rows)
    return Found(
        "sparse",
        rows,
        [row for row in rows if row["queries"] == most],
        (
            "loss: exact for the worst neighbours found, so a lower bound of epsilon; inf: some "
            "answers are possible on one of them only.",
            "proven_epsilon: an upper bound for any number of queries; neighbours of any kind, as "
            "the sensitivity is for.",
        ),
    )


def run_approximate(sizes: Sizes, progress: Progress) -> Found:
    """Compare the printed noise of approximate sparse vector with the accountant's.

    Parameters
    ----------
    sizes
        None is taken.
    progress
        Told when it is done.

    Returns
    -------
    Found
        One row per claim and calibration.
    """
    sizes.refuse("sparse-approximate", *REFUSED)
    progress.expect(1)
    rows = approximate_rows()
    progress.advance(1)
    return Found(
        "sparse-approximate",
        rows,
        rows,
        (
            "printed: sigma = 2 sqrt(2 c ln(1/delta)) / epsilon, as printed; accountant: the least "
            "sigma whose exact composition is (epsilon, delta)-DP.",
            "measured_epsilon: of the best attacker that was tried, at delta, exact, so a lower "
            "bound; proven_epsilon: of composition, an upper bound. open: between the two.",
        ),
    )
