"""Tests start with whatever options the installed jaxlib has."""

import os

import pytest
from xla_flags import FLAGS, quick_flags

KNOWN = "--xla_backend_optimization_level=0"


@pytest.mark.parametrize("given", ["", "--xla_cpu_enable_fast_math=false"])
def test_a_flag_that_jaxlib_does_not_know_is_left_out(given):
    # By really starting JAX, which dies for the second flag.
    found = quick_flags(given, (KNOWN, "--xla_option_that_never_was=1"))
    assert found == f"{given} {KNOWN}".strip()


def test_flags_that_are_inherited_are_neither_repeated_nor_asked_for_again():
    def never(flags):
        raise AssertionError(flags)

    known = [flag for flag in FLAGS if flag in os.environ["XLA_FLAGS"]]
    assert KNOWN in known
    assert quick_flags("--xla_a=1 " + " ".join(FLAGS), starts_with=never).count("--") == 3
    assert quick_flags(f"{KNOWN[:-1]}3", (KNOWN,), never) == f"{KNOWN[:-1]}3"
