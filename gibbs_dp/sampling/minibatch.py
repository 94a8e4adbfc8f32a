"""Chains on minibatches for posteriors of networks: steps, draws, and how they go on."""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from gibbs_dp._cautions import DrawsWarning, warns
from gibbs_dp._jaxlib.compile import make_room
from gibbs_dp._jaxlib.devices import on_device
from gibbs_dp.information.checks import refuse_masked
from gibbs_dp.model.check import (
    as_key,
    check_gamma,
    check_posterior,
    names_keywords,
    positive_count,
)
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.kernels import stochastic
from gibbs_dp.sampling.kernels.stochastic import Cyclical, Rule, StochasticLangevin
from gibbs_dp.sampling.minibatch_draws import LEAST_DRAWS, MinibatchDraws, told
from gibbs_dp.sampling.minibatch_steps import (
    MANY_STEPS,
    MOST_BYTES,
    MOST_DRAWS,
    QUICK_SECONDS,
    Arrays,
    Batches,
    Run,
    begin,
    shapes_of_kept,
    source_of,
    steps_at_once,
)
from gibbs_dp.sampling.minibatch_store import (
    DRAWS,
    HALVED,
    MinibatchState,
    Part,
    folder_to_write,
    is_alive,
    load_part,
)
from gibbs_dp.sampling.unadjusted import step_bar

# The run.

DEFAULT_WARMUP, DEFAULT_CHAINS = 1000, 2
# Parts of the warmup, for the bar.
NUM_PARTS = 20


