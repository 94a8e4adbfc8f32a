"""Stochastic gradient Langevin dynamics: Langevin steps on minibatches."""

from __future__ import annotations

from dataclasses import dataclass, field

from gibbs_dp.sampling.kernels.unadjusted import PlainForm, Unadjusted
from gibbs_dp.sampling.traits import Traits

DEFAULT_BATCH_SIZE = 32


@dataclass(frozen=True)
class SGLD(Unadjusted):
    """Langevin steps on an unbiased minibatch gradient (Welling & Teh 2011), cf. `gibbs_dp.ULA`.

    The minibatch's noise adds to the chain's own: where it has variance ``N`` per coordinate and
    the posterior is ``N(0, s^2)``, the stationary variance is
    ``s^2 (1 + h N / 2) / (1 - h / (2 s^2))``. ``N`` falls like one over the batch size, and to
    nearly nothing with the control variate. Reports estimate the inflation.

    Parameters
    ----------
    step_size, num_steps, clip, relative_step, preconditioner
        As in `gibbs_dp.ULA`.
    sampling_rate
        Every example enters a minibatch with this probability, in (0, 1]: what the privacy
        accountant is for. It costs a pass over all examples.
    batch_size
        Instead: examples per minibatch, drawn with replacement. By default 32, or all where there
        are fewer.
    control_variate
        Sum gradients relative to those at the mode, whose full sum is computed once (Baker et al.
        2019): for posteriors that are concentrated, so that the differences are small.

    Raises
    ------
    ValueError
        If a setting is out of range.

    Examples
    --------
    >>> SGLD(step_size=1e-3, num_steps=500, clip=1.0, sampling_rate=0.1).sampling_rate
    0.1
    >>> SGLD(batch_size=64, control_variate=True, preconditioner="laplace").step_size is None
    True
    """

    sampling_rate: float | None = None
    batch_size: int | None = field(default=None, kw_only=True)
    control_variate: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        rate, size = self.sampling_rate, self.batch_size
        if rate is not None and not 0 < rate <= 1:
            raise ValueError(f"SGLD(sampling_rate) must be in (0, 1], got {rate}.")
        if size is not None and size < 1:
            raise ValueError(f"SGLD(batch_size) must be at least 1, got {size}.")
        if rate is not None and size is not None:
            raise ValueError(
                "SGLD(sampling_rate, batch_size): minibatches are Poisson samples or of fixed "
                "size; give one of them."
            )
        if self.control_variate and self.clip is not None:
            raise ValueError(
                "SGLD(control_variate): clipped gradients do not add up to the gradient at the "
                "mode; drop clip or control_variate."
            )

    @property
    def traits(self) -> Traits:
        """What the kernel is able to do, and what it needs: minibatches are of examples."""
        return super().traits._replace(needs_examples=True)

    def size_of_batch(self, n: int) -> int:
        """Examples per minibatch of fixed size, of ``n``."""
        return min(DEFAULT_BATCH_SIZE, n) if self.batch_size is None else self.batch_size

    def plain_form(self) -> PlainForm:
        """Return the settings of a private run.

        Raises
        ------
        ValueError
            If the chain is more than the accountant covers.
        """
        if self.sampling_rate is None or self.clip is None:  # so there is no control variate
            raise ValueError(
                "SGLD(sampling_rate, clip): the accountant of a private chain needs Poisson "
                "minibatches and clipped gradients; give both."
            )
        return super().plain_form()._replace(sampling_rate=self.sampling_rate)
