"""Draw the pictures of the manual from real runs, for ``jobrun/manual/pictures``.

``python -m tests.support.manual_pictures`` writes them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from jobrun.tools.manual import FOLDER
from tests.support.command import environment, jobrun
from tests.support.drawing import Curves, Points, svg
from tests.support.manual_blocks import walk_spec
from tests.support.manual_diagrams import draw_commit, draw_life, draw_nodes

PICTURES = FOLDER / "pictures"
# At the end of which epoch of a start its process is killed; the last start is not.
_KILLS = (135, 115, 0)


def draw_killed(folder: Path) -> str:
    """Draw a run of the README's first job that is killed twice, with each epoch it computed."""
    (folder / "walk.yaml").write_text(walk_spec())
    # What is saved at a kill is the same each time, if no epoch runs beside a save.
    every = ("--set", "checkpoint.every=50ep", "--set", "checkpoint.async=false")
    reached: dict[str, Points] = {}
    far: dict[str, Points] = {}
    computed = 0
    for number, kill in enumerate(_KILLS):
        command = ("resume",) if number else ("run", "walk.yaml", *every)
        crash = {"JOBRUN_CRASHPOINT": f"runner.epoch-ended:{kill}"} if kill else {}
        done = jobrun(
            *command, "--log-format", "json", cwd=folder, env=environment(**crash), started=True
        )
        if (done.returncode == 0) != (kill == 0):
            raise RuntimeError(done.stderr)
        # What is lost is in no file after the resume.
        events = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
        ended = [one for one in events if one["event"] == "EpochEnded"]
        epochs = [one["epoch"] for one in ended]
        # The title names the colours: at the end of the lines there is no room.
        name = " " * number
        reached[name] = ([*range(computed + 1, computed + 1 + len(epochs))], epochs)
        far[name] = (epochs, [dict(one["metrics"])["far"] for one in ended])
        computed += len(epochs)
    return svg(
        [
            Curves("epoch reached, in three starts", "epochs computed", reached),
            Curves("far: what is computed again is equal", "epoch", far),
        ],
        "a run that is killed after epochs 134 and 214, each time continued from the newest saved "
        "epoch, 100 and 200, to its end after epoch 313",
    )


# Diagrams, which are the same on each machine to the last letter.
DIAGRAMS: Mapping[str, Callable[[Path], str]] = {
    "commit": draw_commit,
    "life": draw_life,
    "nodes": draw_nodes,
}
DRAWN: Mapping[str, Callable[[Path], str]] = {"killed": draw_killed, **DIAGRAMS}


def main() -> None:
    """Draw them all."""
    PICTURES.mkdir(exist_ok=True)
    for name, draw in DRAWN.items():
        with tempfile.TemporaryDirectory() as folder:
            (PICTURES / f"{name}.svg").write_text(draw(Path(folder)))
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
