"""Define readers and queues of a spec as pydantic models."""

# Without postponed annotations: pydantic would evaluate each of two hundred texts.

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, Tag, model_validator

from jobrun.core.file_formats import FILE_FORMATS
from jobrun.spec.models.base_types import (
    BlobName,
    Bool,
    ByKind,
    Expression,
    Int,
    Maybe,
    Model,
    Name,
    NotNegative,
    Positive,
    Seconds,
    Str,
)
from jobrun.spec.models.model_keys import require_one_key

# The keys for a reader's source; a reader has exactly one of them.
READER_SOURCES: tuple[str, ...] = (*FILE_FORMATS, "blobs", "counter", "call", "zip")


def _one_of_keys(keys: tuple[str, ...]) -> dict[str, Any]:
    return {"oneOf": [{"required": [key]} for key in keys]}


class RaggedField(Model):
    """A field whose records differ in length: each is a part of one array of values."""

    values: Str = Field(description="the values of all records, concatenated")
    lengths: Str = Field(description="the number of values of each record: one integer per record")


FieldSource = Annotated[
    Annotated[Str, Tag("text")] | Annotated[RaggedField, Tag("mapping")], ByKind
]


class ReaderSpec(Model):
    """A source of records; exactly one key says of which kind."""

    model_config = ConfigDict(json_schema_extra=_one_of_keys(READER_SOURCES))

    npy: Maybe[Str] = Field(None, description="a file of one array: fields: [x]")
    npz: Maybe[Str] = Field(None, description="a file of arrays of one length; or ragged")
    hdf5: Maybe[Str] = Field(None, description="a file of datasets of one length; or ragged")
    csv: Maybe[Str] = Field(None, description="a table, .csv or .tsv")
    parquet: Maybe[Str] = Field(None, description="needs jobrun[parquet]")
    blobs: Maybe[dict[BlobName, Expression]] = Field(
        None, description="arrays of the node, as at the start of the task"
    )
    counter: Maybe[dict[Literal["start", "stop", "step"], Int]] = Field(
        None, description="consecutive numbers; endless without stop"
    )
    call: Maybe[Str] = Field(None, description="module:Class, iterated over, or with read(n)")
    zip: Maybe[tuple[Name, ...]] = Field(None, description="readers, row by row in parallel")
    arguments: dict[BlobName, Expression] = Field(
        {}, alias="with", description="arguments of the class of 'call'"
    )
    fields: Annotated[
        Annotated[dict[BlobName, FieldSource], Tag("mapping")]
        | Annotated[tuple[BlobName, ...], Tag("list")],
        ByKind,
    ] = Field(
        (),
        description="blobs of each record: names, or name: member of the source, or "
        "name: {values: member, lengths: member}",
    )
    batch: Maybe[Positive] = Field(
        None,
        description="rows per record, along a first axis (values of ragged fields: concatenated) "
        "[default: one row, without that axis]",
    )
    drop_last: Bool = Field(False, description="drop the last batch if it is not full")
    shuffle: Bool = Field(
        False, description="random order that depends only on the seed and the pass"
    )
    restart: Literal["epoch", "never"] = Field(
        "epoch", description="never: continue where the last epoch ended"
    )
    limit: Maybe[NotNegative] = Field(
        None, description="records of an epoch, on each node, over all instances"
    )
    time_limit: Maybe[Seconds] = Field(None, description="start no more records after this time")
    delay: Maybe[Seconds] = Field(None, description="delay before each record, for tests")
    shard: Maybe[Literal["node", "instance", "none"]] = Field(
        None, description="how rows are divided among nodes or instances"
    )

    @property
    def kind(self) -> str:
        """The key of this reader model that names its source, such as ``npz``."""
        return next(key for key in READER_SOURCES if key in self.model_fields_set)

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        require_one_key(self, READER_SOURCES)
        return self


class QueueSpec(Model):
    """A bounded queue between tasks."""

    capacity: Positive = Field(
        100, description="capacity in records; writers block when it is full"
    )
    shared: Bool = Field(False, description="one queue for all nodes [default: one per node]")
    ordered: Bool = Field(False, description="deliver records in the order in which they were read")
    batch: Maybe[Positive] = Field(
        None, description="number of records concatenated into one, along the first axis"
    )
