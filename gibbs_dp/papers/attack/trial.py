"""One attack a dataset: a coin, a posterior, a draw, and what several attackers make of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gibbs_dp import estimators
from gibbs_dp._cautions import Caution
from gibbs_dp.engine.plan import AuditSpec
from gibbs_dp.engine.quantity import LeadingQuantity
from gibbs_dp.engine.view import PairView, View

# A fold of a pair's key that no sampler takes: the coin must know nothing of the chains' noise.
SALT = 0x636F696E
# Draws of each posterior that an attacker makes where the posterior is summed over, and log ratios
# of each that are kept for the computed ROC.
NUM_SHADOWS, NUM_LOG_RATIOS = 128, 8
# Least standard deviation of the fitted normals, as a share of the distance of their means.
LEAST_SPREAD = 1e-3

ATTACK_MISSES = Caution(
    "attack-misses",
    "the {attacker} attack has an advantage of {advantage:.3g}, {z:.1f} standard errors {side} the "
    "{allowed:.3g} that the posteriors allow on average.",
    "The best attack and the total variation of the same pairs of posteriors are two routes to one "
    "number, and no attack may have more: chains that have not arrived, or too few draws for the "
    "ratio of normalizers, or a loss that is not what was sampled.",
    "Raise num_warmup or num_samples; compare with gibbs_dp.Grid in one or two coordinates.",
)
ATTACK_ABOVE_DP = Caution(
    "attack-above-dp",
    "the {attacker} attack has an advantage of {advantage:.3g}, {z:.1f} standard errors above the "
    "{allowed:.3g} that dp_epsilon allows.",
    "Pure differential privacy bounds the advantage of every attacker by (e^epsilon - 1) / "
    "(e^epsilon + 1). An attack above it refutes the epsilon for these draws: examples outside the "
    "declared domain, a wrong sensitivity, or draws of another law than the posterior.",
    "Declare a domain that holds every example; check the sensitivity of a loss of your own.",
)
EPSILON_REFUTED = Caution(
    "epsilon-refuted",
    "the {attacker} attack tells the two datasets apart better than epsilon = {epsilon:.3g} at "
    "delta = {delta:.3g} allows, or the claimed mu of Gaussian DP.",
    "An event that the scores choose on separate trials is likelier under one dataset than under "
    "the other by more than e^epsilon times and delta, by bounds that fail 6 times in 100,000.",
    "Declare a domain that holds every example; check the sensitivity of a loss of your own, and "
    "whether chains have arrived.",
)
CAUTIONS = {"Of attacks that are run": (ATTACK_MISSES, ATTACK_ABOVE_DP, EPSILON_REFUTED)}


class TrialValues(NamedTuple):
    """Of each dataset: one trial."""

    # 1 where the released draw is of the posterior of the dataset, 0 where of the replaced one.
    coin: Float[Any, "*b"]
    # Log ratio of the two densities at the draw, nats: guess the dataset where it is positive.
    optimal: Float[Any, "*b"]
    # Loss of the fresh example minus that of the replaced one at the draw (units of the loss).
    loss: Float[Any, "*b"]
    # Log ratio of two normals fitted to the same difference at draws of both posteriors, nats.
    lira: Float[Any, "*b"]
    total_variation: Float[Any, "*b"]  # of the pair of posteriors, from the attacker's draws
    log_ratios: Float[Any, "*b 2 draws"]  # log ratios at a few draws of either posterior, nats


class AttackTrial(LeadingQuantity):
    """What attackers who know the dataset and a possible replacement make of one draw."""

    name = "attack"
    Values = TrialValues
    needs_independent_chains = True  # one is released, the others are the attacker's

    def of_pair(self, pair: PairView) -> TrialValues:
        """Release a draw of one of two posteriors that were sampled."""
        of_base, of_replaced = (pair.delta(d.u)[..., 0] for d in (pair.base, pair.replaced))
        coin_key, draw_key = _keys(pair.key)
        coin = jax.random.bernoulli(coin_key)
        place = jax.random.randint(draw_key, (), 0, of_base.shape[1])
        released = jnp.where(coin, of_base[0, place], of_replaced[0, place])
        own = of_base[1:].ravel(), of_replaced[1:].ravel()
        log_ratio = estimators.log_normalizer_ratio(*own)
        # (p + p') / 2 has the mean |p - p'| / (p + p') = |tanh(L / 2)|.
        at_own = [jnp.abs(jnp.tanh(0.5 * (delta + log_ratio))) for delta in own]
        last = jnp.stack([of_base[1:, -1], of_replaced[1:, -1]])
        return TrialValues(
            coin=coin.astype(released.dtype),
            optimal=released + log_ratio,
            loss=released / pair.inputs.gamma,
            lira=fitted_log_ratio(released, *own),
            total_variation=0.5 * (jnp.mean(at_own[0]) + jnp.mean(at_own[1])),
            log_ratios=last[:, :NUM_LOG_RATIOS] + log_ratio,
        )

    def per_dataset(self, view: View) -> TrialValues:
        """Take the only pair's trial; hold it on the points of a posterior that is summed over."""
        if view.pairs is not None:
            return jax.tree.map(lambda a: a[0], view.pairs)
        delta = view.inputs.gamma * (view.losses.ghost[0, :, 0] - view.losses.train[0, :, 0])
        return _on_points(view.key, delta, view.draws.weight[0], view.inputs.gamma)

    def choose(self, pilots: Any, settings: AuditSpec) -> str:
        """Name the only estimator."""
        return "attack"

    def reconsider(self, values: Any, choice: str, settings: AuditSpec) -> None:
        """Return None: there is no other."""

    def num_pairs(self, choice: str, settings: AuditSpec, pilots: Callable[[int], Any]) -> int:
        """One pair a dataset; none where one posterior's weights give the other's."""
        return 0 if settings.is_exact else 1

    def values_of(
        self, values: TrialValues, choice: str, settings: AuditSpec
    ) -> Float[np.ndarray, " datasets"]:
        """Total variation of every dataset's pair; NaN where an attacker has no score."""
        scores = (values.optimal, values.loss, values.lira)
        is_finite: Bool[np.ndarray, " datasets"] = np.isfinite(np.stack(scores)).all(axis=0)
        return np.where(is_finite, np.asarray(values.total_variation, np.float64), np.nan)