@names_keywords
@warns(lambda _: DrawsWarning, told)
def sample_minibatches(
    posterior: GibbsPosterior,
    data: Any,
    gamma: float = 1.0,
    key: int | PRNGKeyArray = 0,
    *,
    kernel: StochasticLangevin,
    batch_size: int = 256,
    num_chains: int | None = None,
    num_warmup: int | None = None,
    num_samples: int = 500,
    thinning: int = 20,
    init: PyTree | None = None,
    keep: Callable[[Any], Any] | None = None,
    num_halved: int = 0,
    num_rows: int | None = None,
    continue_from: MinibatchDraws | MinibatchState | str | os.PathLike[str] | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> MinibatchDraws:
    """Run chains on minibatches, for networks and tables of many rows: SGLD, SGHMC, in cycles.

    There is no search for a mode, no pass over all rows and no acceptance step. In memory are
    chains times parameters, and what ``keep`` returns, if no ``store`` takes it. Draws are biased
    by the step and by the minibatch: ``num_halved=`` tells by how much. No privacy guarantee
    applies to them.

    Parameters
    ----------
    posterior
        Loss of an example, and prior. Chains move in its unconstrained coordinates.
    data
        Arrays, a pytree whose leaves have leading axis ``n``: every step of each chain draws a
        minibatch of its own, with replacement. Or batches of equal size, each a pytree of arrays:
        an iterator (``iter(batches)`` for a list, which would be taken for one pytree), or an
        iterable that begins anew at its end, as data loaders do. Each batch is one step of all
        chains; every row must be as likely to be in it.
    gamma
        Inverse temperature, finite and >= 0; multiplies the total loss, and never the prior.
    key
        Integer seed or JAX key. Chains that are continued have their own.
    kernel
        Step size, friction, preconditioner: `gibbs_dp.StochasticLangevin`.
    batch_size
        Rows of a minibatch; where there are no more rows, every step sees all of them. Of batches
        their own size counts.
    num_chains
        None: 2, or those that are continued.
    num_warmup
        Steps before the first draw. None: 1,000, or none for chains that are continued.
    num_samples
        Draws kept of each chain, at least 4. Fewer than 100 effective ones are warned of.
    thinning
        Steps from one kept draw to the next. With `gibbs_dp.Cyclical`, of every so many steps those
        that lie in the part of a cycle that samples are kept.
    init
        A parameter, where all chains start; or one for each, with a leading axis of chains. None:
        draws of the prior.
    keep
        ``keep(theta)``, a pytree of arrays: what is kept of a draw, such as predictions. None: the
        parameter itself. It is compiled once: define it outside of loops, as a new function is
        compiled anew.
    num_halved
        Draws of each chain that are made after the others with half the step, twice as many steps
        apart, half as many again being passed over first. The table tells from them by how much
        the step and the minibatch, whose noise works through it, put off means and standard
        deviations of what is kept: see `MinibatchDraws.step_bias`. 0: none.
    num_rows
        Of batches: ``n``, the rows of the whole dataset.
    continue_from
        Draws, their ``state`` or a folder, whose chains go on. With arrays for data and everything
        else the same, the draws are bit for bit those of a run that was not interrupted.
    store
        A folder that draws are appended to as they are made, so that memory does not grow with
        their number. Every ten seconds, when the run is interrupted and at its end, it is written
        how many of them count and where the chains are. The same call goes on from there, whatever
        ended the first; with arrays for data to the same draws, bit for bit. Other arrays, another
        start or setting are refused; batches, loss and prior are not looked at: give the same.
    progress
        Show a bar in terminals and notebooks; elsewhere nothing is printed.

    Returns
    -------
    MinibatchDraws
        With ``warnings`` where kept numbers disagree between chains, are not finite, or are biased
        by the step. With a ``store`` its arrays are maps of that folder's files, not to be written
        to: what is computed with is read then.

    Raises
    ------
    ValueError
        For arguments that make no sense or do not fit together, batches that run out, where all
        chains diverge in warmup, and where ``store`` holds another run or something else, is
        damaged (:class:`gibbs_dp.io.DamagedFileError`), or is written to by another run.
    OSError
        If ``store`` cannot be written, for want of room, say. What counts in it stays.

    Examples
    --------
    >>> import jax.numpy as jnp, numpyro.distributions as dist, gibbs_dp as gdp
    >>> posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance,
    ...                                dist.Normal(jnp.zeros(3), 1.0))
    >>> kernel = gdp.StochasticLangevin(step_size=1e-3, friction=0.1)
    >>> draws = gdp.sample_minibatches(posterior, jnp.ones((99, 3)), kernel=kernel, batch_size=32,
    ...                                num_samples=500, keep=lambda theta: theta.sum())
    >>> draws.kept.shape                                             # exactly N(2.97, 0.03)
    (2, 500)
    >>> abs(float(draws.kept.mean()) - 2.97) < 0.1
    True
    """
    check_posterior(posterior, kernel, keep)
    gamma = check_gamma(gamma)
    _check_kernel(kernel)
    if posterior.structured:
        raise ValueError(
            "posterior: minibatches need losses of single examples, but a total_loss has none; "
            "give a per-example loss."
        )
    batch_size = positive_count("batch_size", batch_size)
    num_samples = positive_count("num_samples", num_samples, least=LEAST_DRAWS)
    thinning = positive_count("thinning", thinning)
    num_halved = positive_count("num_halved", num_halved, least=0)
    if 0 < num_halved < 4:
        raise ValueError(f"num_halved: must be at least 4, or 0, got {num_halved}.")
    if num_halved and callable(kernel.step_size):
        raise ValueError(
            "num_halved: a schedule has no one step to halve; give a number for step_size, that of "
            "the schedule's end, say."
        )
    cycle = kernel.step_size if isinstance(kernel.step_size, Cyclical) else None
    if cycle is not None and thinning > cycle.length - cycle.num_explored:
        raise ValueError(
            f"thinning: of every {thinning} steps none may lie in the "
            f"{cycle.length - cycle.num_explored} of a cycle that are sampled; give fewer."
        )
    rule, old = kernel.rule, _state_of(continue_from)
    if old is not None:
        _check_state(old, posterior, rule, num_chains, init)
    if num_warmup is None:
        num_warmup = DEFAULT_WARMUP if old is None else 0
    num_warmup = positive_count("num_warmup", num_warmup, least=0)
    if rule.is_scaled and num_warmup == 0 and (old is None or not int(old.num_learnt)):
        raise ValueError(
            "num_warmup: the preconditioner is learnt in warmup; give at least some hundred steps."
        )
    make_room()
    source = source_of(posterior, data, batch_size, num_rows)
    numbers = kernel.numbers(source.num_rows)
    if old is None:
        wanted = DEFAULT_CHAINS if num_chains is None else num_chains
        count = positive_count("num_chains", wanted)
        old = _fresh_state(posterior, rule, as_key(key), count, init)
    shapes = shapes_of_kept(posterior, keep, old)
    learn_until = on_device(np.asarray(int(old.num_steps) + num_warmup, np.int32))
    temperature = on_device(np.asarray(gamma, old.chains.position.dtype))
    bytes_a_draw = sum(math.prod(s.shape) * s.dtype.itemsize for s in jax.tree.leaves(shapes))
    most_draws = min(MOST_DRAWS, max(1, MOST_BYTES // bytes_a_draw))
    run = Run(
        posterior,
        rule,
        keep,
        temperature,
        numbers,
        learn_until,
        most_draws,
        at_once=steps_at_once(thinning),
        is_long=num_warmup + num_samples * thinning >= MANY_STEPS,
    )

    settings = {
        "kernel": repr(kernel),
        "keep": None if keep is None else getattr(keep, "__name__", type(keep).__name__),
        "batch_size": source.rows_a_step,
        "num_rows": source.num_rows,
        "data": _digest(source.data) if isinstance(source, Arrays) else None,
        "init": _digest(old.chains.position),
        "num_warmup": num_warmup,
        "thinning": thinning,
    }
    warm = int(old.num_steps) + num_warmup
    gaps = _gaps(cycle, warm, thinning, num_samples)
    folder = None if store is None else folder_to_write("store", store)
    made = Part(old, shapes, len(gaps), gamma, settings, folder)
    if folder is not None and (folder / f"{DRAWS}.npz").exists():
        other = made.go_on("store", warm, gaps)
        if other:
            raise ValueError(
                f"store: {os.fspath(folder)!r} holds another run ({', '.join(other)}); give the "
                "arguments of that one, or another folder."
            )
    halved: PyTree = None
    num_passed = -(-num_halved // 2)
    steps = warm - int(old.num_steps) + sum(gaps) + 2 * thinning * (num_passed + num_halved)
    done = int(made.state.num_steps) - int(old.num_steps)
    with step_bar(steps, done, progress) as bar, made:
        _warm_up(made, run, source, warm, thinning, bar)
        if not is_alive(made.state):
            raise ValueError(
                f"kernel: all chains diverged within {num_warmup} steps of warmup; give it a "
                "smaller step_size, or another init."
            )
        _make(made, run, source, gaps, bar)
        if num_halved:
            made.publish()
            half = run._replace(numbers=numbers._replace(step_size=numbers.step_size / 2))
            after = int(made.state.num_steps)
            of_halved = settings | {"after": after, "num_passed": num_passed}
            others = Part(made.state, shapes, num_halved, gamma, of_halved, folder, HALVED)
            warm, gaps = after + 2 * thinning * num_passed, [2 * thinning] * num_halved
            if folder is not None and (folder / f"{HALVED}.npz").exists():
                if others.go_on("store", warm, gaps):  # those of a shorter run
                    (folder / f"{HALVED}.npz").unlink()
                bar.update(int(others.state.num_steps) - after)
            with others:
                _warm_up(others, half, source, warm, thinning, bar)
                _make(others, half, source, gaps, bar)
            halved, _ = others.kept_and_loss()
    kept, loss = made.kept_and_loss()
    return MinibatchDraws(kept, loss, made.state, gamma, settings, halved)


def _warm_up(
    made: Part, run: Run, source: Arrays | Batches, warm: int, thinning: int, bar: Any
) -> None:
    """Make the steps up to the one that draws are kept from."""
    for part in _parts(warm - int(made.state.num_steps), thinning):
        state, _, _ = source.draws(run, made.state, [part])
        made.add(state)
        bar.update(part)


def _make(made: Part, run: Run, source: Arrays | Batches, gaps: list[int], bar: Any) -> None:
    """Make the draws that are left, more of them a call while calls are quick."""
    count = 1
    while made.num_draws < len(gaps):
        next_gaps = gaps[made.num_draws : made.num_draws + count]
        since = time.monotonic()
        made.add(*source.draws(run, made.state, next_gaps))
        bar.update(sum(next_gaps))
        if time.monotonic() - since < QUICK_SECONDS:
            count = min(2 * count, run.most_draws)


def _check_kernel(kernel: Any) -> None:
    if not isinstance(kernel, StochasticLangevin):
        raise ValueError(
            f"kernel: got {type(kernel).__name__}; give gibbs_dp.StochasticLangevin(step_size=...)."
        )
    kernel.check_schedule()


def _gaps(cycle: Cyclical | None, count: int, thinning: int, num_samples: int) -> list[int]:
    """Count steps before each kept draw, the first of them after ``count`` steps."""
    if cycle is None:
        return [thinning] * num_samples
    found: list[int] = []
    last = count
    while len(found) < num_samples:
        count += thinning
        if cycle.is_sampling(count - 1):
            found.append(count - last)
            last = count
    return found


def _parts(num_steps: int, thinning: int) -> list[int]:
    size = max(thinning, -(-num_steps // NUM_PARTS))
    return [min(size, num_steps - first) for first in range(0, num_steps, size)]


def _digest(arrays: PyTree) -> str:
    """Tell data, or starts, of another run."""
    found = hashlib.blake2b(digest_size=8)
    for leaf in jax.tree.leaves(arrays):
        numbers = np.ascontiguousarray(leaf)
        found.update(f"{numbers.shape} {numbers.dtype.str}".encode())
        found.update(numbers.view(np.uint8).data)
    return found.hexdigest()


# Where chains begin, and go on.


def _fresh_state(
    posterior: GibbsPosterior, rule: Rule, key: PRNGKeyArray, num_chains: int, init: PyTree | None
) -> MinibatchState:
    if init is not None:
        init = _for_each_chain(posterior, num_chains, init)
    positions, words, is_inside = begin(posterior, num_chains, key, init)
    if not bool(is_inside):
        raise ValueError("init: it is not inside the prior's support; give a point that is.")
    zero = on_device(np.asarray(0, np.int32))
    return MinibatchState(stochastic.init(positions, rule), words, zero, zero)


def _for_each_chain(posterior: GibbsPosterior, num_chains: int, init: PyTree) -> PyTree:
    """Give a point, or one for each chain, a leading axis of chains."""
    refuse_masked("init", init)
    prior = posterior.prior
    wanted = [s.shape for s in prior.supports]
    try:
        dtype = jnp.result_type(float)
        leaves = [np.asarray(leaf, dtype) for leaf in prior.treedef.flatten_up_to(init)]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"init: its structure differs from the prior's ({prior.treedef}); give every part of "
            "the prior an array."
        ) from error
    shapes = [leaf.shape for leaf in leaves]
    init = prior.treedef.unflatten(leaves)
    if shapes == wanted:
        init = jax.tree.map(lambda a: np.broadcast_to(a, (num_chains, *a.shape)), init)
    elif shapes != [(num_chains, *shape) for shape in wanted]:
        raise ValueError(
            f"init: got arrays of shapes {shapes}; give the prior's, {wanted}, or those with a "
            f"leading axis of {num_chains} chains."
        )
    return init


def _state_of(given: Any) -> MinibatchState | None:
    if given is None or isinstance(given, MinibatchState):
        return given
    if isinstance(given, MinibatchDraws):
        return given.state
    if isinstance(given, (str, os.PathLike)):
        return load_part("continue_from", given, DRAWS).state
    raise ValueError(
        f"continue_from: got {type(given).__name__}; give draws of sample_minibatches, their "
        "state, or a folder that they were saved to."
    )


def _check_state(
    state: MinibatchState,
    posterior: GibbsPosterior,
    rule: Rule,
    num_chains: int | None,
    init: PyTree | None,
) -> None:
    """Refuse chains of something else."""
    if init is not None:
        raise ValueError("init: chains that are continued have a place; leave one of both out.")
    chains, dim = state.chains.position.shape
    if num_chains not in (None, chains):
        raise ValueError(
            f"num_chains: {chains} chains are continued, not {num_chains}; leave it out."
        )
    if dim != posterior.dim:
        raise ValueError(
            f"continue_from: its chains have {dim} coordinates and the posterior {posterior.dim}; "
            "give draws of this posterior."
        )
    dtype = jnp.result_type(float)
    if state.chains.position.dtype != dtype:
        raise ValueError(
            f"continue_from: its chains are {state.chains.position.dtype} and JAX computes in "
            f"{dtype}; set jax_enable_x64 as it was."
        )
    has = Rule(None, state.chains.momentum is not None, state.chains.square is not None)
    if has[1:] != rule[1:]:
        raise ValueError(
            "continue_from: its kernel had momentum or a preconditioner that this one has not, or "
            "the other way round; give a kernel of the same kind."
        )
