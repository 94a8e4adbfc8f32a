"""The bar of an audit: tqdm's choice for terminal or notebook, without remarks on widgets."""

import subprocess
import sys

import pytest
import tqdm.auto

from gibbs_dp.engine.progress import Progress

# A process that tqdm takes for the kernel of a notebook.
NOTEBOOK = """
import sys, types, warnings
shell = type("ZMQInteractiveShell", (), {"config": {"IPKernelApp": {}}})()
sys.modules["ipykernel.zmqshell"] = types.ModuleType("ipykernel.zmqshell")
sys.modules["IPython"] = types.ModuleType("IPython")
sys.modules["IPython"].get_ipython = lambda: shell
sys.modules["ipywidgets"] = sys.modules["IPython.html.widgets"] = None
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import gibbs_dp
assert not [w for w in told if "tqdm" in w.filename], told[0].message
from gibbs_dp.engine.progress import Progress
with Progress(True, 3) as bar:
    bar.stage("sampling")
    bar.advance(2)
"""


def test_a_notebook_without_widgets_gets_a_bar_of_text_and_no_remark():
    done = subprocess.run([sys.executable, "-c", NOTEBOOK], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "sampling" in done.stderr
    assert "IProgress" not in done.stderr


@pytest.mark.parametrize("enabled", [True, False])
def test_the_bar_is_tqdms_choice(enabled, capsys):
    with Progress(enabled, 3) as bar:
        assert isinstance(bar._bar, tqdm.auto.tqdm)
        bar.stage("sampling")
    assert ("sampling" in capsys.readouterr().err) == enabled


@pytest.fixture
def widget(monkeypatch):
    """Makes bars that are widgets, which nothing displays."""
    pytest.importorskip("ipywidgets")
    notebook = pytest.importorskip("tqdm.notebook")
    monkeypatch.setattr(notebook, "display", lambda *_: None)
    monkeypatch.setattr("gibbs_dp.engine.progress.tqdm", notebook.tqdm)


@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.filterwarnings("ignore::DeprecationWarning:ipywidgets")
def test_a_widget_grows_with_the_work_and_goes_when_it_is_done(widget, steps):
    with Progress(True, steps) as bar:
        bar.expect(8)
        inner = bar._bar.container.children[1]
        assert inner.max == steps + 8
        assert inner.layout.width is None
        bar.advance(6)
        bar._bar.refresh()
        assert inner.value == 6
    assert bar._bar.container.layout.visibility == "hidden"


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ipywidgets")
def test_a_widget_of_work_that_failed_stays_and_is_red(widget):
    bar = Progress(True, 5)
    bar.advance(1)
    with pytest.raises(ZeroDivisionError), bar:
        raise ZeroDivisionError
    assert bar._bar.container.children[1].bar_style == "danger"
