import pathlib
import tempfile

import flat
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

import gibbs_dp as gdp
from gibbs_dp import populations
from gibbs_dp.model.examples import as_examples
from gibbs_dp.model.populations.base import as_population, population_name
from gibbs_dp.model.populations.table import alias_table
from gibbs_dp.model.supports import real

FALSE_ALARM = 1e-4  # of each chi-square test below


def test_a_distribution_of_numpyro_is_a_population():
    """Its parameters are traced, draws are independent of each other and of ghosts."""
    law = dist.Gamma(jnp.array([2.0, 5.0]), 1.5).to_event(1)
    found = as_population(law)
    assert population_name(found) == "Independent"
    draw = jax.jit(lambda population, key: population.sample(key, 4000, 3000))
    train, ghosts = draw(found, jax.random.key(7))
    draw(as_population(dist.Gamma(jnp.array([1.0, 3.0]), 2.5).to_event(1)), jax.random.key(7))
    assert draw._cache_size() == 1
    for i, shape in enumerate((2.0, 5.0)):
        for part in (train, ghosts):
            z = np.asarray(part)[:, i]
            assert stats.kstest(z, stats.gamma(shape, scale=1 / 1.5).cdf).pvalue > FALSE_ALARM
    assert not (np.asarray(ghosts) == np.asarray(train)[:3000]).any()
    with pytest.raises(ValueError, match="function: a distribution of NumPyro is a population as"):
        populations.Independent(law)


def test_finite_has_the_given_probabilities():
    probs = np.array([0.5, 0.3, 0.15, 0.05])
    population = populations.Finite(jnp.arange(4), probs)
    draw = jax.jit(jax.vmap(lambda key: population.sample(key, 6, 4)))
    train, ghosts = draw(jax.random.split(jax.random.key(1), 2000))
    assert train.shape == (2000, 6)
    assert ghosts.shape == (2000, 4)
    for part in (train, ghosts):
        counts = np.bincount(np.asarray(part).ravel(), minlength=4)
        assert stats.chisquare(counts, probs * part.size).pvalue > FALSE_ALARM
    # Ghosts are independent of the training set.
    table = np.zeros((4, 4))
    np.add.at(table, (np.asarray(train[:, 0]), np.asarray(ghosts[:, 0])), 1)
    joint = np.outer(probs, probs).ravel() * 2000
    assert stats.chisquare(table.ravel(), joint).pvalue > FALSE_ALARM


def test_table_with_replacement_is_uniform_over_rows_and_keeps_rows_together():
    rows = {"x": jnp.arange(20.0), "y": 3 * jnp.arange(20)}
    population = populations.Table(rows)
    draw = jax.jit(jax.vmap(lambda key: population.sample(key, 8, 4)))
    train, ghosts = draw(jax.random.split(jax.random.key(2), 1000))
    for part in (train, ghosts):
        np.testing.assert_array_equal(3 * part["x"], part["y"])
        counts = np.bincount(np.asarray(part["x"], int).ravel(), minlength=20)
        assert stats.chisquare(counts).pvalue > FALSE_ALARM
    pairs = np.asarray(train["x"][:, 0] == ghosts["x"][:, 0]).mean()
    assert abs(pairs - 1 / 20) < 4 * np.sqrt(1 / 20 * 19 / 20 / 1000)
    assert not population.is_conditional


def test_split_mode_gives_disjoint_rows_each_as_likely():
    population = populations.Table(jnp.arange(15), replace=False)
    draw = jax.jit(jax.vmap(lambda key: population.sample(key, 6, 5)))
    train, ghosts = draw(jax.random.split(jax.random.key(3), 2000))
    both = np.sort(np.concatenate([train, ghosts], axis=1), axis=1)
    assert (np.diff(both, axis=1) > 0).all()  # no row twice, in or across the two sets
    for part in (train, ghosts):
        # Rows of one draw repel, so each row's count is binomial but counts are dependent: the
        # statistic below is chi-square after the correction of sampling without replacement.
        counts = np.bincount(np.asarray(part).ravel(), minlength=15)
        k = part.shape[1]
        statistic = np.sum((counts - 2000 * k / 15) ** 2) / (2000 * k / 15) * 14 / (15 - k)
        assert stats.chi2.sf(statistic, 14) > FALSE_ALARM
    assert population.is_conditional


