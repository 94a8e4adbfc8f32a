"""What the chains of an audit, its store and its machine may be warned of."""

from __future__ import annotations

from gibbs_dp._cautions import REFUSE, Caution

DRIFTING = Caution(
    "drifting-chains",
    "the chains still drift (first against second half: {z:.0f} standard errors, {size:.2f} "
    "posterior standard deviations); raise num_warmup.",
    "Averaged over all datasets, which makes this test very sensitive, the first half of the draws "
    "differs from the second: the chains had not arrived when sampling began, and the numbers are "
    "biased towards where they started.",
    "Raise num_warmup, twofold at a time. If it stays, the posterior has directions that mix very "
    "slowly: rescale the parameters, or use another kernel.",
    verdict=REFUSE,
)
LOW_ACCEPTANCE = Caution(
    "low-acceptance",
    "only {accept:.0%} of proposals were accepted; lower the step size.",
    "Most proposals were refused, so that few draws differ from the ones before them.",
    "Give the kernel a smaller step_size. Jumps in the loss, as in 0/1 losses, make gradients "
    "useless; smooth it, or use gdp.Grid for one to three parameters.",
)
OUT_OF_MEMORY = Caution(
    "out-of-memory",
    "memory did not hold {size} datasets at once; {smaller} are taken from here on.",
    "A program needed more memory than the device has, or than other programs left of it. The "
    "numbers are not affected: the same datasets are sampled in smaller parts.",
    "Nothing, unless it is slow: a smaller block_size, fewer num_ghosts or num_samples need less.",
)
DAMAGED_STORE = Caution(
    "damaged-store",
    "store: {path} is damaged ({reason}); what it held is computed again.",
    "A file of the store is not what was written: a copy that was cut short, a disk error, another "
    "program. The numbers are not affected.",
    "Nothing; the block is sampled again. Where it happens often, check the disk.",
)


class SmallerBlocksWarning(UserWarning):
    """Memory ran out, and fewer datasets are worked on at once."""


class DamagedStoreWarning(UserWarning):
    """A file of a store was damaged; what it held is computed again."""
