"""Draw the pictures of the manual, for ``jobrun/manual/pictures``: from real runs, and diagrams.

``python -m tests.support.manual_pictures`` writes them. A diagram is boxes, arrows and words,
readable on a light and a dark page.
"""

from __future__ import annotations

import html
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from jobrun.tools.manual import FOLDER
from tests.support.command import environment, jobrun
from tests.support.drawing import Curves, Points, svg
from tests.support.manual_blocks import walk_spec

PICTURES = FOLDER / "pictures"
# At the end of which epoch of a start its process is killed; the last start is not.
_KILLS = (135, 115, 0)
WIDTH = 600
# The words of a page, a box, what is kept and what is lost; the second colours are for dark pages.
_COLOURS = {
    "page": ("#ffffff", "#0d1117"), "edge": ("#d0d7de", "#3d444d"), "box": ("#f6f8fa", "#161b22"),
    "words": ("#1f2328", "#e6edf3"), "faint": ("#59636e", "#9198a1"),
    "line": ("#59636e", "#9198a1"), "good": ("#1a7f37", "#3fb950"), "bad": ("#bc4c00", "#f0883e"),
}  # fmt: skip
# The moments of a commit, each with the failpoint at which a run is killed there.
_MOMENTS = (
    ("checkpoint.file-written", "each node writes its file …", ".tmp-epoch-000012-…/local.h5"),
    ("checkpoint.file-synced", "… and syncs it (fsync)", ""),
    ("checkpoint.manifest-written", "the manifest: size and digest of each file", "manifest.json"),
    ("checkpoint.renamed", "the directory gets its name: one rename", "epoch-000012/"),
    ("runner.saved", "the directory above is synced", ""),
    ("runner.acknowledged", "a line is added to the journal, synced", "committed.jsonl"),
)
_EPOCH = 12


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
        ended = [event for event in events if event["event"] == "EpochEnded"]
        epochs = [event["epoch"] for event in ended]
        # The title names the colours: at the end of the lines there is no room.
        name = " " * number
        reached[name] = ([*range(computed + 1, computed + 1 + len(epochs))], epochs)
        far[name] = (epochs, [dict(event["metrics"])["far"] for event in ended])
        computed += len(epochs)
    return svg(
        [
            Curves("epoch reached, in three starts", "epochs computed", reached),
            Curves("far: what is computed again is equal", "epoch", far),
        ],
        "a run that is killed after epochs 134 and 214, each time continued from the newest saved "
        "epoch, 100 and 200, to its end after epoch 313",
    )


def draw_commit(folder: Path) -> str:
    """Draw how an epoch is committed, with what is left where a run is killed on the way."""
    (folder / "walk.yaml").write_text(walk_spec())
    lefts = [_epoch_after_kill(folder, failpoint) for failpoint, _, _ in _MOMENTS]
    top, step = 66, 46
    parts = [
        _text(20, 34, "How epoch 12 is committed", "title"),
        _text(400, 34, "killed right after this,", "faint"),
        _text(400, 50, "the run continues from", "faint"),
        f'<path class="line" d="M30 {top + 10}V{top + step * len(_MOMENTS) + 14}"/>',
    ]
    for number, (_, words, name) in enumerate(_MOMENTS):
        y = top + step * number + 18
        is_committed = lefts[number] == _EPOCH
        kind = "good" if is_committed else "bad"
        parts += [
            f'<circle class="{kind}" cx="30" cy="{y}" r="6"/>',
            _text(50, y + 4, words),
            _text(50, y + 21, name, "code") if name else "",
            f'<rect class="{kind}" x="400" y="{y - 20}" width="6" height="{step}"/>',
            _text(416, y + 4, f"epoch {lefts[number]}", kind),
        ]
    y = top + step * len(_MOMENTS) + 18
    parts += [
        f'<circle class="good" cx="30" cy="{y}" r="6"/>',
        _text(50, y + 4, "epoch 12 is reported as saved", "title"),
        _text(50, y + 21, "then old epochs are deleted (checkpoint.keep)"),
    ]
    description = (
        "the moments of a commit from top to bottom; up to the manifest a killed run continues "
        "from epoch 11, from the rename on from epoch 12"
    )
    return _picture(y + 44, parts, description)


def _epoch_after_kill(folder: Path, failpoint: str) -> int:
    """Return the epoch from which a run continues that was killed at a failpoint of epoch 12."""
    # Each epoch is saved, that after init too; no epoch runs beside a save.
    words = ("--set", "checkpoint={every: 1ep, async: false}", "--resume", "never")
    crash = environment(JOBRUN_CRASHPOINT=f"{failpoint}:{_EPOCH + 1}")
    killed = jobrun("run", "walk.yaml", *words, cwd=folder, env=crash, started=True)
    if killed.returncode >= 0:
        raise RuntimeError(f"not killed at {failpoint}: {killed.stderr}")
    done = jobrun("resume", "--dry-run", "--json", cwd=folder)
    return int(json.loads(done.stdout)["epoch"])


