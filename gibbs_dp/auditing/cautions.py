"""What a report as a whole may be warned of."""

from __future__ import annotations

from gibbs_dp._cautions import Caution

INTERRUPTED = Caution(
    "interrupted",
    "interrupted: only finished blocks of datasets are in this report.",
    "The audit was stopped. What is here is right, over fewer datasets or gammas than were asked.",
    "Run it again; with store= (--store) it goes on where it stopped.",
)
FAILED_DATASETS = Caution(
    "failed-datasets",
    "{failed} of {total} datasets failed ({why}); the estimates are conditional on the others, "
    "which biases them.",
    "Chains of some datasets never moved, were not finite, or had an improper posterior. Their "
    "datasets are not in the averages, and they are no random selection.",
    "Improper: give a proper prior. Stuck or not finite: a smaller step size, a prior that keeps "
    "parameters where the loss is finite, float64. A tenth of failures makes a row useless; how "
    "much a single one matters depends on whether it is the rare person that you ask about.",
)
PARTLY_UNDEFINED = Caution(
    "partly-undefined",
    "{name} is the mean over {count} of {total} datasets, without those where it is not finite, "
    "which biases it.",
    "One estimate overflowed or was undefined on some datasets; the other columns have them all.",
    "Use float64; bound the loss; or do not use this column.",
)
CHANGED_TO_SMC = Caution(
    "changed-to-smc",
    "at gamma={gamma:g}, {found}: chains do not pass from one mode to the other, and the audit "
    "went on with gibbs_dp.SMC() for all gammas.",
    "Pilots found several modes that matter. Chains of HMC stay in one of them; the particles of "
    "SMC come from the prior and are in all that they met, with masses as noisy as counts. The "
    "numbers of this report are SMC's.",
    "Nothing, if the symmetry or the modes are meant. sampler=gdp.HMC() keeps to chains, which are "
    "right for what is the same in all modes (losses of a mixture whose labels switch); "
    "sampler=gdp.SMC(num_particles=1024) is less noisy.",
)
REL_ERROR_MISSED = Caution(
    "rel-error-missed",
    "rel_error={rel_error:g} was not reached with {most} datasets (standard error {se:.2g}).",
    "The audit stopped at the number of datasets that it may use, before the error was as small "
    "as asked. The numbers are right, with the errors shown.",
    "Raise the second number of num_datasets (--max-datasets), or accept the error.",
)
