"""Draw what a run of each shipped spec measured and wrote, for ``specs/pictures``.

``python -m tests.support.gallery`` runs them all and writes ``specs/pictures`` anew.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from jobrun.tools.report.blob_pictures import picture, tiles
from tests.support.command import SPECS, jobrun
from tests.support.drawing import Bars, Curves, Panel, Points, Shades, svg
from tests.support.stored_runs import only_run

PICTURES = SPECS / "pictures"
NAMES = sorted(path.stem for path in SPECS.glob("*.yaml"))
TEMPERATURES = "1.6,2.0,2.2,2.3,2.4,2.6,3.0"
SWEEP = ("sweep", SPECS / "ising.yaml", "--grid", f"temperature={TEMPERATURES}")
SWEPT = ("sweep", SPECS / "ising.yaml", "--status", "--csv")


def drawn(name: str, run: Path) -> str:
    """Draw the picture of a finished run of the spec of that name."""
    panels = _PANELS.get(name, lambda run: [metrics(run)])(run)
    return svg(panels, f"the result of {name}")


def measured(run: Path) -> dict[str, Points]:
    """Return epochs and values of each metric of a run that was not resumed."""
    curves: dict[str, Points] = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "Measured":
            epochs, values = curves.setdefault(event["name"], ([], []))
            epochs.append(event["epoch"])  # type: ignore[attr-defined]
            values.append(float(event["value"]))  # type: ignore[attr-defined]
    return curves


def metrics(run: Path, *names: str, logs: str = "") -> Curves:
    """Draw curves of some of the metrics; of all, if none is named."""
    all_metrics = measured(run)
    chosen = {name: all_metrics[name] for name in names or all_metrics}
    if len(chosen) == 1:
        return Curves(next(iter(chosen)), "epoch", {"": next(iter(chosen.values()))}, logs)
    return Curves("metrics", "epoch", chosen, logs)


def swept(table: str) -> str:
    """Draw the picture of a finished sweep of temperatures, from its results as CSV."""
    rows = list(csv.DictReader(table.splitlines()))
    at = [float(row["temperature"]) for row in rows]
    panels = [
        Curves(name, "temperature", {"": (at, [float(row[name]) for row in rows])})
        for name in ("magnetisation", "energy")
    ]
    return svg(panels, "the result of a sweep of ising")


def _array(run: Path, file: str, member: str = "") -> np.ndarray:
    loaded = np.load(run / "artifacts" / file)
    return loaded[member] if member else loaded


def _table(run: Path, file: str) -> np.ndarray:
    return np.loadtxt(run / "artifacts" / file, delimiter=",")


def _tiles(title: str, rows: np.ndarray, across: int = 5) -> Shades:
    return Shades(title, tiles(rows, across))


def _plate(run: Path) -> Sequence[Panel]:
    heat = picture(_array(run, "temperature.npy")[::-1])
    return [Shades("temperature", heat), metrics(run, "residual", logs="y")]


def _path(run: Path) -> Sequence[Panel]:
    along = np.geomspace(1e3, 1e-3, 40)
    path, errors = _array(run, "path.npz", "w"), _array(run, "path.npz", "error")
    lines = {" " * n: (along, path[:, n]) for n in range(path.shape[1])}
    error = Curves("held-out error", "penalty", {"": (along, errors)}, "x")
    return [Curves("coefficients", "penalty", lines, "x"), error]


def _string(run: Path) -> Sequence[Panel]:
    shape = np.fromfile(run / "artifacts" / "string.bin", np.float64)[1:514]
    at = np.linspace(0, 1, 513)
    plucked = np.where(at < 0.3, at / 0.3, (1 - at) / 0.7)
    thin = slice(None, None, 8)
    lines = {"plucked": (at[thin], plucked[thin]), "after 20,000 steps": (at[thin], shape[thin])}
    # Its energy differs by roundings only: that would be a picture of nothing.
    return [Curves("the string", "place", lines)]


def _histograms(run: Path) -> Sequence[Panel]:
    counts, at = _array(run, "statistics.npz", "counts"), np.linspace(-6, 6, 60)
    smooth = counts.reshape(4, 60, 4).sum(axis=2)
    lines = {f"column {n}": (at, smooth[n]) for n in range(4)}
    spread = picture(_array(run, "statistics.npz", "covariance"))
    return [Curves("how often", "reading", lines), Shades("covariance", spread)]


_PANELS: dict[str, Callable[[Path], Sequence[Panel]]] = {
    "digits-kmeans": lambda run: [
        _tiles("the centroids", _array(run, "centroids.npy")),
        metrics(run, "shift"),
    ],
    "digits-pipeline": lambda run: [
        metrics(run),
        _tiles("what speaks for each digit", _array(run, "weights.npz", "W").T),
    ],
    "factoring": lambda run: [
        Curves(
            "digits of the largest factor", "bound",
            {"": (measured(run)["bound"][1], measured(run)["digits"][1])},
        )
    ],
    "heat-plate": _plate,
    "ising": lambda run: [
        Shades("spins", picture(_array(run, "spins.npy"))),
        metrics(run, "magnetisation"),
    ],
    "matrix-factors": lambda run: [
        _tiles("parts of digits", _array(run, "parts.npy"), 6),
        metrics(run),
    ],
    "mcmc-chains": lambda run: [metrics(run)],
    "minibatch-kmeans": lambda run: [
        _tiles("the centres", _array(run, "centres.npy")),
        metrics(run),
    ],
    "pagerank": lambda run: [
        Bars("rank of each member", list(_array(run, "rank.npy"))),
        metrics(run, logs="y"),
    ],
    "parameter-averaging": lambda run: [
        metrics(run),
        _tiles("what speaks for each digit", _array(run, "weights.npz", "W").T),
    ],
    "parameter-server": lambda run: [
        metrics(run),
        _tiles("what speaks for each digit", _array(run, "weights.npy").T),
    ],
    "ridge-path": _path,
    "stream-statistics": _histograms,
    "string-waves": _string,
    "torch-digits": lambda run: [
        metrics(run),
        Shades("told as (across), is (down)", picture(_table(run, "confusion.csv"))),
    ],
    "two-nodes": lambda run: [metrics(run, "pi"), metrics(run, "error")],
}  # fmt: skip


def _write(name: str, text: str) -> None:
    (PICTURES / f"{name}.svg").write_text(text)
    sys.stdout.write(f"{name}: {len(text):,} characters\n")


def main(wanted: Sequence[str]) -> None:
    """Run the specs, and draw their results."""
    for name in wanted or [*NAMES, "ising-sweep"]:
        with tempfile.TemporaryDirectory() as folder:
            command = SWEEP if name == "ising-sweep" else ("run", SPECS / f"{name}.yaml")
            done = jobrun(*command, cwd=Path(folder), started=True, timeout_s=300)
            if done.returncode:
                raise SystemExit(done.stderr)
            if name == "ising-sweep":
                _write(name, swept(jobrun(*SWEPT, cwd=Path(folder)).stdout))
            else:
                _write(name, drawn(name, only_run(Path(folder, "runs"))))


if __name__ == "__main__":
    main(sys.argv[1:])
