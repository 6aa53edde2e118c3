"""From files and options to a checked spec. All faults together; executes and imports nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping as MappingType
from collections.abc import Sequence as SequenceType
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from jobrun.core.errors import Fault, SpecError
from jobrun.core.origin import Origin
from jobrun.spec.checks import check_nodes
from jobrun.spec.faults import model_faults
from jobrun.spec.include import Reading
from jobrun.spec.merge import merge_specs
from jobrun.spec.models import JobSpec
from jobrun.spec.nodes import Mapping, Scalar, plain
from jobrun.spec.overrides import applied, parse_override
from jobrun.spec.params import Param, ParamValues
from jobrun.spec.reader import collector_paused
from jobrun.spec.shape import locate
from jobrun.spec.source import SourceMap
from jobrun.spec.substitute import Substitution


@dataclass(frozen=True, slots=True)
class LoadedSpec:
    """A spec that is valid in itself; whether it compiles is the compiler's to say.

    Attributes:
        spec: The checked model, references replaced.
        source: Where everything stands.
        params: The values of the params.
        folder: The folder that relative paths start from, absolute.
        merged: The tree as put together, before references are replaced, without
            ``include`` and ``x-`` keys: what a run records.
        files: The text of every file that was read, by the name it has in places.
        warnings: What the user should know.
        environment_digests: sha256 of each environment variable used, by name.
    """

    spec: JobSpec
    source: SourceMap
    params: dict[str, Param]
    folder: str
    merged: dict[str, Any]
    files: dict[str, str]
    warnings: tuple[Fault, ...] = ()
    environment_digests: dict[str, str] = field(default_factory=dict)


def load_spec(
    path: str,
    *,
    values: SequenceType[str] = (),
    overrides: SequenceType[str] = (),
    folder: str | None = None,
    environment: MappingType[str, str] | None = None,
) -> LoadedSpec:
    """Load a spec with everything the command line adds to it.

    Args:
        path: The main file.
        values: Further files, merged over it; a later one wins.
        overrides: ``PATH=VALUE`` texts, put in last, in their order.
        folder: Where relative paths start, if not from the main file's folder.
        environment: What ``${env:NAME}`` reads; by default the process's environment.

    Raises:
        SpecError: The spec is not valid; with all faults.
        UsageError: An override is not ``PATH=VALUE``.
    """
    try:
        # Not resolve(): a link to a spec makes the link's folder the spec's folder.
        base = os.path.abspath(Path(path).parent if folder is None else folder)  # noqa: PTH100
        if overrides:
            Path.cwd()  # where the paths in them start
    except FileNotFoundError as error:
        mend = "change to a directory that exists"
        where = Origin(path)
        raise SpecError.of("E001", "the working directory is gone", mend, where=where) from error
    known = os.environ if environment is None else environment
    with collector_paused():
        return _load(_Request(path, tuple(values), tuple(overrides), base), known)


@dataclass(frozen=True, slots=True)
class _Request:
    """What to put together, and the absolute folder that paths start from."""

    path: str
    values: tuple[str, ...]
    overrides: tuple[str, ...]
    folder: str


def _load(request: _Request, environment: MappingType[str, str]) -> LoadedSpec:
    reading = Reading()
    root = _put_together(reading, request)
    faults = list(reading.faults)
    substitution = Substitution({}, environment)
    params = ParamValues(substitution)
    data = _substituted(root, substitution, params)
    source = SourceMap(root)
    faults += [*params.faults, *substitution.faults]
    spec = _validated(data, source, substitution, faults)
    if spec is None or faults:
        raise SpecError(*_distinct(faults, reading.files))
    return LoadedSpec(
        spec, source, params.values, request.folder, plain(root), reading.files,
        (*reading.warnings, *params.warnings), substitution.digests,
    )  # fmt: skip


def _put_together(reading: Reading, request: _Request) -> Mapping:
    # Options first: a malformed one is a usage error, whatever the files say.
    parsed = [parse_override(text, number) for number, text in enumerate(request.overrides, 1)]
    root = reading.tree(request.path, str(Path(request.path).parent))
    for name in request.values:
        tree = reading.tree(name, request.folder)
        if root is not None and tree is not None:
            root = merge_specs(root, tree)
    if root is None:
        raise SpecError(*_distinct(reading.faults, reading.files))
    way = os.path.relpath(Path.cwd(), request.folder) if parsed else ""
    for number, override in enumerate(parsed, 1):
        reading.files[f"--set #{number}"] = request.overrides[number - 1]
        try:
            root = applied(root, override.relative_to(way))
        except SpecError as error:
            reading.faults += error.faults
    return root


def _substituted(root: Mapping, substitution: Substitution, params: ParamValues) -> dict[str, Any]:
    """The tree as plain data: params in their order, then the seed, then all the rest."""
    data: dict[str, Any] = {}
    declared = root.values.get("params")
    seed = root.values.get("seed")
    if seed is None:
        substitution.seed = 0
    elif isinstance(seed, Scalar) and isinstance(seed.value, int):
        substitution.seed = seed.value
    if isinstance(declared, Mapping):
        data["params"] = {
            name: params.declare(name, node) for name, node in declared.values.items()
        }
    if seed is not None:
        data["seed"] = substitution.tree(seed, ("seed",))
    substitution.seed = data.get("seed", 0)
    for key, node in root.values.items():
        if key not in data:
            data[key] = substitution.tree(node, (key,))
    return data


def _validated(
    data: dict[str, Any], source: SourceMap, substitution: Substitution, faults: list[Fault]
) -> JobSpec | None:
    for retries_left in (1, 0):
        try:
            spec = JobSpec.model_validate(data)
        except ValidationError as error:
            if not retries_left or not _put_env_texts(error, data, substitution):
                faults += model_faults(error, JobSpec, source)
                return None
        else:
            faults += check_nodes(spec, source)
            return spec
    return None


def _put_env_texts(
    error: ValidationError, data: dict[str, Any], substitution: Substitution
) -> bool:
    """Take environment values that look like numbers as text, where text is wanted.

    Returns:
        Whether any was found, so that it is worth checking again.
    """
    found = False
    for item in error.errors(include_url=False, include_context=False):
        path = locate(JobSpec, item["loc"]).path
        text = substitution.env_texts.get(path)
        if text is None or isinstance(item["input"], str):
            continue
        holder: Any = data
        for segment in path[:-1]:
            holder = holder[segment]
        holder[path[-1]] = text
        found = True
    return found


def _distinct(faults: list[Fault], files: MappingType[str, str]) -> list[Fault]:
    """In the order of the files, without a second fault about the same thing.

    What the reader found comes first and knows more than what the models make of it.
    """
    first: dict[object, Fault] = {}
    for fault in faults:
        where = fault.where
        place = (where.file, where.line, where.column, fault.path) if where else fault
        first.setdefault(place, fault)
    rank = {name: number for number, name in enumerate(files)}

    def _order(fault: Fault) -> tuple[int, int, int]:
        where = fault.where
        return (rank.get(where.file, -1), where.line, where.column) if where else (-1, 0, 0)

    return sorted(first.values(), key=_order)