def test_split_mode_can_use_every_row():
    population = populations.Table(jnp.arange(10), replace=False)
    population.check_size(7, 3)
    train, ghosts = population.sample(jax.random.key(0), 7, 3)
    assert sorted(np.concatenate([train, ghosts])) == list(range(10))


def test_sampler_keeps_ghosts_apart_from_the_training_set():
    population = as_population(lambda key, n: jax.random.normal(key, (n,)))
    train, ghosts = population.sample(jax.random.key(0), 3, 3)
    assert not np.isin(train, ghosts).any()
    assert as_population(population) is population


class Shifted:
    """A user's own class, which knows nothing of the contract but ``sample``."""

    def __init__(self, shift):
        self.shift = shift

    def sample(self, key, n, num_ghosts):
        draws = self.shift + jax.random.normal(key, (n + num_ghosts,))
        return draws[:n], draws[n:]


@jax.tree_util.register_pytree_node_class
class Traced(Shifted):
    """One that JAX knows, whose datasets are joint draws."""

    is_dependent = True

    def tree_flatten(self):
        return (self.shift,), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


@pytest.mark.parametrize(
    ("given", "is_dependent", "num_traces"), [(Shifted, False, 2), (Traced, True, 1)]
)
def test_own_objects_draw_under_jit_and_declare_what_they_are(given, is_dependent, num_traces):
    traces = 0

    @jax.jit
    def draw(population, key):
        nonlocal traces
        traces += 1
        return population.sample(key, 4, 2)

    for shift in (0.0, 100.0):
        own = given(shift)
        population = as_population(own)
        assert as_population(population) is population
        assert population_name(population) == given.__name__
        assert (population.is_dependent, population.is_conditional) == (is_dependent, False)
        for again in (population, as_population(own)):
            drawn, direct = draw(again, jax.random.key(1)), own.sample(jax.random.key(1), 4, 2)
            jax.tree.map(np.testing.assert_allclose, drawn, direct)
    assert traces == num_traces  # arrays of a pytree are traced; other objects compile once each


@pytest.mark.trust
def test_an_audit_of_own_objects_heeds_what_they_declare():
    loss = gdp.losses.half_squared_distance
    posterior = gdp.GibbsPosterior(lambda theta, z: loss(theta, z[None]), gdp.Flat(real(1)))
    few = {"num_datasets": 8, "num_information": 0, "progress": False}
    row = flat.audit(posterior, Shifted(0.0), 4, 1.0, **few).rows[0]
    assert np.isfinite(row["on_average_kl"])
    with pytest.raises(ValueError, match="examples are dependent"):
        flat.audit(posterior, Traced(0.0), 4, 1.0, **few)


@pytest.mark.parametrize(
    ("population", "is_dependent", "is_conditional"),
    [
        (populations.Independent(lambda key, n: jax.random.normal(key, (n,))), False, False),
        (populations.Finite(np.arange(2.0), [0.5, 0.5]), False, False),
        (populations.Dependent(lambda key, n: jax.random.normal(key, (n,))), True, False),
        (populations.Table(np.arange(4.0)), False, False),
        (populations.Table(np.arange(4.0), replace=False), False, True),
        (populations.Table(np.arange(4.0), replace=False, groups=[0, 0, 1, 1]), True, True),
    ],
    ids=["sampler", "finite", "dependent", "table", "split", "groups"],
)
def test_populations_declare_what_they_are(population, is_dependent, is_conditional):
    assert isinstance(population, populations.Population)
    assert (population.is_dependent, population.is_conditional) == (is_dependent, is_conditional)
    assert as_population(population) is population
    assert population_name(population) == type(population).__name__


