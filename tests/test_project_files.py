"""Files beside the package: they can be read, and say what the package and the Makefile say."""

import contextlib
import importlib
import itertools
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import settings
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import gibbs_dp

ROOT = Path(gibbs_dp.__file__).parents[1]
HOSTED = ROOT / ".github"
FORMS = sorted(f for f in (HOSTED / "ISSUE_TEMPLATE").glob("*.yml") if f.name != "config.yml")


def read(path):
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load(path.read_text())


def test_the_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (.*)$", text, re.MULTILINE)[1] == gibbs_dp.__version__
    license_ = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]
    assert re.search(r"^license: (.*)$", text, re.MULTILINE)[1] == license_


def test_the_citation_has_what_its_format_asks_for():
    found = read(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors", "abstract", "keywords"} <= set(found)
    assert found["cff-version"] == "1.2.0"
    assert "1605.02277" in found["references"][0]["url"]
    for reference in found["references"]:
        assert {"type", "title", "authors", "year"} <= set(reference)
        assert all(
            set(author) == {"family-names", "given-names"} for author in reference["authors"]
        )


def test_pre_commit_runs_what_make_lint_runs():
    hooks = read(ROOT / ".pre-commit-config.yaml")["repos"][0]["hooks"]
    run = {re.sub(r" --.*", "", hook["entry"].removeprefix(".venv/bin/")) for hook in hooks}
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    lines = [line.strip().removeprefix("$(BIN)/") for line in recipe.splitlines()]
    assert run == {re.sub(r" (--|\.).*", "", line) for line in lines}
    assert all(hook["language"] == "system" for hook in hooks)


def test_hosted_ci_calls_the_same_script_without_rights_or_secrets():
    path = HOSTED / "workflows" / "ci.yml"
    found = read(path)
    assert found["permissions"] == {"contents": "read"}
    for job in found["jobs"].values():
        assert 0 < job["timeout-minutes"] <= 180
        assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
        pythons = job["steps"][1]["with"]["python-version"].split()
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        named = [c.rpartition(" ")[2] for c in project["classifiers"] if ":: 3." in c]
        assert sorted(pythons) == sorted(named)
    assert "secrets" not in path.read_text()
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100


def test_a_tag_is_built_tried_and_uploaded_with_no_secret():
    path = HOSTED / "workflows" / "release.yml"
    found = read(path)
    assert found[True] == {"push": {"tags": ["v*"]}}  # YAML reads "on" so
    build, upload = found["jobs"]["build"], found["jobs"]["upload"]
    asked = [step["run"] for step in build["steps"] if "run" in step]
    assert asked == ['make release TAG="$GITHUB_REF_NAME"']
    assert re.search(r"^release: ## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found["permissions"] == {"contents": "read"}
    assert "permissions" not in build  # what runs code of others may not upload
    assert upload["permissions"] == {"id-token": "write"}
    assert upload["needs"] == "build"
    assert upload["environment"] == "release"
    assert not [step for step in upload["steps"] if "run" in step]
    assert upload["steps"][-1]["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert "secrets" not in path.read_text()


@pytest.fixture
def release(monkeypatch):
    """The script of `make release`, which is nobody's module."""
    monkeypatch.syspath_prepend(ROOT / ".ci")
    return importlib.import_module("release")


def test_a_release_tries_every_extra_of_this_version(release):
    assert set(release.EXTRAS) == set(PROJECT["project"]["optional-dependencies"])
    assert gibbs_dp.__version__ == release.VERSION
    assert all((ROOT / name).is_file() for name in release.MUST)
    assert release.day()  # the changelog knows this version


def test_the_root_has_no_file_that_a_run_left():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    names = {name for name in listed.stdout.splitlines() if "/" not in name}
    written = {".csv", ".html", ".json", ".log", ".nc", ".npz", ".pdf", ".png", ".svg"}
    assert not {name for name in names if Path(name).suffix in written}


@pytest.mark.parametrize("wrong", ["gibbs_dp/py.typed", "gibbs_dp/tests/test_sum.py"])
def test_a_wheel_that_lacks_or_adds_a_file_is_refused(wrong, release, tmp_path):
    listed = subprocess.run(
        ["git", "ls-files", "gibbs_dp", "_gibbs_dp_start.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout.split()
    if not listed:
        pytest.skip("this is no clone")
    for names in (listed, sorted({*listed} ^ {wrong})):
        with zipfile.ZipFile(tmp_path / "a.whl", "w") as file:
            for name in [*names, "gibbs_dp-0.1.0.dist-info/METADATA"]:
                file.writestr(name, "")
        if names is listed:
            assert release.compare(tmp_path / "a.whl") == len(listed)
    with pytest.raises(RuntimeError, match=re.escape(wrong)):
        release.compare(tmp_path / "a.whl")


def test_a_tag_of_another_version_is_refused(release, monkeypatch, capsys):
    monkeypatch.setattr(release, "missing", list)
    monkeypatch.setattr(sys, "argv", ["release.py", "nowhere", "v9.9"])
    assert release.main() == 1
    assert capsys.readouterr().out == (
        f"release: v9.9 is not built: this is version {release.VERSION}\n"
    )


def test_contributing_lists_what_make_lists():
    listed = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    block = (ROOT / "CONTRIBUTING.md").read_text().partition("```text\n")[2].partition("```")[0]
    assert block == listed
    text = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY:((?:.*\\\n)*.*)$", text, re.MULTILINE)[1]
    told = re.findall(r"^make (\w+)", listed, re.MULTILINE)
    assert set(phony.replace("\\", "").split()) == {*told, "newest"}  # a part of nightly


def test_forms_use_labels_that_there_are():
    labels = {label["name"] for label in read(HOSTED / "labels.yml")}
    used = {name for path in FORMS for name in read(path)["labels"]}
    assert used
    assert used <= labels


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_forms_are_complete(path):
    form = read(path)
    assert form["name"]
    assert form["description"]
    fields = [part for part in form["body"] if part["type"] != "markdown"]
    names = [field["id"] for field in fields]
    assert len(set(names)) == len(names)
    assert all(field["attributes"]["label"] for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_issue_forms_are_there_and_send_vulnerabilities_elsewhere():
    assert {path.stem for path in FORMS} == {"bug", "wrong-number", "feature"}
    for name in ("bug", "wrong-number"):
        assert "SECURITY.md" in (HOSTED / "ISSUE_TEMPLATE" / f"{name}.yml").read_text()
    assert isinstance(read(HOSTED / "ISSUE_TEMPLATE" / "config.yml")["blank_issues_enabled"], bool)


def test_security_names_what_the_code_calls_its_limits():
    text = " ".join((ROOT / "SECURITY.md").read_text().split())
    for words in ("Guarantee", "ledger", "float-arithmetic", "IDEALIZED", "Mironov"):
        assert words in text
    unset = re.sub(r"<!-- contact --> Or write to <\S+>\.", "", text)
    assert not re.search(r"\S@\S+\.\w", unset)  # no address is made up


def test_no_message_asks_an_index_for_this_package():
    """No index has it: messages name the packages that are missing."""
    assert not [p for p in (ROOT / "gibbs_dp").rglob("*.py") if "gibbs-dp[" in p.read_text()]


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKED = [
    Requirement(line)
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if not line.lstrip().startswith("#")
]
# Names that markers ask for, on the machines that the locked versions are for.
PLATFORMS = {
    "linux-x86_64": ("Linux", "linux", "x86_64"),
    "linux-aarch64": ("Linux", "linux", "aarch64"),
    "macos": ("Darwin", "darwin", "arm64"),
}
PYTHONS = [c.rpartition(" ")[2] for c in PROJECT["project"]["classifiers"] if ":: 3." in c]


def declared():
    """Everything that the project says it needs, of every extra and of its build."""
    lists = [
        PROJECT["build-system"]["requires"],
        PROJECT["project"]["dependencies"],
        *PROJECT["project"]["optional-dependencies"].values(),
    ]
    found = [Requirement(one) for several in lists for one in several]
    return [one for one in found if one.name != "gibbs-dp"]


@pytest.mark.trust(but=["linux-x86_64-3.13", "linux-aarch64-3.12", "macos-3.11"])
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_locked_versions_are_of_all_that_is_declared(platform, python):
    system, name, machine = PLATFORMS[platform]
    here = {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "platform_system": system,
        "sys_platform": name,
        "platform_machine": machine,
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "os_name": "posix",
        "extra": "",
    }
    used = [one for one in LOCKED if one.marker is None or one.marker.evaluate(here)]
    versions = {canonicalize_name(one.name): one.specifier for one in used}
    assert len(versions) == len(used)  # one version each
    exact = {key: re.fullmatch(r"==([\w.]+)", str(value))[1] for key, value in versions.items()}
    assert len(declared()) > 25
    for one in declared():
        assert one.specifier.contains(exact[canonicalize_name(one.name)]), one
    # And of what these need in turn, by what is installed here.
    for key in exact:
        with contextlib.suppress(metadata.PackageNotFoundError):
            if metadata.version(key) == exact[key]:
                for line in metadata.requires(key) or ():
                    need = Requirement(line)
                    if need.marker is None or need.marker.evaluate(here):
                        assert need.specifier.contains(exact[canonicalize_name(need.name)]), line
    assert {"hatchling", "editables", "pip"} <= set(exact)  # the build's, and the Makefile's


def test_locked_versions_name_no_index_and_no_accelerator():
    text = (ROOT / "constraints.txt").read_text()
    assert not re.search(r"://|^-|@|nvidia|cuda|[/\\]", text, re.MULTILINE)
    assert not [one for one in LOCKED if one.url or one.extras]


def test_what_the_makefile_installs_is_locked():
    text = (ROOT / "Makefile").read_text()
    values = dict(re.findall(r"^(\w+) *\??= *(.*)$", text, re.MULTILINE))
    assert values["LOCK"] == "constraints.txt"
    assert "--constraint $(LOCK)" in values["PIP"]
    assert "--build-constraint $(LOCK)" in values["HERE"]
    assert values["HERE"].startswith("$(PIP)")
    rules = dict(re.findall(r"^([^\s#:]+):[^=\n]*\n((?:\t.*\n)+)", text, re.MULTILINE))
    bare = [name for name, recipe in rules.items() if "pip install" in recipe]
    assert bare == ["lock"]  # which makes the file, in an environment of its own
    stamps = re.findall(r"^\$\(STAMP\)-(\w+): (.*)\n\t(.*)$", text, re.MULTILINE)
    assert {name for name, *_ in stamps} == {"audit", "test", "lint", "docs", "notebooks"}
    for name, needs, first in stamps:
        assert needs.split()[-2:] == ["pyproject.toml", "$(LOCK)"], name
        assert first.startswith("$(HERE) '.["), name
    for name in ("audit", "test", "trust", "lint", "pages", "site", "notebooks", "pictures"):
        assert re.search(rf"^{name}: \$\(STAMP\)-\w+ ## ", text, re.MULTILINE), name
    # The newest: every night, and in the short runs.
    assert re.search(r"^\t\$\(MAKE\) newest VENV=\S+ LOCK=$", rules["nightly"], re.MULTILINE)


def test_the_versions_that_were_tried_are_those_that_are_locked_and_the_oldest():
    text = (ROOT / "docs" / "versions.md").read_text()
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    locked = {one.name: str(one.specifier).removeprefix("==") for one in LOCKED}
    kept = next(row for row in rows if "constraints.txt" in row[3])
    assert kept[2] == locked["jax"]
    for name, version in re.findall(r"(\w+) ([\d.]+)", kept[3]):
        assert version == locked[name.lower()], name
    least = {one.name: str(one.specifier).removeprefix(">=") for one in declared()}
    oldest = next(row for row in rows if "oldest" in row[0])
    assert oldest[2] == least["jax"]
    for name, version in re.findall(r"(\w+) ([\d.]+)", oldest[3]):
        assert version == least[name.lower()], name
    for page in (ROOT / "README.md", ROOT / "docs" / "versions.md"):
        assert (
            f"Python {PYTHONS[0]} to {PYTHONS[-1]}, JAX {least['jax']} or newer" in page.read_text()
        )


def test_examples_are_the_same_in_make_test_and_others_in_make_trust():
    recipe = re.search(r"^trust:.*\n\t(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    assert recipe.endswith('-m "trust or hypothesis" --hypothesis-profile random')
    assert settings.get_profile("fixed").derandomize
    assert not settings.get_profile("random").derandomize
    for name in ("fixed", "random"):
        assert settings.get_profile(name).print_blob
    # A test that fixes its own would not hear of it.
    for path in (ROOT / "tests").rglob("test_*.py"):
        if path.name not in ("test_fuzz.py", Path(__file__).name):
            assert "derandomize" not in path.read_text(), path


def pictures_and_links(text):
    """Where Markdown leads, pictures and others, places on the same page left out."""
    return re.findall(r"\[[^\]]*\]\((?!#)([^)]+)\)", text)


def test_readme_leads_to_what_is_there():
    found = pictures_and_links((ROOT / "README.md").read_text())
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    hosted = urls.get("Repository", "-").removesuffix(".git")
    files = [re.sub(rf"^{re.escape(hosted)}/(raw|blob|tree)/main/", "", where) for where in found]
    inside = [where.partition("#")[0] for where in files if "://" not in where]
    assert len([where for where in inside if where.endswith((".svg", ".png"))]) >= 3
    assert [where for where in inside if not (ROOT / where).exists()] == []


def test_what_leads_outside_has_a_form_that_can_lead_somewhere():
    """Whether it does, no test may ask: the network is not the library's."""
    files = [*ROOT.glob("*.md"), ROOT / "CITATION.cff", *ROOT.glob("docs/*.md")]
    files += [
        *ROOT.glob("docs/paper/*"),
        *ROOT.glob("notebooks/*.py"),
        *ROOT.rglob("gibbs_dp/**/*.py"),
    ]
    text = "\n".join(path.read_text() for path in files)
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    found = set(re.findall(r"\bhttps?://[^\s<>()\"'`{}\\]*", text)) | set(urls.values())
    assert len(found) >= 8
    form = r"https?://(?!localhost|[\w.-]*example\b)([a-z0-9-]+\.)+[a-z]{2,}(/[\w.~/#%=&?+-]*)?"
    assert [url for url in found if not re.fullmatch(form, url)] == []
    papers = [url for url in found if "arxiv.org" in url]
    assert all(re.fullmatch(r"https://arxiv\.org/abs/\d{4}\.\d{4,5}", url) for url in papers)
    named = re.findall(r"(?i)\barxiv:\s?([\w./-]+\w)", text)
    assert all(re.fullmatch(r"\d{4}\.\d{4,5}(v\d+)?|[a-z-]+/\d{7}", name) for name in named), named
    dois = re.findall(r"(?im)^\s*doi\s*[=:]\s*[{\"]?([^}\",\s]+)", text)
    assert all(re.fullmatch(r"10\.\d{4,9}/\S+", doi) for doi in dois), dois


def test_an_address_is_written_wherever_it_is_told(tmp_path):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.example"]
    for name in ("README.md", "SECURITY.md", "pyproject.toml", "CITATION.cff", "docs/start.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for folder in (".ci", "notebooks", "docs/pictures"):
        ignored = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    for words in (["init", "--quiet"], ["add", "."]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)

    def texts():
        files = subprocess.run(["git", "ls-files"], cwd=tmp_path, capture_output=True, text=True)
        paths = [tmp_path / name for name in files.stdout.split()]
        return {p.name: p.read_text() for p in paths if p.suffix != ".png" and p.is_file()}

    program = [sys.executable, ".ci/repository.py"]
    for url in ("https://code.example/team/gibbs-dp.git", "https://other.example/gibbs-dp"):
        done = subprocess.run([*program, url, ""], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        root, found = url.removesuffix(".git"), texts()
        assert tomllib.loads(found["pyproject.toml"])["project"]["urls"] == {"Repository": url}
        assert found["CITATION.cff"].count(f'\nrepository-code: "{root}"\n') == 1
        links = pictures_and_links(found["README.md"])
        assert all(link.startswith("https://") for link in links)
        assert f"{root}/raw/main/docs/pictures/figure2.svg" in links
        assert f"{root}/blob/main/docs/scale.md#gpus" in links
        assert f"{root}/tree/main/notebooks/" in links
        for name in ("README.md", "start.md"):
            assert f"pip install 'gibbs-dp[tables,privacy] @ git+{url}'" in found[name]
        for number, suffix in itertools.product((1, 12), ("py", "ipynb")):
            text = next(t for n, t in found.items() if re.fullmatch(rf"{number}_.*\.{suffix}", n))
            quote = '"' if suffix == "py" else r"\""
            assert text.count(f"REPOSITORY = {quote}{url}{quote}") == 1
    assert "code.example" not in "".join(found.values())
    assert texts()["SECURITY.md"] == (ROOT / "SECURITY.md").read_text()
    done = subprocess.run([*program, "", "safe@code.example"], cwd=tmp_path, capture_output=True)
    assert done.stdout.split() == [b"SECURITY.md"]
    assert "<!-- contact --> Or write to <safe@code.example>.\n" in texts()["SECURITY.md"]
    for wrong in (["", ""], ["http://code.example", ""], ["", "nobody"]):
        assert subprocess.run([*program, *wrong], cwd=tmp_path, capture_output=True).returncode == 2
