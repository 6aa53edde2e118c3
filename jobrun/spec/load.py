"""Load a spec: read, merge, substitute and validate it, and collect all its faults."""

from __future__ import annotations

import os
from collections.abc import Mapping as MappingType
from collections.abc import Sequence as SequenceType
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, field
from pydantic import ValidationError

from jobrun.core.errors import Fault, Origin, SpecError
from jobrun.core.interpreter import collector_paused
from jobrun.core.text.patterns import lazy_pattern
from jobrun.spec.models.job import JobSpec, check_nodes
from jobrun.spec.resolve.include import SpecReader, merge_specs
from jobrun.spec.resolve.params import HIDDEN, Param, ParamValues, substituted, without_secrets
from jobrun.spec.resolve.substitute import Substitution
from jobrun.spec.yaml.nodes import Mapping, Scalar, SourceMap, path_text, plain
from jobrun.spec.yaml.nodes import Path as SpecPath

if TYPE_CHECKING:
    from jobrun.spec.recorded_origins import Origins

_REFERENCED = lazy_pattern(r"\$\{(?:raw:)?([^{}]*)\}")


class LoadedSpec(Struct, frozen=True):
    """A valid spec that is not compiled yet.

    Attributes:
        spec: The checked model, references replaced.
        source: The positions of all keys and values.
        params: The values of the params.
        folder: The folder that relative paths start from, absolute.
        files: The text of every file that was read, by the name it has in positions.
        warnings: What the user should know.
        environment_digests: sha256 of each environment variable used, by name.
        secrets: The params whose values are not to be recorded, or shown.
        missing_secrets: Those of them that have no value here, which a run needs.
        authored: Absolute paths of the files its author wrote, by the name they have in positions,
            where that name is not their path.
        optional: The names that options (``--values``, ``--set``) have in positions.
    """

    spec: JobSpec
    source: SourceMap
    params: dict[str, Param]
    folder: str
    files: dict[str, str]
    warnings: tuple[Fault, ...] = ()
    environment_digests: dict[str, str] = field(default_factory=dict)
    authored: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    missing_secrets: tuple[str, ...] = ()
    optional: frozenset[str] = frozenset()

    @property
    def external_params(self) -> tuple[str, ...]:
        """The params of this loaded spec, and its seed, whose values are not written in it."""
        fields = [("seed",), *(("params", name) for name in self.params)]
        names = [path_text(path) for path in fields if self._file_of(path) in self.optional]
        seed = self.source.node(("seed",))
        if isinstance(seed, Scalar) and "${env:" in str(seed.value):
            names.append("seed")
        return tuple(dict.fromkeys(names))

    def _file_of(self, path: SpecPath) -> str:
        # A param in its long form has the value below ``default``.
        return self.source.at((*path, "default")).file if self.source.node(path) else ""

    @property
    def merged(self) -> dict[str, Any]:
        """This loaded spec's files merged to plain data, references ``${…}`` still in it.

        It has no ``include`` and ``x-`` keys, and is made at each call.
        """
        return cast("dict[str, Any]", plain(self.source.root))

    @property
    def shown_params(self) -> dict[str, Param]:
        """The params of a loaded spec to show and record, with secrets hidden."""
        return {
            name: HIDDEN if name in self.secrets else value for name, value in self.params.items()
        }

    @property
    def recordable_params(self) -> dict[str, Param]:
        """The params of this loaded spec as a run may record them, with secrets hidden.

        Secrets are hidden, and what is made of an environment variable stays the text that the
        spec has for it: values of variables are never recorded.
        """
        foreign: set[str] = set()
        recordable = self.shown_params
        declared = self.merged.get("params", {})
        for name in self.params:
            if name in self.secrets:
                continue
            written = declared[name]
            text = written.get("default") if isinstance(written, dict) else written
            if not isinstance(text, str):
                continue
            names = set(_REFERENCED.findall(text))
            if names & foreign or any(reference.startswith("env:") for reference in names):
                foreign.add(name)
                recordable[name] = text
        return recordable


