"""A release method of one's own: one class in a user's file, and it is charged, shown and saved."""

import json
import re
import traceback
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import gibbs_dp as gdp
from gibbs_dp.privacy import ReleaseError, ReleaseMethod, ReleasePlan, compose, load_guarantee
from gibbs_dp.privacy.releases.arguments import without_checks
from gibbs_dp.sklearn.linear_model import linear_loss

UNIT = gdp.Domain(x_bound=1.0)
MEAN = gdp.GibbsPosterior(gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.real(1)))
RIDGE = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(1), 1.0))
DATA = np.linspace(-0.5, 0.9, 40)[:, None]


@dataclass(frozen=True)
class NoisyMean(ReleaseMethod):
    """Means of all rows with noise on the host; settings that break it for tests."""

    break_at: str = ""

    mechanism = "noisy mean"
    holds = "for means with exact Laplace noise & <nothing> else"
    idealizations = {}  # noqa: RUF012

    def plan(self, request):
        epsilon = request.target.pure_epsilon / request.num_draws
        if self.break_at == "promise":
            epsilon *= 1.01
        noise = gdp.privacy.LaplaceMechanism(2 / request.n, epsilon, adjacency=request.adjacency)

        def draw(posterior, data, key):
            if self.break_at == "zeros" or (self.break_at == "data" and data.any()):
                raise RuntimeError(f"the first row is {data[0]}")
            draws = np.stack([noise.release(data.mean(axis=0)) for _ in range(request.num_draws)])
            if self.break_at == "shape":
                return draws[:, 0]
            return None if self.break_at == "nothing" else draws

        promise = self.promise(
            request,
            epsilon=request.num_draws * epsilon,
            assumptions=("each row moves the mean by at most 2/n",),
            caveats=(),
        )
        return ReleasePlan(promise, draw)


@dataclass(frozen=True)
class NormalDraw(ReleaseMethod):
    """A conjugate posterior in closed form, drawn by JAX from the key that it is given."""

    mechanism = "normal draw"
    holds = "for draws of a normal law in closed form"

    def plan(self, request):
        found = request.calibrate()
        n, gamma = request.n, found.gamma

        def draw(posterior, data, key):
            precision = n * gamma + 1
            noise = jax.random.normal(key, (request.num_draws, 1)) / precision**0.5
            return gamma * jnp.sum(data, axis=0) / precision + noise

        given = found.guarantee
        promise = self.promise(
            request, gamma=gamma, epsilon=given.epsilon, delta=given.delta, zcdp=given.zcdp
        )
        return ReleasePlan(promise, draw, lambda posterior, data: draw(posterior, data, KEY))


KEY = jax.random.key(0)


@pytest.fixture
def ledger(tmp_path):
    return gdp.Ledger.create(tmp_path / "ledger", adjacency="replace-one", epsilon=50.0, delta=1e-3)


def go(ledger, method, posterior=MEAN, **asked):
    return gdp.release(
        posterior, DATA, domain=UNIT, adjacency="replace-one", ledger=ledger, method=method, **asked
    )


