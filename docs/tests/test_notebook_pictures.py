"""A notebook shows a picture once, whether or not pyplot is imported and whoever asks for it."""

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

MAKE = """
import gibbs_dp as gdp
row = {"gamma": 1.0, "n": 5, "on_average_kl": 0.5, "on_average_kl_se": 0.1, "dp_epsilon": 2.0}
report = gdp.Report((row, row | {"gamma": 2.0}), {"n": 5, "loss": "squared"})
"""
# Cells that show a picture, and how many: with pyplot also what is not a cell's last value.
PLAIN = [("report.plot()", 1), ("figure = report.plot()", 0), ("display(report.plot())", 1)]
WITH_PYPLOT = [
    ("report.plot()", 1),
    ("figure = report.plot()", 1),
    ("figure", 1),
    ("report.plot(); report.plot()", 2),
    ("display(report.plot())", 1),
    ("figure = report.plot(); plt.show()", 1),
    ("figure, ax = plt.subplots(); report.plot(ax=ax); None", 1),
    ("report.to_html('page.html')", 0),
]


@pytest.mark.parametrize(
    ("first", "cells"), [("", PLAIN), ("import matplotlib.pyplot as plt", WITH_PYPLOT)]
)
def test_once(first, cells, tmp_path):
    sources = [first + MAKE, *(source for source, _ in cells)]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])
    nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()
    found = [sum("image/png" in o.get("data", {}) for o in c.outputs) for c in notebook.cells[1:]]
    assert found == [count for _, count in cells]
