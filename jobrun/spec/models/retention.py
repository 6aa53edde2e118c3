"""Define which checkpoints a spec keeps, and where they are copied to, as pydantic models."""

# Without postponed annotations: pydantic would evaluate each of two hundred texts.

from typing import Annotated, Literal

from pydantic import Field

from jobrun.spec.models.base_types import Bool, EveryValue, Int, Maybe, Model, Name, Positive, Str


class BestSpec(Model):
    """Those with the best value of a metric."""

    metric: Name = Field(description="the name of a metric")
    mode: Literal["min", "max"] = Field("min", description="which values are best")
    n: Positive = Field(1, description="how many")


class KeepSpec(Model):
    """Which checkpoints stay; without it, all."""

    last: Maybe[Annotated[Int, Field(ge=2)]] = Field(None, description="number of newest epochs")
    every: Maybe[EveryValue] = Field(None, description="every N-th epoch, such as 10ep")
    best: Maybe[BestSpec] = None


class UploadSpec(Model):
    """Where committed checkpoints are copied to."""

    to: Str = Field(description="a directory, or the URL of an object store: s3://bucket/…")
    when: Literal["end", "committed"] = Field(
        "end", description="the last epoch at the end of the run, or each one when it is saved"
    )
    required: Bool = Field(False, description="the run fails if an upload fails")
