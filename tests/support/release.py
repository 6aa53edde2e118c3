"""Check a release: that it builds, installs, and works.

Run as ``python -m tests.support.release`` (``make release-check``). It installs from the package
index that pip is set to, into environments of its own under a temporary folder.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from jobrun.version import __version__
from tests.support.forked_commands import ROOT

PYTHONS = ("3.11", "3.12", "3.13")
# With which the tests are run where it can be had: by the workflow.
IN_WORKFLOW = ("3.14",)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
_SPEC = ROOT / "specs" / "ci" / "smoke.yaml"
_SIDE_BY_SIDE = 2
_IMPORTS = {
    "hdf5plugin": "hdf5plugin",
    "mlflow": "mlflow",
    "obstore": "obstore",
    "parquet": "pyarrow",
    "tensorboard": "tensorboardX",
    "testing": "jobrun.testing.operators",
    "wandb": "wandb",
}
# Gigabytes, which the tests of all that they are for are run with.
_LARGE = {"ray", "torch"}
_LINES = (
    "License-Expression: Apache-2.0",
    "Requires-Python: >=3.11",
    "jobrun = jobrun.__main__:run_program",
)
_PACKED = (
    "Makefile", "LICENSE", "README.md", "tests/conftest.py", "specs/ci/smoke.yaml",
    "schemas/job.schema.json",
)  # fmt: skip
_READING = (
    "status", "runs", "metrics --plot", "inspect-checkpoint smoke", "ckpt verify smoke",
    "report --out page.html", "doctor", "explain E042", "completion bash",
)  # fmt: skip
CHECKLIST = """\
What is left for a person:
  - .github/CHANGELOG.md: what is new, in a user's words; the version of jobrun/version.py
  - make test-all on a quiet machine, and make bench compared with the last release
  - git tag v{version}; the wheel and the sdist that were checked are those that are uploaded"""


class ReleaseError(Exception):
    """A check failed; its text says which, and what was seen."""


@dataclass(frozen=True, slots=True)
class Built:
    """The built files, by name."""

    wheel: Path
    sdist: Path


def build(folder: Path) -> Built:
    """Build the sdist, and the wheel from it, so that nothing needed is missing there."""
    _run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)], ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (source,) = (folder / "unpacked").iterdir()
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], source)
    (wheel,) = folder.glob("*.whl")
    return Built(wheel, sdist)


def faults_of(built: Built) -> list[str]:
    """Return what is wrong with the contents of the built files."""
    return [*_faults_of_wheel(built.wheel), *_faults_of_sdist(built.sdist)]


def _faults_of_wheel(wheel: Path) -> Iterator[str]:
    facts = f"jobrun-{__version__}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        if f"{facts}/METADATA" not in names:
            yield f"the wheel is not of version {__version__}: {wheel.name}"
            return
        texts = archive.read(f"{facts}/METADATA") + archive.read(f"{facts}/entry_points.txt")
    files = [
        path.relative_to(ROOT).as_posix()
        for ending in ("py", "md", "svg")
        for path in (ROOT / "jobrun").rglob(f"*.{ending}")
    ]
    for name in ("jobrun/py.typed", f"{facts}/licenses/LICENSE", *sorted(files)):
        if name not in names:
            yield f"the wheel has no {name}"
    for line in _LINES:
        if line not in texts.decode():
            yield f"the wheel does not say '{line}'"
    if strays := [name for name in names if not name.startswith(("jobrun/", facts))]:
        yield f"the wheel puts {strays[0]} beside the package"


def _faults_of_sdist(sdist: Path) -> Iterator[str]:
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    for name in _PACKED:
        if name not in packed:
            yield f"the sdist has no {name}"


def pythons() -> dict[str, str]:
    """Find the interpreters of ``PYTHONS`` on this machine, by version."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    interpreters = {}
    for version in PYTHONS:
        places = [shutil.which(f"python{version}")]
        places += [str(path) for path in sorted(home.glob(f"{version}.*/bin/python"))]
        for interpreter in filter(None, places):
            asked = subprocess.run(
                [interpreter, "--version"], capture_output=True, text=True, check=False
            )
            if asked.returncode == 0 and f" {version}." in asked.stdout:
                interpreters[version] = interpreter
                break
    return interpreters


