"""Doors to the audit of one posterior: ArviZ's containers, files of PyMC, CmdStan's tables."""

from pathlib import Path

import h5netcdf
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import xarray as xr
from conjugate import linear_regression
from numpyro.infer import MCMC, NUTS

import gibbs_dp as gdp

PYMC = Path(__file__).parent / "pymc.nc"
CHAINS, DRAWS = 4, 500


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    values = linear_regression(12, 2, 1.0, CHAINS * DRAWS, rng).log_likelihood
    return values.reshape(CHAINS, DRAWS, 12)


def tree(**variables):
    """DataTree with log-likelihoods, from arrays and the names of their axes."""
    arrays = {name: (("chain", "draw", *dims), x) for name, (dims, x) in variables.items()}
    group = xr.Dataset(arrays, {"chain": range(CHAINS), "draw": range(DRAWS)})
    return xr.DataTree.from_dict({"/log_likelihood": group})


def same(report, other):
    return report.averages == other.averages and np.array_equal(report.names, other.names)


def test_a_file_of_pymc_has_the_exact_figure():
    """By its observed data. The file is small: 2.6% Monte Carlo error, so 5% would be no test."""
    with h5netcdf.File(PYMC) as file:
        y = np.asarray(file["observed_data/y"][:])
        x = np.asarray(file["constant_data/x"][:])
    data = np.stack([np.ones(y.size), x], axis=1), y
    exact = linear_regression(12, 2, 1.0, 10, np.random.default_rng(0), data)
    report = gdp.audit_inference_data(PYMC)
    assert report["k_hat_max"] < 0.7
    assert report["on_average_kl_mcse"] < 0.04 * exact.on_average_kl
    assert abs(report["on_average_kl"] - exact.on_average_kl) < 4.5 * report["on_average_kl_mcse"]
    assert report.names.tolist() == [f"p{i}" for i in range(12)]
    assert report.settings["variables"] == ["y"]


