"""Inspect an untrusted file in a sandbox: a child process, which may crash on it.

A file from elsewhere may be made to crash libhdf5, to keep it busy for ever, or to have it take
all memory. So a child reads it before we do, with limits; and what we read afterwards must be the
very bytes that the child has survived.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from jobrun.checkpoint.checkpoint_file import FileFacts, inspect_state
from jobrun.core.errors import CheckpointError

_TIMEOUT_S = 60.0
_CPU_S = 30
# The interpreter, numpy and h5py; and some copies of the file.
_ROOM_BYTES = 1 << 30
_COPIES = 6
_CHILD = """
import json, resource, sys
path, places, bytes_, seconds = sys.argv[1], json.loads(sys.argv[2]), *map(int, sys.argv[3:5])
sys.path[:] = places
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
resource.setrlimit(resource.RLIMIT_AS, (bytes_, bytes_))
from jobrun.checkpoint.checkpoint_file import inspect_state
from jobrun.core.errors import JobrunError
try:
    said = {"digest": inspect_state(path).header.digest}
except JobrunError as error:
    fault = error.faults[0]
    said = {"fault": [fault.code, fault.message, fault.mend]}
print(json.dumps(said))
"""


def inspect_guarded(path: str, *, timeout_s: float = _TIMEOUT_S) -> FileFacts:
    """Inspect an untrusted checkpoint file in a sandbox, a child process that may crash.

    Args:
        path: The file.
        timeout_s: How long reading may take.

    Raises:
        CheckpointError: It is no checkpoint, it is damaged, or E384: its reader died of it.
    """
    said = _child(path, timeout_s)
    if "fault" in said:
        code, message, mend = said["fault"]
        raise CheckpointError.of(code, message, mend)
    facts = inspect_state(path)
    if facts.header.digest != said["digest"]:
        raise _deadly(path, "it changes while it is read")
    return facts


def _child(path: str, timeout_s: float) -> dict[str, Any]:
    size_bytes = Path(path).stat().st_size if Path(path).is_file() else 0
    limits = (str(_ROOM_BYTES + _COPIES * size_bytes), str(_CPU_S + (size_bytes >> 26)))
    places = json.dumps([place for place in sys.path if place])
    try:
        done = subprocess.run(  # noqa: S603 - this very program, on a path
            [sys.executable, "-I", "-c", _CHILD, str(Path(path).absolute()), places, *limits],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
            env={"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
    except subprocess.TimeoutExpired:
        raise _deadly(path, f"reading it takes longer than {timeout_s:g} s") from None
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise _deadly(path, f"the process that read it was ended by {name}")
    try:
        said: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise _deadly(path, f"the process that read it failed ({last or 'no word'})") from None
    return said


def _deadly(path: str, why: str) -> CheckpointError:
    return CheckpointError.of(
        "E384",
        f"{path} cannot be read safely: {why}",
        "do not use it; no file written by jobrun does this",
    )
