"""What ``readers`` of a spec mean: sources, fields, and what cannot be meant. One reader at a time.

What the tasks that read must agree on is looked at by ``positions``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jobrun.compile.context import FINDER, Context, Env
from jobrun.compile.faults import Place
from jobrun.compile.reading import Reading
from jobrun.core.names import did_you_mean
from jobrun.graph.data import (
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
from jobrun.graph.expr import Builtin, Draw, Expr, Text
from jobrun.graph.walk import walk_expr
from jobrun.spec.models import READER_SOURCES, JobSpec, ReaderSpec
from jobrun.spec.source import Path

_FILES = ("npy", "npz", "hdf5", "csv", "parquet")
_ENDINGS = {"hdf5": (".h5", ".hdf5"), "csv": (".csv", ".tsv")}
_LARGEST = 2**62


@dataclass(frozen=True, slots=True)
class ReaderTable:
    """The readers of a job that have no fault, by name; ``names`` are those of all."""

    readers: Mapping[str, Reader] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    def read(self, name: str) -> ReadRecords | None:
        """What reading from a reader means; None when there is none of that name."""
        reader = self.readers.get(name)
        return None if reader is None else ReadRecords(reader)


def reader_table(spec: JobSpec, context: Context) -> ReaderTable:
    """The readers of a spec; notes what is wrong with each."""
    lowering = _Lowering(context)
    plain: dict[str, Reader] = {}
    for name, one in spec.readers.items():
        if one.zip is None:
            reader = lowering.reader(name, one)
            if reader is not None:
                plain[name] = reader
    found = dict(plain)
    for name, one in spec.readers.items():
        if one.zip is not None:
            zipped = lowering.zipped(name, one, plain, spec.readers)
            if zipped is not None:
                found[name] = zipped
    return ReaderTable(found, tuple(spec.readers))


def source_reads(reader: Reader) -> tuple[Expr, ...]:
    """The expressions that are evaluated when a run of the reader begins."""
    match reader.source:
        case BlobSource(values=values):
            return tuple(value for _, value in values)
        case CallSource(arguments=arguments):
            return tuple(value for _, value in arguments)
        case ZipSource(readers=readers):
            return tuple(value for one in readers for value in source_reads(one))
        case FileSource() | CounterSource():
            return ()


class _Lowering:
    """Lowers readers, one by one; a reader with a fault is left out."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._faults = context.faults
        self._read = Reading(context)

    def reader(self, name: str, spec: ReaderSpec) -> Reader | None:
        """A reader of a source of its own."""
        before = len(self._faults)
        kind = next(key for key in READER_SOURCES if key in spec.model_fields_set)
        at: Path = ("readers", name)
        place = self._place(at)
        self._check_keys(spec, kind, at)
        source = self._source(spec, kind, at, place)
        fields = self._fields(spec, kind, source, at)
        made = _reader(name, spec, source, fields, place)
        self._check_whole(made, at)
        return made if len(self._faults) == before else None

    def zipped(
        self, name: str, spec: ReaderSpec, plain: Mapping[str, Reader],
        written: Mapping[str, ReaderSpec],
    ) -> Reader | None:  # fmt: skip
        """A reader of other readers."""
        before = len(self._faults)
        at: Path = ("readers", name)
        for key in ("batch", "drop_last", "shuffle", "restart", "shard", "delay", "arguments"):
            if key in spec.model_fields_set:
                written_as = "with" if key == "arguments" else key
                self._error(f"'{written_as}' belongs to each of the readers that are zipped",
                            "write it there", (*at, written_as))  # fmt: skip
        inner = [self._inner(one, plain, written, (*at, "zip", i))
                 for i, one in enumerate(spec.zip or ())]  # fmt: skip
        found = [one for one in inner if one is not None]
        if not spec.zip or len(found) < len(spec.zip):
            if not spec.zip:
                self._error("this zips nothing", "name two readers or more", (*at, "zip"))
            return None
        self._check_alike(found, (*at, "zip"))
        source = ZipSource(tuple(found))
        fields = self._fields(spec, "zip", source, at)
        made = _reader(name, spec, source, fields, self._place(at))
        if len(self._faults) > before:
            return None
        return replace(made, restart=found[0].restart, shard=found[0].shard)

    def _inner(
        self, name: str, plain: Mapping[str, Reader], written: Mapping[str, ReaderSpec], at: Path
    ) -> Reader | None:
        if name not in written:
            self._error(f"there is no reader '{name}'", did_you_mean(name, written), at)
        elif written[name].zip is not None:
            self._error(f"'{name}' is zipped itself", "name the readers that it zips instead", at)
        return plain.get(name)

    def _check_alike(self, readers: list[Reader], at: Path) -> None:
        twice = [name for name, count in Counter(one.name for one in readers).items() if count > 1]
        if twice:
            self._error(f"'{twice[0]}' cannot be zipped with itself: it has one position",
                        "declare a second reader of the same data", at)  # fmt: skip
        for key in ("restart", "shard"):
            values = {one.name: getattr(one, key) for one in readers}
            if len(set(values.values())) > 1:
                shown = ", ".join(f"'{value}' of {name}" for name, value in values.items())
                self._error(f"readers that are zipped must have one '{key}': {shown}",
                            f"give all of them the same '{key}'", at)  # fmt: skip

    def _source(self, spec: ReaderSpec, kind: str, at: Path, place: Place) -> Source:
        env = Env(())
        if kind in _FILES:
            path = str(getattr(spec, kind))
            if "::" in path:
                self._error("the members of a reader's file are named by 'fields'",
                            "write the path alone, and fields: {x: member}",
                            (*at, kind))  # fmt: skip
            text = self._read.text(path, (*at, kind), place.path, env, holes=False)
            if "::" not in path:
                self._check_ending(kind, text, (*at, kind))
            return FileSource(kind, text)  # type: ignore[arg-type]
        if kind == "blobs":
            return BlobSource(self._values(spec.blobs or {}, (*at, "blobs"), place.path))
        if kind == "counter":
            given = {str(key): value for key, value in (spec.counter or {}).items()}
            return self._counter(CounterSource(**given), at)
        return CallSource(str(spec.call), self._values(spec.arguments, (*at, "with"), place.path))

    def _check_ending(self, kind: str, text: Text, at: Path) -> None:
        last = text.parts[-1] if text.parts else ""
        endings = _ENDINGS.get(kind, (f".{kind}",))
        if isinstance(last, str) and not last.lower().endswith(endings):
            shown = " or ".join(endings)
            self._error(f"'{last}' does not look like {kind}: its name does not end in {shown}",
                        "name the format that the file has, or rename the file", at)  # fmt: skip

    def _counter(self, source: CounterSource, at: Path) -> CounterSource:
        if source.step == 0:
            self._error("a counter's step cannot be 0", "give it a step", (*at, "counter", "step"))
        if any(abs(one) > _LARGEST for one in (source.start, source.step, source.stop or 0)):
            self._error("a counter's numbers must fit into 62 bits", "use smaller ones",
                        (*at, "counter"))  # fmt: skip
        return source

    def _values(
        self, values: Mapping[str, Any], at: Path, path: str
    ) -> tuple[tuple[str, Expr], ...]:
        found = [
            (name, self._read.expression(value, (*at, name), path, Env(())))
            for name, value in values.items()
        ]
        for name, value in found:
            if any(isinstance(part, Draw) for part in walk_expr(value)):
                self._error("a reader has no random stream", "draw in a task, and name the blob",
                            (*at, name))  # fmt: skip
        return tuple(found)

    def _fields(self, spec: ReaderSpec, kind: str, source: Source, at: Path) -> tuple[Field, ...]:
        known = _members(source)
        written = spec.fields
        single = kind in ("npy", "counter")
        if not written:
            if known is not None:
                return self._checked(tuple(Field(name, name) for name in known), at)
            example = "[x]" if single else "{x: data, y: target}"
            self._error(f"reader '{at[1]}' does not say what its records bind",
                        f"add for example fields: {example}", at)  # fmt: skip
            return ()
        if isinstance(written, tuple):
            pairs = [(name, "" if single else name) for name in written]
        else:
            pairs = list(written.items())
        found = tuple(Field(name, member) for name, member in pairs)
        if single and len(found) > 1:
            self._error(f"{kind} has one column, and 'fields' names {len(found)}",
                        "name one", (*at, "fields"))  # fmt: skip
        for name, member in pairs if known is not None else ():
            if known is not None and member not in known:
                key: str | int = name if isinstance(written, dict) else list(written).index(name)
                self._error(f"there is no '{member}' in what reader '{at[1]}' reads",
                            did_you_mean(member, known), (*at, "fields", key))  # fmt: skip
        return self._checked(found, (*at, "fields"))

    def _checked(self, fields: tuple[Field, ...], at: Path) -> tuple[Field, ...]:
        place = self._place(at)
        for one in fields:
            self._context.check_blob_name(one.name, place)
        twice = [name for name, n in Counter(one.name for one in fields).items() if n > 1]
        if twice:
            self._error(f"'{twice[0]}' would be bound twice by each record",
                        "give each field a name of its own: fields: {a: …, b: …}", at)  # fmt: skip
        return fields

    def _check_keys(self, spec: ReaderSpec, kind: str, at: Path) -> None:
        if "arguments" in spec.model_fields_set and kind != "call":
            self._error("'with' is for readers with 'call'", "leave it out", (*at, "with"))
        if spec.drop_last and spec.batch is None:
            self._error("'drop_last' means nothing without 'batch'",
                        "give a batch size, or leave it out", (*at, "drop_last"))  # fmt: skip
        if kind != "call":
            return
        for key in ("shuffle", "shard"):
            if getattr(spec, key) not in (False, None, "none"):
                self._error(f"'{key}' needs rows that can be counted, and a class does not tell",
                            "let the class do it: 'with' can hand it what it needs",
                            (*at, key))  # fmt: skip

    def _check_whole(self, reader: Reader, at: Path) -> None:
        source = reader.source
        endless = isinstance(source, CounterSource) and source.stop is None
        for key in ("shuffle", "shard"):
            if endless and getattr(reader, key) not in (False, "none"):
                self._error(f"'{key}' needs an end, and this counter has none",
                            "give the counter a stop", (*at, key))  # fmt: skip
        if reader.restart == "never" and isinstance(source, CallSource):
            for name, value in source.arguments:
                if _varies(value):
                    self._error(
                        f"'{name}' may differ from one epoch to the next, and with restart: never "
                        "the class is made once, and again at a resume",
                        "hand it params and constants of the spec only, or use restart: epoch",
                        (*at, "with", name),
                    )  # fmt: skip

    def _place(self, at: Path) -> Place:
        return Place(f"readers.{at[1]}", self._context.source.key(at))

    def _error(self, message: str, mend: str, at: Path) -> None:
        self._faults.error("E119", message, mend, self._place(at))


def _members(source: Source) -> tuple[str, ...] | None:
    """What the source calls its columns, where the spec tells."""
    match source:
        case BlobSource(values=values):
            return tuple(name for name, _ in values)
        case ZipSource(readers=readers):
            return tuple(one.name for reader in readers for one in reader.fields)
        case _:
            return None


def _reader(
    name: str, spec: ReaderSpec, source: Source, fields: tuple[Field, ...], place: Place
) -> Reader:
    return Reader(
        name, source, fields, spec.batch or 0, spec.drop_last, spec.shuffle, spec.restart,
        spec.limit, spec.time_limit or 0.0, spec.delay or 0.0, spec.shard or "none",
        place.path, place.origin,
    )  # fmt: skip


def _varies(value: Expr) -> bool:
    access = FINDER.of_expr(value)
    changing = (*access.reads, *access.atomic, *access.outputs)
    return bool(changing) or any(isinstance(part, Builtin) for part in walk_expr(value))
