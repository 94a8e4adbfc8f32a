"""Tables of `private_accuracy.py`: those that scikit-learn ships or makes; none is fetched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from sklearn import datasets

# Standardized targets are clipped here, for every method.
TARGET_BOUND = 3.0


@dataclass(frozen=True)
class Table:
    """Features, standardized, and 0/1 labels or a standardized and clipped target.

    ``made_on`` tells that the rule of ``mechanism="auto"`` was found on this table.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    is_regression: bool
    made_on: bool

    def split(self, repetition: int) -> tuple[np.ndarray, ...]:
        """Training x and y, test x and y: a quarter is held out."""
        order = np.random.default_rng(repetition).permutation(len(self.x))
        test, train = np.split(order, [len(order) // 4])
        return self.x[train], self.y[train], self.x[test], self.y[test]


def labelled() -> Iterator[Table]:
    """Tables with two classes."""
    wine, wines = datasets.load_wine(return_X_y=True)
    yield _labels("wine, first", wine, wines == 0, True)
    cells, benign = datasets.load_breast_cancer(return_X_y=True)
    yield _labels("breast cancer", cells, benign, True)
    yield _labels("breast cancer, 5 means", cells[:, :5], benign, True)
    images, digits = _digits()
    yield _labels("digits, 0 or 1", images[digits <= 1], digits[digits <= 1], True)
    yield _labels("made, 20", *_made(4_667, 20, 5, 0), True)
    x, y = datasets.load_iris(return_X_y=True)
    yield _labels("iris, virginica", x, y == 2, True)
    yield _labels("made, 30, unbalanced", *_made(5_000, 30, 10, 1, (0.8,)), True)
    patches, photograph = _patches()
    yield _labels("pixels", patches.reshape(len(patches), -1), photograph, True)
    x, y = datasets.load_diabetes(return_X_y=True)
    yield _labels("diabetes", x, y > np.median(y), False)
    yield _labels("digits, odd", images, digits % 2, False)
    yield _labels("made, 60", *_made(10_000, 60, 20, 2), False)
    yield _labels("wine, third", wine, wines == 2, False)
    some = (digits == 3) | (digits == 8)
    yield _labels("digits, 3 or 8", images[some], digits[some] == 3, False)
    yield _labels("breast cancer, 10 worst", cells[:, 20:], benign, False)
    x, y = datasets.make_friedman1(3_000, 10, noise=1.0, random_state=1)
    yield _labels("Friedman's first", x, y > np.quantile(y, 0.6), False)


def measured() -> Iterator[Table]:
    """Tables with a real target."""
    x, y = datasets.load_diabetes(return_X_y=True)
    yield _target("diabetes", x, y, True)
    x, y = datasets.make_regression(5_000, 10, n_informative=10, noise=20.0, random_state=0)
    yield _target("made, 10 features", x, y, True)
    x, y = datasets.make_friedman1(2_000, 10, noise=1.0, random_state=0)
    yield _target("Friedman's first", x, y, True)
    x, y = datasets.load_wine(return_X_y=True)
    del y
    yield _target("wine, alcohol", x[:, 1:], x[:, 0], False)
    x, y = datasets.make_sparse_uncorrelated(1_000, 10, random_state=0)
    yield _target("made, 4 of 10 features", x, y, False)
    x, y = datasets.make_regression(20_000, 30, n_informative=10, noise=100.0, random_state=1)
    yield _target("made, 30 features", x, y, False)
    patches, _ = _patches()
    corner = patches[:, 1, 1, 2]
    rest = patches.reshape(len(patches), -1)[:, :-1]
    yield _target("pixels, a blue one", rest, corner, False)


def _digits() -> tuple[np.ndarray, np.ndarray]:
    """Images without their outer columns, which are nearly always empty."""
    x, y = datasets.load_digits(return_X_y=True)
    return x.reshape(-1, 8, 8)[:, :, 1:7].reshape(-1, 48), y


def _made(rows: int, features: int, informative: int, seed: int, weights=None):
    return datasets.make_classification(
        rows,
        features,
        n_informative=informative,
        weights=weights,
        class_sep=0.8,
        random_state=seed,
    )


def _patches() -> tuple[np.ndarray, np.ndarray]:
    """50,000 squares of two by two pixels, and which photograph each is from."""
    images = datasets.load_sample_images().images
    rng = np.random.default_rng(0)
    found = []
    for image in images:
        row, column = (rng.integers(0, size - 1, 25_000) for size in image.shape[:2])
        square = [[image[row + i, column + j] for j in (0, 1)] for i in (0, 1)]
        found.append(np.moveaxis(np.array(square, float), 2, 0))
    return np.concatenate(found), np.repeat([0, 1], 25_000)


def _standard(values: np.ndarray) -> np.ndarray:
    return (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-12)


def _labels(name: str, x: np.ndarray, y: np.ndarray, made_on: bool) -> Table:
    return Table(name, _standard(x), np.asarray(y).astype(int), False, made_on)


def _target(name: str, x: np.ndarray, y: np.ndarray, made_on: bool) -> Table:
    y = np.clip(_standard(y), -TARGET_BOUND, TARGET_BOUND)
    return Table(name, _standard(x), y, True, made_on)
