"""Warn of attributes that an adapter leaves out: a value has them, and what is made of it has not.

A comparison of trees cannot see them. Each attribute of a value is compared with that of the one
that a load would make, as if every class in it were admitted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from jobrun.values.adapters.registry import attributes_of, find_adapter
from jobrun.values.blob_kinds import Value
from jobrun.values.compare import same_parts
from jobrun.values.container_flattening import Parts, flatten, flatten_leniently

# Values of one class that are compared at a time.
_MOST_OF_A_CLASS = 8


class LeftOutAttributes:
    """Warns once of each attribute that an adapter of the user's, or of a plug-in, leaves out.

    Args:
        warn: Receives the warning.
    """

    def __init__(self, warn: Callable[[str], None] = lambda _: None) -> None:
        self._warn = warn
        self._saves: Counter[str] = Counter()
        self._known: set[tuple[type, str]] = set()

    def compare(self, blob: str, parts: Parts, remade: Value) -> None:
        """Compare the values with adapters in a blob with those that a load would make.

        At the first save, the second, the fourth and so on: a library may make an attribute when it
        first computes, and to compare all of them costs more than a save.

        Args:
            blob: Its name.
            parts: Of its value.
            remade: What a load would make of them.
        """
        self._saves[blob] += 1
        count = self._saves[blob]
        if count & (count - 1):
            return
        new: dict[type, list[str]] = {}
        for kind, name in _find_left_out(parts, remade):
            if (kind, name) not in self._known:
                self._known.add((kind, name))
                new.setdefault(kind, []).append(name)
        for kind, names in new.items():
            self._warn(_warning(blob, kind, names))


def _find_left_out(parts: Parts, remade: Value) -> Iterator[tuple[type, str]]:
    copies = flatten(remade).checked
    compared: Counter[type] = Counter()
    for path, value in parts.checked.items():
        kind = type(value)
        compared[kind] += 1
        if compared[kind] > _MOST_OF_A_CLASS or path not in copies:
            continue
        adapter, theirs = find_adapter(kind), attributes_of(copies[path])
        for name, one in attributes_of(value).items():
            if adapter is not None and name in adapter.leaves_out:
                continue
            if name not in theirs or not _is_same(one, theirs[name]):
                yield kind, name


def _is_same(first: Value, second: Value) -> bool:
    return first is second or same_parts(flatten_leniently(first), flatten_leniently(second))


def _warning(blob: str, kind: type, names: list[str]) -> str:
    listed = ", ".join(f"'{name}'" for name in names)
    return (
        f"blob '{blob}': the adapter of {kind.__module__}.{kind.__qualname__} does not keep "
        f"{listed}: a value that is made again, by a resume or as a copy, may compute something "
        "else than plain Python; let get return them, or name them in leaves_out if nothing "
        "depends on them: 'jobrun explain adapters'"
    )
