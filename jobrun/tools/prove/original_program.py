"""Compare the files that a job writes with those of the program it was ported from."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path, PurePath

from msgspec import Struct

from jobrun.core.errors import ProofError, UsageError
from jobrun.core.hash_seed import DEFAULT, VARIABLE
from jobrun.runner.identity.blas_libraries import thread_variables
from jobrun.tools.isolation.isolation import Isolation
from jobrun.tools.prove.judge import EndedCopy

_LAST_LINES = 12


class Original(Struct, frozen=True):
    """The program that a job was ported from, and the files that both write.

    Attributes:
        command: A line of shell that runs it.
        artifacts: Relative paths of files that it writes where it runs.
        here: Where its command is meant, absolute.
        folder: Of the spec, absolute: where the job writes them.
        threads: How many threads BLAS has, as in the job.
    """

    command: str
    artifacts: tuple[str, ...]
    here: Path
    folder: Path
    threads: int = 1

    def __post_init__(self) -> None:
        for name in self.artifacts:
            if PurePath(name).is_absolute() or ".." in PurePath(name).parts:
                raise UsageError.of(
                    "E404",
                    f"--artifact {name}: its path is not below the folder of the run",
                    "give the path as the program writes it, relative to where it runs",
                )


def find_job_artifacts(original: Original, ended: EndedCopy) -> dict[str, Path]:
    """Find the files that a run of the ported job has written, by the names of the artifacts.

    Raises:
        ProofError: E482, it has not written one of them.
    """
    changed = ended.isolation.files.changed_files() if ended.isolation else {}
    artifacts = {}
    for name in original.artifacts:
        inside = (ended.run.path / "artifacts" / name, ended.run.path / name)
        outside = (
            changed.get(os.fspath(folder / name)) for folder in (original.folder, original.here)
        )
        written = [path for path in (*inside, *outside) if path is not None and path.is_file()]
        if not written:
            raise ProofError.of(
                "E482",
                f"the job has not written '{name}'",
                f"save it in a task of exit: {{save: {{NAME: {name}}}}}",
            )
        artifacts[name] = written[0]
    return artifacts


def run_original(
    original: Original, isolation: Isolation, output: Path, environment: Mapping[str, str]
) -> dict[str, Path]:
    """Run the original program, which the job was ported from, to its end.

    Args:
        original: The program.
        isolation: Where it runs. What it is to write is removed there before.
        output: The file to which its stdout and stderr go.
        environment: Its variables, without those that are the same as in the job's process.

    Returns:
        The files that it wrote, by the names of the artifacts.

    Raises:
        ProofError: E481, it fails; E482, it has not written one of its artifacts.
    """
    artifacts = {name: isolation.directory / name for name in original.artifacts}
    for path in artifacts.values():
        path.unlink(missing_ok=True)
    # Like the job's own process: the same thread count, and the same order of sets of strings.
    variables = {VARIABLE: DEFAULT, **environment, **thread_variables(original.threads)}
    variables |= isolation.variables(variables)
    # 'python' is the one that has what the job needs.
    program_folder = os.path.dirname(sys.executable)  # noqa: PTH120 - of a link, where it is
    variables["PATH"] = os.pathsep.join((program_folder, variables.get("PATH", os.defpath)))
    with output.open("wb") as stream:
        ended = subprocess.run(  # noqa: S602 - a line of shell that the user gave
            original.command,
            shell=True,
            cwd=isolation.directory,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            check=False,
            preexec_fn=isolation.bind_limit(),
        )
    if ended.returncode:
        lines = output.read_text(errors="replace").strip().splitlines()[-_LAST_LINES:]
        raise ProofError.of(
            "E481",
            f"'{original.command}' fails with exit code {ended.returncode}: "
            + ("\n".join(lines) or "no output"),
            "make sure that it runs by itself in this directory; it runs in a copy of it, and can "
            "write nowhere else",
        )
    for name, path in artifacts.items():
        if not path.is_file():
            raise ProofError.of(
                "E482",
                f"'{original.command}' has not written '{name}'",
                "give the path as it writes it, relative to the directory in which it runs",
            )
    return artifacts