def lowest() -> list[str]:
    """Return the lowest allowed versions as constraints: ``h5py==3.11``."""
    constraints = []
    for text in PROJECT["dependencies"]:
        match = re.match(r"([\w-]+)>=([\w.]+)", text)
        if match is None:
            raise ReleaseError(f"'{text}' has no lowest version")
        constraints.append(f"{match[1]}=={match[2]}")
    return constraints


def try_out(python: str, wheel: Path, folder: Path, extras: str = "", low: bool = False) -> None:
    """Install the wheel into an environment of its own, and use it as a user does.

    Args:
        python: The interpreter.
        wheel: What to install.
        folder: Where; it is made.
        extras: Such as ``parquet,hdf5plugin``.
        low: With the lowest versions of what it needs.

    Raises:
        ReleaseError: Something does not work.
    """
    # pip of this environment installs into that one: making it a pip of its own takes seconds.
    _run([python, "-m", "venv", "--without-pip", str(folder)], ROOT)
    inside = str(folder / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", inside]
    target = f"jobrun[{extras}] @ {wheel.as_uri()}" if extras else str(wheel)
    limits = folder / "constraints.txt"
    limits.write_text("\n".join(lowest() if low else []) + "\n")
    _run([*pip, "install", "--quiet", "--only-binary", ":all:", "-c", str(limits), target], folder)
    _run([*pip, "check"], folder)
    for extra in filter(None, extras.split(",")):
        if extra not in _IMPORTS:
            raise ReleaseError(f"say in tests/support/release.py what the extra '{extra}' brings")
        _run([inside, "-c", f"import {_IMPORTS[extra]}"], folder)
    _use(inside, folder)


def resolve_large(python: str, wheel: Path, folder: Path) -> list[str]:
    """Return the packages that pip would install for the wheel with its large extras, by name.

    Raises:
        ReleaseError: They cannot be installed together.
    """
    _run([python, "-m", "venv", "--without-pip", str(folder)], ROOT)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    target = f"jobrun[{','.join(sorted(_LARGE))}] @ {wheel.as_uri()}"
    report = folder / "report.json"
    words = ["install", "--dry-run", "--quiet", "--only-binary", ":all:", "--report", str(report)]
    _run([*pip, *words, target], folder)
    return [package["metadata"]["name"] for package in json.loads(report.read_text())["install"]]


def try_tool(tool: str, python: str, wheel: Path, folder: Path) -> None:
    """Install the wheel as ``uv tool install`` or ``pipx install`` does, and use it.

    Args:
        tool: ``uv`` or ``pipx``; it is installed for this.
        python: The interpreter.
        wheel: What to install.
        folder: Where; it is made, and nothing outside of it is changed.

    Raises:
        ReleaseError: Something does not work.
    """
    _run([python, "-m", "venv", "--without-pip", str(folder)], ROOT)
    inside = str(folder / "bin" / "python")
    _run([sys.executable, "-m", "pip", "--python", inside, "install", "--quiet", tool], folder)
    words = {
        "uv": ["tool", "install", "--no-python-downloads", "--python", python, str(wheel)],
        "pipx": ["install", "--python", python, str(wheel)],
    }[tool]
    places = {
        "UV_TOOL_DIR": "tools", "UV_TOOL_BIN_DIR": "commands", "UV_CACHE_DIR": "cache",
        "PIPX_HOME": "tools", "PIPX_BIN_DIR": "commands", "PIPX_MAN_DIR": "man",
    }  # fmt: skip
    settings = {name: str(folder / folder_name) for name, folder_name in places.items()}
    _run([str(folder / "bin" / tool), *words], folder, more=settings)
    (program,) = (folder / "tools").glob("**/bin/jobrun")
    command = folder / "commands" / "jobrun"
    if not command.exists():
        raise ReleaseError(f"{tool} has put no jobrun into {command.parent}")
    _run([str(command), "new", "solver"], folder)
    _run([str(command), "run", "solver.yaml"], folder)
    _run([str(program.with_name("python")), "-c", "import jobrun"], folder)


def _use(python: str, folder: Path) -> None:
    """Run one round of the commands, in a folder where nothing of the project is."""
    shutil.copy(_SPEC, folder / "smoke.yaml")
    jobrun = [python, "-m", "jobrun"]
    version = _run([str(folder / "bin" / "jobrun"), "--version"], folder)
    if version.strip() != f"jobrun {__version__}":
        raise ReleaseError(f"--version says {version!r}")
    _run([python, "-c", "import jobrun; jobrun.prepare('smoke.yaml')"], folder)
    if _run([*jobrun, "schema"], folder) != (ROOT / "schemas" / "job.schema.json").read_text():
        raise ReleaseError("the schema differs from schemas/job.schema.json")
    _run([*jobrun, "validate", "smoke.yaml", "--strict"], folder)
    stopped = _run([*jobrun, "run", "smoke.yaml", "--max-epochs", "20"], folder, code=75)
    if stopped:
        raise ReleaseError(f"run prints {stopped!r}")
    _run([*jobrun, "resume"], folder)
    for words in _READING:
        _run([*jobrun, *words.split()], folder)
    _run([*jobrun, "sweep", "smoke.yaml", "--grid", "lr=0.5,1.0", "--epochs", "20"], folder)


def _run(
    words: Sequence[str], folder: Path, code: int = 0, *, more: Mapping[str, str] | None = None
) -> str:
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith("JOBRUN_")
    }
    for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"):
        variables.pop(name, None)
    done = subprocess.run(
        words,
        cwd=folder,
        env=variables | dict(more or {}),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != code:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])
        raise ReleaseError(f"{' '.join(words)}\nended with {done.returncode}:\n{last}")
    return done.stdout


