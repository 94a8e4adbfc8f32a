"""What a certificate may be warned of."""

from __future__ import annotations

from gibbs_dp._cautions import Caution

VACUOUS = Caution(
    "vacuous-certificate",
    "the bound by {bound} is {value:.4g} at its best, {share:.0%} of the way from the smallest to "
    "the largest loss: it says next to nothing.",
    "The certificate holds, and is hardly below the largest loss that there can be. The prior has "
    "too little mass where the loss is small, or the examples are too few.",
    "More examples, a prior that is nearer to good parameters (chosen without these data), a "
    "smaller loss range, or other gammas: n gamma times the range of the loss from 1 to 10 times "
    "the number of parameters is a start.",
)
NOISY_NORMALIZER = Caution(
    "noisy-island-normalizers",
    "at gamma={gamma:g} the log normalizer has a standard error of {error:.2g} nats between "
    "islands: the certificate holds, but may be looser than it had to be, and particles have "
    "missed some of the posterior.",
    "A sampled normalizer is unbiased, and mostly too small where its particles are too few: the "
    "bound then pays for mass that no particle found.",
    "SMC with more particles, or a sum over a class with gibbs_dp.Grid.",
)
