"""The judge of crash states: a process of its own that reads with h5py and json, not with jobrun.

Each line of stdin is a list of cases, each line of stdout what is wrong with them. Run as
``python -m tests.durability.crash_state_judge REFERENCE-RUN``; ``explorer`` starts it.
"""

from __future__ import annotations

import hashlib
import json
import sys
import zlib
from pathlib import Path
from typing import Any

from tests.support.stored_runs import Stored, blobs, epochs

# An epoch, and after how many of its records; 0 for the whole of it.
Saved = tuple[int, int]
# How a user block of 4096 bytes is told of in a manifest.
_USER_BLOCK_BYTES = 4096


class Judge:
    """Knows what each epoch of an undisturbed run holds.

    Args:
        reference: That run; it has kept all epochs.
    """

    def __init__(self, reference: Path) -> None:
        self._expected: dict[Saved, dict[str, Stored]] = {
            (number, 0): blobs(path) for number, path in epochs(reference).items()
        }
        for mid_epoch, path in _within(reference / "checkpoints").items():
            self._expected[mid_epoch] = blobs(path)
        self._known: dict[tuple[Saved, bytes], str] = {}

    def faults(self, case: dict[str, Any]) -> list[str]:
        """What is not as promised in a directory.

        Args:
            case: ``path`` of the directory, and ``kept_in`` where in it epochs are, if not in the
                run; the epochs that were ``whole``, ``over``, ``damaged`` and ``copied``, and what
                was saved ``within`` one (see ``promises.Promise``); and after a recovery the
                ``chosen`` epoch (-1 for init) and the ``records`` of the next one, or why it was
                ``refused``.
        """
        runs = [
            path
            for path in sorted(Path(case["path"]).glob("runs/*/*"))
            if path.is_dir() and not path.is_symlink() and (path / "run.json").exists()
        ]
        promised = {*case["whole"], *case["over"], *case["damaged"]}
        if len(runs) > 1 or (promised and not runs):
            return [f"there are {len(runs)} runs"]
        if not runs:
            return []
        return [
            *self._stored(runs[0], case), *self._inside(runs[0], case),
            *self._copied(runs[0], case), *self._chosen(runs[0], case),
        ]  # fmt: skip

    def _inside(self, run: Path, case: dict[str, Any]) -> list[str]:
        """About what is saved between two records."""
        root = _root(run, case)
        faults_by_epoch = {
            mid_epoch: self._wrong(mid_epoch, path) for mid_epoch, path in _within(root).items()
        }
        faults = [
            f"epoch {a}.{b} is visible, and {wrong}"
            for (a, b), wrong in faults_by_epoch.items()
            if wrong
        ]
        epoch, records = case["within"]
        later = [
            mid_epoch
            for mid_epoch in faults_by_epoch
            if mid_epoch[0] == epoch and mid_epoch[1] >= records
        ]
        if records and not later and epoch not in epochs(run, root):
            faults.append(f"epoch {epoch} was saved after {records} records, and that is gone")
        return faults

    def _copied(self, run: Path, case: dict[str, Any]) -> list[str]:
        copies = epochs(run, Path(case["path"], "copies", run.parent.name, run.name))
        faults = [
            f"the copy of epoch {epoch} is gone" for epoch in case["copied"] if epoch not in copies
        ]
        for number, path in copies.items():
            if wrong := self._wrong((number, 0), path):
                faults.append(f"the copy of epoch {number} is visible, and {wrong}")
        return faults

    def _stored(self, run: Path, case: dict[str, Any]) -> list[str]:
        root = _root(run, case)
        stored = epochs(run, root)
        aside: dict[int, list[Path]] = {}
        # On another file system they stay there.
        elsewhere = root.glob("*/epoch-*") if case["kept_in"] else ()
        for path in (*(run / "superseded").glob("**/epoch-*"), *elsewhere):
            if path.parent.name.startswith("records-"):
                continue
            aside.setdefault(int(path.name.removeprefix("epoch-")), []).append(path)
        acknowledged = _told(run)
        faults = [
            f"epoch {epoch} was saved and is gone" for epoch in case["whole"] if epoch not in stored
        ]
        faults += [
            f"nothing tells that epoch {epoch} was saved"
            for epoch in {*case["whole"]} - acknowledged
        ]
        for number, path in stored.items():
            wrong = self._wrong((number, 0), path)
            if wrong and number not in case["damaged"]:
                faults.append(f"epoch {number} is visible, and {wrong}")
        for number in case["over"]:
            places = [*aside.get(number, []), *([stored[number]] if number in stored else [])]
            if all(self._wrong((number, 0), path) for path in places):
                faults.append(f"epoch {number}, which was gone back behind, is nowhere")
        for number in case["damaged"]:
            if number not in stored and number not in aside:
                faults.append(f"epoch {number}, which was damaged, has been deleted")
        return faults

    def _chosen(self, run: Path, case: dict[str, Any]) -> list[str]:
        newest = max(case["whole"], default=-1)
        if "refused" in case:
            return [f"refused with epoch {newest} saved: {case['refused']}"] if newest >= 0 else []
        if "chosen" not in case:
            return []
        chosen = case["chosen"]
        if chosen < newest:
            return [f"goes on from {chosen} with epoch {newest} saved"]
        records, within = case.get("records", 0), tuple(case["within"])
        if (chosen + 1, records) < within:
            return [f"goes on after {chosen} and {records} records, not from {within}"]
        stored = epochs(run, _root(run, case))
        if chosen >= 0 and (chosen not in stored or self._wrong((chosen, 0), stored[chosen])):
            return [f"goes on from epoch {chosen}, which is not whole"]
        return []

    def _wrong(self, number: Saved, epoch: Path) -> str:
        """Why an epoch's directory is not what was saved; empty if it is."""
        seen = hashlib.blake2b()
        for path in sorted(epoch.iterdir()):
            seen.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        key = number, seen.digest()
        if key not in self._known:
            self._known[key] = self._compared(number, epoch)
        return self._known[key]

    def _compared(self, number: Saved, epoch: Path) -> str:
        try:
            manifest = json.loads((epoch / "manifest.json").read_bytes())
            listed = {file["name"]: file for file in manifest["files"]}
        except (OSError, ValueError, KeyError, TypeError) as error:
            return f"its manifest cannot be read: {error}"
        there = {path.name for path in epoch.iterdir()} - {"manifest.json"}
        if manifest["epoch"] != number[0] or there != set(listed):
            return f"it holds {sorted(there)}"
        for name, file in listed.items():
            data = (epoch / name).read_bytes()
            digest = hashlib.sha256(data[:_USER_BLOCK_BYTES]).hexdigest()
            if len(data) != file["size_bytes"] or file["digest"] != f"sha256:{digest}":
                return f"{name} is not the file of its manifest"
        try:
            blobs_there: dict[str, Stored] = blobs(epoch)
        except (OSError, RuntimeError, KeyError, AssertionError) as error:
            return f"h5py cannot read it: {error}"
        return "" if blobs_there == self._expected.get(number) else "it holds other values"


