"""The quick checks of types and shapes find what jaxtyping's own find, and are those in use."""

from __future__ import annotations

import jax.numpy as jnp
import jaxtyping
import pytest
import type_checks
from beartype import beartype
from jaxtyping import Array, Float

from gibbs_dp.estimators.direct import direct_kl
from gibbs_dp.information.bounds import renyi_from_range

BOTH = pytest.mark.parametrize("jaxtyped", [type_checks.jaxtyped, type_checks.THEIRS])


def shorter(x: Float[Array, " n"], *, by: int = 0, like: Float[Array, " n"] | None = None) -> (
    Float[Array, " n"]
):  # fmt: skip
    return x[by:]


def within(x: Float[Array, " n"], y: Float[Array, " m"], inner=None) -> tuple[int, int]:
    inner(y)
    return x.size, y.size


def open_ended(x: NoSuchType, y: int) -> NoSuchType:  # noqa: F821
    return x


class Holder:
    def pair(self, x: Float[Array, " n"], other: Holder) -> Float[Array, "2 n"]:
        return jnp.stack([x] * 2)


@BOTH
def test_axes_of_one_name_are_one_length_in_arguments_and_in_what_is_returned(jaxtyped):
    call = jaxtyped(typechecker=beartype)(shorter)
    assert call(jnp.zeros(3), like=jnp.zeros(3)).shape == (3,)
    for wrong in (
        lambda: call(jnp.zeros(3), like=jnp.zeros(4)),
        lambda: call(jnp.zeros(3), by=1),
        lambda: call(jnp.zeros((3, 3))),
        lambda: call(jnp.zeros(3, int)),
        lambda: call(jnp.zeros(3), by=0.5),
        lambda: call([0.0]),
    ):
        with pytest.raises(jaxtyping.TypeCheckError, match="shorter"):
            wrong()
    assert call(jnp.zeros(4)).shape == (4,), "a call that failed leaves nothing behind"


@BOTH
def test_every_call_has_axes_of_its_own(jaxtyped):
    inner = jaxtyped(typechecker=beartype)(shorter)
    call = jaxtyped(typechecker=beartype)(within)
    assert call(jnp.zeros(3), jnp.zeros(4), inner) == (3, 4)
    with pytest.raises(jaxtyping.TypeCheckError, match="shorter"):
        call(jnp.zeros(3), jnp.zeros(4), lambda y: inner(y, by=1))


@BOTH
def test_names_that_mean_nothing_are_not_checked_and_the_others_are(jaxtyped):
    call = jaxtyped(typechecker=beartype)(open_ended)
    assert call("x", 1) == "x"
    with pytest.raises(jaxtyping.TypeCheckError, match="open_ended"):
        call("x", "1")
    pair = jaxtyped(typechecker=beartype)(Holder.pair)
    assert pair(Holder(), jnp.zeros(3), Holder()).shape == (2, 3)
    with pytest.raises(jaxtyping.TypeCheckError, match="pair"):
        pair(Holder(), jnp.zeros(3), 3)


def test_they_check_this_library_and_can_be_turned_off():
    assert jaxtyping.jaxtyped is type_checks.jaxtyped
    with pytest.raises(jaxtyping.TypeCheckError, match=r"eta='1' violates"):
        renyi_from_range("1", 2.0)
    wrong = jnp.zeros((2, 3, 4)), jnp.zeros((2, 5, 6)), jnp.full((2, 3), 1 / 6), jnp.asarray(1.0)
    with pytest.raises(jaxtyping.TypeCheckError, match="direct_kl"):
        direct_kl(*wrong)
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        with pytest.raises(ValueError, match="eta must be a number, got '1'"):
            renyi_from_range("1", 2.0)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
