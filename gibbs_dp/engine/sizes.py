"""How much of an audit is drawn and computed at once, by default."""

from __future__ import annotations

from gibbs_dp._jaxlib.devices import is_accelerator, platform
from gibbs_dp.model.populations import Population, Table
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.locate import MAX_LAPLACE_DIM

NUM_GHOSTS, NUM_SWAPS, NUM_WHOLE_GHOSTS = (64, 256), 64, 16
# Datasets that settings are tuned on, each sampled twice: a CPU's block, and less where every
# posterior costs seconds.
NUM_PILOTS, NUM_PILOTS_HIGH_DIM = 32, 16
# Pairs of a dataset whose replaced posteriors are sampled for the two-sided estimate, at least and
# at most; pilots say how many are worth it.
LEAST_PAIRS, MOST_PAIRS = 2, 8
# Losses of all draws that stay in a core's cache, and the fewest datasets that are worth a loop
# where their losses are few enough for memory that is at hand. Memory that is touched for the first
# time is what a short audit waits for.
CACHED_NUMBERS, LEAST_AT_ONCE, LOOP_NUMBERS = 2**19, 8, 2**22
# What fits a laptop's memory beside everything else, should a loss keep all that it may.
KEPT_NUMBERS = 2**25
# Datasets at one gamma from where larger blocks are worth waiting for.
LONG_AUDIT = 4096


def default_ghosts(posterior: GibbsPosterior, population: Population, n: int) -> int:
    """Fresh examples per dataset: most of an estimate's variance is theirs until they are many.

    As many as examples, between 64 and 256. For structured losses 64, each of which is swapped into
    the dataset by itself; fewer where a ghost is a whole dataset, or where a table has no more rows
    to spare.
    """
    if population.is_dependent:
        return NUM_WHOLE_GHOSTS
    wanted, others = min(max(n, NUM_GHOSTS[0]), NUM_GHOSTS[1]), n
    if posterior.structured:
        wanted, others = NUM_SWAPS, 2 * n  # and a fresh dataset for the population risk
    if isinstance(population, Table) and population.is_conditional:
        return max(1, min(wanted, population.num_rows - others))
    return wanted


def default_block_size(
    posterior: GibbsPosterior,
    n: int,
    num_ghosts: int,
    num_chains: int,
    num_samples: int,
    num_datasets: int,
    is_stored: bool = False,
) -> int:
    """Datasets per block: what a call to a CPU, or a file, is worth, or what fills a GPU.

    A short audit waits for its first blocks; of a long one, a call's overhead would be a fifth.
    A store keeps to one size, however many datasets are added to it.
    """
    is_long = num_datasets >= LONG_AUDIT
    largest, numbers = (64 if is_stored else 128 if is_long else 32, 2**23)
    if is_accelerator(platform()):
        largest, numbers = 4096, 2**29
    if posterior.dim > MAX_LAPLACE_DIM:
        largest = min(largest, NUM_PILOTS_HIGH_DIM)  # pilots fill a block, and no more
    per_dataset, at_most = _numbers(posterior, n, num_ghosts, num_chains, num_samples)
    if is_accelerator(platform()):
        per_dataset = at_most  # a GPU works on a whole block at once
    size = 1
    while size < largest and 2 * size * per_dataset <= numbers:
        size *= 2
    return size


def datasets_at_once(
    posterior: GibbsPosterior,
    n: int,
    num_ghosts: int,
    num_chains: int,
    num_samples: int,
    block_size: int,
) -> int:
    """Datasets of a block that a CPU works on at once: what its caches hold, a divisor."""
    if is_accelerator(platform()):
        return block_size
    one, at_most = _numbers(posterior, n, num_ghosts, num_chains, num_samples)
    least = max(1, min(LEAST_AT_ONCE, LOOP_NUMBERS // one))
    most = min(max(least, CACHED_NUMBERS // one), max(1, KEPT_NUMBERS // at_most))
    fitting = [k for k in range(1, min(block_size, most) + 1) if block_size % k == 0]
    is_tight = min(least, most) < LEAST_AT_ONCE  # memory, not a loop's cost, decides
    return fitting[-1] if is_tight or fitting[-1] >= LEAST_AT_ONCE else block_size


def _numbers(
    posterior: GibbsPosterior, n: int, num_ghosts: int, num_chains: int, num_samples: int
) -> tuple[int, int]:
    """Count the losses and coordinates of one dataset's draws: usually, and at most.

    A structured loss sees every ghost in a dataset of its own. Most need of these a statistic; one
    that sorts residuals keeps a number per draw, ghost and example.
    """
    draws = num_chains * num_samples
    if posterior.structured:
        usual = draws * (num_ghosts + posterior.dim) + num_ghosts * n
        return usual, draws * num_ghosts * n + usual
    usual = draws * (n + num_ghosts + posterior.dim)
    return usual, usual
