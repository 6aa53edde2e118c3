"""Load the states of objects into the objects' own memory, and verify that they stay there.

A module of PyTorch copies what it is given. Where its state is read to where it stays, no memory is
needed beside the module's, and each byte is written once. What the module made of it is seen by
digests: those of the file's blocks, and for what shares a block with something else one of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from jobrun.checkpoint.blob_parts import flatten_value
from jobrun.checkpoint.hdf5.dataset_names import (
    dataset_path,
    group_links,
    path_in_blob,
    structure_link,
)
from jobrun.checkpoint.hdf5.digest_blocks import block_span, blocks_holding, digest
from jobrun.checkpoint.hdf5.dtypes import dtype_text
from jobrun.checkpoint.hdf5.index_parser import BlobType, Index
from jobrun.checkpoint.hdf5.value_codec import Array
from jobrun.checkpoint.read.load import in_threads, load_blobs
from jobrun.checkpoint.read.partial_read import flat_memory
from jobrun.checkpoint.read.verified_file import Bytes, StateFile
from jobrun.core.files.disk import disk_faults
from jobrun.graph.steps import STATE_DIRS
from jobrun.values.adapters.registry import find_object_adapter
from jobrun.values.blob_kinds import Value, kind_of
from jobrun.values.file_memory import allocate_in_file
from jobrun.values.kinds.array import same_dtype
from jobrun.values.kinds.tensor import GRADIENTS, are_same_memory, is_module, require_torch
from jobrun.values.object_state import ObjectState

# The name of the dataset, a piece of memory, and the digest of the bytes loaded into it.
_Piece = tuple[str, Bytes, bytes]
# Pieces for each thread, of 64 MiB at most. One thread digests these in 2 ms, in which a second one
# may not have begun: measured on two cores with other work, two threads took 1.3 to 2.6 ms for 32
# MiB, and one took 0.9 ms.
_WORTH_A_THREAD = 256


class InPlace:
    """Objects whose memory receives their states from one checkpoint file.

    Args:
        states: Of the objects as they are, by blob; their arrays are the objects' memory.
        folder: Where files go that hold what programs have in their directories.
    """

    def __init__(self, states: Mapping[str, ObjectState], folder: str = "") -> None:
        self._states = states
        self._folder = folder
        self._pieces: dict[str, list[_Piece]] = {}

    def load(
        self, file: StateFile, names: Iterable[str], *, partial: bool = False
    ) -> dict[str, Value]:
        """Load blobs of a checkpoint file, and states of objects into the objects' own arrays.

        Of an object whose parts differ from those in the file nothing is changed. If reading fails,
        what is in the others has no meaning.

        Raises:
            CheckpointError: As by ``load.load``.
        """
        names = list(names)
        links = group_links(file.index.names) if self._states else {}
        fitting = {
            name: _fitting_arrays(file.index, name, links[name], self._states[name])
            for name in names
            if name in self._states and name in links
        }
        into = {link: array for arrays in fitting.values() for link, array in arrays.items()}
        into |= self._directories(file.index, names)
        values = load_blobs(file, names, partial=partial, into=into)
        for name, arrays in fitting.items():
            if arrays:
                self._pieces[name] = [
                    piece for link, array in arrays.items() for piece in _pieces(file, link, array)
                ]
                _put_own_tensors(values[name], self._states[name])
        return values

    def _directories(self, index: Index, names: Iterable[str]) -> dict[str, Array]:
        """Allocate, outside of the memory, arrays for what programs have in a ``state_dir``.

        Raises:
            EnvironmentFaultError: E354, there is no room.
        """
        links = {name: index.quoted.get(name, name) for name in names if self._folder}
        arrays: dict[str, Array] = {}
        for name, link in links.items():
            if not name.startswith(STATE_DIRS) or link not in index.rows:
                continue
            size_bytes = int(index.type_of(index.rows[link]).shape[0])
            with disk_faults("E354", f"restore '{name}'", needed_bytes=size_bytes):
                arrays[link] = allocate_in_file(self._folder, size_bytes)
        return arrays

    def holds(self, name: str) -> bool:
        """Return whether an object's state was loaded into the object's own arrays."""
        return name in self._pieces

    def find_changed(self, name: str) -> str | None:
        """Return the name of an object's array that changed after the load into it, or None."""
        changed: list[str] = []

        def verify(piece: _Piece) -> None:
            link, memory, expected = piece
            if digest(memory) != expected:
                changed.append(link)

        in_threads(verify, self._pieces.get(name, ()), _WORTH_A_THREAD)
        return "/".join(path_in_blob(min(changed), name)) if changed else None


