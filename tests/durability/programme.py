"""The whole programme that shows that nothing is lost. ``make prove``; takes about an hour.

Prints one table; ends with 8 if anything was wrong. What a machine does not allow is told in the
table, with the reason, and nothing else is done in its place.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tests.durability.damage import Swept, change_bytes, change_lengths, checkpoint
from tests.durability.disk import Model
from tests.durability.explorer import Explorer, Found, differences, on_a_disk_of_memory
from tests.durability.mutants import MUTANTS, OF_RECOVERY, Mutant, reference
from tests.durability.power_cuts import FILE_SYSTEMS, cut, obstacle
from tests.durability.promises import Promise
from tests.durability.scenarios import SCENARIOS, Scenario, record
from tests.support.faults import FaultLab

EXIT_WRONG = 8
_MODELS: tuple[Model, ...] = ("weak", "ordered")
_LENGTHS = 4096
_SHOWN = 20


@dataclass(frozen=True)
class Line:
    """One line of the table.

    Attributes:
        subject: What was tried.
        done: How often.
        wrong: What went wrong, in words.
        note: More of it; or why it could not be tried.
    """

    subject: str
    done: int
    wrong: tuple[str, ...] = ()
    note: str = ""


def kill_lines(wanted: int, seed: int) -> Iterator[Line]:
    """SIGKILLs of runs and of their resumes."""
    kills = importlib.import_module("tests.durability.kills").kills
    for row in kills(wanted, seed):
        yield Line(f"kills, {row.name}", row.kills, row.bad, f"{row.copies} runs")


def state_lines(wanted: int, seed: int) -> Iterator[Line]:
    """States that a power cut may leave, by the model; of each scenario as many."""
    share = -(-wanted // len(SCENARIOS))
    with on_a_disk_of_memory(Path(tempfile.gettempdir())) as folder:

        def explored(scenario: Scenario) -> Line:
            scenario_folder = folder / scenario.name.replace(" ", "-").replace("'", "")
            scenario_folder.mkdir()
            result = _explored(scenario, scenario_folder, share, seed)
            shutil.rmtree(scenario_folder)
            note = f"{result.resumed} of them resumed to the end"
            return Line(f"states, {scenario.name}", result.states, tuple(result.faults), note)

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            yield from pool.map(explored, SCENARIOS)


def _explored(scenario: Scenario, folder: Path, wanted: int, seed: int) -> Found:
    result = Found()
    with FaultLab(folder / "lab") as lab, Explorer(lab, folder) as explorer:
        for number in count():
            # Each time anew: threads may have done things in another order.
            recording = record(scenario, lab, folder / f"recording-{number}")
            result.faults += [f"not recorded: {text}" for text in differences(recording)]
            for model in _MODELS:
                seen: set[tuple[int, Promise]] = set()
                result += explorer.explore(
                    recording,
                    model,
                    seed + number,
                    samples=4 + 12 * number,
                    resume_every=200,
                    most=max(1, wanted - result.states),
                    seen=seen,
                )
            shutil.rmtree(recording.folder)
            if result.states >= wanted or len(result.faults) > _SHOWN:
                return result
    raise AssertionError


def mutant_lines() -> Iterator[Line]:
    """Protocols that are wrong on purpose, each of which the explorer must catch."""
    by_name = {scenario.name: scenario for scenario in SCENARIOS}
    with (
        on_a_disk_of_memory(Path(tempfile.gettempdir())) as folder,
        FaultLab(folder / "lab") as lab,
        Explorer(lab, folder) as explorer,
    ):

        def is_caught(mutant: Mutant, name: str) -> bool:
            patches = (reference(mutant),)
            recording = record(by_name[name], lab, folder / mutant.__name__, patches)
            recovering = patches if mutant in OF_RECOVERY else ()
            result = explorer.explore(
                recording, "weak", samples=3, stride=3, first_fault_only=True, patches=recovering
            )
            return bool(result.faults)

        missed = [
            mutate.__name__ for mutate, name in MUTANTS.items() if not is_caught(mutate, name)
        ]
    wrong = tuple(f"{name} was not caught" for name in missed)
    yield Line("wrong protocols caught", len(MUTANTS) - len(missed), wrong)


def cut_lines(wanted: int, seed: int) -> Iterator[Line]:
    """Real power cuts, on each kind of file system as many."""
    share = -(-wanted // len(FILE_SYSTEMS))
    with tempfile.TemporaryDirectory(prefix="jobrun-cuts-") as name:
        scratch = Path(name).resolve()
        for kind in FILE_SYSTEMS:
            why = obstacle(kind, scratch)
            if why:
                yield Line(f"power cuts, {kind.name}", 0, (), f"not possible here: {why}")
                continue
            cuts = cut(kind, share, seed, scratch)
            note = f"{cuts.midway} in mid-run, {cuts.saved} epochs promised before"
            yield Line(f"power cuts, {kind.name}", cuts.cuts, tuple(cuts.faults), note)


def damage_lines(size_bytes: int) -> Iterator[Line]:
    """Every byte of a checkpoint changed; of its lengths some thousands tried."""
    parts = os.cpu_count() or 1
    with on_a_disk_of_memory(Path(tempfile.gettempdir())) as folder:
        epochs = [checkpoint(folder / f"{number}", size_bytes) for number in range(parts)]
        sizes = sum(path.stat().st_size for path in epochs[0].iterdir())
        with ProcessPoolExecutor(parts) as pool:
            swept = list(pool.map(_changed, epochs, [parts] * parts, range(parts)))
        missed = tuple(text for sweep in swept for text in sweep.missed)
        note = f"all bytes of {sizes / 2**20:.2f} MiB"
        yield Line("bytes changed", sum(sweep.tried for sweep in swept), missed, note)
        lengths = change_lengths(epochs[0], max(1, sizes // _LENGTHS))
        yield Line("lengths changed", lengths.tried, tuple(lengths.missed))


def _changed(epoch: Path, parts: int, number: int) -> Swept:
    return change_bytes(epoch, stride=parts, first=number)


def table(lines: list[Line]) -> str:
    """The lines as a table for people."""
    width = max(len(line.subject) for line in lines)
    rows = [f"{'what':{width}}  {'done':>9}  {'wrong':>5}"]
    for line in lines:
        numbers = f"{line.done:>9,}  {len(line.wrong):>5}"
        rows.append(f"{line.subject:{width}}  {numbers}  {line.note}".rstrip())
    rows += [f"WRONG  {line.subject}: {text}" for line in lines for text in line.wrong[:_SHOWN]]
    return "\n".join(rows)


def main(arguments: list[str] | None = None) -> int:
    """Carry out what is asked for, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=10_000, help="SIGKILLs")
    parser.add_argument("--states", type=int, default=100_000, help="crash states")
    parser.add_argument("--cuts", type=int, default=300, help="real power cuts")
    parser.add_argument("--bytes", type=int, default=1 << 20, help="size of the damaged checkpoint")
    parser.add_argument("--seed", type=int, default=0, help="of all that is chosen at random")
    asked = parser.parse_args(arguments)
    parts: list[tuple[int, Callable[[], Iterator[Line]]]] = [
        (asked.kills, lambda: kill_lines(asked.kills, asked.seed)),
        (asked.states, lambda: state_lines(asked.states, asked.seed)),
        (asked.states, mutant_lines),
        (asked.cuts, lambda: cut_lines(asked.cuts, asked.seed)),
        (asked.bytes, lambda: damage_lines(asked.bytes)),
    ]
    lines: list[Line] = []
    for wanted, part in parts:
        started = time.monotonic()
        for line in part() if wanted else ():
            lines.append(line)
            now_s = time.monotonic() - started
            print(f"{line.subject}: {line.done:,} after {now_s:.0f} s", file=sys.stderr, flush=True)
    print(table(lines) if lines else "nothing was asked for")
    return EXIT_WRONG if any(line.wrong for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
