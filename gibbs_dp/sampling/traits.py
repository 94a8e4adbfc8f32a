"""What a sampler says of itself, so that nothing has to ask what type it is."""

from __future__ import annotations

from typing import NamedTuple


class Traits(NamedTuple):
    """Properties of a sampler that engine and reports act on.

    Attributes
    ----------
    is_adjusted
        Its stationary law is the posterior. False for Langevin chains without an acceptance step,
        whose reports estimate the bias instead.
    is_exact
        It sums over the posterior: its draws carry exact weights and the normalizer, and there is
        no burn-in, tuning or convergence to diagnose.
    is_discretized
        It is exact for points that stand for a continuum, which may be too few or too narrow.
    is_path
        One run gives draws and normalizers at all gammas of a grid: a
        :class:`~gibbs_dp.sampling.sampler.PathSampler`.
    has_joint_noise
        It can draw the noise of several chains together (see ``Kernel.step_all``).
    needs_examples
        It takes gradients example by example: no structured loss.
    needs_hessian
        It needs a dense Hessian, and so few enough coordinates.
    """

    is_adjusted: bool = True
    is_exact: bool = False
    is_discretized: bool = False
    is_path: bool = False
    has_joint_noise: bool = False
    needs_examples: bool = False
    needs_hessian: bool = False