def fitted_log_ratio(
    released: Float[Array, ""], base: Float[Array, " draws"], replaced: Float[Array, " others"]
) -> Float[Array, ""]:
    """Log ratio, at a released number, of normals fitted to two samples of such numbers, nats.

    The likelihood-ratio attack with shadow models for the pair (Carlini et al. 2022, section V).

    >>> import jax.numpy as jnp
    >>> float(fitted_log_ratio(jnp.float32(1.0), jnp.array([0.0, 2.0]), jnp.array([0.0, 2.0])))
    0.0
    """
    means = jnp.mean(base), jnp.mean(replaced)
    least = LEAST_SPREAD * jnp.abs(means[0] - means[1]) + jnp.finfo(released.dtype).tiny ** 0.5

    def log_density(mean: Array, sample: Array) -> Array:
        scale = jnp.maximum(jnp.std(sample, ddof=1), least)
        return jax.scipy.stats.norm.logpdf(released, mean, scale)

    return log_density(means[0], base) - log_density(means[1], replaced)


def _keys(key: PRNGKeyArray) -> tuple[PRNGKeyArray, PRNGKeyArray]:
    first, second = jax.random.split(jax.random.fold_in(key, SALT))
    return first, second


def _on_points(
    key: PRNGKeyArray,
    delta: Float[Array, " points"],
    weight: Float[Array, " points"],
    gamma: Float[Array, ""],
) -> TrialValues:
    """Hold a trial where both posteriors are weights on the same points; normalizers are sums."""
    coin_key, draw_key = _keys(key)
    log_weight = jnp.log(weight)
    log_both = log_weight, log_weight - delta
    log_ratio = jax.scipy.special.logsumexp(log_both[1])  # of weights that sum to 1
    both = weight, jax.nn.softmax(log_both[1])
    keys = jax.random.split(draw_key, 3)
    coin = jax.random.bernoulli(coin_key)
    place = _places(keys[0], jnp.where(coin, *both), 1)[0]
    shadow = [delta[_places(k, law, NUM_SHADOWS)] for k, law in zip(keys[1:], both, strict=True)]
    ratio = delta + log_ratio
    return TrialValues(
        coin=coin.astype(delta.dtype),
        optimal=ratio[place],
        loss=delta[place] / gamma,
        lira=fitted_log_ratio(delta[place], *shadow),
        total_variation=jnp.sum(weight * jnp.maximum(-jnp.expm1(-ratio), 0.0)),
        log_ratios=jnp.stack([s[:NUM_LOG_RATIOS] for s in shadow]) + log_ratio,
    )


def _places(key: PRNGKeyArray, law: Float[Array, " points"], count: int) -> Int[Array, " draws"]:
    """Draw points by inversion: a random number a draw, not one a point."""
    reached = jnp.cumsum(law)
    below = jax.random.uniform(key, (count,), law.dtype) * reached[-1]
    return jnp.searchsorted(reached, below, side="right").clip(0, law.size - 1)
