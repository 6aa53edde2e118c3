"""All code that decides a result is found and compared, wherever it is."""

from __future__ import annotations

import compileall
import os
import re
import shutil
import subprocess
import sys

import pytest

from jobrun.api import prepare
from jobrun.cli.run_command import invoke
from jobrun.core.files.digest import digest_file
from jobrun.runner.identity.code_digests import (
    Source,
    digest_code,
    digest_scripts,
    find_source,
)
from jobrun.runner.rundir.run_directories import open_run
from tests.support.stored_runs import only_run

SPEC = """\
jobrun: 1
name: add
init: [{task: start, steps: ["x = 0.0"]}]
epoch: [{task: step, steps: [{call: "TARGET", with: {x: x}, out: x}]}]
stop: [{epochs: 6}]
"""


def _code(folder, target="main:step", more=""):
    (folder / "add.yaml").write_text(SPEC.replace("TARGET", target) + more)
    prepared = prepare(str(folder / "add.yaml"))
    return digest_code(prepared.job, folder)


def _write(folder, **texts):
    for name, text in texts.items():
        # A double underscore stands for a slash.
        path = folder / f"{re.sub(r'__(?!init|$)|__(?=__init)', '/', name)}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_digests_of_callables_follow_their_source(tmp_path):
    _write(tmp_path, main="def step(x): return x\n")
    before = _code(tmp_path)
    _write(tmp_path, main="def step(x): return x + 1\n")
    after = _code(tmp_path)

    assert set(before.sources) == set(after.sources) == {"main:step"}
    assert before != after
    assert before.packages == {}


def test_modules_that_are_imported_count_however_deep(tmp_path):
    _write(
        tmp_path,
        main="import os\nfrom helpers import add\nimport pack.deep\n",
        helpers="def add(x):\n    from other import one\n    return one\n",
        other="import main\none = 1\n",
        pack____init__="",
        pack__deep="from . import near\nfrom .sub import far\n",
        pack__near="",
        pack__sub="far = 1\n",
        unused="",
        lazy="",
        named="import importlib\nimportlib.import_module('lazy')\n",
        typed="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import unused\n",
    )
    (tmp_path / "pack" / "near.py").write_text("import named, typed\n")

    sources = _code(tmp_path).sources

    assert sorted(sources) == [
        "helpers",
        "lazy",
        "main:step",
        "named",
        "other",
        "pack",
        "pack.deep",
        "pack.near",
        "pack.sub",
        "typed",
    ]
    assert all(digest.startswith("sha256:") for digest in sources.values())


@pytest.mark.parametrize(
    "line",
    [
        "import_module(f'models.{name}')", "import_module('models.%s' % name)",
        "import_module('models.' + name)", "import_module('models.{}'.format(name))",
        "__import__(f'models.{name}')",
    ],
)  # fmt: skip
def test_import_of_a_computed_name_covers_all_candidates(tmp_path, line):
    _write(
        tmp_path,
        main=f"from importlib import import_module\ndef step(x): {line}\n",
        models____init__="",
        models__one="",
        models__sub__two="",
        unused="",
    )
    assert {"models", "models.one", "models.sub.two"} <= {*_code(tmp_path).sources}
    assert "unused" not in _code(tmp_path).sources


def test_unparsable_module_has_no_imports(tmp_path):
    _write(tmp_path, main="import (")
    assert set(_code(tmp_path).sources) == {"main:step"}


def test_the_standard_library_counts_with_the_version_of_python(tmp_path):
    digests = _code(tmp_path, "_thread:start_new_thread")
    assert (digests.sources, digests.packages) == ({}, {})
    digests = _code(tmp_path, "json:loads")
    assert (digests.sources, digests.packages) == ({}, {})


def test_namespace_packages_bytecode_and_extensions_count(tmp_path):
    _write(tmp_path, main="from space import inner\nimport old, fast\n", space__inner="")
    _write(tmp_path, old="import deep\nfrom space import far\n", deep="", space__far="")
    compileall.compile_file(str(tmp_path / "old.py"), legacy=True, quiet=1)
    (tmp_path / "old.py").unlink()
    (tmp_path / "fast.abi3.so").write_bytes(b"machine code")

    sources = _code(tmp_path).sources

    assert set(sources) == {"main:step", "space.inner", "old", "deep", "space.far", "fast"}
    (tmp_path / "fast.abi3.so").write_bytes(b"machine Code")
    changed = _code(tmp_path).sources
    assert {name for name in sources if sources[name] != changed[name]} == {"fast"}


