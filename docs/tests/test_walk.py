"""CONTRIBUTING's walk through an audit is one that an audit takes."""

import re
import subprocess
import sys

from page_blocks import ROOT


def test_a_tiny_audit_passes_every_file_of_the_walk():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    begin, end = "`gibbs_dp.audit`, step by step", "`gibbs_dp.release`, step by step"
    walk = text.partition(begin)[2].partition(end)[0]
    named = re.findall(r"`([\w/]+(?:\.py|/))`", walk)
    done = subprocess.run(
        [sys.executable, ".ci/measures.py", "--walk"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    passed = [name.removeprefix("gibbs_dp.").replace(".", "/") for name in done.stdout.split()]
    files = {f"{name}.py" for name in passed}
    folders = {f"{name.rpartition('/')[0]}/" for name in passed}
    assert len(named) > 12
    assert not [name for name in named if name not in files | folders]
