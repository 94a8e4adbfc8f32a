"""How much of a Gibbs posterior's on-average KL a restricted adversary sees."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from gibbs_dp import estimators, io
from gibbs_dp._cautions import Caution, Warned
from gibbs_dp._progress import Progress
from gibbs_dp.engine.plan import AuditSpec
from gibbs_dp.engine.quantity import LeadingQuantity, Settings
from gibbs_dp.engine.sweep import SweepInterruptedError, run_sweep
from gibbs_dp.engine.view import LOW_ACCEPT_SHARE, GammaResult, PairView, View, is_drifting
from gibbs_dp.estimators import average
from gibbs_dp.model.check import as_key, check_posterior, positive_count
from gibbs_dp.model.populations import HasSample, as_population
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.papers.capacity.adversaries import Adversary, Polynomial, RandomFeatures, TwoLayerReLU
from gibbs_dp.papers.capacity.critics import check_trainable, train_and_judge
from gibbs_dp.quantities.mixing import DRIFTING, LOW_ACCEPTANCE
from gibbs_dp.sampling.as_sampler import as_sampler
from gibbs_dp.sampling.kernels import Kernel
from gibbs_dp.sampling.sampler import Sampler

# What trained critics see of a replaced example: a quantity of the engine.


class SeenValues(NamedTuple):
    """Of each dataset and one of its replaced versions."""

    critics: Float[Any, "*b classes"]  # what each class's trained critic attains, nats
    # Half the symmetrized KL of the pair from the same draws: unbiased for the on-average KL.
    full: Float[Any, "*b"]


@dataclass(frozen=True)
class SeenByCritics(LeadingQuantity):
    """On-average KL that restricted adversaries see; steered by what an unrestricted one would."""

    adversaries: tuple[Adversary, ...]
    num_steps: int  # of a critic's training

    name = "seen"
    Values = SeenValues
    needs_independent_chains = True  # half of them train the critics that the others judge

    @property
    def is_of_losses(self) -> bool:
        """Critics look at parameters."""
        return False

    def of_pair(self, pair: PairView) -> dict[str, Array]:
        """Train a critic of each class on a pair of posteriors."""
        # Both posteriors' chains share random numbers: what a critic gains is then hardly noisy,
        # and for a given critic the means, and so the lower bound, are the same.
        p, q = (_outputs(pair, u) for u in (pair.base.u, pair.replaced.u))
        found = [
            train_and_judge(pair.key, p, q, adversary, self.num_steps).value
            for adversary in self.adversaries
        ]
        at_base, at_replaced = pair.delta(pair.base.u), pair.delta(pair.replaced.u)
        full = estimators.two_sided_kl(at_base, at_replaced, pair.base.weight)
        return {"critics": jnp.stack(found), "full": full}

    def per_dataset(self, view: View) -> SeenValues:
        """Take those of the first pair, the only one."""
        return SeenValues(view.pairs["critics"][0], view.pairs["full"][0])

    def choose(self, pilots: Any, settings: AuditSpec) -> str:
        """Name the only estimator."""
        return "two-sided"

    def reconsider(self, values: Any, choice: str, settings: AuditSpec) -> None:
        """Return None: there is no other."""

    def num_pairs(self, choice: str, settings: AuditSpec, pilots: Callable[[int], Any]) -> int:
        """One pair a dataset."""
        return 1

    def values_of(
        self, values: SeenValues, choice: str, settings: AuditSpec
    ) -> Float[np.ndarray, " datasets"]:
        """KL of every dataset's pair, nats; NaN where a critic failed."""
        is_finite = np.isfinite(values.critics).all(axis=1)
        return np.where(is_finite, np.asarray(values.full, np.float64), np.nan)


def _outputs(pair: PairView, u: Float[Array, "chains draws dim"]) -> Float[Array, "all dim"]:
    """Draws of theta, ordered by chain: two halves of them share none."""
    points = u.reshape(-1, u.shape[-1])
    return jax.vmap(lambda point: ravel_pytree(pair.posterior.constrain(point))[0])(points)


DEFAULT_ADVERSARIES = (Polynomial(1), Polynomial(2), RandomFeatures(32), TwoLayerReLU(16))
BLOCK_SIZE = 16
# Above this, in nats, few draws carry the critics' means and their bounds fall behind.
_LOOSE_ABOVE = 1.0

