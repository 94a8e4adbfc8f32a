"""Stochastic gradient Langevin dynamics with Poisson-sampled minibatches."""

from __future__ import annotations

from dataclasses import dataclass

from gibbs_dp.sampling.kernels.ula import check_settings


@dataclass(frozen=True)
class SGLD:
    """Langevin steps on a minibatch: every example enters it with probability ``sampling_rate``.

    Per-example gradients are clipped, summed over the minibatch and divided by the rate (Welling &
    Teh 2011, with Poisson sampling). The steps themselves are those of `gibbs_dp.ULA`.

    Parameters
    ----------
    step_size, num_steps
        ``h`` and ``K``; fixed, free of the data.
    clip
        Norm to which per-example gradients are shortened.
    sampling_rate
        ``q``, in (0, 1].

    Raises
    ------
    ValueError
        If a setting is out of range.

    Examples
    --------
    >>> SGLD(step_size=1e-3, num_steps=500, clip=1.0, sampling_rate=0.1).sampling_rate
    0.1
    """

    step_size: float
    num_steps: int
    clip: float
    sampling_rate: float

    def __post_init__(self) -> None:
        check_settings("SGLD", self.step_size, self.num_steps, self.clip)
        if not 0 < self.sampling_rate <= 1:
            raise ValueError(f"SGLD(sampling_rate) must be in (0, 1], got {self.sampling_rate}.")
