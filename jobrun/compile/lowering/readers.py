"""Lower ``readers`` of a spec, one by one: sources, fields and options.

What the tasks that read them must agree on is checked by ``analysis.reader_positions``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from jobrun.compile.faults import SpecPosition
from jobrun.compile.lowering.context import Context, Env
from jobrun.compile.lowering.expressions import ExpressionLowering
from jobrun.core.codes import Code
from jobrun.core.file_formats import FILE_FORMATS, endings_of
from jobrun.core.text.names import did_you_mean
from jobrun.graph.expressions import Builtin, Draw, Expr, Text
from jobrun.graph.readers import (
    BlobSource,
    CallSource,
    CounterSource,
    Field,
    FileSource,
    Reader,
    ReadRecords,
    Source,
    ZipSource,
)
from jobrun.graph.traversal import walk_expr
from jobrun.ops.access_finder import ACCESS_FINDER
from jobrun.spec.models.job import JobSpec
from jobrun.spec.yaml.nodes import Path

if TYPE_CHECKING:
    from jobrun.spec.models.readers import RaggedField, ReaderSpec

_MAX_NUMBER = 2**62
# Source → why it has no ragged fields, and the mend.
_NOT_RAGGED = {
    "csv": ("the columns of a table all have one length",
            "keep the values and their lengths in an npz or HDF5 file"),
    "parquet": ("the columns of a table all have one length",
                "keep the values and their lengths in an npz or HDF5 file"),
    "npy": ("npy has one column", "keep the values and their lengths in an npz or HDF5 file"),
    "counter": ("a counter has one column", "name the field: fields: [i]"),
    "call": ("the records of a class may differ in length by themselves",
             "let the class give one array a record, and name the field: fields: [x]"),
    "zip": ("a ragged field belongs to one of the readers that are zipped", "move it there"),
}  # fmt: skip


class ReaderTable(Struct, frozen=True):
    """The valid readers of a job by name; ``names`` has those of all readers."""

    readers: Mapping[str, Reader] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    def read(self, name: str) -> ReadRecords | None:
        """Lower a task's ``read: NAME`` of a reader to ``ReadRecords``; None if invalid."""
        reader = self.readers.get(name)
        return None if reader is None else ReadRecords(reader)


def build_reader_table(spec: JobSpec, context: Context) -> ReaderTable:
    """Lower all readers of a spec into a table; add a fault for each invalid one."""
    lowering = _ReaderLowering(context)
    plain: dict[str, Reader] = {}
    for name, reader_spec in spec.readers.items():
        if reader_spec.zip is None:
            reader = lowering.lower_reader(name, reader_spec)
            if reader is not None:
                plain[name] = reader
    readers = dict(plain)
    for name, reader_spec in spec.readers.items():
        if reader_spec.zip is not None:
            zipped = lowering.lower_zip(name, reader_spec, plain, spec.readers)
            if zipped is not None:
                readers[name] = zipped
    return ReaderTable(readers, tuple(spec.readers))


