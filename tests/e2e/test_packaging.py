"""What is built is whole; the long test installs it, and uses it, in clean environments."""

from __future__ import annotations

import re
import zipfile

import pytest

from jobrun.version import __version__
from tests.support import release
from tests.support.command import ROOT


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return release.build(tmp_path_factory.mktemp("built"))


@pytest.mark.long
def test_the_wheel_and_the_sdist_hold_what_they_should(built):
    assert release.faults_of(built) == []


@pytest.mark.long
def test_what_is_missing_is_found(built, tmp_path):
    wheel = tmp_path / built.wheel.name
    with zipfile.ZipFile(built.wheel) as whole, zipfile.ZipFile(wheel, "w") as part:
        for name in whole.namelist():
            if name not in ("jobrun/py.typed", "jobrun/cli/app.py"):
                part.writestr(name, whole.read(name))
        part.writestr("stray.txt", "")

    assert release.faults_of(release.Built(wheel, built.sdist)) == [
        "the wheel has no jobrun/py.typed",
        "the wheel has no jobrun/cli/app.py",
        "the wheel puts stray.txt beside the package",
    ]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_it_installs_and_works_with_each_python_and_the_lowest_versions(capsys):
    code = release.main()

    output = capsys.readouterr().out
    assert code == 0, output
    assert "ok      Python 3.11, lowest versions" in output
    assert "ok      uv install" in output
    assert "ok      pipx install" in output


@pytest.mark.long
@pytest.mark.parametrize("tool", ["uv", "pipx"])
def test_it_installs_as_a_tool_of_its_own(built, tool, tmp_path):
    release.try_tool(tool, release.pythons()["3.11"], built.wheel, tmp_path / "tool")


@pytest.mark.long
def test_pip_finds_all_that_the_large_extras_of_the_wheel_need(built, tmp_path):
    actual = release.resolve_large(release.pythons()["3.11"], built.wheel, tmp_path / "large")

    assert {"jobrun", "ml_dtypes", "ray", "torch"} <= set(actual)


def test_the_version_is_defined_in_one_file():
    text = (ROOT / "pyproject.toml").read_text()

    assert release.PROJECT["dynamic"] == ["version"]
    assert 'path = "jobrun/version.py"' in text
    assert not re.search(rf'"{re.escape(__version__)}"', text)


def test_every_dependency_has_a_lowest_version():
    names = [text.partition("==")[0] for text in release.lowest()]

    assert len(names) == len(release.PROJECT["dependencies"])
    assert "numpy" in names


def test_the_pythons_that_are_promised_are_those_that_are_tried():
    promised = [
        line.rpartition(" ")[2]
        for line in release.PROJECT["classifiers"]
        if line.startswith("Programming Language :: Python :: 3.")
    ]

    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    assert tuple(promised) == release.PYTHONS + release.IN_WORKFLOW
    assert all(f'"{version}"' in workflow for version in promised)
    assert release.PROJECT["requires-python"] == f">={release.PYTHONS[0]}"