def test_it_is_charged_shown_and_saved(ledger, tmp_path):
    out = go(ledger, NoisyMean(), pure_epsilon=2.0, num_draws=3, purpose="means")
    assert out.theta.shape == (3, 1)
    assert abs(out.theta - DATA.mean()).max() < 36 * 3 * 2 / (40 * 2.0)  # misses at e^-36
    assert ledger.spent() == {"epsilon": 2.0, "delta": 0.0}
    assert ledger.charges()[0].purpose == "means"
    g = out.guarantee
    assert (g.mechanism, g.pure_epsilon, g.gamma, g.is_idealized) == (
        "noisy mean",
        2.0,
        None,
        False,
    )
    assert str(g).splitlines() == [
        "(2, 0)-DP, replace-one neighbours, 3 draws",
        "also pure epsilon 2",
        f"holds    {NoisyMean.holds}",
        "assumes  each row moves the mean by at most 2/n",
    ]
    assert "3 draws of 1 number, charge 1, Guarantee((2, 0)-DP" in str(out)
    for shown in (out._repr_html_(), g._repr_html_()):
        assert "noisy mean" in shown
        assert "exact Laplace noise &amp; &lt;nothing&gt; else" in shown
    for result in (out, g):
        result.to_html(tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text()
        assert "this holds for means with exact Laplace noise &amp; &lt;nothing&gt; else." in page
        assert "each row moves the mean" in page
    (tmp_path / "release.json").write_text(json.dumps(g.to_dict()))
    assert load_guarantee(tmp_path / "release.json") == g
    assert compose([g, g], delta=0.0).epsilon == 4.0
    assert gdp.privacy.largest_advantage(g) == pytest.approx(np.tanh(1.0))


def test_it_draws_by_the_key_of_the_release(ledger):
    """Against the conjugate law; 1e-7 a false alarm, and less for draws four times as wide."""
    asked = {"epsilon": 20.0, "delta": 1e-4, "accept": "float-arithmetic", "num_draws": 200}
    outs = [go(ledger, NormalDraw(), RIDGE, **asked) for _ in range(2)]
    assert isinstance(outs[0].theta, np.ndarray)
    assert not np.array_equal(outs[0].theta, outs[1].theta)
    gamma = outs[0].guarantee.gamma
    precision = 40 * gamma + 1
    law = stats.norm(gamma * DATA.sum() / precision, precision**-0.5)
    assert stats.kstest(outs[0].theta[:, 0], law.cdf).pvalue > 1e-7
    wide = law.mean() + 4 * (outs[0].theta[:, 0] - law.mean())
    assert stats.kstest(wide, law.cdf).pvalue < 1e-7


FREE = {
    "its own error": (NoisyMean("zeros"), {}, "zeros of the data's shape failed: the first row is"),
    "no draws": (NoisyMean("nothing"), {}, "failed: it returned None"),
    "another shape": (NoisyMean("shape"), {}, r"its leaves have shapes \(1,\), not \(1, 1\)"),
    "more than is asked": (NoisyMean("promise"), {}, "pure_epsilon: 1 is asked for, and what the"),
    "a figure it has not": (NoisyMean(), {"gdp": 0.5}, "exactly one of pure_epsilon"),
    "rows": (NoisyMean(), {"rows": object()}, "rows: the guarantee of this method says nothing"),
    "its class": (NoisyMean, {}, "method: NoisyMean is a class; give an object"),
    "text": ("exact-draw", {}, "method: it is none; give an object"),
    "no such word": (NoisyMean(), {"accept": "yes"}, "accept: 'yes' is no idealization"),
    "nothing accepted": (NormalDraw(), {}, "name what you accept: 'float-arithmetic'"),
}


@pytest.mark.parametrize("case", FREE)
def test_what_can_fail_without_the_data_costs_nothing(ledger, case):
    method, asked, message = FREE[case]
    with pytest.raises((ValueError, TypeError)) as error:
        go(ledger, method, **({"pure_epsilon": 1.0} | asked))
    if "Type-check" not in str(error.value):  # the tests' own, which come first
        assert error.match(message)
        assert "\n" not in str(error.value)
    assert ledger.charges() == ()


def test_a_figure_without_its_delta_is_refused(ledger):
    """Of a method that has its own epsilon and does not look at what is asked."""

    class Loose(NoisyMean):
        def plan(self, request):
            promise = self.promise(request, epsilon=0.5, delta=1e-6)
            return ReleasePlan(promise, lambda posterior, data, key: np.zeros((1, 1)))

    with pytest.raises(ValueError, match="delta: 0 is asked for, and what the method guarantees"):
        go(ledger, Loose(), epsilon=1.0)
    assert go(ledger, Loose(), epsilon=1.0, delta=1e-5).guarantee.epsilon == 0.5
    assert ledger.spent()["epsilon"] == 0.5  # what it promises, not what was asked


def test_what_fails_on_the_data_tells_nothing_of_them(ledger):
    with pytest.raises(ReleaseError) as error:
        go(ledger, NoisyMean("data"), pure_epsilon=1.0)
    assert str(error.value) == NoisyMean.failed
    assert error.value.__suppress_context__ or error.value.__context__ is None
    assert ledger.spent()["epsilon"] == 1.0


class Scaled(gdp.losses.LinearLoss):
    """Equal to others of its kind whatever its scale, which is no field."""

    def __init__(self, scale):
        object.__setattr__(self, "scale", scale)

    def value(self, prediction, y):
        return self.scale * (prediction - y) ** 2

    def slope(self, prediction, y):
        return 2 * self.scale * (prediction - y)

    def curvature(self, prediction, y):
        return 2 * self.scale + 0 * prediction


def test_losses_that_are_equal_and_differ_are_not_taken_for_each_other():
    first, second = (
        without_checks(gdp.GibbsPosterior(Scaled(scale), gdp.Flat(gdp.supports.l2_ball(1))))
        for scale in (1.0, 9.0)
    )
    assert Scaled(1.0) == Scaled(9.0)
    z = (jnp.ones(1), jnp.asarray(3.0))
    assert [float(p.loss(jnp.zeros(1), z)) for p in (first, second)] == [9.0, 81.0]
    with pytest.raises(ValueError, match="Scaled keeps scale outside of its fields"):
        linear_loss(Scaled(2.0), "numbers")


@dataclass(frozen=True)
class Forgetful(NoisyMean):
    def plan(self, request):
        super().plan(request)


@dataclass(frozen=True)
class Claiming(NormalDraw):
    """Exact draws for which nothing has to be accepted."""

    idealizations = {}  # noqa: RUF012

    def plan(self, request):
        plan = super().plan(request)
        return ReleasePlan(request.calibrate().guarantee, plan.draw, plan.traced)


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (Forgetful(), "the plan of Forgetful is no gibbs_dp.privacy.ReleasePlan"),
        (Claiming(), "Claiming guarantees exact draws; name 'exact-draw'"),
    ],
)
def test_a_method_that_plans_wrongly_costs_nothing(ledger, method, said):
    asked = {"pure_epsilon": 1.0} if method == Forgetful() else {"epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(ValueError, match=f"method: {said}"):
        go(ledger, method, RIDGE, **asked)
    assert not ledger.charges()


def test_a_kernel_that_cannot_run_is_refused_before_the_charge(ledger):
    class Unable(gdp.HMC):
        def check(self, posterior):
            raise ValueError("Unable: no such device.")

    method = gdp.privacy.ExactDraw(kernel=Unable())
    accept = ["exact-draw", "float-arithmetic"]
    with pytest.raises(ValueError, match="no such device"):
        go(ledger, method, RIDGE, epsilon=1.0, delta=1e-6, accept=accept)
    assert not ledger.charges()


@pytest.mark.parametrize(("at", "said"), [("shape", "another shape"), ("zeros", "RuntimeError")])
def test_a_number_of_rows_that_is_private_is_not_told(tmp_path, at, said):
    ledger = gdp.Ledger.create(tmp_path / "l", adjacency="add-remove", epsilon=9.0)
    with pytest.raises(ValueError, match=f"zeros of the data's shape failed: .*{said}") as told:
        gdp.release(
            MEAN, DATA, domain=UNIT, adjacency="add-remove", n=50, ledger=ledger, pure_epsilon=1.0,
            method=NoisyMean(at),
        )  # fmt: skip
    assert "40" not in str(told.value)
    assert "first row" not in str(told.value)
    assert not ledger.charges()


def of_another_shape(theta, z):
    return theta - z


def looking_at_values(theta, z):
    return jnp.sum(theta) if float(jnp.sum(z)) > 0 else jnp.sum(z)


def of_two_shapes(theta, z):
    return jnp.sum(theta + jnp.ones((len(jnp.atleast_2d(z)), 7)) @ jnp.ones(3))


FEW = DATA[:37]  # here, since tracebacks show the lines of a call


@pytest.mark.parametrize("function", [of_another_shape, looking_at_values, of_two_shapes])
@pytest.mark.parametrize("is_batch", [False, True])
def test_what_is_wrong_with_a_loss_tells_no_private_number_of_rows(tmp_path, function, is_batch):
    ledger = gdp.Ledger.create(tmp_path / "l", adjacency="add-remove", epsilon=9.0)
    loss = gdp.losses.Declared(function, oscillation=1.0)
    if is_batch:
        loss.__dict__["batch"] = lambda theta, data: function(theta, data)
    posterior = gdp.GibbsPosterior(loss, gdp.Flat(gdp.supports.l2_ball(1)))
    with pytest.raises(ValueError, match="loss: it fails on zeros of the data's shape") as told:
        gdp.release(
            posterior, FEW, domain=UNIT, adjacency="add-remove", n=50, ledger=ledger,
            pure_epsilon=1.0, accept=["exact-draw", "float-arithmetic"],
        )  # fmt: skip
    text = "".join(traceback.format_exception(told.value))
    assert "37" not in re.sub(r"line \d+", "line", text)
    assert not ledger.charges()