class _ReaderLowering:
    """Lowers readers one by one; a reader with a fault is left out."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._faults = context.faults
        self._read = ExpressionLowering(context)

    def lower_reader(self, name: str, spec: ReaderSpec) -> Reader | None:
        """Lower a reader that has its own source in the spec, such as a file."""
        before = len(self._faults)
        kind = spec.kind
        at: Path = ("readers", name)
        spec_position = self._position(at)
        self._check_keys(spec, kind, at)
        source = self._source(spec, kind, at, spec_position)
        fields = self._fields(spec, kind, source, at)
        reader = _reader(name, spec, source, fields, spec_position)
        self._check_whole(reader, at)
        return reader if len(self._faults) == before else None

    def lower_zip(
        self,
        name: str,
        spec: ReaderSpec,
        plain: Mapping[str, Reader],
        written: Mapping[str, ReaderSpec],
    ) -> Reader | None:
        """Lower a reader with ``zip``, which joins the records of other readers."""
        before = len(self._faults)
        at: Path = ("readers", name)
        for key in ("batch", "drop_last", "shuffle", "restart", "shard", "delay", "arguments"):
            if key in spec.model_fields_set:
                written_as = "with" if key == "arguments" else key
                message = f"'{written_as}' belongs on the readers that are zipped"
                self._error(message, "move it there", (*at, written_as))
        inner = [
            self._find_zipped(reader_name, plain, written, (*at, "zip", i))
            for i, reader_name in enumerate(spec.zip or ())
        ]
        readers = [reader for reader in inner if reader is not None]
        if not spec.zip or len(readers) < len(spec.zip):
            if not spec.zip:
                self._error(
                    "'zip' needs at least two readers", "name two or more readers", (*at, "zip")
                )
            return None
        self._check_alike(readers, (*at, "zip"))
        source = ZipSource(tuple(readers))
        fields = self._fields(spec, "zip", source, at)
        zipped = _reader(name, spec, source, fields, self._position(at))
        if len(self._faults) > before:
            return None
        return replace(zipped, restart=readers[0].restart, shard=readers[0].shard)

    def _find_zipped(
        self, name: str, plain: Mapping[str, Reader], written: Mapping[str, ReaderSpec], at: Path
    ) -> Reader | None:
        if name not in written:
            self._error(f"unknown reader '{name}'", did_you_mean(name, written), at)
        elif written[name].zip is not None:
            self._error(f"'{name}' is itself a zip", "name the readers that it zips", at)
        return plain.get(name)

    def _check_alike(self, readers: list[Reader], at: Path) -> None:
        twice = [
            name for name, count in Counter(reader.name for reader in readers).items() if count > 1
        ]
        if twice:
            message = f"'{twice[0]}' cannot be zipped with itself: it has one position"
            self._error(message, "declare a second reader of the same data", at)
        for key in ("restart", "shard"):
            values = {reader.name: getattr(reader, key) for reader in readers}
            if len(set(values.values())) > 1:
                shown = ", ".join(f"'{value}' of {name}" for name, value in values.items())
                message = f"zipped readers must have the same '{key}': {shown}"
                self._error(message, f"use the same '{key}' for all of them", at)

    def _source(self, spec: ReaderSpec, kind: str, at: Path, spec_position: SpecPosition) -> Source:
        env = Env(())
        if kind in FILE_FORMATS:
            path = str(getattr(spec, kind))
            if "::" in path:
                message = "the members of a data file are named in 'fields'"
                self._error(message, "write only the path, and fields: {x: member}", (*at, kind))
            text = self._read.text(path, (*at, kind), spec_position.path, env, holes=False)
            if "::" not in path:
                self._check_ending(kind, text, (*at, kind))
            return FileSource(kind, text)
        if kind == "blobs":
            return BlobSource(self._values(spec.blobs or {}, (*at, "blobs"), spec_position.path))
        if kind == "counter":
            settings = {str(key): value for key, value in (spec.counter or {}).items()}
            return self._counter(CounterSource(**settings), at)
        return CallSource(
            str(spec.call), self._values(spec.arguments, (*at, "with"), spec_position.path)
        )

    def _check_ending(self, kind: str, text: Text, at: Path) -> None:
        last = text.parts[-1] if text.parts else ""
        endings = endings_of(kind)
        if isinstance(last, str) and not last.lower().endswith(endings):
            shown = " or ".join(endings)
            message = f"'{last}' does not look like {kind}: its name does not end in {shown}"
            self._error(message, "use the key of its format, or rename the file", at)

    def _counter(self, source: CounterSource, at: Path) -> CounterSource:
        if source.step == 0:
            self._error(
                "the step of a counter cannot be 0", "use another step", (*at, "counter", "step")
            )
        if any(
            abs(number) > _MAX_NUMBER for number in (source.start, source.step, source.stop or 0)
        ):
            message = "the numbers of a counter must fit into 62 bits"
            self._error(message, "use smaller numbers", (*at, "counter"))
        return source

    def _values(
        self, values: Mapping[str, Any], at: Path, path: str
    ) -> tuple[tuple[str, Expr], ...]:
        expressions = [
            (name, self._read.expression(value, (*at, name), path, Env(())))
            for name, value in values.items()
        ]
        for name, value in expressions:
            if any(isinstance(part, Draw) for part in walk_expr(value)):
                self._error(
                    "a reader has no random stream", "draw in a task, and use the blob", (*at, name)
                )
        return tuple(expressions)

    def _fields(self, spec: ReaderSpec, kind: str, source: Source, at: Path) -> tuple[Field, ...]:
        known = _members(source)
        written = spec.fields
        single = kind in ("npy", "counter")
        if not written:
            if known is not None:
                fields = tuple(Field(name, name) for name in known)
                self._check_ragged(fields, kind, at)
                return self._check_fields(fields, at)
            example = "[x]" if single else "{x: data, y: target}"
            self._error(
                f"reader '{at[1]}' has no fields", f"add fields, for example fields: {example}", at
            )
            return ()
        at = (*at, "fields")
        spec_paths: dict[Path, str] = {}
        if isinstance(written, tuple):
            fields = tuple(Field(name, "" if single else name) for name in written)
            spec_paths = {(*at, number): name for number, name in enumerate(written)}
        else:
            fields = tuple(_field(name, declared) for name, declared in written.items())
            for name, declared in written.items():
                if not isinstance(declared, str):
                    spec_paths[*at, name, "values"] = declared.values
                    spec_paths[*at, name, "lengths"] = declared.lengths
                else:
                    spec_paths[*at, name] = declared
        if single and len(fields) > 1:
            self._error(f"{kind} has one column, but 'fields' names {len(fields)}", "name one", at)
        for spec_path, member in spec_paths.items() if known is not None else ():
            if known is not None and member not in known:
                message = f"reader '{at[1]}' has no member '{member}'"
                self._error(message, did_you_mean(member, known), spec_path)
        self._check_ragged(fields, kind, at)
        return self._check_fields(fields, at)

    def _check_ragged(self, fields: tuple[Field, ...], kind: str, at: Path) -> None:
        """Check the ``ragged`` fields of a lowered reader: no column may be used twice."""
        ragged = [record_field for record_field in fields if record_field.lengths is not None]
        for record_field in ragged[:1] if kind in _NOT_RAGGED else ():
            why, mend = _NOT_RAGGED[kind]
            message = f"'{record_field.name}' cannot be ragged: {why}"
            self._error(message, mend, (*at, record_field.name), "E513")
        uses = Counter(member for record_field in fields for member in record_field.members)
        for record_field in ragged:
            if uses.pop(record_field.member, 0) > 1:
                if record_field.member == record_field.lengths:
                    message = f"'{record_field.member}' cannot hold both values and their lengths"
                else:
                    message = (
                        f"'{record_field.member}' holds the values of '{record_field.name}', and "
                        "is used again: its rows are not records"
                    )
                mend = (
                    "use it for one field; a second reader of the same source can read it "
                    "in another way"
                )
                self._error(message, mend, (*at, record_field.name, "values"), "E513")
        if kind in _NOT_RAGGED:
            return
        rows = {
            record_field.member: number
            for number, record_field in enumerate(fields)
            if record_field.lengths is None
        }
        for values, number in rows.items():
            lengths = values.removesuffix("values") + "lengths"
            if values.endswith("values") and lengths in rows:
                name = fields[number].name
                # Lengths cannot tell: there may be as many flat values as records.
                mend = (
                    f"write fields: {{{name}: {{values: {values}, lengths: {lengths}}}}}; if "
                    "each of the values is a record, give the members other names, or zip "
                    "two readers"
                )
                message = (
                    f"'{values}' and '{lengths}' are read row by row, but their names suggest "
                    "that one holds the lengths of the other"
                )
                self._error(message, mend, at, "E515")

    def _check_fields(self, fields: tuple[Field, ...], at: Path) -> tuple[Field, ...]:
        spec_position = self._position(at)
        for record_field in fields:
            self._context.check_blob_name(record_field.name, spec_position)
        twice = [
            name
            for name, n in Counter(record_field.name for record_field in fields).items()
            if n > 1
        ]
        if twice:
            message = f"'{twice[0]}' is the name of two fields"
            self._error(message, "give each field a unique name: fields: {a: …, b: …}", at)
        return fields

    def _check_keys(self, spec: ReaderSpec, kind: str, at: Path) -> None:
        if "arguments" in spec.model_fields_set and kind != "call":
            self._error("'with' is only for readers with 'call'", "remove it", (*at, "with"))
        if spec.drop_last and spec.batch is None:
            message = "'drop_last' has no effect without 'batch'"
            self._error(message, "set 'batch', or remove it", (*at, "drop_last"))
        if kind != "call":
            return
        for key in ("shuffle", "shard"):
            if getattr(spec, key) not in (False, None, "none"):
                message = f"'{key}' needs a known number of rows, which a class does not have"
                mend = "implement it in the class, and pass values with 'with'"
                self._error(message, mend, (*at, key))

    def _check_whole(self, reader: Reader, at: Path) -> None:
        source = reader.source
        endless = isinstance(source, CounterSource) and source.stop is None
        for key in ("shuffle", "shard"):
            if endless and getattr(reader, key) not in (False, "none"):
                message = f"'{key}' needs an end, but this counter has none"
                self._error(message, "add a stop to the counter", (*at, key))
        if reader.restart == "never" and isinstance(source, CallSource):
            for name, value in source.arguments:
                if _varies(value):
                    self._error(
                        f"'{name}' may differ between epochs, but with restart: never the "
                        f"class is instantiated once, and again on resume",
                        "pass only params and constants of the spec, or use restart: epoch",
                        (*at, "with", name),
                    )

    def _position(self, at: Path) -> SpecPosition:
        return SpecPosition(f"readers.{at[1]}", self._context.source.key(at))

    def _error(self, message: str, mend: str, at: Path, code: Code = "E119") -> None:
        self._faults.error(code, message, mend, self._position(at))


def _field(name: str, written: str | RaggedField) -> Field:
    if not isinstance(written, str):
        return Field(name, written.values, written.lengths)
    return Field(name, written)


def _members(source: Source) -> tuple[str, ...] | None:
    """Return the columns of a lowered reader if the spec names them; None for a data file."""
    match source:
        case BlobSource(values=values):
            return tuple(name for name, _ in values)
        case ZipSource(readers=readers):
            return tuple(record_field.name for reader in readers for record_field in reader.fields)
        case _:
            return None


def _reader(
    name: str,
    spec: ReaderSpec,
    source: Source,
    fields: tuple[Field, ...],
    spec_position: SpecPosition,
) -> Reader:
    return Reader(
        name,
        source,
        fields,
        spec.batch or 0,
        spec.drop_last,
        spec.shuffle,
        spec.restart,
        spec.limit,
        spec.time_limit or 0.0,
        spec.delay or 0.0,
        spec.shard or "none",
        spec_position.path,
        spec_position.origin,
    )


def _varies(value: Expr) -> bool:
    access = ACCESS_FINDER.of_expr(value)
    changing = (*access.reads, *access.atomic, *access.outputs)
    return bool(changing) or any(isinstance(part, Builtin) for part in walk_expr(value))
