"""Implement ``jobrun lock``: write the lock file of a spec's data files, or check it."""

from __future__ import annotations

from pathlib import Path

import click

from jobrun.cli.completion_candidates import SPEC
from jobrun.cli.error_output import print_faults
from jobrun.cli.formatting import render_json_document
from jobrun.cli.options import Command, json_option, option, override_texts, prepare, value_options
from jobrun.cli.terminal import Shell
from jobrun.core.errors import Fault, ProofError
from jobrun.runner.identity.data_lock import check_lock, lock_path, pin_data, read_lock, write_lock


@click.command("lock", cls=Command)
@click.argument("spec", type=SPEC, metavar="SPEC")
@value_options
@option("--check", is_flag=True, help="Only compare; exit with 8 if something differs.")
@json_option
@click.pass_obj
def command(
    shell: Shell,
    spec: str,
    values: tuple[str, ...],
    overrides: tuple[str, ...],
    check: bool,
    as_json: bool,
) -> int:
    r"""Pin the data files that SPEC reads, by size and sha256, in a lock file beside it.

    A run of SPEC then refuses other data, with the place that reads them. Commit the lock file
    with the spec.

    \b
    Examples:
      jobrun lock kmeans.yaml
      jobrun lock kmeans.yaml --check
    """
    shell.texts |= override_texts(overrides)
    prepared = prepare(spec, values, overrides)
    print_faults(prepared.warnings, shell)
    path = lock_path(prepared.authored)
    assert path is not None  # noqa: S101 - a spec was loaded
    folder = Path(prepared.authored.folder)
    if check:
        _compare(check_lock(prepared.job, folder, path, read_lock(path) or {}))
    pins = pin_data(prepared.job, folder)
    if not check:
        write_lock(path, pins)
    if as_json:
        files = {
            name: {"size_bytes": pin.size_bytes, "sha256": pin.sha256} for name, pin in pins.items()
        }
        shell.print_text(render_json_document("lock", {"path": str(path), "files": files}))
        return 0
    for name, pin in pins.items():
        shell.print(f"{name}: {pin}")
    done = "as pinned by" if check else "pinned in"
    count = f"{len(pins)} data file{'' if len(pins) == 1 else 's'}"
    shell.print(f"{count} {done} {path.name}" if pins else _nothing(spec, path))
    return 0


def _compare(faults: tuple[Fault, ...]) -> None:
    """Fail ``jobrun lock --check`` if data files differ from the pins in the lock file."""
    if faults:
        raise ProofError(
            *(
                fault
                if fault.severity == "error"
                else Fault("E267", fault.message, fault.mend, fault.where, fault.path)
                for fault in faults
            )
        )


def _nothing(spec: str, path: Path) -> str:
    return f"{spec} reads no data file whose name is known before the run; {path.name} is empty"