def test_installed_packages_count_with_the_versions_of_their_distributions(tmp_path):
    _write(tmp_path, main="import yaml, scipy.stats\nfrom sklearn.cluster import KMeans\n")

    digests = _code(tmp_path)

    assert set(digests.sources) == {"main:step"}
    assert {"pyyaml", "scipy", "scikit-learn", "numpy", "joblib"} <= set(digests.packages)


def test_a_callable_of_an_installed_package_is_its_version(tmp_path):
    digests = _code(tmp_path, "scipy.special:expit")
    assert digests.sources == {}
    assert set(digests.packages) == {"scipy", "numpy"}


def test_an_installed_file_that_no_package_owns_counts_with_its_digest(tmp_path, monkeypatch):
    site, job = tmp_path / "site-packages", tmp_path / "job"
    _write(site, loner="x = 1\n")
    _write(job, main="import loner\ndef step(x): return x\n")
    monkeypatch.syspath_prepend(site)

    digests = _code(job)

    assert set(digests.sources) == {"main:step"}
    assert digests.packages == {"site-packages/loner.py": digest_file(site / "loner.py")}


def test_modules_that_a_script_imports_count(tmp_path):
    _write(tmp_path, main="", train="import helper, scipy\n", helper="")
    more = 'exit: [{task: t, steps: [{run: "python train.py --fast"}]}]\n'
    digests = _code(tmp_path, more=more)
    assert set(digests.sources) == {"main:step", "./train.py", "helper"}
    assert digests.packages == {}


def test_a_class_of_a_reader_counts(tmp_path):
    _write(tmp_path, main="", feed="import inner\nclass Feed: pass\n", inner="")
    more = (
        'readers: {r: {call: "feed:Feed", fields: [a]}}\n'
        "download: [{task: t, read: r, steps: [y = a]}]\n"
    )
    assert {"feed:Feed", "inner"} <= set(_code(tmp_path, more=more).sources)


