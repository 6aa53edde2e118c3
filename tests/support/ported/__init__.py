"""Programs of other libraries, after their own examples, and the jobs that they become.

A program has ``init()``, which makes the state, or ``make()``, which makes the objects that
``OBJECTS`` names; ``epoch``, the body of its loop, which returns the state; ``result``, the arrays
that it is about; and ``EPOCHS``. Nothing in it knows jobrun.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

_PLAIN = """\
import numpy as np
import {name} as program


def main():
    made = getattr(program, "make", tuple)()
    held = dict(zip(getattr(program, "OBJECTS", ()), made if isinstance(made, tuple) else (made,)))
    if hasattr(program, "init"):
        held["state"] = program.init()
    for _ in range(program.EPOCHS):
        after = program.epoch(**held)
        if "state" in held:
            held["state"] = after
    np.savez("result.npz", **program.result(**held))


# Processes that it starts import this file, unless they are forked.
if __name__ == "__main__":
    main()
"""
_SAVE = """\
import numpy as np
import {name}


def save(run_dir, {names}):
    np.savez(f"{{run_dir}}/artifacts/result.npz", **{name}.result({names}))
"""


def write_port(
    folder: Path, name: str, *, objects: list[str], state: bool, epochs: int, draws: str = ""
) -> None:
    """Write a program, ``original.py`` that runs it, and ``job.yaml``, the job that it becomes.

    Args:
        folder: Where.
        name: Of the program, a module beside this one.
        objects: The names of its objects.
        state: Whether it has a state beside them.
        epochs: How many it has.
        draws: ``numpy`` or ``torch`` if it draws from the global generators.
    """
    shutil.copy(Path(__file__).with_name(f"{name}.py"), folder)
    (folder / "original.py").write_text(_PLAIN.format(name=name))
    held = [*(["state"] if state else []), *objects]
    (folder / "port.py").write_text(_SAVE.format(name=name, names=", ".join(held)))
    generators = ["generators"] if draws else []
    arguments = {name_: name_ for name_ in held}
    # JSON is YAML.
    (folder / "job.yaml").write_text(
        json.dumps(
            {
                "jobrun": 1,
                "name": name,
                "init": _init(name, objects, state=state, draws=draws),
                "epoch": [
                    {
                        "task": "step",
                        "steps": [
                            {
                                "call": f"{name}:epoch",
                                "with": arguments,
                                "inout": [*held, *generators],
                                **({"out": "state"} if state else {}),
                            }
                        ],
                    }
                ],
                "exit": [{"task": "result", "steps": [{"call": "port:save", "with": arguments}]}],
                "stop": [{"epochs": epochs}],
                "checkpoint": {"every": "1ep"},
            },
            indent=2,
        )
    )


def _init(name: str, objects: list[str], *, state: bool, draws: str) -> list[dict[str, object]]:
    drawn = {"inout": ["generators"]} if draws else {}
    needs = {"needs": ["generators"]} if draws else {}
    tasks: list[dict[str, object]] = []
    if draws:
        seed = {"call": "jobrun.generators:seeded", "with": {"torch": draws == "torch"}}
        steps = [{**seed, "out": "generators"}]
        tasks.append({"task": "generators", "rebuild": True, "steps": steps})
    if objects:
        steps = [{"call": f"{name}:make", "out": objects, **drawn}]
        tasks.append({"task": "make", "rebuild": True, **needs, "steps": steps})
    if state:
        steps = [{"call": f"{name}:init", "out": "state", **drawn}]
        tasks.append({"task": "start", **needs, "steps": steps})
    return tasks