def draw_life(_: Path) -> str:
    """Draw how a run begins, ends and continues, with its exit codes."""
    parts = [
        *_box(200, 16, 200, ("jobrun run SPEC",), "code"),
        *_box(120, 92, 360, ("epochs run, one after the other", "what is saved is never lost")),
        *_box(16, 204, 132, ("finished", "0, or 9 if an", "expect fails"), "good"),
        *_box(162, 204, 132, ("stopped early", "75, or 130 by", "Ctrl-C: all saved")),
        *_box(308, 204, 132, ("failed", "1 or 7: this", "epoch is dropped"), "bad"),
        *_box(454, 204, 130, ("killed", "137 or 7: work", "not saved is lost"), "bad"),
        *_box(228, 326, 290, ("jobrun resume",), "code"),
        *_box(228, 378, 290, ("are spec, code and data those", "of the run?")),
        *_box(20, 378, 150, ("no: refused, 5", "nothing changes"), "bad"),
        _text(530, 404, "yes", "good"),
        _arrow("M300 52V90"), _arrow("M160 146L96 202"), _arrow("M240 146L228 202"),
        _arrow("M350 146L372 202"), _arrow("M440 146L512 202"),
        _arrow("M240 276L290 324"), _arrow("M374 276V324"), _arrow("M510 276L460 324"),
        _arrow("M373 362V376"), _arrow("M226 404H174"),
        _arrow("M520 410H592V120H484"),
        _text(590, 92, "from the newest", "faint end"), _text(590, 109, "saved epoch", "faint end"),
    ]  # fmt: skip
    description = (
        "a run is started, computes epochs, and ends as finished, stopped, failed or killed; all "
        "but a finished one continue by jobrun resume from the newest saved epoch, unless spec, "
        "code or data are others"
    )
    return _picture(446, parts, description)


def draw_nodes(_: Path) -> str:
    """Draw which values are on a node, which go to another one, and where each is saved."""
    parts: list[str] = []
    for x, name, blobs in (
        (20, "trainer_0", "w, rows"), (220, "master", "W, loss"), (420, "trainer_1", "w, rows"),
    ):  # fmt: skip
        parts += [
            *_box(x, 40, 160, (name, f"blobs: {blobs}")),
            _arrow(f"M{x + 80} 96V300"),
            *_box(x, 302, 160, (f"{name}.h5",), "code"),
        ]
    parts += [
        _text(20, 26, "Each node has blobs of its own; what crosses is a copy", "title"),
        _arrow("M104 130H294"), _arrow("M496 130H306"),
        _text(300, 122, "pull: {W: {from: trainer, blob: w, reduce: mean}}", "code middle over"),
        _arrow("M296 190H106"), _arrow("M304 190H494"),
        _text(300, 182, "pull: {w: {from: master, blob: W}}", "code middle over"),
        _arrow("M104 250H494"),
        _text(300, 242, "records of a queue with shared: true, outputs of tasks", "middle over"),
        '<rect class="edge" x="8" y="290" width="584" height="84" rx="6"/>',
        _text(20, 362, "checkpoints/epoch-000012/ : a file of each node, manifest.json", "faint"),
    ]  # fmt: skip
    description = (
        "three nodes, each with blobs of its own: a pull copies a mean of w to the master and W "
        "back to the trainers, a shared queue carries records; each node writes its own file"
    )
    return _picture(384, parts, description)


def _picture(height: float, parts: Sequence[str], description: str) -> str:
    light, dark = ("".join(_rules(scheme)) for scheme in (0, 1))
    style = (
        "text{font:13px sans-serif}.title,.code-title{font-weight:bold}.code{font-family:monospace;"
        "font-size:12px}.middle{text-anchor:middle}.end{text-anchor:end}"
        f"{light}@media(prefers-color-scheme:dark){{{dark}}}"
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}"'
        f' height="{height}" role="img">',
        f"<title>{html.escape(description)}</title>",
        f"<style>{style}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>',
        f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        *filter(None, parts),
    ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _rules(scheme: int) -> Iterator[str]:
    """Yield the rules of the style sheet for light (0) or dark (1) pages."""
    colour = {name: pair[scheme] for name, pair in _COLOURS.items()}
    yield f"text{{fill:{colour['words']}}}.faint{{fill:{colour['faint']}}}"
    for kind in ("good", "bad"):
        yield f".{kind}{{fill:{colour[kind]}}}rect.frame-{kind}{{stroke:{colour[kind]}}}"
    yield f".page{{fill:{colour['page']};stroke:{colour['edge']}}}"
    yield f".edge{{fill:none;stroke:{colour['edge']}}}"
    yield f".frame{{fill:{colour['box']};stroke:{colour['line']}}}"
    yield f".line{{fill:none;stroke:{colour['line']};stroke-width:1.5}}"
    yield f".tip{{fill:{colour['line']}}}"
    yield f".over{{paint-order:stroke;stroke:{colour['page']};stroke-width:5px}}"


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{html.escape(words)}</text>'


def _box(x: float, y: float, width: float, lines: Sequence[str], kind: str = "") -> Iterator[str]:
    """Draw a box with a line of words or several, the first of which is its title."""
    frame = f" frame-{kind}" if kind in {"good", "bad"} else ""
    height = 18 * len(lines) + 18
    yield f'<rect class="frame{frame}" x="{x}" y="{y}" width="{width}" height="{height}" rx="5"/>'
    for number, words in enumerate(lines):
        classes = f"middle {'title' if number == 0 else ''} {'code' if kind == 'code' else ''}"
        yield _text(x + width / 2, y + 22 + 18 * number, words, " ".join(classes.split()))


def _arrow(path: str) -> str:
    return f'<path class="line" d="{path}" marker-end="url(#tip)"/>'


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