def test_same_key_same_examples():
    for population in (
        populations.Table(jnp.arange(9.0)),
        populations.Finite(jnp.arange(3.0), [0.2, 0.3, 0.5]),
        populations.Independent(lambda key, n: jax.random.normal(key, (n,))),
    ):
        one, two = (population.sample(jax.random.key(5), 4, 2) for _ in range(2))
        jax.tree.map(np.testing.assert_array_equal, one, two)


@pytest.mark.parametrize(
    "make",
    [
        lambda shift: populations.Table({"x": shift + jnp.arange(9.0)}),
        lambda shift: populations.Table({"x": shift + jnp.arange(9.0)}, replace=False),
        lambda shift: populations.Finite({"x": shift + jnp.arange(3.0)}, [0.2, 0.3, 0.5]),
    ],
    ids=["table", "split", "finite"],
)
def test_a_new_table_of_the_same_shape_compiles_nothing(make):
    traces = 0

    @jax.jit
    def draw(population, key):
        nonlocal traces
        traces += 1
        return population.sample(key, 4, 2)

    first, _ = draw(make(0.0), jax.random.key(0))
    second, _ = draw(make(100.0), jax.random.key(0))
    assert traces == 1
    np.testing.assert_allclose(second["x"], first["x"] + 100.0)


def test_floats_take_the_default_type_and_integers_stay(precision):
    table = populations.Table({"x": np.zeros((3, 2), np.float64), "k": np.arange(3)})
    assert table.data["x"].dtype == precision
    assert jnp.issubdtype(table.data["k"].dtype, jnp.integer)
    assert populations.Finite(np.zeros(2, np.float32), [0.5, 0.5]).values.dtype == precision


# -- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "match"),
    [
        ({"x": np.array([1.0, np.nan, np.inf])}, "2 values are NaN or infinite"),
        ((np.zeros((3, 2)), np.zeros(4)), r"different lengths \[3, 4\]"),
        (np.zeros((0, 2)), "empty"),
        ({}, "no arrays"),
        (3.0, "leading axis"),
        (np.array(["a", "b"]), "not numbers"),
        (np.array([1.0, None], dtype=object), "not numbers"),
    ],
)
def test_bad_examples_are_refused(data, match):
    with pytest.raises(ValueError, match=match):
        as_examples(data)
    with pytest.raises(ValueError, match=match):
        populations.Table(data)


@pytest.mark.parametrize(
    "probs",
    [
        [0.5, 0.6],
        [0.5, 0.4],
        [1.5, -0.5],
        [0.2, 0.3, 0.5],
        [np.nan, 1.0],
        [[0.5, 0.5]],
        [np.inf, 0],
    ],
)
def test_probabilities_that_are_no_distribution_are_refused(probs):
    with pytest.raises(ValueError, match=r"Finite\(probs\)"):
        populations.Finite(jnp.arange(2.0), probs)


def test_split_larger_than_the_table_is_refused():
    table = populations.Table(np.zeros(10), replace=False)
    with pytest.raises(ValueError, match="8 training rows and 3 ghosts need 11 disjoint rows"):
        table.check_size(8, 3)
    populations.Table(np.zeros(10)).check_size(8, 3)  # with replacement there is no limit


def test_something_else_is_no_population():
    with pytest.raises(ValueError, match="population: a ndarray is a table of examples"):
        as_population(np.zeros(3))


