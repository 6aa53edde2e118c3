"""Record the provenance of a run: command line, version control, lock files.

None of it decides whether a run may continue: what counts is compared by itself. It is there to
find the code of a result again.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobrun.core.notify_target import describe_target
from jobrun.runner.rundir.run_json import RunRecord

if TYPE_CHECKING:
    from jobrun.runner.identity.recorded_job import Authored

_LOCK_FILES = (
    "uv.lock", "poetry.lock", "pdm.lock", "pixi.lock", "Pipfile.lock", "conda-lock.yml",
    "requirements.txt",
)  # fmt: skip
# A repository on a slow disk must not hold up a start.
_MOST_S = 5.0
# Options against programs that a repository's own configuration could make git run.
_HARMLESS = ("-c", "core.fsmonitor=false", "-c", "diff.external=", "-c", "core.hooksPath=/dev/null")


def collect_provenance(present: Authored) -> dict[str, Any]:
    """Collect the provenance of a run as JSON values: command line, git commit, lock files.

    Args:
        present: What is run.

    Returns:
        ``command``: the words of the command line. ``git``, where the folder is in a repository
        and git answers: ``commit``, ``dirty`` (tracked files differ from it), ``diff`` (digest of
        that difference). ``lock_files``: digests, by path relative to the folder.
    """
    # Lazy: not needed to show a provenance.
    from jobrun.core.files.digest import digest_file  # noqa: PLC0415

    folder = Path(present.folder)
    top = _repository(folder)
    program = os.path.basename(sys.argv[0])  # noqa: PTH119
    # The name under 'python -m jobrun', by which a sweep starts its runs.
    words = ["jobrun" if program == "__main__.py" else program, *sys.argv[1:]]
    provenance: dict[str, Any] = {"command": list(hide_secrets(_hide_targets(words), present))}
    git = _git(top) if top is not None else {}
    if git:
        provenance["git"] = git
    directories = dict.fromkeys(directory for directory in (folder, top) if directory is not None)
    locks = {}
    for directory in directories:
        for name in _LOCK_FILES:
            with contextlib.suppress(OSError):
                locks[os.path.relpath(directory / name, folder)] = digest_file(directory / name)
    if locks:
        provenance["lock_files"] = locks
    return provenance


def _repository(folder: Path) -> Path | None:
    """Find the git repository that contains a folder, for a run's provenance, or None."""
    for directory in (folder, *folder.parents):
        if (directory / ".git").exists():
            return directory
    return None


def _git(top: Path) -> dict[str, Any]:
    """Return for a run's provenance the git commit and a digest of uncommitted changes."""
    states = ("status", "--porcelain=v2", "--branch", "--untracked-files=no")
    answer, data, _ = _ask_git(top, *states)
    if not answer:
        return {}
    lines = data.decode(errors="replace").splitlines()
    commits = [line.split()[-1] for line in lines if line.startswith("# branch.oid ")]
    if not commits or commits[0] == "(initial)":
        return {}
    dirty = any(not line.startswith("#") for line in lines)
    state: dict[str, Any] = {"commit": commits[0], "dirty": dirty}
    if dirty:
        difference = ("diff", "HEAD", "--binary", "--no-ext-diff", "--no-textconv", "--no-color")
        answer, _, digest = _ask_git(top, *difference)
        if answer:
            state["diff"] = digest
    return state


def _ask_git(top: Path, *words: str) -> tuple[bool, bytes, str]:
    """Run git for a run's provenance; return success, its output, and that output's digest."""
    import hashlib  # noqa: PLC0415 - loads OpenSSL
    import subprocess  # noqa: PLC0415 - only in a repository

    from jobrun.core.files.digest import PREFIX  # noqa: PLC0415

    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("GIT_")
    } | {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        process = subprocess.Popen(  # noqa: S603 - git, with words of our own
            ["git", "-C", str(top), *_HARMLESS, *words],  # noqa: S607 - as the user's PATH has it
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
    except OSError:
        return False, b"", ""
    limit = threading.Timer(_MOST_S, process.kill)
    limit.daemon = True
    limit.start()
    begin, digest = b"", hashlib.sha256()
    try:
        with process:
            while process.stdout and (piece := process.stdout.read(1 << 20)):
                digest.update(piece)
                begin = begin or piece
    finally:
        limit.cancel()
    return process.returncode == 0, begin, f"{PREFIX}{digest.hexdigest()}"


def _hide_targets(words: Sequence[str]) -> list[str]:
    """Hide the values of ``--notify``, often secret, in the command line of the provenance."""
    hidden = list(words)
    for index, word in enumerate(hidden):
        name, equals, value = word.partition("=")
        if name == "--notify" and equals:
            hidden[index] = f"{name}={describe_target(value)}"
        elif word == "--notify" and index + 1 < len(hidden):
            hidden[index + 1] = describe_target(hidden[index + 1])
    return hidden


def iter_code_rows(record: RunRecord) -> Iterator[tuple[str, str]]:
    """Yield the provenance of a run for display, as label and text: start command, commit."""
    facts = record.provenance
    command = facts.get("command")
    if isinstance(command, list | tuple) and command:
        yield "start", shlex.join(map(str, command))
    words = []
    git = facts.get("git")
    if isinstance(git, Mapping):
        diff = str(git.get("diff", "")).rpartition(":")[2][:12]
        changed = f" with changes{f' ({diff})' if diff else ''}" if git.get("dirty") else ""
        words.append(f"commit {str(git.get('commit', ''))[:12]}{changed}")
    if record.packages:
        is_single = len(record.packages) == 1
        words.append(f"{len(record.packages)} package{'' if is_single else 's'}")
    locks = facts.get("lock_files")
    words += [str(name) for name in locks] if isinstance(locks, Mapping) else []
    if words:
        yield "code", ", ".join(words)


def hide_secrets(words: Iterable[str], present: Authored) -> tuple[str, ...]:
    """Hide the values of secret params in a command line that a run's provenance records."""
    # Lazy: loaded already if the job has a spec, and not needed to show a provenance.
    from jobrun.spec.load import LoadedSpec  # noqa: PLC0415
    from jobrun.spec.resolve.params import HIDDEN  # noqa: PLC0415

    hidden = tuple(words)
    for name in present.secrets if isinstance(present, LoadedSpec) else ():
        pattern = re.compile(rf"(params\b.*?\b{re.escape(name)}\b[^=]*=?).*", re.DOTALL)
        hidden = tuple(pattern.sub(rf"\g<1>{HIDDEN}", word) for word in hidden)
    return hidden
