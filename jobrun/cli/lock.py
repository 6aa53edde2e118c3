"""``jobrun lock``: pin the data files of a spec, or compare them. Runs nothing."""

from __future__ import annotations

from pathlib import Path

import click

from jobrun.cli.completing import SPEC
from jobrun.cli.faults import show
from jobrun.cli.loading import option_texts, prepare
from jobrun.cli.options import Command, json_option, option, value_options
from jobrun.cli.output import document
from jobrun.cli.shell import Shell
from jobrun.core.errors import DriftError, Fault
from jobrun.runner.datalock import lock_faults, lock_path, pins_of, read_lock, write_lock


@click.command("lock", cls=Command)
@click.argument("spec", type=SPEC, metavar="SPEC")
@value_options
@option("--check", is_flag=True, help="Only compare; exit code 5 when something differs.")
@json_option
@click.pass_obj
def command(
    shell: Shell, spec: str, values: tuple[str, ...], overrides: tuple[str, ...], check: bool,
    as_json: bool,
) -> int:  # fmt: skip
    r"""Pin the data files that SPEC reads, by size and sha256, in a lock file beside it.

    A run of SPEC then refuses other data, with the place that reads them. Commit the lock file
    with the spec.

    \b
    Examples:
      jobrun lock kmeans.yaml
      jobrun lock kmeans.yaml --check
    """
    shell.texts |= option_texts(overrides)
    prepared = prepare(spec, values, overrides)
    show(prepared.warnings, shell)
    path = lock_path(prepared.authored)
    assert path is not None  # noqa: S101 - a spec was loaded
    folder = Path(prepared.authored.folder)
    if check:
        _compare(lock_faults(prepared.job, folder, path, read_lock(path) or {}))
    pins = pins_of(prepared.job, folder)
    if not check:
        write_lock(path, pins)
    if as_json:
        files = {
            name: {"size_bytes": one.size_bytes, "sha256": one.sha256} for name, one in pins.items()
        }
        shell.print(document("lock", {"path": str(path), "files": files}))
        return 0
    for name, one in pins.items():
        shell.print(f"{name}: {one}")
    done = "as pinned by" if check else "pinned in"
    count = f"{len(pins)} data file{'' if len(pins) == 1 else 's'}"
    shell.print(f"{count} {done} {path.name}" if pins else _nothing(spec, path))
    return 0


def _compare(faults: tuple[Fault, ...]) -> None:
    """Whoever asks wants to know of what is not pinned, too: as errors."""
    if faults:
        raise DriftError(
            *(
                fault if fault.severity == "error" else
                Fault("E267", fault.message, fault.mend, fault.where, fault.path)
                for fault in faults
            )
        )  # fmt: skip


def _nothing(spec: str, path: Path) -> str:
    return f"{spec} reads no data file whose name is known before it runs; {path.name} pins nothing"
