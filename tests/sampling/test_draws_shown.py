"""Draws as notebooks and prompts show them; cheap for many coordinates."""

import time

import numpy as np
import pytest

import gibbs_dp as gdp
from gibbs_dp.sampling import diagnostics

LIMIT = 20


def make_draws(theta, *, batch=(), seed=0, **changed):
    lead = (*batch, 4, 50)
    rng = np.random.default_rng(seed)
    leaves = {name: rng.normal(size=lead + shape) for name, shape in theta.items()}
    values = {
        "theta": leaves["theta"] if set(leaves) == {"theta"} else leaves,
        "log_density": np.zeros(lead),
        "accept_rate": np.full(lead[:-1], 0.9),
        "is_stuck": np.zeros(lead[:-1], bool),
        "gamma": 2.0,
        "settings": {},
    }
    return gdp.Draws(**(values | changed))


def count_diagnostics(monkeypatch):
    seen, plain = [], diagnostics.describe

    def describe(values, is_path):
        seen.append(values.shape)
        return plain(values, is_path)

    monkeypatch.setattr("gibbs_dp.sampling.draws.describe", describe)
    return seen


def test_repr_is_short_and_computes_no_diagnostics(monkeypatch):
    seen = count_diagnostics(monkeypatch)
    assert repr(make_draws({"theta": (5000,)})) == (
        "Draws(5,000 coordinates, gamma=2, 4 chains x 50 draws)"
    )
    tree = {"slope": (2, 3), "shift": ()}
    assert repr(make_draws(tree, batch=(7,))) == (
        "Draws(7 datasets, 7 coordinates, gamma=2, 4 chains x 50 draws)"
    )
    assert not seen


def test_html_shows_the_first_coordinates_and_says_so(monkeypatch):
    draws = make_draws({"theta": (5000,)})
    seen = count_diagnostics(monkeypatch)
    start = time.monotonic()
    text = draws._repr_html_()
    assert time.monotonic() - start < 5
    assert [shape[-1] for shape in seen] == [LIMIT]
    assert len(text) < 40_000
    assert "theta[19]" in text
    assert "theta[20]" not in text
    assert "… and 4,980 more coordinates" in text
    assert "computed for the coordinates above only" in text
    first = draws.to_dataframe().iloc[0]
    assert f"{first['mean']:.4g}" in text


def test_html_of_few_coordinates_warns_as_the_summary_does():
    stuck = make_draws({"theta": (2,)}, is_stuck=np.array([True, False, False, False]))
    text = stuck._repr_html_()
    assert all(f"WARNING</strong> {w}" in text for w in stuck.warnings)
    assert "never moved" in text
    assert "more coordinates" not in text
    assert "above only" not in text
    assert "dataset" not in text


def test_html_of_a_batch_names_datasets():
    text = make_draws({"theta": (2,)}, batch=(30,))._repr_html_()
    assert ">dataset</th>" in text
    assert "… and 40 more coordinates" in text


@pytest.mark.parametrize("shape", [(), (1,)])
def test_html_of_one_number(shape):
    name = "theta[0]" if shape else "theta"
    assert f">{name}</td>" in make_draws({"theta": shape})._repr_html_()


def test_names_are_escaped():
    assert "<script" not in make_draws({"<script>": ()})._repr_html_()


def test_summary_of_a_strangers_draws_has_no_control_characters():
    text = make_draws({"a\x1b[2J": (), "b": ()}).summary()
    assert "[2J" in text
    assert all(line.isprintable() for line in text.splitlines())
