"""Check the names in ``adapt`` of a spec: that each is a module or class, and needs admission."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from jobrun.core.codes import Code
from jobrun.core.errors import Fault
from jobrun.core.text.names import did_you_mean, nearest
from jobrun.graph.types import Job
from jobrun.runner.identity.code_digests import find_module
from jobrun.runner.preflight.callable_signatures import find_definition
from jobrun.runtime.callables.user_modules import split_adapted
from jobrun.values.adapters.registry import ADAPTED_WHOLLY

# Error code, message, and how to mend it.
Refusal = tuple[Code, str, str]


def check_adapted(job: Job, folder: Path) -> Iterator[Fault]:
    """Check each name of ``adapt`` by the files of its module, which is not imported."""
    for at, name in enumerate(job.adapt):
        origin = job.adapt_at[at] if job.adapt_at else None
        refusal = _explain_needless(name, job.adapt[:at]) or _explain_unknown(name, folder)
        if refusal is not None:
            code, message, mend = refusal
            yield Fault(code, message, mend, origin, f"adapt[{at}]")


def _explain_needless(name: str, earlier: tuple[str, ...]) -> Refusal | None:
    """Explain why values of a package or class are kept without this name in ``adapt``, or None."""
    dotted = name.replace(":", ".")
    package = dotted.partition(".")[0]
    if package in ADAPTED_WHOLLY:
        return "E251", f"values of '{package}' are kept without 'adapt'", f"leave '{name}' out"
    outer = (
        outer_name
        for outer_name in earlier
        if f"{dotted}.".startswith(f"{outer_name.replace(':', '.')}.")
    )
    for outer_name in outer:
        return "E251", f"'{outer_name}' admits '{name}' already", f"leave '{name}' out"
    return None


def _explain_unknown(name: str, folder: Path) -> Refusal | None:
    """Explain why there is no such package, module or class, with the nearest name, or None."""
    module_name, attributes = split_adapted(name, lambda candidate: find_module(candidate, folder))
    module = find_module(module_name, folder)
    if module is None:
        parent, _, last = module_name.rpartition(".")
        package = find_module(parent, folder) if parent else None
        search = [folder, *map(Path, sys.path)] if package is None else package.search
        near = nearest(last if package else module_name, _module_names(search))
        mend = f"did you mean '{parent}.{near}'?" if package and near else f"did you mean '{near}'?"
        return (
            "E250",
            f"there is no module '{module_name}'",
            mend if near else f"install it, or put it into '{folder}'",
        )
    if not attributes or module.file is None or module.file.suffix != ".py":
        return None
    is_there, known = find_definition(module.file, attributes[0])
    if is_there:
        return None
    inside = _module_names(module.search)
    message = f"'{module_name}' has no module or class '{attributes[0]}'"
    return "E250", message, did_you_mean(attributes[0], (*known, *inside))


def _module_names(search: Iterable[Path]) -> list[str]:
    return [module.name for module in pkgutil.iter_modules([str(path) for path in search])]
