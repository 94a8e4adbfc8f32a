"""Run notebooks in full and store small outputs in them: ``make outputs [NOTEBOOKS=...]``.

A notebook is read before it is run. Stored are what cells print, cut where it is long, the text of
their values, and pictures of few colours; not progress and logs, HTML, widgets, times.
With them goes a digest of the cells, by which a test sees that they belong together.
"""

import base64
import hashlib
import io
import json
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image

HERE = Path(__file__).parent
FOLDER = HERE.parent / "notebooks"
MOST_LINES, WIDTH, COLORS = 60, 640, 32
SECONDS = 3600


def digest(cells):
    """Of all sources, in order, wherever gibbs_dp is hosted."""
    text = json.dumps([[c["cell_type"], "".join(c["source"])] for c in cells])
    text = re.sub(r'REPOSITORY = \\".*?\\"', "", text)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def small_picture(data):
    """A PNG of few colours, and no wider than a page."""
    picture = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
    if picture.width > WIDTH:
        height = round(picture.height * WIDTH / picture.width)
        picture = picture.resize((WIDTH, height), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    picture.quantize(COLORS).save(out, "PNG", optimize=True)
    return base64.b64encode(out.getvalue()).decode()


def cut(text):
    """The first lines, without the names of temporary folders."""
    folder = re.escape(tempfile.gettempdir()) + r"/tmp\w+/"
    lines = re.sub(folder, "", text).splitlines(keepends=True)
    left = len(lines) - MOST_LINES
    return "".join(lines[:MOST_LINES]) + (f"... {left} lines more\n" if left > 0 else "")


def small(output):
    """What is stored of one output; None for nothing."""
    if output.output_type == "stream":
        if output.name != "stdout":
            return None
        return nbformat.v4.new_output("stream", name="stdout", text=cut(output.text))
    data = output.get("data", {})
    if "application/vnd.jupyter.widget-view+json" in data:
        return None
    kept = {}
    if "image/png" in data:
        kept["image/png"] = small_picture(data["image/png"])
    if "text/plain" in data:
        kept["text/plain"] = cut(data["text/plain"])
    if not kept:
        return None
    return nbformat.v4.new_output(output.output_type, data=kept)  # without counts


def store(path):
    """Run one in an empty folder, and write it."""
    notebook = nbformat.read(path, as_version=4)
    ran = nbformat.from_dict(notebook)
    with tempfile.TemporaryDirectory() as place:
        start = f"import sys; sys.path.insert(0, {str(FOLDER.parent)!r})"
        ran.cells.insert(0, nbformat.v4.new_code_cell(start))
        NotebookClient(ran, timeout=SECONDS, resources={"metadata": {"path": place}}).execute()
    for cell, found in zip(notebook.cells, ran.cells[1:], strict=True):
        if cell.cell_type == "code":
            cell.outputs = [kept for kept in map(small, found.outputs) if kept is not None]
            cell.execution_count = None
    notebook.metadata["gibbs_dp"] = {"outputs_of": digest(notebook.cells)}
    nbformat.write(notebook, path)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(map(str, FOLDER.glob("*.ipynb"))):
        store(Path(name))
