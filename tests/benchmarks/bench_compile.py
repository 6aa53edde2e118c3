"""How loading and compiling grow with the job: CPU time per task at 1,000, 10,000 and 100,000.

Run as ``python -m tests.benchmarks.bench_compile``.
"""

from __future__ import annotations

import cProfile
import pstats
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from jobrun.compile.pipeline import compile_job
from jobrun.compile.plan_text import plan_text
from jobrun.compile.types.job_types import infer_job_types
from jobrun.core.errors import Origin
from jobrun.core.interpreter import collector_paused
from jobrun.graph import drawing
from jobrun.graph.traversal import find_parts
from jobrun.graph.types import Job
from jobrun.spec.load import load_spec
from jobrun.spec.models.job import JobSpec
from jobrun.spec.yaml.nodes import Mapping, Node, Sequence
from jobrun.spec.yaml.parse import read_document
from jobrun.spec.yaml.pyyaml import parser_events
from jobrun.spec.yaml.repeated_items import find_repeated_items
from tests.benchmarks.ratios import verdict

HEAD = "jobrun: 1\nname: many\ninit:\n  - task: start\n    steps: [{assignments}]\nepoch:\n"
# Short: a spec has at most 16 MiB.
TASK = """\
- task: w{number}
  needs: [{needs}]
  steps:
  - t = x{number} * 2 + 1
  - x{number} = t - x{number}
  - {{op: maximum, in: [t, 0], out: low}}
"""
TAIL = "stop:\n  - epochs: 2\n"
ROUNDS = 5
TASKS = (1_000, 10_000, 100_000)
# In seconds, of 10,000 tasks: loaded and compiled; shown.
_MOST_S, _MOST_SHOWN_S = 1.0, 1.0


def spec(tasks: int) -> str:
    """A job of so many tasks, each of which waits for the one a thousand before it."""
    names = ", ".join(f"x{number} = 0.0" for number in range(tasks))
    body = "".join(
        TASK.format(number=number, needs=f"w{number - 1000}" if number >= 1000 else "")
        for number in range(tasks)
    )
    return HEAD.format(assignments=names) + body + TAIL


def seconds(tasks: int, folder: Path) -> tuple[float, float]:
    """Loading and compiling: the least of a few rounds each."""
    path = folder / f"{tasks}.yaml"
    path.write_text(spec(tasks))
    loading, compiling = [], []
    for _ in range(ROUNDS if tasks < TASKS[1] else 1):
        begun = time.process_time()
        loaded = load_spec(str(path))
        loading.append(time.process_time() - begun)
        begun = time.process_time()
        compile_job(loaded)
        compiling.append(time.process_time() - begun)
    return min(loading), min(compiling)


def show(path: Path, took_s: float) -> None:
    """Print the seconds of loading and compiling, of the floor, of the plan and of the graph."""
    job = compile_job(load_spec(str(path))).job
    floor_s = least(path.read_text(), job)
    seconds_by_act = {}

    def plan() -> None:
        types = infer_job_types(job)
        plan_text(job, types.owned, types.task_blobs)

    for name, act in (("types and plan", plan), ("the graph", lambda: drawing.ascii(job))):
        begun = time.process_time()
        act()
        seconds_by_act[name] = time.process_time() - begun
    print(f"\nseconds of {path.stem} tasks")
    floor_text = "pydantic, and each value of the YAML tree and of the job made once, unchecked"
    aim = f"{verdict(took_s, _MOST_S)}   floor {floor_s:.2f}: {floor_text}"
    print(f"  {'loaded and compiled':44} {took_s:8.2f}{aim}")
    for name, seconds_of in seconds_by_act.items():
        print(f"  {name:44} {seconds_of:8.2f}{verdict(seconds_of, _MOST_SHOWN_S)}")


def least(text: str, job: Job) -> float:
    """Seconds of what loading and compiling a spec cannot do without, whatever they check.

    libyaml need not see the items that repeat the shape of another one.
    """
    data = yaml.load(text, yaml.CSafeLoader)
    repeated = find_repeated_items(text)
    to_parse = text if repeated is None else repeated.text
    nodes: list[Any] = [
        (type(node), tuple(node)) for node in tree_nodes(read_document(text, "job.yaml").root)
    ]
    kinds: Any = object
    parts = [part for part in find_parts(job, kinds) if isinstance(part, Struct)]
    constructed: list[Any] = [
        (type(part), [getattr(part, name) for name in part.__struct_fields__]) for part in parts
    ]
    origins = [part.origin for part in parts if hasattr(part, "origin")]
    constructed += [
        (Origin, [getattr(origin, name) for name in origin.__struct_fields__]) for origin in origins
    ]
    with collector_paused():
        begun = time.process_time()
        events = list(parser_events(to_parse))
        tree: list[Any] = [kind(*values) for kind, values in nodes]
        spec = JobSpec.model_validate(data)
        graph = [kind(*values) for kind, values in constructed]
        took_s = time.process_time() - begun
    del events, tree, spec, graph
    return took_s


def tree_nodes(node: Node) -> Iterator[Node]:
    """Yield a node of a YAML tree, and all below it."""
    yield node
    below: Iterable[Node] = ()
    if isinstance(node, Sequence):
        below = node.items
    elif isinstance(node, Mapping):
        below = node.values.values()
    for child in below:
        yield from tree_nodes(child)


def profile(tasks: int, folder: Path) -> None:
    """Print which modules of the compiler the time goes to."""
    loaded = load_spec(str(folder / f"{tasks}.yaml"))
    profiler = cProfile.Profile()
    profiler.runcall(compile_job, loaded)
    own_seconds: Counter[str] = Counter()
    for (file, _, name), (_, _, seconds_of, *_) in pstats.Stats(profiler).stats.items():  # type: ignore[attr-defined]
        own_seconds[Path(file).name if file != "~" else name] += seconds_of
    whole = sum(own_seconds.values())
    print(f"\nwhere compiling {tasks} tasks goes (own time, under a profiler)")
    for name, took in own_seconds.most_common(12):
        print(f"  {name:44} {took / whole:6.1%}")


def main() -> None:
    """Print the table, how the time per task grows, and where it goes."""
    with tempfile.TemporaryDirectory() as folder:
        per_task = {}
        for tasks in TASKS:
            loading, compiling = seconds(tasks, Path(folder))
            per_task[tasks] = (loading + compiling) / tasks
            growth = per_task[tasks] / per_task[TASKS[0]]
            print(
                f"{tasks:7} tasks  load {loading:6.2f} s  compile {compiling:6.2f} s"
                f"  {per_task[tasks] * 1e6:6.0f} us a task  {growth:5.2f} x{verdict(growth, 1.3)}"
                f"  peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:,.0f} MB",
                flush=True,
            )
        show(Path(folder, f"{TASKS[1]}.yaml"), per_task[TASKS[1]] * TASKS[1])
        profile(TASKS[1], Path(folder))


if __name__ == "__main__":
    main()