def takes_in_place(module: Value) -> bool:
    """Return whether an object's state can be loaded in place: it is a PyTorch module on the CPU.

    And one with PyTorch's own way to take a state, which copies each tensor to the one that is
    there. A class or an adapter with a way of its own may first change what is there.
    """
    if not is_module(module) or find_object_adapter(module) is not None:
        return False
    if type(module).load_state_dict is not require_torch().nn.Module.load_state_dict:
        return False
    return all(tensor.device.type == "cpu" for tensor in (*module.parameters(), *module.buffers()))


def _fitting_arrays(
    index: Index, name: str, links: list[str], state: ObjectState
) -> dict[str, Array]:
    """Return the arrays of an object into which a file can be loaded, by HDF5 dataset name.

    None where the object has other parts than the file: then it must stay as it is.
    """
    leaves = {dataset_path(part): leaf for part, leaf in flatten_value(name, state).items()}
    object_leaves = {link: leaf for link, leaf in leaves.items() if _counts(link, name)}
    stored = {link: index.type_of(index.rows[link]) for link in links if _counts(link, name)}
    if object_leaves.keys() != stored.keys() or not all(
        _is_alike(object_leaves[link], stored[link]) for link in object_leaves
    ):
        return {}
    return {
        link: leaf
        for link, leaf in object_leaves.items()
        if isinstance(leaf, np.ndarray)
        and index.rows[link] not in index.packings
        and stored[link].is_plain
        and not stored[link].order
        and same_dtype(leaf.dtype, stored[link].stored)
        and leaf.flags.c_contiguous
        and leaf.flags.writeable
    }


def _put_own_tensors(loaded: ObjectState, state: ObjectState) -> None:
    """Replace tensors in a loaded state by the object's own tensors that have the same memory.

    That a tensor is copied to itself PyTorch sees by its storage, not by the memory of that.
    """
    if isinstance(loaded.tree, dict) and isinstance(state.tree, dict):
        for key, tensor in state.tree.items():
            if are_same_memory(loaded.tree.get(key), tensor):
                loaded.tree[key] = tensor


def _counts(link: str, name: str) -> bool:
    """Return whether a dataset must match one of the object to load into; gradients need not."""
    return link != structure_link(name) and path_in_blob(link, name)[0] != GRADIENTS


def _is_alike(leaf: Value, stored: BlobType) -> bool:
    """Return whether a value in an object has the kind, dtype and shape to be loaded into it."""
    kind = kind_of(leaf)
    if kind not in {"array", "numpy"}:
        return kind == stored.kind
    signature = kind, dtype_text(leaf.dtype), leaf.shape
    return signature == (stored.kind, stored.dtype, stored.shape)


def _pieces(file: StateFile, link: str, array: Array) -> list[_Piece]:
    """Split an array loaded into an object at file block ends; return pieces and digests."""
    begin, end = file.index.span(file.index.rows[link])
    memory, pieces = flat_memory(array), []
    for number in blocks_holding(begin, end):
        first, last = block_span(number, file.parts.tail)
        piece = memory[max(first, begin) - begin : min(last, end) - begin]
        # A whole block was verified when it was read.
        is_whole = piece.size == last - first
        pieces.append((link, piece, file.tail.digests[number] if is_whole else digest(piece)))
    return pieces