@pytest.mark.trust
def test_draws_of_numpyro_have_the_exact_figure():
    """By ArviZ's own conversion; the Monte Carlo error of 12,000 draws is 1.4%."""
    arviz = pytest.importorskip("arviz", exc_type=ImportError)
    rng = np.random.default_rng(2)
    x = np.stack([np.ones(14), np.tile([-1.0, 1.0], 7)], axis=1)
    y = x @ [0.5, -1.0] + rng.normal(size=14)

    def model(y):
        b = numpyro.sample("b", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
        numpyro.sample("y", dist.Normal(x @ b, 1.0), obs=y)

    mcmc = MCMC(
        NUTS(model),
        num_warmup=300,
        num_samples=3000,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(3), y)
    exact = linear_regression(14, 2, 1.0, 10, rng, (x, y))
    report = gdp.audit_inference_data(arviz.from_numpyro(mcmc, log_likelihood=True))
    assert report["k_hat_max"] < 0.7
    assert abs(report["on_average_kl"] / exact.on_average_kl - 1) < 0.05
    assert not report.warnings


def test_all_doors_give_the_same_numbers(table, tmp_path):
    names = [f"p{i}" for i in range(12)]
    plain = gdp.audit_log_likelihood(table, names=names)
    data = tree(y=(("person",), table))
    data["log_likelihood"].coords["person"] = names
    assert same(gdp.audit_inference_data(data), plain)
    assert same(gdp.audit_inference_data(data["log_likelihood"].to_dataset()), plain)
    path = tmp_path / "a.nc"
    packed = {"log_likelihood/y": {"zlib": True, "chunksizes": (1, 100, 12)}}
    for encoding in (None, {"/log_likelihood": {"y": packed["log_likelihood/y"]}}):
        data.to_netcdf(path, engine="h5netcdf", encoding=encoding)
        assert same(gdp.audit_inference_data(path), plain)
    arviz = pytest.importorskip("arviz", exc_type=ImportError)
    if arviz.__version__.startswith("0."):
        old = arviz.InferenceData.from_datatree(data)
        assert same(gdp.audit_inference_data(old), plain)
        old.to_netcdf(str(path))
        assert same(gdp.audit_inference_data(str(path)), plain)


def test_axes_may_come_in_any_order_and_have_no_coordinates(table):
    data = xr.Dataset({"y": (("obs", "draw", "chain"), table.transpose(2, 1, 0))})
    assert same(gdp.audit_inference_data(data), gdp.audit_log_likelihood(table))


def test_several_variables_are_added(table):
    data = tree(y=(("a",), table), z=(("a",), 2 * table))
    both, one = gdp.audit_inference_data(data), gdp.audit_inference_data(data, var_names="y")
    assert same(both, gdp.audit_log_likelihood(3 * table))
    assert same(one, gdp.audit_log_likelihood(table))
    assert both.settings["variables"] == ["y", "z"]
    assert any("y, z" in text for text in both.assumptions)


def shuffled(values, order):
    return values[:, :, order]


ABOVE = [f"p{i}" for i in range(12)]
ORDER = np.random.default_rng(8).permutation(12)


def two(first, second, coords=None):
    """A group of two variables, each with the names of its axes."""
    held = {
        name: (("chain", "draw", *dims), x) for name, (dims, x) in (("y", first), ("w", second))
    }
    return xr.Dataset(held, {k: (k, v) for k, v in (coords or {}).items()})


def joined(left, right, table):
    """As xarray puts two arrays with labels of their own into one group."""
    arrays = {
        name: xr.DataArray(x, dims=("chain", "draw", "p"), coords={"p": labels})
        for name, x, labels in (("y", table, left), ("w", 2 * shuffled(table, ORDER), right))
    }
    return xr.Dataset(arrays)


def by_hand(table, left, right, every):
    """Sum of both variables' factors, written into the columns of their labels."""
    found = np.zeros((CHAINS, DRAWS, len(every)))
    for labels, x in ((left, table), (right, 2 * shuffled(table, ORDER))):
        for label, column in zip(labels, np.moveaxis(x, 2, 0), strict=True):
            found[:, :, every.index(label)] += column
    return found


def close(report, table):
    """Examples may come in another order."""
    plain = gdp.audit_log_likelihood(table)
    ours, theirs = (np.array(list(r.averages.values())) for r in (report, plain))
    return np.allclose(ours, theirs, rtol=1e-6)


def test_variables_are_added_by_dimension_and_label(table):
    """Whatever the order of axes and labels: against sums that are written down by label."""
    square = table[:, :, :9].reshape(CHAINS, DRAWS, 3, 3)
    other = 3 * square[:, :, ::-1]
    turned = two((("p", "trial"), square), (("trial", "p"), other.swapaxes(2, 3)))
    moved = [ABOVE[i] for i in ORDER]
    cases = [
        (turned, {}, (square + other).reshape(CHAINS, DRAWS, 9)),
        (turned, {"group": "p"}, (square + other).sum(axis=3)),
        (turned, {"group": "trial"}, (square + other).sum(axis=2)),
        (turned.transpose("p", "draw", "trial", "chain"), {"group": "p"}, (square + other).sum(3)),
        (joined(ABOVE, moved, table), {}, 3 * table),
        (joined(ABOVE, moved, table), {"group": "p"}, 3 * table),
    ]
    for coords, expected in (
        ({"a": ABOVE, "b": moved}, 3 * table),  # by label
        ({}, table + 2 * shuffled(table, ORDER)),  # by place
        ({"a": ABOVE}, table + 2 * shuffled(table, ORDER)),
    ):
        data = two((("a",), table), (("b",), 2 * shuffled(table, ORDER)), coords)
        cases.append((data, {"examples": "shared"}, expected))
    for place, (data, options, expected) in enumerate(cases):
        assert close(gdp.audit_inference_data(data, **options), expected), place


def test_labels_that_only_one_variable_has_are_joined_if_told(table):
    left = list("abcdefghijkl")
    right = list("fghijklmnopq")
    every = list("abcdefghijklmnopq")
    expected = by_hand(table, left, right, every)
    apart = two((("a",), table), (("b",), 2 * shuffled(table, ORDER)), {"a": left, "b": right})
    for data, options in (
        (apart, {"examples": "shared"}),
        (joined(left, right, table), {"examples": "shared"}),
        (joined(left, right, table), {"group": "p"}),
    ):
        report = gdp.audit_inference_data(data, **options)
        assert sorted(report.names.tolist()) == every
        assert close(report, expected)
    with pytest.raises(ValueError, match="'y' has no number for 5 of the examples of 'w', the fi"):
        gdp.audit_inference_data(joined(left, right, table))


def test_two_arms_are_other_examples(table):
    """20 people in each of two arms are 40 examples: laid side by side by hand."""
    arms = np.concatenate([table, 2 * shuffled(table, ORDER)], axis=2)
    apart = list("mnopqrstuvwx")
    for data in (
        two((("a",), table), (("b",), 2 * shuffled(table, ORDER))),
        two((("a",), table), (("b",), 2 * shuffled(table, ORDER)), {"a": ABOVE, "b": ABOVE}),
        joined(list("abcdefghijkl"), apart, table),
    ):
        report = gdp.audit_inference_data(data, examples="separate")
        assert len(set(report.names.tolist())) == 24
        assert close(report, arms)
        assert "is of one variable only of y, w" in " ".join(report.assumptions)
    rows = two((("a", "t"), table.reshape(CHAINS, DRAWS, 6, 2)), (("a",), 2 * table[:, :, :6]))
    report = gdp.audit_inference_data(rows, group="a")
    assert close(report, table.reshape(CHAINS, DRAWS, 6, 2).sum(3) + 2 * table[:, :, :6])
    report = gdp.audit_inference_data(rows, group="a", examples="separate")
    arms = [table.reshape(CHAINS, DRAWS, 6, 2).sum(3), 2 * table[:, :, :6]]
    assert close(report, np.concatenate(arms, axis=2))


def test_what_need_not_be_of_the_same_examples_is_refused_with_the_ways_out(table):
    half = table[:, :, :6]
    wide = table.reshape(CHAINS, DRAWS, 6, 2)
    dims = [("person",), ("item",), ("arm",)]
    left, right = list("abcdefghijkl"), list("mnopqrstuvwx")
    ways = "give examples='shared' if .*examples='separate' if .*or choose one by var_names"
    cases = [
        (two((d, table), (e, table)), {}, f"'y' is over {d[0]} .12. and 'w' is over {e[0]}.*{ways}")
        for d in dims
        for e in dims
        if d != e
    ]
    cases += [
        (two((("a", "t"), wide), (("a",), half)), {}, "over a .6., t .2. and 'w' is over a"),
        (two((("a", "t"), wide), (("a", "u"), wide)), {}, f"over a .6., u .2.*{ways}"),
        (two((("a", "t"), wide), (("a",), half)), {"examples": "shared"}, "cannot be paired; give"),
        (two((("a",), table), (("b",), half)), {"examples": "shared"}, "with no labels to tell"),
        (
            two((("a",), table), (("b",), table), {"a": left, "b": right}),
            {"examples": "shared"},
            r"no label in common \('a', ...; 'm', ...\); give examples='separate'",
        ),
        (
            two((("a",), table), (("b",), table), {"a": list("aabcdefghijk"), "b": left}),
            {"examples": "shared"},
            "labels that occur twice; give",
        ),
        (
            joined(left, right, table),
            {},
            "no example has numbers in both; give",
        ),
        (two((("a",), table), (("a",), table)), {"var_names": ["y", "y"]}, "'y' is there twice"),
        (
            two((("a",), table), (("b",), table)),
            {"group": "a"},
            "no dimension of the examples of",
        ),
    ]
    for data, options, message in cases:
        with pytest.raises(ValueError, match=message) as error:
            gdp.audit_inference_data(data, **options)
        assert "\n" not in str(error.value)
    # NaN of single draws is never filled in.
    spoilt = table.copy()
    spoilt[1, 2, 3] = np.nan
    with pytest.raises(ValueError, match=r"1 numbers are NaN .*first at \[1, 2, 3\]"):
        gdp.audit_inference_data(two((("a",), spoilt), (("a",), table)), examples="shared")
    spoilt[:, :, 3] = np.nan
    with pytest.raises(ValueError, match="numbers are NaN or infinite"):
        gdp.audit_inference_data(two((("a",), spoilt), (("a",), spoilt)), examples="shared")


def test_groups_by_dimension_coordinate_and_labels(table):
    data = tree(y=(("school", "pupil"), table.reshape(CHAINS, DRAWS, 4, 3)))
    by_dim = gdp.audit_inference_data(data, group="school")
    labels = [i // 3 for i in range(12)]
    expected = gdp.audit_log_likelihood(table, groups=labels)
    assert np.allclose(by_dim.to_dataframe(), expected.to_dataframe(), rtol=1e-9)
    assert by_dim.settings["unit"] == "group"
    assert same(gdp.audit_inference_data(data, group=labels), expected)
    flat = tree(y=(("row",), table))
    flat["log_likelihood"].coords["school"] = ("row", labels)
    assert same(gdp.audit_inference_data(flat, group="school"), expected)
    assert gdp.audit_inference_data(data).names.tolist()[:4] == ["0,0", "0,1", "0,2", "1,0"]


def test_gamma_is_that_of_the_draws(table):
    data = tree(y=(("a",), table))
    tempered = gdp.audit_inference_data(data, gamma=0.5)
    assert same(tempered, gdp.audit_log_likelihood(table, 0.5))
    assert any("tempered" in text for text in tempered.assumptions)


def test_draws_of_this_library_say_what_their_gamma_is(table, tmp_path):
    data = tree(loss=(("example",), 0.5 * table))  # as they hold it: with gamma
    data.attrs = {"gibbs_dp_kind": "draws", "gamma": 0.5}
    tempered = gdp.audit_log_likelihood(table, 0.5)
    data.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    held = [data, tmp_path / "a.nc"]
    arviz = pytest.importorskip("arviz", exc_type=ImportError)
    if arviz.__version__.startswith("0."):
        held.append(arviz.InferenceData.from_datatree(data))
    for one in held:
        assert same(gdp.audit_inference_data(one), tempered)
        assert same(gdp.audit_inference_data(one, gamma=0.5), tempered)
        with pytest.raises(ValueError, match=r"gamma: these draws are of gamma 0\.5, got 1; leave"):
            gdp.audit_inference_data(one, gamma=1.0)


def test_the_group_of_draws_alone_says_what_gamma_is_in_it(tmp_path):
    z = np.random.default_rng(5).normal(size=(30, 1))
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(0, 1).expand([1]))
    draws = gdp.sample(posterior, z, gamma=0.5, num_samples=100)
    group = draws.to_xarray(log_likelihood=True)["log_likelihood"].to_dataset()
    alone = xr.DataTree.from_dict({"/log_likelihood": group})
    alone.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    expected = gdp.audit_log_likelihood(draws)
    for one in (group, alone, tmp_path / "a.nc"):
        assert same(gdp.audit_inference_data(one), expected)
        with pytest.raises(ValueError, match=r"gamma: these draws are of gamma 0\.5, got 1"):
            gdp.audit_inference_data(one, gamma=1.0)


@pytest.mark.parametrize("name", ["_FillValue", "missing_value"])
def test_what_stands_for_missing_numbers_is_none(name, table, tmp_path):
    values = table.copy()
    values[..., 3] = -999.0
    data = xr.Dataset({"y": (("chain", "draw", "person"), values)})
    held = xr.DataTree.from_dict({"/log_likelihood": data})
    encoding = {"/log_likelihood": {"y": {name: -999.0}}}
    held.to_netcdf(tmp_path / "a.nc", engine="h5netcdf", encoding=encoding)
    with pytest.raises(ValueError, match=r"not finite|finite numbers|NaN"):
        gdp.audit_inference_data(tmp_path / "a.nc")


@pytest.mark.trust
def test_draws_of_this_library_go_through_every_door(tmp_path):
    z = np.random.default_rng(5).normal(size=(30, 1))
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(0, 1).expand([1]))
    draws = gdp.sample(posterior, z, gamma=2.0, num_samples=1000)
    expected = gdp.audit_log_likelihood(draws.log_likelihood() / 2.0, gamma=2.0)
    draws.save(tmp_path / "draws.nc", log_likelihood=True)
    held = [draws.to_xarray(log_likelihood=True), tmp_path / "draws.nc", draws.to_arviz()]
    for report in [gdp.audit_log_likelihood(draws), *map(gdp.audit_inference_data, held)]:
        assert same(report, expected)
        assert report.settings["gamma"] == 2.0
    # The exact figure, for the mean of normals with a prior: gamma d v' / n' of Gaussian posteriors
    # without i and without j, whose means differ by 2 (z_i - z_j) / (1 + 2 * 29).
    precision = 1 + 2.0 * 29
    exact = precision * (2.0 / precision) ** 2 * z.var(ddof=1)  # half of E (z_i - z_j)^2, twice
    assert abs(expected["on_average_kl"] - exact) < 4.5 * expected["on_average_kl_mcse"]
    batch = gdp.sample(posterior, np.stack([z, z]), num_samples=50, is_batch=True)
    with pytest.raises(ValueError, match="draws of 2 datasets; audit one at a time"):
        gdp.audit_log_likelihood(batch)
    with pytest.raises(ValueError, match="draws of 2 datasets"):
        gdp.audit_inference_data(batch.to_xarray(log_likelihood=True))
    prior = gdp.sample(posterior, z, gamma=0.0, num_samples=50)
    with pytest.raises(ValueError, match="gamma: 0 leaves the prior"):
        gdp.audit_log_likelihood(prior)


