"""Describe the checkpoint file format in words, from the constants that the code uses."""

from __future__ import annotations

import inspect
import re
import textwrap

from msgspec.structs import fields

from jobrun.checkpoint.blob_parts import MOST_LEAVES
from jobrun.checkpoint.hdf5 import dataset_names as names
from jobrun.checkpoint.hdf5 import digest_blocks as blocks
from jobrun.checkpoint.hdf5 import dtypes
from jobrun.checkpoint.hdf5 import file_layout as layout
from jobrun.checkpoint.hdf5 import metadata_template as template
from jobrun.checkpoint.hdf5 import user_block as userblock
from jobrun.graph.checkpoint_policy import CODECS
from jobrun.graph.steps import STATE_DIRS
from jobrun.values.directory_archive import COMMENT

_TEXT = """\
Checkpoint files, format {version}

NODE.h5 in epoch-NNNNNN/ holds the state of one node: a plain HDF5 file that h5py, h5dump and h5web
read without jobrun. Numbers are little-endian; places count from the first byte of the file.

  0 to {userblock_last}     the user block, which HDF5 skips
  {userblock}          HDF5 superblock (version 0, base address {userblock})
  …             index: /_ck/layout, /_ck/names, /_ck/blobs
  …             object headers, groups
  …             data: blobs below {paged} bytes at multiples of {alignment}, then larger ones at
                multiples of {page}, both in the order of their quoted names in UTF-8;
                then chunks of compressed blobs, each blob's followed by its chunk B-tree
  tail          /_ck/epoch, /_ck/chunks, /_ck/values, /_ck/blocks; nothing is behind it

User block
  {magic}, a line feed; one line of JSON with sorted keys; NULs; in the last 32 bytes the
  SHA-256 of all before them. The keys:
{header}
  and in parts:
{parts}

HDF5
  /blobs/NAME    one dataset per blob: contiguous, or in chunks with filters where it is compressed.
                 In NAME '%', '/', control characters, and a name that is '.' alone become '%' and
                 two hexadecimal digits for each byte of their UTF-8
  /blobs/NAME/…  a container (dict, list, tuple, bytes), a tensor, or the state of an object: a
                 group with a dataset per leaf, at the path of its keys and numbers, as in
                 /blobs/model/0.weight. Each step is quoted as NAME is; an empty one is '%' alone.
                 /blobs/NAME/{structure} is the text that puts them together, see below
  /blobs/{state_dirs}NAME
                 what the program of a run step has in its state_dir: uint8, the bytes of a tar
                 archive (pax; files with holes in GNU's sparse format 1.0), none for an empty
                 directory: entries in the order of their names, with modes and times, without
                 owners. It begins with the pax comment '{archive}'; an archive of an
                 older jobrun does not, and has no times
    attributes   kind (array, numpy, bool, int, float, complex, text, counter), dtype (the logical
                 one), order (where the array is not in C order in memory: its axes from the
                 slowest to the fastest, as in 1,0; the dataset has the logical shape), role
                 (state, or reader: a position), origin (where the spec makes it, if known); all
                 constant while the layout is
  /_ck/layout    JSON: "types", a list of [kind, dtype, shape], and where it is not C order, a
                 list of the axes from the slowest to the fastest in memory; "chunked", for each
                 row of a compressed blob [codec, shape of a chunk, number of chunks]
  /_ck/names     the names below /blobs, quoted, a line feed between two; a '/' is between the steps
                 of a leaf's path
  /_ck/blobs     for each name: {blobs}; the place of its type in "types",
                 of its data (of the chunk B-tree, if it is compressed), and its bytes
  /_ck/epoch     the epoch
  /_ck/chunks    for each chunk, row by row and in the order of the array:
                 {chunks}
  /_ck/values    XXH3 digests of {digest} bits of values in memory, row by row: of all but arrays
                 that are stored as they are, see below
  /_ck/blocks    XXH3 digests of {digest} bits of all bytes between user block and tail, in blocks
                 of {block} bytes, the last one shorter

Containers and objects
  {structure} is JSON: "tree"; "digest", XXH3 of how the value is put together in memory; and of
  the state of an object "object", its class. A tree is one of
    "value"               the leaf at this path, by its own kind
    "bytes"               a leaf of uint8
    "tensor"              a leaf; {{"tensor": …}} with device, requires_grad, parameter where they
                          are not cpu, false and false, and strides (in items) where those of axes
                          of length 1 are not the usual ones, or elements have gaps in between
    {{"strides": [step, …]}}  a leaf, in an object, whose elements had these distances, in bytes
    {{"packed": "list"}}    (or "tuple") a leaf of int64 or float64 with the numbers in it
    null                  None, which has no leaf
    a number, true, false, {{"text": …}}   the value itself, which has no leaf: with "inline" beside
                          "tree", where there would be more than {most_leaves} leaves
    {{"list": […]}}         (or "tuple") a tree per item, whose steps are 0, 1, …
    {{"dict": [[key, tree], …]}}   keys are texts or integers, in their order; the step is the key
                          as text, or a third item; "class" is OrderedDict or Counter (of
                          collections); "metadata" what PyTorch says of the versions of parts
    {{"pairs": [[tree, …], [tree, …]]}}   a dict with other keys: trees of the keys, at the steps
                          keys, 0, 1, …; and of the values, at items, 0, 1, …
    {{"class": name, "tuple": [[field, tree], …]}}   a named tuple; "fields", a dataclass
    {{"adapted": name, "of": tree}}   a value of another class, module:name: what its adapter makes
                          of it. With "rest", "of" is at the step new, and completed with that at
                          the step rest; "version" is of the adapter's form, 1 if it is not there
    {{"named": name}}       the function or class with this name, module:name; no leaf
    {{"same": [step, …]}}   what is at that path, too: one thing at two places
  A value that is no container by itself has its leaf at the step 'value'.

How values are stored
{storage}

Integrity
  manifest.json → SHA-256 of the user block → SHA-256 of the tail → digests of the blocks → all
  bytes. A reader compares them in this order and uses no byte before; to read one blob it needs
  the user block, the tail, the index and the blocks that hold the blob. HDF5's own library has no
  part in that. Equal values give equal bytes.

From memory to memory
  All digests are taken of values in memory, before any is encoded, gathered or compressed, and
  compared with the values that a load has decoded. What differs is E455, or E303 where only the
  digest of a block shows it.
    arrays that are stored as they are   numbers, bools and dates in C order, not compressed, of
                          dtypes without metadata: the bytes that the blocks are digested of are
                          those in memory
    all other values      one digest each: of kind, dtype, shape and axis order in words, and of all
                          bits but padding
    names and types       'types' of the user block, of names, kinds, dtypes, shapes and axis orders
    containers, objects   "digest" of {structure}: classes, keys, their order, scalars, and what is
                          at two places
  Files of format 2 have only digests of blocks. They are read as before.

Compression
{codecs}
  A chunk is one piece of its array. 'deflate' is filter 2 (shuffle), if items have more than one
  byte, and filter 1 (deflate)."""