def test_weighted_rows_are_drawn_in_proportion():
    weights = np.array([0.0, 1.0, 2.0, 3.0, 0.5, 10.0, 0.0, 1.5])
    population = populations.Table(jnp.arange(8), weights=weights)
    draw = jax.jit(jax.vmap(lambda key: population.sample(key, 6, 4)))
    for part in draw(jax.random.split(jax.random.key(4), 2000)):
        counts = np.bincount(np.asarray(part).ravel(), minlength=8)
        assert (counts[weights == 0] == 0).all()
        wanted = weights / weights.sum() * part.size
        live = weights > 0
        assert stats.chisquare(counts[live], wanted[live]).pvalue > FALSE_ALARM


def test_the_alias_table_of_many_unequal_weights_is_exact():
    weights = np.random.default_rng(0).pareto(1.1, 5000)
    share, other = alias_table(weights)
    mass = share.copy()
    np.add.at(mass, other, 1 - share)
    np.testing.assert_allclose(mass / 5000, weights / weights.sum(), rtol=1e-9)


def test_groups_stay_on_one_side_and_every_group_is_as_likely():
    sizes = np.array([1, 2, 3, 4, 5, 6, 2, 2])
    groups = np.random.default_rng(0).permutation(np.repeat(np.arange(8), sizes))
    population = populations.Table(np.arange(25), replace=False, groups=groups)
    assert population.is_dependent
    population.check_size(5, 5)
    with pytest.raises(ValueError, match="up to 15 of cut groups, need 35 disjoint"):
        population.check_size(5, 15)  # three ghost datasets, and as many cuts
    draw = jax.jit(jax.vmap(lambda key: population.sample(key, 5, 10)))
    train, ghosts = map(np.asarray, draw(jax.random.split(jax.random.key(5), 3000)))
    parts = [train, ghosts[:, :5], ghosts[:, 5:]]
    for part in parts:
        assert all(len(np.unique(rows)) == 5 for rows in part)
        # All but the last group of a dataset are whole.
        counts = np.stack([np.bincount(groups[rows], minlength=8) for rows in part])
        assert (((counts > 0) & (counts < sizes)).sum(axis=1) <= 1).all()
    for a, b in ((0, 1), (0, 2), (1, 2)):
        inside = groups[parts[a]][:, :, None] == groups[parts[b]][:, None]
        assert not inside.any()
    # Exchangeable: training sets and ghosts have one law, here of the first group and of rows.
    for values in (groups, np.arange(25)):
        table = np.stack([np.bincount(values[part[:, 0]], minlength=25) for part in parts[:2]])
        table = table[:, table.sum(axis=0) > 0]
        assert stats.chi2_contingency(table).pvalue > FALSE_ALARM
    first = np.bincount(groups[train[:, 0]], minlength=8)
    assert stats.chisquare(first).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": [1.0, 2.0]}, r"Table\(weights\): shape \(2,\) for 3 rows"),
        ({"weights": [1.0, -1.0, 1.0]}, "at least 0"),
        ({"weights": [0.0, 0.0, 0.0]}, "not 0 everywhere"),
        ({"weights": [1.0, 1.0, 1.0], "replace": False}, "drawn with replacement"),
        ({"groups": [0, 0, 1]}, "use split mode"),
        ({"groups": [0, 1], "replace": False}, r"Table\(groups\): shape"),
    ],
)
def test_weights_and_groups_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        populations.Table(np.arange(3.0), **options)


# -- labels of groups ---------------------------------------------------------------------------

LOG_LIKELIHOOD = np.random.default_rng(2).normal(size=(2, 100, 6))
GROUPED = pd.DataFrame({"a": np.arange(6.0) ** 2, "y": [0, 1, 0, 1, 0, 1]})


def of_a_table(labels):
    return populations.Table(np.arange(6.0), replace=False, groups=labels)


def as_declared(labels):
    """Labels as the annotations have them; the checks of types in tests refuse others."""
    return labels if isinstance(labels, (list, np.ndarray)) else list(labels)


def of_draws(labels):
    return gdp.audit_log_likelihood(LOG_LIKELIHOOD, groups=as_declared(labels))