def cmdstan(path, values, name="log_lik"):
    """Write a chain as CmdStan does."""
    header = ["lp__", "accept_stat__", "b", *(f"{name}.{i + 1}" for i in range(values.shape[1]))]
    rows = [["-1.5", "0.9", "0.1", *(f"{x:.17g}" for x in row)] for row in values]
    settings = [
        *("# stan_version_major = 2", "# method = sample (Default)", "#   sample"),
        *(f"#     num_samples = {len(values)}", "#     num_warmup = 0", "#     save_warmup = 0"),
    ]
    path.write_text("\n".join([*settings, *map(",".join, [header, *rows])]) + "\n")


def test_tables_of_cmdstan_are_read_by_arviz(table, tmp_path):
    arviz = pytest.importorskip("arviz", exc_type=ImportError)
    paths = [tmp_path / f"fit-{i + 1}.csv" for i in range(CHAINS)]
    for path, chain in zip(paths, table, strict=True):
        cmdstan(path, chain)
    if not hasattr(arviz, "from_cmdstan"):
        with pytest.raises(ValueError, match=r"reads no CSV of CmdStan; use az\.from_cmdstanpy"):
            gdp.audit_inference_data(paths)
        return
    found, plain = gdp.audit_inference_data(paths), gdp.audit_log_likelihood(table)
    assert np.allclose(list(found.averages.values()), list(plain.averages.values()), rtol=1e-9)
    with pytest.raises(ValueError, match=r"ArviZ finds no other in .*name the generated quantity"):
        gdp.audit_inference_data(paths, var_names="other")
    with pytest.raises(ValueError, match="path: there is no file"):
        gdp.audit_inference_data([*paths, tmp_path / "missing.csv"])
    whole = paths[1].read_text()
    paths[1].write_text(whole[: whole.rindex("\n", 0, -1) + 1])
    with pytest.raises(ValueError, match=r"different lengths: .*fit-1\.csv.* has 500 draws, .*-2"):
        gdp.audit_inference_data(paths)
    paths[1].write_text(whole[: whole.rindex(",")])
    with pytest.raises(ValueError, match=r"fit-2\.csv' is damaged: row 500 has 14 numbers"):
        gdp.audit_inference_data(paths)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"var_names": "z"}, "var_names: there is no 'z' in log_likelihood; it has x, y"),
        ({"var_names": []}, "var_names: nothing is named in log_likelihood; it has x, y"),
        ({}, r"var_names: 'x' is over a \(4\), b \(3\) and 'y' is over c \(12\), which need not"),
        ({"var_names": "y", "group": "school"}, r"group: 'school' is no dimension of the examples"),
        ({"var_names": "y", "group": [1, 2]}, "groups: give one label for each of the 12"),
        ({"var_names": "y", "gamma": 0.0}, "gamma: 0 leaves the prior"),
    ],
)
def test_wrong_arguments_are_refused_in_a_sentence(table, change, message):
    data = tree(x=(("a", "b"), table.reshape(CHAINS, DRAWS, 4, 3)), y=(("c",), table))
    with pytest.raises(ValueError, match=message) as error:
        gdp.audit_inference_data(data, **change)
    assert "\n" not in str(error.value)


def test_what_has_no_log_likelihood_is_told_how_to_get_one(table, tmp_path):
    told = "it has no group log_likelihood .it has posterior.; PyMC adds it by"
    data = xr.DataTree.from_dict(
        {"/posterior": xr.Dataset({"b": (("chain", "draw"), table[..., 0])})}
    )
    with pytest.raises(ValueError, match=f"data: {told}"):
        gdp.audit_inference_data(data)
    data.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match=f"path: .*a.nc': {told}"):
        gdp.audit_inference_data(tmp_path / "a.nc")
    arviz = pytest.importorskip("arviz", exc_type=ImportError)
    if arviz.__version__.startswith("0."):
        with pytest.raises(ValueError, match=f"data: {told}"):
            gdp.audit_inference_data(arviz.InferenceData.from_datatree(data))
    with pytest.raises(ValueError, match=r"data: must be InferenceData, a DataTree, .*got ndarray"):
        gdp.audit_inference_data(table)
    with pytest.raises(ValueError, match="'b' has the dimensions chain, draw; chain, draw and one"):
        gdp.audit_inference_data(data["posterior"].to_dataset())
