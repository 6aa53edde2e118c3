"""Define when a job saves checkpoints, what it keeps, compresses and uploads, as frozen values."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import ClassVar, Literal

from msgspec import Struct

from jobrun.core.errors import Origin
from jobrun.core.partly_compared import PartlyCompared
from jobrun.graph.effects import NOWHERE

# With ``checkpoint.every: auto``, saves may cost this part of a run's time.
WAIT_SHARE = 0.05

# Pattern of blob names, and codec; the first that fits counts.
Rules = tuple[tuple[str, str], ...]

CODECS: dict[str, str] = {
    "deflate": "byte shuffling and deflate; every HDF5 tool reads it",
    "zstd": "Zstandard, by the package hdf5plugin",
    "lz4": "LZ4, by the package hdf5plugin",
    "blosc2": "Blosc2 with LZ4 and shuffling, by the package hdf5plugin",
    "bitshuffle": "bit shuffling and LZ4, by the package hdf5plugin",
}
# In a mapping: do not compress what fits this pattern.
NONE = "none"
# The package that provides all codecs except deflate.
PLUGIN = "hdf5plugin"


class UploadPolicy(Struct, frozen=True):
    """Which checkpoints are copied where.

    Attributes:
        to: A directory, relative to the spec's folder, or absolute; or the URL of a place in an
            object store.
        when: ``end``: the last one, when the run has ended; ``committed``: each one.
        required: A failure fails the run; else it is reported and counted.
    """

    to: str
    when: Literal["end", "committed"] = "end"
    required: bool = False


class CheckpointPolicy(PartlyCompared, frozen=True):
    """When to checkpoint and what to keep.

    Attributes:
        enabled: False for ``checkpoint: none``.
        directory: Empty: inside the run.
        every_epochs: Save after this many epochs; 0 for ``every_s``, or, without that either, for
            each epoch while saves cost at most ``WAIT_SHARE`` of the time (``every: auto``).
        every_records: Save within epochs too, after this many records; 0 for never.
        every_s: Save when this many seconds have passed since the last save.
        keep_last: Keep this many of the newest. Epoch 0 is always kept. With no rule at all
            (0, 0, no metric) everything is kept; with another rule, the two newest.
        keep_every: Keep each epoch divisible by it; 0 for none.
        keep_best: Metric, mode, how many; empty metric for none.
        nodes: The nodes whose state is saved.
        on_error: ``fail``, or ``warn`` (count the failure, continue, and report at the end).
        upload: None for no copies.
        compression: Patterns of blob names and codecs; see ``core.compression``.
        asynchronous: Whether the run continues while an epoch is saved; None: as memory allows.
        compression_at: The place of ``compression`` in the spec.
        upload_at: The place of ``upload.to`` in the spec.
        node_dir: Directory on each node's own machine where the node writes its file first; empty:
            directly to the epochs. An epoch is committed when all its files have been collected.
        collect_to: URL in an object store to which nodes upload these files; empty: to the master.
            It is that of ``upload`` too, which uploads the manifests.
    """

    uncompared: ClassVar[tuple[str, ...]] = ("compression_at", "upload_at")

    enabled: bool = True
    directory: str = ""
    every_epochs: int = 0
    every_s: float = 0.0
    every_records: int = 0
    keep_last: int = 0
    keep_every: int = 0
    keep_best: tuple[str, Literal["min", "max"], int] = ("", "min", 0)
    nodes: tuple[str, ...] = ()
    on_error: Literal["fail", "warn"] = "fail"
    upload: UploadPolicy | None = None
    compression: Rules = ()
    asynchronous: bool | None = None
    node_dir: str = ""
    collect_to: str = ""
    compression_at: Origin = NOWHERE
    upload_at: Origin = NOWHERE

    @property
    def is_automatic(self) -> bool:
        """Return whether the checkpoint policy is ``every: auto``, which saves by the cost."""
        return not (self.every_epochs or self.every_s or self.every_records)


def needs_plugin(rules: Rules) -> str:
    """Return the first codec in a checkpoint policy that needs an HDF5 plug-in, or ""."""
    return next((codec for _, codec in rules if codec not in {NONE, "deflate"}), "")


def codec_for(name: str, rules: Rules) -> str:
    """Return the codec that a checkpoint policy's rules give a blob, or ""."""
    for pattern, codec in rules:
        if fnmatchcase(name, pattern):
            return "" if codec == NONE else codec
    return ""
