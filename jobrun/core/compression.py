"""Name the compression codecs of checkpoints, and choose the codec of a blob by its name."""

from __future__ import annotations

from fnmatch import fnmatchcase

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
# What makes all but deflate.
PLUGIN = "hdf5plugin"


def needs_plugin(rules: Rules) -> str:
    """Return the first codec named in compression rules that needs ``hdf5plugin``, or ""."""
    return next((codec for _, codec in rules if codec not in {NONE, "deflate"}), "")


def codec_for(name: str, rules: Rules) -> str:
    """Choose a blob's codec by its name and the compression rules; "" for uncompressed."""
    for pattern, codec in rules:
        if fnmatchcase(name, pattern):
            return "" if codec == NONE else codec
    return ""