@pytest.fixture(scope="module")
def virtual_environment(tmp_path_factory):
    """An environment of its own that has all that this one has."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    [site] = (folder / "venv" / "lib").glob("python*/site-packages")
    paths = [path for path in sys.path if path.endswith("site-packages")]
    import jobrun  # noqa: PLC0415

    paths.append(os.path.dirname(os.path.dirname(jobrun.__file__)))  # noqa: PTH120
    (site / "base.pth").write_text("\n".join(paths))
    return folder / "venv" / "bin" / "python", site


def _installed(site, version, body, *, direct=False):
    package, info = site / "libdist", site / f"libdist-{version}.dist-info"
    for old in (package, *site.glob("libdist-*.dist-info")):
        shutil.rmtree(old, ignore_errors=True)
    package.mkdir()
    info.mkdir()
    (package / "__init__.py").write_text(f"def add(x): return x + {body}\n")
    (info / "METADATA").write_text(f"Name: libdist\nVersion: {version}\n")
    (info / "RECORD").write_text(f"libdist/__init__.py,sha256={body},10\n")
    if direct:
        (info / "direct_url.json").write_text('{"url": "file:///src", "dir_info": {}}')


def _jobrun(python, folder, *words):
    return subprocess.run(
        [python, "-m", "jobrun", *words], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.long
def test_a_changed_module_of_an_editable_package_is_drift(virtual_environment, tmp_path):
    python, site = virtual_environment
    source = tmp_path / "src"
    _write(
        source,
        myproj____init__="",
        myproj__train="from . import layers\ndef step(x):\n    return layers.add(x)\n",
        myproj__layers="def add(x): return x + 1\n",
    )
    (site / "__editable__.myproj.pth").write_text(str(source))
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "add.yaml").write_text(SPEC.replace("TARGET", "myproj.train:step"))
    assert _jobrun(python, folder, "run", "add.yaml", "--max-epochs", "2").returncode == 75
    unchanged = _jobrun(python, folder, "resume", "--dry-run").stdout.split()
    assert unchanged[unchanged.index("changed") + 1] == "nothing"

    _write(source, myproj__layers="def add(x): return x + 100\n")

    for words in (["resume", "--dry-run"], ["resume"], ["resume", "--strict"]):
        done = _jobrun(python, folder, *words)
        assert done.returncode == 5, words
        assert "callables.myproj.layers" in done.stdout + done.stderr
    assert (
        _jobrun(python, folder, "resume", "--accept-drift", "callables.myproj.layers").returncode
        == 0
    )


@pytest.mark.long
def test_another_package_version_warns_and_is_refused_when_strict(virtual_environment, tmp_path):
    python, site = virtual_environment
    _installed(site, "1.0", 1)
    _write(tmp_path, main="import libdist\ndef step(x): return libdist.add(x)\n")
    (tmp_path / "add.yaml").write_text(SPEC.replace("TARGET", "main:step"))
    assert _jobrun(python, tmp_path, "run", "add.yaml", "--max-epochs", "2").returncode == 75
    run = only_run(tmp_path / "runs")
    assert open_run(run).record.packages == {"libdist": "1.0"}

    _installed(site, "2.0", 100)

    done = _jobrun(python, tmp_path, "resume", "--strict")
    assert done.returncode == 5
    assert "E370" in done.stderr
    assert "packages.libdist" in done.stderr
    done = _jobrun(python, tmp_path, "resume")
    assert done.returncode == 0
    assert "packages.libdist: was 1.0, is 2.0" in done.stderr


@pytest.mark.long
def test_a_package_built_from_a_folder_is_more_than_its_version(virtual_environment, tmp_path):
    python, site = virtual_environment
    _write(tmp_path, main="import libdist\ndef step(x): return libdist.add(x)\n")
    (tmp_path / "add.yaml").write_text(SPEC.replace("TARGET", "main:step"))
    _installed(site, "1.0", 1, direct=True)
    assert _jobrun(python, tmp_path, "run", "add.yaml", "--max-epochs", "2").returncode == 75
    _installed(site, "1.0", 100, direct=True)

    done = _jobrun(python, tmp_path, "resume", "--strict")

    assert done.returncode == 5
    assert "packages.libdist: was 1.0 sha256:" in done.stderr.replace("E370]", "")


def test_fork_runs_the_present_code_and_lists_the_differences(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _write(
        tmp_path,
        main="import near\ndef step(x): return near.add(x)\n",
        near="def add(x): return x + 1\n",
    )
    (tmp_path / "add.yaml").write_text(SPEC.replace("TARGET", "main:step"))
    assert invoke(["run", "add.yaml", "--max-epochs", "2", "-q"]) == 75
    _write(tmp_path, near="def add(x): return x + 2\n")
    assert invoke(["resume", "-q"]) == 5
    capsys.readouterr()

    assert invoke(["fork", "add", "--max-epochs", "1"]) == 75

    assert "not as in the run it is forked from: callables.near" in capsys.readouterr().err


def test_the_folder_of_the_spec_comes_first(tmp_path):
    (tmp_path / "json.py").write_text("x = 1")

    assert find_source("json", tmp_path).path == tmp_path / "json.py"


def test_packages_and_their_modules_are_found(tmp_path):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    (tmp_path / "pkg" / "mod.py").write_text("raise SystemExit")

    assert find_source("pkg", tmp_path).path.name == "__init__.py"
    assert find_source("pkg.mod", tmp_path).path.name == "mod.py"
    assert find_source("pkg.other", tmp_path) is None


def test_installed_modules_are_found_and_not_imported(tmp_path):
    sys.modules.pop("wave", None)

    assert find_source("wave", tmp_path).path.name == "wave.py"
    assert find_source("xml.dom.pulldom", tmp_path).path.name == "pulldom.py"
    assert find_source("nosuchmodule", tmp_path) is None
    assert "wave" not in sys.modules


def test_built_in_modules_have_no_source(tmp_path):
    assert find_source("_thread", tmp_path) == Source(None)


def test_another_text_is_another_digest(tmp_path):
    (tmp_path / "m.py").write_text("x = 1")
    before = find_source("m", tmp_path).digest
    (tmp_path / "m.py").write_text("x = 2")

    assert find_source("m", tmp_path).digest != before


def test_scripts_of_the_folder_count_and_data_does_not(tmp_path):
    for name in ("step.py", "data.csv", "run.SH"):
        (tmp_path / name).write_text(name)
    (tmp_path.parent / "outside.py").write_text("")

    words = ["python3", "step.py", "data.csv", "./run.SH", "../outside.py", "-x", "/bin/sh"]
    digests = digest_scripts(words, tmp_path)

    assert sorted(digests) == ["./run.SH", "./step.py"]