def load_spec(
    path: str,
    *,
    values: SequenceType[str] = (),
    overrides: SequenceType[str] = (),
    folder: str | None = None,
    environment: MappingType[str, str] | None = None,
    origins: Origins | None = None,
) -> LoadedSpec:
    """Load a spec: read, merge, substitute and validate its files; raise all errors together.

    Args:
        path: The main file.
        values: Further files, merged over it; a later one wins.
        overrides: ``PATH=VALUE`` texts, put in last, in their order.
        folder: Where relative paths start, if not from the main file's folder.
        environment: What ``${env:NAME}`` reads; by default the process's environment.
        origins: For a resolved spec that was recorded: where its author wrote what it says.

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
        mend = "change to an existing directory"
        where = Origin(path)
        raise SpecError.of(
            "E001", "the working directory no longer exists", mend, where=where
        ) from error
    known = os.environ if environment is None else environment
    with collector_paused():
        return _load(_Request(path, tuple(values), tuple(overrides), base, origins), known)


class _Request(Struct, frozen=True):
    """The files and options that a spec is loaded from, and the folder that paths start from."""

    path: str
    values: tuple[str, ...]
    overrides: tuple[str, ...]
    folder: str
    origins: Origins | None = None


def _load(request: _Request, environment: MappingType[str, str]) -> LoadedSpec:
    reader = SpecReader()
    root, files = _put_together(reader, request)
    faults = list(reader.faults)
    substitution = Substitution({}, environment)
    params = ParamValues(substitution)
    data = substituted(root, substitution, params)
    root = without_secrets(root, params.secrets, reader.files)
    source = SourceMap(root)
    faults += [*params.faults, *substitution.faults]
    spec = _validated(data, source, substitution, faults)
    if spec is None or faults:
        raise SpecError(*_distinct(faults, reader.files))
    return LoadedSpec(
        spec,
        source,
        params.values,
        request.folder,
        reader.files,
        (*reader.warnings, *params.warnings),
        substitution.digests,
        {file.shown: file.path for file in request.origins.files} if request.origins else {},
        tuple(params.secrets),
        tuple(params.missing),
        frozenset(reader.files).difference(files),
    )


def _put_together(reader: SpecReader, request: _Request) -> tuple[Mapping, tuple[str, ...]]:
    """Read and merge a spec; return it, and the names of its files without those of options."""
    # Options first: a malformed one is a usage error, whatever the files say.
    parsed = []
    if request.overrides:
        from jobrun.spec.resolve.overrides import parse_override  # noqa: PLC0415 - with --set only

        parsed = [parse_override(text, number) for number, text in enumerate(request.overrides, 1)]
    root = reader.tree(request.path, str(Path(request.path).parent))
    if root is not None and request.origins is not None:
        from jobrun.spec.recorded_origins import relocated  # noqa: PLC0415 - of a recorded spec

        root = relocated(root, request.origins)
        reader.files = {file.shown: file.text for file in request.origins.files}
    files = tuple(reader.files)
    for name in request.values:
        tree = reader.tree(name, request.folder)
        if root is not None and tree is not None:
            root = merge_specs(root, tree)
    if root is None:
        raise SpecError(*_distinct(reader.faults, reader.files))
    way = os.path.relpath(Path.cwd(), request.folder) if parsed else ""
    for number, override in enumerate(parsed, 1):
        from jobrun.spec.resolve.overrides import applied  # noqa: PLC0415

        reader.files[f"--set #{number}"] = request.overrides[number - 1]
        try:
            root = applied(root, override.relative_to(way))
        except SpecError as error:
            reader.faults += error.faults
    return root, files


def _validated(
    data: dict[str, Any], source: SourceMap, substitution: Substitution, faults: list[Fault]
) -> JobSpec | None:
    for retries_left in (1, 0):
        try:
            spec = JobSpec.model_validate(data)
        except ValidationError as error:
            from jobrun.spec.models.validation_errors import (  # noqa: PLC0415 - after an error only
                model_faults,
                restore_env_texts,
            )

            texts = substitution.env_texts
            if not retries_left or not restore_env_texts(error, JobSpec, data, texts):
                faults += model_faults(error, JobSpec, source)
                return None
        else:
            faults += check_nodes(spec, source)
            return spec
    return None


def _distinct(faults: list[Fault], files: MappingType[str, str]) -> list[Fault]:
    """Sort the errors of loading a spec by file and line; keep one per position and path.

    What the reader found comes first and knows more than what the models make of it.
    """
    first: dict[object, Fault] = {}
    for fault in faults:
        where = fault.where
        key = (where.file, where.line, where.column, fault.path) if where else fault
        first.setdefault(key, fault)
    rank = {name: number for number, name in enumerate(files)}

    def _order(fault: Fault) -> tuple[int, int, int]:
        where = fault.where
        return (rank.get(where.file, -1), where.line, where.column) if where else (-1, 0, 0)

    return sorted(first.values(), key=_order)