FAILED_PAIRS = Caution(
    "failed-pairs",
    "the chains of {failed} of {total} pairs failed; the rest is a biased selection.",
    "Chains of some pairs of datasets never moved or were not finite; these pairs are left out.",
    "As for failed datasets: a proper prior, a smaller step size, float64.",
)
LOOSE_CRITICS = Caution(
    "loose-critics",
    "at an on-average KL of {full:.2g} nats trained critics fall well short of their class; raise "
    "num_samples, or read them as loose lower bounds.",
    "Far-apart posteriors are told apart by a few draws in the tails; critics trained on few draws "
    "see less than their class could.",
    "Raise num_samples, look at smaller gammas, or take the numbers as lower bounds.",
)
CAUTIONS = {"Of capacity-bounded adversaries": (FAILED_PAIRS, LOOSE_CRITICS)}


@dataclass(frozen=True)
class OnAverageCapacity:
    """On-average capacity-bounded KL, nats: ``critics`` are [gammas, datasets, classes]."""

    gammas: tuple[float, ...]
    n: int
    adversaries: tuple[Adversary, ...]
    critics: Float[np.ndarray, "gammas datasets classes"]
    full: Float[np.ndarray, "gammas datasets"]
    kept: Bool[np.ndarray, "gammas datasets"]
    warnings: tuple[str, ...]

    def rows(self) -> list[dict[str, Any]]:
        """One dict per gamma and class; every ``_se`` is over datasets.

        ``share`` is the class's part of the on-average KL, its error from paired datasets.
        """
        rows = []
        for g, gamma in enumerate(self.gammas):
            kept = self.kept[g]
            full = average(self.full[g], kept)
            for k, adversary in enumerate(self.adversaries):
                seen = average(self.critics[g, :, k], kept)
                share = seen.value / full.value if full.value > 0 else math.nan
                rest = average(self.critics[g, :, k] - share * self.full[g], kept)
                rows.append(
                    {
                        "gamma": gamma,
                        "n": self.n,
                        "num_datasets": full.num_datasets,
                        "failed_datasets": int(kept.size - kept.sum()),
                        "adversary": label(adversary),
                        "capacity_kl": seen.value,
                        "capacity_kl_se": seen.se,
                        "on_average_kl": full.value,
                        "on_average_kl_se": full.se,
                        "share": share,
                        "share_se": rest.se / abs(full.value) if full.value else math.nan,
                    }
                )
        return rows


def label(adversary: Adversary) -> str:
    """Short name of a class.

    >>> label(Polynomial(1)), label(TwoLayerReLU(16))
    ('linear', 'two-layer ReLU, width 16')
    """
    if isinstance(adversary, Polynomial):
        return "linear" if adversary.degree == 1 else f"polynomial, degree {adversary.degree}"
    if isinstance(adversary, RandomFeatures):
        return f"kernel, {adversary.num_features} random features"
    if isinstance(adversary, TwoLayerReLU):
        return f"two-layer ReLU, width {adversary.width}"
    return type(adversary).__name__


