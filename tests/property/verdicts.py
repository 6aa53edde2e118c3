"""Whether jobrun computes what plain Python computes: each program in three ways, and a verdict.

``python -m tests.property.verdicts --programs 5000 --seed 1`` tries as many and counts them.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import copy
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.property.drawing import Program, blocks_of, drawn, render, source_of, steps_of
from tests.support.command import environment, jobrun
from tests.support.forked_commands import run_module

Kind = Literal["equal", "refused", "differs", "invalid"]
_CODE = re.compile(r"error\[(E\d{3})\]")
_ENDS = {0, 75}
# A step or check failed, the spec is not valid, another process's object, a host.
_REFUSALS = {1, 3, 5}
Seen = dict[tuple[str, int], list[dict[str, Any]]]


@dataclass(frozen=True)
class Verdict:
    """What came of one program.

    Attributes:
        kind: ``invalid`` where plain Python itself raises, or takes too long.
        code: Of the refusal.
        text: What differs, or what was said.
        kills: How many kills landed; of them ``loaded`` were followed by a start that loaded an
            epoch beyond init.
    """

    kind: Kind
    code: str = ""
    text: str = ""
    kills: int = 0
    loaded: int = 0


class _DiffersError(AssertionError):
    """jobrun did something else, without a proper refusal."""


@dataclass
class _Trial:
    """One program in a folder of its own."""

    program: Program
    folder: Path
    session: str
    started: bool = False

    def judged(self, *, kills: bool = False) -> Verdict:
        """The verdict over all ways of running the program."""
        render(self.program, self.folder)
        plain = self.folder / "plain"
        plain.mkdir()
        limit_s = 60
        try:
            done = run_module(
                "plain_python", [str(plain)], cwd=self.folder, environment=environment(),
                timeout_s=limit_s,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            # Some put copies of a value into itself again and again, which doubles it each time.
            return Verdict("invalid", text=f"plain Python takes more than {limit_s} s")
        if done.returncode:
            return Verdict("invalid", text=done.stderr)
        expected = _seen(plain)
        try:
            refusal = self._run("unbroken")
            if refusal is not None:
                self._require_refusal(refusal, "unbroken")
                code = _codes(refusal)[0]
                self._require_kept(expected, code)
                return Verdict("refused", code, refusal.stderr)
            self._compare(expected, "unbroken")
            landed = self._broken(expected, kills=kills)
        except _DiffersError as error:
            return Verdict("differs", text=str(error))
        return Verdict("equal", kills=landed[0], loaded=landed[1])

    def _run(self, where: str, *more: str) -> subprocess.CompletedProcess[str] | None:
        """One run to its end; what it said if that was an error."""
        done = self._jobrun(where, "run", "job.yaml", "--resume", "never", *more)
        return None if done.returncode in _ENDS else done

    def _jobrun(self, where: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return jobrun(
            *words,
            "--run-dir",
            where,
            "--session",
            self.session,
            cwd=self.folder,
            env=environment(**env),
            started=self.started,
        )

    def _broken(self, expected: Seen, *, kills: bool) -> tuple[int, int]:
        """Stopped, or killed, in every epoch; how many kills landed and loaded an epoch."""
        words = ["run", "job.yaml", "--resume", "auto", "--max-epochs", "1"]
        epochs = range(1, self.program["epochs"] + 1)
        orders = self.folder / "die"
        orders.write_text(" ".join(map(str, epochs)) if kills else "")
        for _ in range(2 * len(epochs) + 3):
            before = orders.read_text()
            done = self._jobrun("broken", *words)
            if done.returncode not in _ENDS and orders.read_text() == before:
                raise _DiffersError(f"accepted unbroken, but broken:\n{done.stderr}")
            if done.returncode == 0:
                break
        else:
            raise _DiffersError(f"never finished:\n{done.stderr}")
        seen = self._compare(expected, "broken")
        # What was begun again began with what was loaded.
        again = {epoch: len(seen["start", epoch]) - 1 for epoch in epochs}
        if orders.read_text() or (kills and not all(again.values())):
            raise _DiffersError(f"not each epoch was killed: {again}")
        return sum(again.values()), sum(count for epoch, count in again.items() if epoch > 1)

    def _require_kept(self, expected: Seen, code: str) -> None:
        """What came before the refusal is right, and what was saved verifies."""
        run = self._newest("unbroken")
        if run is None:
            return
        self._compare(expected, "unbroken", whole=False)
        if any(run.glob("checkpoints/epoch-*")):
            checked = jobrun("ckpt", "verify", str(run), cwd=self.folder)
            if checked.returncode:
                output = checked.stdout + checked.stderr
                raise _DiffersError(f"after {code} nothing verifies:\n{output}")

    def _require_refusal(self, done: subprocess.CompletedProcess[str], description: str) -> None:
        text = done.stderr
        if done.returncode not in _REFUSALS or "Traceback" in text or not _codes(done):
            raise _DiffersError(f"{description} ended with {done.returncode}:\n{text}")
        if not any(
            f"'{name}'" in text or f"'{name}/" in text or f"{name}]" in text
            for name in _names(self.program)
        ):
            raise _DiffersError(f"{description} was refused, but no blob is named:\n{text}")

    def _compare(self, expected: Seen, where: str, *, whole: bool = True) -> Seen:
        run = self._newest(where)
        assert run is not None
        seen = _seen(run)
        if whole and seen.keys() != expected.keys():
            raise _DiffersError(f"{where}: seen at {sorted(seen)} and not {sorted(expected)}")
        for moment, (should,) in sorted(expected.items(), key=lambda item: item[0][1]):
            for each in seen.get(moment, ()):
                for name, value in each.items():
                    faults = list(_differences(should[name], value, name))
                    if faults:
                        at = f"{where}: epoch {moment[1]}, {moment[0]}"
                        raise _DiffersError(f"{at}: " + "\n".join(faults))
        return seen

    def _newest(self, where: str) -> Path | None:
        runs = [run for run in (self.folder / where).glob("drawn/*") if not run.is_symlink()]
        return runs[0] if runs else None


def judge(
    program: Program, *, session: str = "threads", kills: bool = False, started: bool = False
) -> Verdict:
    """Run a program plainly, unbroken and broken in every epoch, and compare all that is seen.

    Args:
        program: As drawn.
        session: ``threads`` or ``processes``.
        kills: Kill it in every epoch by SIGKILL, instead of stopping it after each.
        started: In interpreters of their own, not forked ones.
    """
    with tempfile.TemporaryDirectory(prefix="drawn-") as folder:
        return _Trial(program, Path(folder), session, started).judged(kills=kills)


def _seen(folder: Path) -> Seen:
    seen: Seen = {}
    path = folder / "seen.jsonl"
    for line in path.read_text().splitlines() if path.exists() else []:
        entry = json.loads(line)
        seen.setdefault((entry["place"], entry["epoch"]), []).append(entry["seen"])
    return seen


def _codes(done: subprocess.CompletedProcess[str]) -> list[str]:
    return _CODE.findall(done.stderr)


def _names(program: Program) -> set[str]:
    names: set[str] = set()
    for step in steps_of(program):
        names.update(step.get("copy", ()), step.get("out", ()), step.get("with", {}).values())
        names.update(re.findall(r"\b[ab]x\d\b", step.get("expr", "")))
    return names


def _differences(expected: Any, actual: Any, path: str) -> Iterator[str]:
    """Where two descriptions of a value differ, in words."""
    if expected == {"order": None}:
        # Memory that is used more than once has no order that a copy could keep.
        return
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in expected:
            yield from _differences(expected[key], actual.get(key), f"{path}.{key}")
    elif (
        isinstance(expected, list)
        and isinstance(actual, list)
        and len(expected) == len(actual)
        and any(isinstance(expected_part, list) for expected_part in expected)
    ):
        for at, (expected_part, actual_part) in enumerate(zip(expected, actual, strict=True)):
            yield from _differences(expected_part, actual_part, f"{path}/{at}")
    elif expected != actual:
        yield f"{path}: plain Python has {expected!s:.300}, jobrun {actual!s:.300}"


# ---- many at a time -----------------------------------------------------------------------


def is_wrong(verdict: Verdict, *, plain: bool) -> bool:
    """Whether it should not have come out like that."""
    return verdict.kind == "differs" or (plain and verdict.kind == "refused")


def smaller(program: Program, is_still_wrong: Any, seconds: float = 60) -> Program:
    """A smaller program of which the same is true, found by leaving things out."""
    until = time.monotonic() + seconds
    changed = True
    while changed and time.monotonic() < until:
        changed = False
        for less in _less(program):
            if time.monotonic() > until:
                break
            if is_still_wrong(less):
                program, changed = less, True
                break
    return program


def _less(program: Program) -> Iterator[Program]:
    for block, steps in enumerate(blocks_of(program)):
        for at, step in enumerate(steps):
            if not step.get("looks"):
                less = copy.deepcopy(program)
                del blocks_of(less)[block][at]
                yield less
            if "steps" in step:
                less = copy.deepcopy(program)
                inside = [
                    inner_step | {"task": step.get("task", 0)} for inner_step in step["steps"]
                ]
                blocks_of(less)[block][at : at + 1] = inside
                yield less
            for blob in step.get("inout", ()):
                less = copy.deepcopy(program)
                blocks_of(less)[block][at]["inout"].remove(blob)
                yield less
    for at, task in enumerate(program.get("tasks", ())):
        for name in task["outputs"]:
            less = copy.deepcopy(program)
            less["tasks"][at]["outputs"].remove(name)
            with contextlib.suppress(KeyError):
                yield _without(less, {f"{task['task']}.{name}"})
    if program["epochs"] > 1:
        yield program | {"epochs": program["epochs"] - 1}
    for name, function in program["functions"].items():
        if name.startswith("look"):
            continue
        for at, value in enumerate(function["returns"]):
            if value != "1":
                less = copy.deepcopy(program)
                less["functions"][name]["returns"][at] = "1"
                yield less
        for at in range(len(function["lines"])):
            less = copy.deepcopy(program)
            del less["functions"][name]["lines"][at]
            yield less
    for task in range(len(program["init"]) - 1, 0, -1):
        gone = {candidate for step in program["init"][task]["steps"] for candidate in step["out"]}
        less = copy.deepcopy(program)
        del less["init"][task]
        with contextlib.suppress(KeyError):
            yield _without(less, gone)
    for name in sorted(_names(program)):
        with contextlib.suppress(KeyError):
            yield _without(copy.deepcopy(program), {name})


def _without(program: Program, gone: set[str]) -> Program:
    """The program without some blobs, if no function needs them."""
    if any(gone & {*task["outputs"]} for task in program.get("tasks", ())):
        raise KeyError
    for step in steps_of(program):
        if "call" not in step:
            text = " ".join([*step.get("copy", ()), step.get("expr", "")])
            if any(re.search(rf"\b{candidate}\b", text) for candidate in gone):
                raise KeyError
            continue
        function = program["functions"][step["call"]]
        lost = [param for param, blob in step["with"].items() if blob in gone]
        if lost and step.get("looks"):
            kept_params = {param: blob for param, blob in step["with"].items() if blob not in gone}
            values = ", ".join(f"{blob!r}: {param}" for param, blob in kept_params.items())
            moment = step["call"].partition("_")[2]
            function["params"] = [*kept_params, "epoch", "run_dir"]
            function["lines"] = [f"look({moment!r}, epoch, run_dir, {{{values}}})"]
        elif lost:
            if any(
                re.search(rf"\b{param}\b", line)
                for param in lost
                for line in [*function["lines"], *function["returns"]]
            ):
                raise KeyError
            function["params"] = [param for param in function["params"] if param not in lost]
        step["with"] = {param: blob for param, blob in step["with"].items() if blob not in gone}
        step["inout"] = [blob for blob in step["inout"] if blob not in gone]
        kept_out = [at for at, blob in enumerate(step["out"]) if blob not in gone]
        if len(kept_out) != len(step["out"]):
            if not kept_out and not step["with"]:
                raise KeyError
            function["returns"] = [function["returns"][at] for at in kept_out]
            step["out"] = [step["out"][at] for at in kept_out]
    return program


def shown(program: Program, verdict: Verdict) -> str:
    """A program and what came of it, to be read."""

    def written(step: Any) -> str:
        if "copy" in step:
            return "{} = {}".format(*step["copy"])
        if "call" not in step:
            inside = {
                key: "; ".join(map(written, step[key])) for key in ("steps", "else") if key in step
            }
            return str({key: value for key, value in step.items() if key != "task"} | inside)
        arguments = ", ".join(f"{param}: {blob}" for param, blob in step["with"].items())
        words = [f"call: {step['call']}", f"with: {{{arguments}}}"]
        words += [f"{key}: [{', '.join(step[key])}]" for key in ("inout", "out") if step[key]]
        return f"{{{', '.join(words)}}}"

    steps = [(task["task"], step) for task in program["init"] for step in task["steps"]]
    steps += [
        (f"epoch {step.get('task', 0)}", step) for step in program["epoch"] if not step.get("looks")
    ]
    lines = [str(task) for task in program.get("tasks", ())]
    lines += [f"{where}: {written(step)}" for where, step in steps]
    functions = {
        name: function for name, function in program["functions"].items() if "look" not in name
    }
    source = source_of(program | {"functions": functions})
    summary = f"{verdict.kind} {verdict.code}\n{verdict.text}"
    return "\n".join([summary, source, *lines, f"epochs: {program['epochs']}", ""])


def main() -> int:
    """Try programs of many seeds, print counts, and write what differs below ``--out``."""
    parser = argparse.ArgumentParser(prog="python -m tests.property.verdicts", description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="of the first program")
    parser.add_argument("--session", choices=("threads", "processes"), default="threads")
    parser.add_argument("--plain", action="store_true", help="only what has to be accepted")
    parser.add_argument("--rich", action="store_true", help="tasks, nodes, loops, expressions")
    parser.add_argument("--tensors", action="store_true", help="tensors of PyTorch, too")
    parser.add_argument("--kills", action="store_true", help="SIGKILL instead of stops")
    parser.add_argument("--started", action="store_true", help="interpreters of their own")
    parser.add_argument("--out", type=Path, help="a folder for programs that differ")
    parser.add_argument("--shrink", type=float, default=20, help="seconds for each that differs")
    parser.add_argument("--seconds", type=float, default=0, help="stop after so many")
    options = parser.parse_args()
    tally = _Tally(options.kills)
    if options.tensors:
        os.environ["JOBRUN_TEST_PRELOAD"] = "torch"
    try:
        for seed in range(options.seed, options.seed + options.programs):
            if options.seconds and time.monotonic() - tally.began > options.seconds:
                break
            _try(seed, options, tally)
    finally:
        tally.print()
    return 8 if tally.wrong else 0


@dataclass
class _Tally:
    """Counts of what came of programs."""

    kills: bool
    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    killed: int = 0
    loaded: int = 0
    wrong: int = 0
    began: float = field(default_factory=time.monotonic)

    def print(self) -> None:
        print(f"programs {sum(self.counts.values())}, in {time.monotonic() - self.began:.0f} s")
        for kind, count in sorted(self.counts.items()):
            print(f"  {kind:16} {count}")
        if self.kills:
            print(f"  kills that landed {self.killed}; of these after an epoch {self.loaded}")


def _try(seed: int, options: argparse.Namespace, tally: _Tally) -> None:
    def judged(program: Program) -> Verdict:
        return judge(program, session=options.session, kills=options.kills, started=options.started)

    program = drawn(seed, plain=options.plain, rich=options.rich, tensors=options.tensors)
    verdict = judged(program)
    tally.killed += verdict.kills
    tally.loaded += verdict.loaded
    tally.counts[f"{verdict.kind} {verdict.code}".strip()] += 1
    if not is_wrong(verdict, plain=options.plain):
        return
    tally.wrong += 1
    less = smaller(
        program,
        lambda smaller_program: judged(smaller_program).kind == verdict.kind,
        options.shrink,
    )
    text = f"seed {seed}\n{shown(less, judged(less) if options.shrink else verdict)}"
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / f"{seed}.txt").write_text(text, errors="surrogatepass")
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