def _told(run: Path) -> set[int]:
    """The epochs that lines of the journal tell of, by the lines that check out."""
    acknowledged = set()
    path = run / "committed.jsonl"
    for line in path.read_bytes().splitlines() if path.is_file() else []:
        try:
            entry = json.loads(line)
            crc = entry.pop("crc32")
        except (ValueError, KeyError, AttributeError):
            continue
        if crc == f"{zlib.crc32(json.dumps(entry, sort_keys=True).encode()):08x}":
            acknowledged |= {entry["epoch"]} if entry["kind"] == "epoch" else set()
    return acknowledged


def _root(run: Path, case: dict[str, Any]) -> Path:
    """Where the run's epochs are."""
    kept_in = case["kept_in"]
    if not kept_in:
        return run / "checkpoints"
    return Path(case["path"], kept_in, run.parent.name, run.name)


def _within(root: Path) -> dict[Saved, Path]:
    """What is saved between two records."""
    paths = {}
    for path in root.glob("epoch-*.records-*"):
        epoch, _, records = path.name.removeprefix("epoch-").partition(".records-")
        paths[int(epoch), int(records)] = path
    return paths


def main() -> int:
    """Serve until stdin ends."""
    judge = Judge(Path(sys.argv[1]))
    assert not any(name.partition(".")[0] == "jobrun" for name in sys.modules)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps([judge.faults(case) for case in json.loads(line)]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