def on_average_capacity_kl(
    posterior: GibbsPosterior,
    population: HasSample | Callable[[PRNGKeyArray, int], Any],
    n: int,
    gammas: Sequence[float],
    adversaries: Sequence[Adversary] = DEFAULT_ADVERSARIES,
    *,
    num_datasets: int = 128,
    num_chains: int = 64,
    num_warmup: int = 32,
    num_samples: int = 64,
    num_steps: int = 200,
    key: int | PRNGKeyArray = 0,
    sampler: Kernel | Sampler | None = None,
    say: io.Say = io.silent,
) -> OnAverageCapacity:
    """On-average capacity-bounded KL of a Gibbs posterior, ``E KL^H(A(Z) || A(Z^(1)))``.

    For many datasets and each with one example replaced by a fresh one, posteriors are sampled, a
    critic of each class is trained on one half of the chains, and judged on the other. Replace-one;
    the output is one draw of theta. In expectation each number is a **lower** bound of its class's,
    and so of the on-average KL (Definition 2 of Wang, Lei & Fienberg 2016), which is estimated from
    the same draws. No number here is a guarantee.

    Parameters
    ----------
    posterior
        Loss and prior.
    population
        ``(key, n) -> examples``, a distribution of NumPyro, or an object of
        ``gibbs_dp.populations``, of independent examples.
    n
        Examples per dataset.
    gammas
        Inverse temperatures, positive.
    adversaries
        Classes that can be trained: `Polynomial`, `RandomFeatures`, `TwoLayerReLU`.
    num_datasets
        Pairs of datasets per gamma, the units of every standard error; the same for every gamma.
    num_chains, num_samples
        Chains per posterior (even, at least 4) and draws kept per chain; critics want
        some thousands of draws in all.
    num_warmup
        Burn-in steps, after adaptation where pilots ask for that.
    num_steps
        Training steps of a critic.
    key
        Integer seed or JAX key.
    sampler
        ``gibbs_dp.HMC()`` by default, or ``gibbs_dp.MALA()``.
    say
        Told, a line a time, what is going on.

    Returns
    -------
    OnAverageCapacity
        A number for every gamma, dataset and class, and warnings.

    Raises
    ------
    ValueError
        If an argument makes no sense.
    """
    n, num_datasets = positive_count("n", n), positive_count("num_datasets", num_datasets, least=2)
    chains = positive_count("num_chains", num_chains, least=4)
    if chains % 2:
        raise ValueError(
            f"num_chains: must be even, got {chains}; half train critics and half judge them."
        )
    grid = [float(g) for g in gammas]
    if not grid or not all(math.isfinite(g) and g > 0 for g in grid):
        raise ValueError(f"gammas: must be positive and finite, got {grid}; give at least one.")
    sampler = as_sampler(sampler)
    if sampler.traits.is_path:
        raise ValueError(
            f"sampler: critics are trained on chains, and {type(sampler).__name__} runs none; give "
            "gibbs_dp.HMC()."
        )
    check_posterior(posterior, sampler)
    sampler.check(posterior)
    source = as_population(population)
    if source.is_dependent:
        raise ValueError(
            "population: its examples are dependent; give one of independent examples."
        )
    if not adversaries:
        raise ValueError("adversaries: give at least one class.")
    trainable = tuple(check_trainable(adversary) for adversary in adversaries)
    settings = Settings(
        posterior=posterior,
        population=source,
        n=n,
        gammas=tuple(sorted(grid)),
        num_datasets=num_datasets,
        num_ghosts=1,
        key=as_key(key),
        sampler=sampler,
        num_chains=chains,
        num_warmup=positive_count("num_warmup", num_warmup, least=0),
        num_samples=positive_count("num_samples", num_samples, least=4),
        group_size=1,
        rel_error=None,
        max_datasets=num_datasets,
        block_size=BLOCK_SIZE,
        leading=SeenByCritics(trainable, positive_count("num_steps", num_steps)),
    )
    say(f"sampling {num_datasets} pairs of posteriors at {len(grid)} gammas, training critics")
    try:
        with Progress(enabled=False) as bar:
            tracks = {track.gamma: track for track in run_sweep(settings, bar)}
    except SweepInterruptedError:
        raise KeyboardInterrupt from None
    results = [tracks[gamma].result() for gamma in grid]
    values = [result.summary.values.seen for result in results]
    return OnAverageCapacity(
        tuple(grid),
        n,
        trainable,
        np.stack([found.critics for found in values]).astype(np.float64),
        np.stack([found.full for found in values]).astype(np.float64),
        np.stack([result.is_good for result in results]),
        tuple(f"gamma={r.gamma:g}: {text}" for r in results for text in _warnings(r)),
    )


def _warnings(result: GammaResult) -> list[Warned]:
    kept, found = result.is_good, []
    pooled, health = result.pooled, result.good.health
    if not kept.all():
        found.append(FAILED_PAIRS(failed=int((~kept).sum()), total=kept.size))
    if not kept.any():
        return found
    accept = float(np.mean(health.accept_prob))
    if accept < LOW_ACCEPT_SHARE * result.settings.sampler.least_accept:
        found.append(LOW_ACCEPTANCE(accept=accept))
    full = float(np.mean(result.good.values.seen.full))
    if full > _LOOSE_ABOVE:
        found.append(LOOSE_CRITICS(full=full))
    if kept.sum() > 1 and is_drifting(pooled):
        found.append(DRIFTING(z=pooled.drift_z, size=pooled.drift_size))
    return found
