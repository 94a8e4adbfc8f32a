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
# Losses of all draws in a block of a CPU.
BLOCK_NUMBERS = 2**23
# Posteriors that keep a GPU busy, and numbers they may need (4 GB; a program that turns out to be
# larger than its device is halved); datasets of a file of a store.
POSTERIORS_AT_ONCE, NUMBERS_AT_ONCE, STORED_HEIGHT = 2**15, 2**30, 1024
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
    num_gammas: int = 1,
) -> int:
    """Datasets per block: what a call to a CPU, or a file, is worth, or what fills a GPU.

    A short audit waits for its first blocks; of a long one, a call's overhead would be a fifth.
    A store keeps to one size, however many datasets are added to it. A GPU samples a block at all
    gammas in one call, and no more datasets than were asked for.
    """
    numbers = _numbers(posterior, n, num_ghosts, num_chains, num_samples)
    if is_accelerator(platform()):
        width = power_of_two(num_gammas)
        wanted = STORED_HEIGHT if is_stored else power_of_two(num_datasets)
        each = numbers[1] + _hessian_numbers(posterior.dim, n)
        fitting = min(POSTERIORS_AT_ONCE, NUMBERS_AT_ONCE // each) // width
        return min(wanted, power_of_two(fitting + 1) // 2 or 1)
    is_long = num_datasets >= LONG_AUDIT
    largest = 64 if is_stored else 128 if is_long else 32
    if posterior.dim > MAX_LAPLACE_DIM:
        largest = min(largest, NUM_PILOTS_HIGH_DIM)  # pilots fill a block, and no more
    return max(1, min(largest, power_of_two(BLOCK_NUMBERS // numbers[0] + 1) // 2))


def power_of_two(count: int) -> int:
    """Smallest power of two that is not smaller."""
    return 1 << max(0, count - 1).bit_length()


def datasets_at_once(
    posterior: GibbsPosterior,
    n: int,
    num_ghosts: int,
    num_chains: int,
    num_samples: int,
    block_size: int,
) -> int:
    """Datasets of a block that a CPU works on at once: what its caches hold, a divisor."""
    one, at_most = _numbers(posterior, n, num_ghosts, num_chains, num_samples)
    least = max(1, min(LEAST_AT_ONCE, LOOP_NUMBERS // one))
    most = min(max(least, CACHED_NUMBERS // one), max(1, KEPT_NUMBERS // at_most))
    fitting = [k for k in range(1, min(block_size, most) + 1) if block_size % k == 0]
    is_tight = min(least, most) < LEAST_AT_ONCE  # memory, not a loop's cost, decides
    return fitting[-1] if is_tight or fitting[-1] >= LEAST_AT_ONCE else block_size


def _hessian_numbers(dim: int, n: int) -> int:
    """Count what a step of a mode search keeps: slopes of examples, Hessian, factor, inverse."""
    return dim * (n + 3 * dim) if dim <= MAX_LAPLACE_DIM else 0


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
