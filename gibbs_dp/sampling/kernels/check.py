"""Kernels of users, checked before anything is compiled for them."""

from __future__ import annotations

from gibbs_dp.sampling.kernels.base import Kernel


def check_own(kernel: Kernel) -> None:
    """Refuse a kernel of the user's that cannot be compiled for.

    Raises
    ------
    ValueError
        If it lacks a method or cannot be hashed.
    """
    name = type(kernel).__name__
    for method in ("default_tuning", "step"):
        if getattr(type(kernel), method) is getattr(Kernel, method):
            raise ValueError(
                f"kernel: {name} has no method {method}; a subclass of gibbs_dp.Kernel gives "
                "default_tuning and step."
            )
    try:
        hash(kernel)
    except TypeError as error:
        raise ValueError(
            f"kernel: {name} cannot be hashed ({error}), so that nothing can be compiled for it; "
            "make it a frozen dataclass of plain settings."
        ) from error
