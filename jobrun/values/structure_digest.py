"""Digest how a container or an object's state is put together, without flattening it.

Not the items of arrays and tensors, nor what is in values that have an adapter. A save digests what
it gets, a load what it has put together again: so what is between the two, such as the paths of
leaves and the JSON of a structure, cannot make another container of it without a word.
"""

from __future__ import annotations

import marshal
from itertools import chain
from typing import Any

import numpy as np
import xxhash

from jobrun.core.text.big_integers import integers_in_hex
from jobrun.values import container_flattening as trees
from jobrun.values.adapters.registry import UnboundValue, class_name, find_adapter
from jobrun.values.kinds import tensor as tensors
from jobrun.values.kinds.builtin import NUMBERS, SCALARS
from jobrun.values.kinds.counter import Counter
from jobrun.values.kinds.record import class_and_form, record_items

_SEQUENCES = (list, tuple)


def digest_structure(value: Any) -> str:
    """Return a digest in hexadecimal of a container's classes, keys, order, scalars and sharing."""
    words = _Words()
    words.add(value)
    return words.digest()


class _Words:
    """The words that describe how one container is put together."""

    def __init__(self) -> None:
        # All of them in one list: of thousands of parts each step counts.
        self._words: list[Any] = []
        # What may be at two places, by ``id``; a container keeps all that is in it.
        self._met: dict[int, int] = {}

    def digest(self) -> str:
        """Digest the words that were added."""
        try:
            text = repr(self._words)
        except ValueError:
            # Python refuses to write more than 4300 digits.
            text = repr(integers_in_hex(self._words))
        return xxhash.xxh3_128_hexdigest(text.encode("utf-8", "surrogatepass"))

    def add(self, value: Any) -> None:
        """Describe a value in the container, and all that is in it."""
        kind = type(value)
        if kind in SCALARS:
            self._words.append(value)
        elif kind is Counter:
            self._words += ("Counter", value.value)
        elif kind is tuple:
            self._add_items(value)
        elif isinstance(value, np.generic):
            self._words += ("numpy", kind.__name__, value.dtype.str)
        elif tensors.is_tensor(value):
            self._words += ("tensor", str(value.dtype), tuple(value.shape))
        elif _is_made_again(value):
            self._add_items(value)
        elif id(value) in self._met:
            self._words += ("same", self._met[id(value)])
        else:
            self._met[id(value)] = len(self._met)
            self._add_items(value)

    def _add_items(self, value: Any) -> None:
        kind = type(value)
        if kind is np.ndarray:
            self._words += ("array", value.dtype.str, value.shape)
        elif kind in _SEQUENCES:
            self._words += (kind.__name__, len(value))
            if NUMBERS.issuperset(map(type, value)):
                # Version 2 has no references, of which there may be more another time.
                numbers = marshal.dumps(list(value), 2)
                self._words.append(xxhash.xxh3_128_hexdigest(numbers))
                return
            for item in value:
                self.add(item)
        elif kind is dict:
            # Others have adapters, and are unbound where their functions cannot be imported.
            self._words += ("dict", len(value))
            if SCALARS.issuperset(map(type, chain(value, value.values()))):
                self._words += chain.from_iterable(value.items())
                return
            for key, item in value.items():
                self.add(key)
                self.add(item)
        elif trees.is_record(value):
            items = record_items(value)
            self._words += (*class_and_form(value), *items)
            for item in items.values():
                self.add(item)
        else:
            self._words.append(_name_of(value))


def _is_made_again(value: Any) -> bool:
    """Return whether a load makes another object at each place: of a named tuple; or finds it."""
    if isinstance(value, dict | list | np.ndarray):
        return False
    if trees.is_record(value):
        return class_and_form(value)[1] == "tuple"
    adapter = find_adapter(type(value))
    is_named = adapter is not None and adapter.by_name
    return is_named or (type(value) is UnboundValue and not value.version)


def _name_of(value: Any) -> str:
    """Return the class of a value with an adapter; of a function or a class its own name."""
    if type(value) is UnboundValue:
        return str(value.class_name)
    adapter = find_adapter(type(value))
    is_named = adapter is not None and adapter.by_name
    return str(adapter.get(value)) if adapter and is_named else class_name(type(value))