def of_inference_data(labels):
    held = xr.Dataset({"y": (("chain", "draw", "row"), LOG_LIKELIHOOD)})
    return gdp.audit_inference_data(
        xr.DataTree.from_dict({"/log_likelihood": held}), group=as_declared(labels)
    )


def of_a_coordinate(labels):
    # xarray holds arrays of NumPy
    kept = labels if isinstance(labels, np.ndarray) else np.asarray(pd.Series(labels))
    held = xr.Dataset(
        {"y": (("chain", "draw", "row"), LOG_LIKELIHOOD)}, coords={"person": ("row", kept)}
    )
    return gdp.audit_inference_data(
        xr.DataTree.from_dict({"/log_likelihood": held}), group="person"
    )


def of_a_frame(labels):
    frame = GROUPED.assign(who=pd.Series(labels))
    return gdp.problems.build_problem("table", data=frame, target="y", split=True, group="who")


def of_a_file(labels):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "t.parquet"
        pd.DataFrame(GROUPED.assign(who=pd.Series(labels))).to_parquet(path)
        return gdp.problems.build_problem("table", data=path, target="y", split=True, group="who")


TAKE_GROUPS = [of_a_table, of_draws, of_inference_data, of_a_coordinate, of_a_frame, of_a_file]
NAN = float("nan")
# Two of six are missing.
MISSING_LABELS = {
    "NaN": [0, 0, 1, 1, NAN, NAN],
    "NaN among texts": ["a", "a", "b", "b", NAN, NAN],
    "floats": np.array([0, 0, 1, 1, NAN, NAN]),
    "None": ["a", "a", "b", "b", None, None],
    "NA": pd.array([0, 0, 1, 1, None, None], dtype="Int64"),
    "NA of objects": ["a", "a", "b", "b", pd.NA, pd.NA],
    "texts": pd.array(["a", "a", "b", "b", None, None], dtype="string"),
    "NaT": pd.to_datetime(["2020-01-01", "2020-01-01", "2020-01-02", "2020-01-02", None, None]),
    "categories": pd.Categorical(["a", "a", "b", "b", None, None]),
    "codes of categories": pd.Categorical(["a", "a", "b", "b", None, None]).codes,
    "texts that NumPy made": np.array(["a", "a", "b", "b", NAN, NAN]),
    "empty texts": ["a", "a", "b", "b", "", "  "],
    "a series": pd.Series(["a", "a", "b", "b", None, None]),
}


@pytest.mark.parametrize("door", TAKE_GROUPS)
@pytest.mark.parametrize("case", MISSING_LABELS)
def test_rows_without_a_label_are_no_group(door, case):
    """They were one more person, often the most exposed one."""
    with pytest.raises(ValueError, match=r"2 of 6 labels are missing|missing values in who \(2\)"):
        door(MISSING_LABELS[case])


@pytest.mark.parametrize("door", TAKE_GROUPS)
@pytest.mark.parametrize(
    "labels",
    [[7, 7, 8, 8, 9, 9], np.array(["a", "a", "b", "b", "Nan", "Nan"]), [-2, -2, -1, -1, 0, 0]],
)
def test_other_labels_are_groups(door, labels):
    found = door(labels)
    if door in (of_a_table, of_a_frame, of_a_file):
        held = found if door is of_a_table else found.population
        assert np.unique(held.groups).tolist() == [0, 1, 2]
    else:
        assert "3 groups" in repr(found)


def test_masked_labels_and_weights_are_refused():
    masked = np.ma.array([0, 0, 1, 1, 2, 2], mask=[0, 0, 0, 0, 1, 1])
    for options in (
        {"replace": False, "groups": masked},
        {"weights": masked + 1.0},
        {"row_numbers": masked},
    ):
        with pytest.raises(ValueError, match=r"Table\((groups|weights|row_numbers)\): a masked"):
            populations.Table(np.arange(6.0), **options)
    with pytest.raises(ValueError, match="groups: a masked array"):
        of_draws(masked)
