"""Losses of all examples at once are those that a vmap gives, in another layout."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp._jaxlib.compile import program
from gibbs_dp._jaxlib.devices import compiled_for
from gibbs_dp._jaxlib.jaxprs import equations
from gibbs_dp._jaxlib.per_example import over_examples
from gibbs_dp._jaxlib.precision import logaddexp
from gibbs_dp.sampling.sample import STATIC, _sample_batch_of

N, D, H, CHAINS = 7, 3, 4, 5


def logistic(theta, z):
    return jax.nn.softplus(z["x"] @ theta) - z["y"] * (theta @ z["x"])


def network(theta, z):
    hidden = jnp.tanh(theta["w"] @ z["x"] + theta["b"])
    linear = jax.lax.dot_general(z["x"], theta["w"], (((0,), (1,)), ((), ())))
    scores = hidden @ theta["v"] + linear @ theta["v"]
    return -jax.nn.log_softmax(scores)[z["label"]]


def mixture(theta, z):
    gap = z["x"] - theta
    return -jax.nn.logsumexp(-0.5 * jnp.sum(gap**2, axis=-1)) + gap[0] @ gap[1]


def poisson(theta, z):
    rate = jnp.sum(z["x"] * theta[0])
    return jnp.exp(rate) - z["y"] * rate + theta[1] ** 2


def of_a_matrix(theta, z):
    both = z["image"] @ theta["w"].T  # two free axes, one of either operand
    grams = jnp.einsum("ij,jk,lk->il", both, theta["w"], z["image"])
    return jnp.sum(grams) + jnp.sum(z["image"].reshape(-1) * theta["b"][0], axis=0)


def steps(theta, z):
    def body(t, carry):
        return carry * 0.5 + jnp.dot(z["x"], theta) * t

    sum_of_steps = jax.lax.fori_loop(0, 3, body, 0.0)
    chosen = jax.lax.cond(z["label"] > 0, jnp.sin, jnp.cos, sum_of_steps)
    squared, _ = jax.lax.scan(lambda c, x: (c + x * theta[0], x), chosen, z["x"])
    return squared + jnp.sort(theta * z["x"])[1] + jax.nn.relu(theta[0]) + theta[z["label"]]


@jax.custom_jvp
def doubled(x):
    return 1.0 * x


doubled.defjvps(lambda t, _, x: 2.0 * t)


@jax.custom_vjp
def tripled(x):
    return 1.0 * x


tripled.defvjp(lambda x: (tripled(x), None), lambda _, ct: (3.0 * ct,))


def with_rules(theta, z):
    return doubled(tripled(z["x"] @ theta)) + jax.checkpoint(jnp.sin)(theta[0] * z["y"])


def alone(theta, z):
    del z
    return jnp.sum(theta**2)


def shapes_of(name):
    weights = {"w": (H, D), "b": (H,), "v": (H, 3)}
    return {
        "network": weights,
        "of_a_matrix": weights,
        "mixture": (2, D),
        "poisson": {0: (D,), 1: ()},
    }.get(name, (D,))


LOSSES = {
    f.__name__: f
    for f in (logistic, network, mixture, poisson, of_a_matrix, steps, with_rules, alone)
}


def problem(name, dtype, seed=20):
    shapes = shapes_of(name)
    is_shape = lambda s: isinstance(s, tuple)  # noqa: E731
    rng = np.random.default_rng(seed)
    draw = lambda *s: jnp.asarray(rng.normal(size=s), dtype)  # noqa: E731
    theta = jax.tree.map(lambda s: draw(CHAINS, *s), shapes, is_leaf=is_shape)
    x, image = draw(N, D), draw(N, 2, D)
    if name == "of_a_matrix":
        theta["b"] = draw(CHAINS, 1, 2 * D)
    labels = jnp.asarray(rng.integers(0, 3, N))
    return LOSSES[name], theta, {"x": x, "y": x[:, 0] ** 2, "image": image, "label": labels}


def plain(loss, theta, data):
    return jax.vmap(lambda z: loss(theta, z))(data)


@pytest.mark.trust(but=["float64-network", *(f"float32-{name}" for name in LOSSES)])
@pytest.mark.parametrize("name", LOSSES)
def test_numbers_gradients_and_curvatures_are_those_of_a_vmap(name, dtype):
    loss, theta, data = problem(name, dtype)
    weights = jnp.linspace(0.5, 1.5, N).astype(dtype)

    def everything(over):
        def of_one(theta):
            total = lambda t: jnp.sum(weights * over(loss, t, data))  # noqa: E731
            return over(loss, theta, data), jax.value_and_grad(total)(theta)

        return jax.jit(jax.vmap(of_one))(theta)

    found, wanted = everything(over_examples), everything(plain)
    assert found[0].shape == (CHAINS, N)
    jax.tree.map(lambda a, b: _agree(a, b, dtype), found, wanted)
    if name != "with_rules":  # a custom_vjp has no forward derivative
        first = jax.tree.map(lambda a: a[0], theta)
        curved = lambda over: jax.jit(  # noqa: E731
            jax.jacfwd(jax.grad(lambda t: jnp.sum(weights * over(loss, t, data))))
        )(first)
        jax.tree.map(lambda a, b: _agree(a, b, dtype), curved(over_examples), curved(plain))


def _agree(found, wanted, dtype):
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    eps = float(jnp.finfo(dtype).eps)
    scale = float(jnp.max(jnp.abs(wanted)))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=60 * eps * max(scale, 1.0))


def test_derivatives_by_the_data_too(dtype):
    loss, theta, data = problem("logistic", dtype)
    theta = theta[0]

    def by_data(over):
        return jax.jit(jax.grad(lambda x: jnp.sum(over(loss, theta, {**data, "x": x}))))(data["x"])

    _agree(by_data(over_examples), by_data(plain), dtype)


@pytest.mark.parametrize("name", ["logistic", "network", "mixture", "poisson"])
def test_examples_are_the_last_axis_of_all_that_depends_on_a_chain(name):
    loss, theta, data = problem(name, jnp.float32)

    def axes(over):
        """Where the axis of examples stands in whatever has chains and examples."""
        program = jax.make_jaxpr(jax.vmap(lambda t: over(loss, t, data)))(theta)
        shapes = [
            v.aval.shape
            for e in equations(program)
            for v in e.outvars
            if e.primitive.name in ("add", "sub", "mul", "exp", "tanh", "max", "integer_pow")
        ]
        return [s.index(N) - len(s) for s in shapes if N in s and CHAINS in s]

    with compiled_for("cpu"):
        found = axes(over_examples)
    assert set(found) == {-1}
    assert set(axes(plain)) != {-1}
    with compiled_for("cuda"):  # accelerators lay memory out themselves
        assert axes(over_examples) == axes(plain)


def test_a_gradient_of_softplus_computes_no_logarithm():
    _, theta, data = problem("logistic", jnp.float32)

    def shown(loss):
        slope = jax.jit(jax.grad(lambda t: jnp.sum(over_examples(loss, t, data))))
        return slope.lower(theta[0]).compile().as_text()

    assert "log-plus-one" not in shown(logistic)
    # Somebody's own function of the same name keeps its own derivative.
    own = jax.custom_jvp(lambda a, b: jnp.log1p(jnp.exp(a - b)) + b)
    own.defjvps(lambda t, _, a, b: 5.0 * t, lambda t, _, a, b: 7.0 * t)
    own.__name__ = "logaddexp"
    loss = lambda theta, z: own(theta[0], theta[1] + z["y"])  # noqa: E731
    slope = jax.jit(jax.grad(lambda t: jnp.sum(over_examples(loss, t, data))))(theta[0])
    np.testing.assert_allclose(slope, [5.0 * N, 7.0 * N, 0.0])


@pytest.mark.trust(but="float32")
def test_logaddexp_is_that_of_jax(dtype):
    inf = float("inf")
    pairs = [(0.3, -2.0), (90.0, -90.0), (1e4, 1e4), (-inf, 1.0), (inf, 1.0), (-inf, -inf)]
    a, b = (jnp.asarray(column, dtype) for column in zip(*pairs, strict=True))
    eps = float(jnp.finfo(dtype).eps)
    np.testing.assert_allclose(logaddexp(a, b), jnp.logaddexp(a, b), rtol=4 * eps)
    assert jnp.isnan(logaddexp(a[0], jnp.asarray(jnp.nan, dtype)))
    # JAX's own slope subtracts large numbers: 0.4999 at (1e4, 1e4) in single precision.
    gap = np.asarray(a - b, np.float64)[:3]
    for by, sign in ((0, 1.0), (1, -1.0)):
        slope = jax.vmap(jax.grad(logaddexp, argnums=by))(a[:3], b[:3])
        np.testing.assert_allclose(slope, 1 / (1 + np.exp(-sign * gap)), rtol=8 * eps, atol=1e-37)


def test_bad_sizes_are_refused_as_by_a_vmap():
    _, theta, data = problem("logistic", jnp.float32)
    data = {**data, "y": data["y"][:-1]}
    with pytest.raises(ValueError, match="inconsistent sizes"):
        jax.jit(lambda t: over_examples(logistic, t, data))(theta[0])


def test_a_loss_outside_of_any_program_may_look_at_its_parameter():
    posterior = gdp.GibbsPosterior(
        lambda theta, z: (theta - z) ** 2 if theta > 0 else 0.0 * z, dist.Normal(0.0, 1.0)
    )
    data = jnp.array([1.0, 3.0])
    assert posterior.losses(jnp.array(2.0), data).tolist() == [1.0, 1.0]


def programs():
    """How many were compiled to sample with."""
    return program(_sample_batch_of, STATIC, "cpu", True).jitted._cache_size()


@pytest.mark.trust
def test_samples_are_those_of_a_vmap_and_other_data_compile_nothing():
    class Mapped:
        def __call__(self, theta, z):
            return logistic(theta, z)

        def batch(self, theta, data):
            return plain(logistic, theta, data)

    x = jax.random.normal(jax.random.key(3), (20, 2))
    data = {"x": x, "y": (x[:, 0] > 0) * 1.0}
    prior = dist.Normal(0.0, 1.0).expand([2])
    mine, theirs = gdp.GibbsPosterior(logistic, prior), gdp.GibbsPosterior(Mapped(), prior)
    found, wanted = (gdp.sample(p, data, gamma=0.5, key=4) for p in (mine, theirs))
    # A random walk of a few hundred steps from one seed: it drifts apart by rounding alone.
    np.testing.assert_allclose(jnp.mean(found.theta), jnp.mean(wanted.theta), atol=2e-3)
    compiled = programs()
    gdp.sample(mine, {**data, "x": 1.5 * x}, gamma=2.0, key=5)
    assert programs() == compiled