def main() -> int:
    """Check everything, and print how each check went; return 1 when one failed."""
    with tempfile.TemporaryDirectory(prefix="jobrun-release-") as text:
        folder = Path(text)
        built = build(folder)
        wrong = faults_of(built)
        print(_line("wheel and sdist", "; ".join(wrong)))
        interpreters = pythons()
        checks = {
            f"Python {version}": (interpreter, "", False)
            for version, interpreter in interpreters.items()
        }
        oldest, interpreter = next(iter(interpreters.items()))
        extras = ",".join(sorted(PROJECT["optional-dependencies"].keys() - _LARGE))
        # Not a round of its own: extras add, and change nothing of the rest.
        del checks[f"Python {oldest}"]
        checks[f"Python {oldest}, small extras"] = interpreter, extras, False
        checks[f"Python {oldest}, lowest versions"] = interpreter, "", True

        tools = {f"{tool} install": tool for tool in ("uv", "pipx")}

        def check(name: str) -> str:
            into = folder / re.sub(r"\W+", "-", name)
            try:
                if name in tools:
                    try_tool(tools[name], interpreters[oldest], built.wheel, into)
                else:
                    interpreter, extras, low = checks[name]
                    try_out(interpreter, built.wheel, into, extras, low)
            except ReleaseError as error:
                return str(error)
            return ""

        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            names = [*checks, *tools]
            for name, fault in zip(names, pool.map(check, names), strict=True):
                print(_line(name, fault), flush=True)
                wrong += [fault] if fault else []
    for version in PYTHONS:
        if version not in interpreters:
            print(_line(f"Python {version}", "not on this machine, so not tried"))
    print(CHECKLIST.format(version=__version__))
    return 1 if wrong else 0


def _line(name: str, fault: str) -> str:
    return f"{'failed' if fault else 'ok':7} {name}" + (f": {fault}" if fault else "")


if __name__ == "__main__":
    sys.exit(main())