def describe_format() -> str:
    """Describe the checkpoint file format in words, in lines of at most 100 characters."""
    return _TEXT.format(
        version=userblock.FORMAT,
        state_dirs=names.quote_name(STATE_DIRS),
        archive=COMMENT,
        structure=names.STRUCTURE,
        most_leaves=MOST_LEAVES,
        userblock=userblock.SIZE,
        userblock_last=userblock.SIZE - 1,
        paged=layout.PAGED_BYTES,
        alignment=layout.ALIGNMENT,
        page=layout.PAGE,
        magic=userblock.MAGIC.decode().strip(),
        header=_attributes(userblock.Header),
        parts=_attributes(userblock.Parts),
        blobs=_columns(template.BLOBS_TYPE),
        chunks=_columns(template.CHUNKS_TYPE),
        digest=8 * blocks.DIGEST_BYTES,
        block=blocks.BLOCK_BYTES,
        storage=_storage(),
        codecs="\n".join(f"  {name:<13} {words}" for name, words in CODECS.items()),
    ).rstrip()


def _attributes(cls: type) -> str:
    """Render the docstring's text on each field of a class, to describe the file format."""
    text = inspect.cleandoc(cls.__doc__ or "").partition("Attributes:")[2]
    matches = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", text, re.MULTILINE)
    texts = {name: " ".join(words.split()) for name, words in matches}
    lines = [_item(field.name, texts[field.name].rstrip(".")) for field in fields(cls)]
    return "\n".join(lines).replace("``", "'")


def _item(name: str, words: str) -> str:
    return textwrap.fill(words, 98, initial_indent=f"  {name:<13} ", subsequent_indent=" " * 16)


def _columns(dtype: object) -> str:
    names: tuple[str, ...] = getattr(dtype, "names", ())
    return ", ".join(names) + " (uint64)"


def _storage() -> str:
    text = inspect.cleandoc(dtypes.storage_dtype.__doc__ or "")
    matches = re.findall(r"^(?!=)(\S.*?) {2,}(\S.*)$", text.replace("``", ""), re.MULTILINE)
    rows = [
        *matches,
        ("Python int", "int64; beyond that, hexadecimal text"),
        ("text", "bytes of UTF-8, in which half a surrogate pair has its three bytes"),
        ("counter", "like an int"),
    ]
    return "\n".join(f"  {kind:<24} {storage}" for kind, storage in rows)
