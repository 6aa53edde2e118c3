"""``${…}``: the only substitution there is. Values in, values out; no templates, no eval."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping as MappingType
from dataclasses import dataclass, field
from typing import Any

from jobrun.core.errors import Fault
from jobrun.core.names import nearest
from jobrun.spec.nodes import Node, Path, Scalar, Sequence, origin_of, path_text, short
from jobrun.spec.scalars import NumberRangeError, Value, resolve

# Known only while the job runs; they stay in the text.
RUN_TIME_NAMES = ("run.dir", "node", "epoch", "instance")

_REFERENCE = re.compile(r"\$\$|\$\{([^{}]*)(\})?")
_WHOLE = re.compile(r"\$\{([^{}]*)\}")


class _UnknownError(Exception):
    """A reference that stands for nothing; holds the fault."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass(slots=True)
class Substitution:
    """Replaces references in a tree.

    Attributes:
        params: The values of the params known so far.
        environment: Where ``${env:NAME}`` is looked up.
        seed: What ``${run.seed}`` stands for; None while that is not known.
        digests: sha256 of each variable that was used, by name; never the value.
        faults: References that stand for nothing.
        env_texts: Paths whose whole value came from the environment, with its text.
    """

    params: MappingType[str, Value]
    environment: MappingType[str, str]
    seed: Value = None
    digests: dict[str, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    env_texts: dict[Path, str] = field(default_factory=dict)

    def tree(self, node: Node, path: Path = ()) -> Any:
        """The tree as plain data, with every reference replaced."""
        if isinstance(node, Scalar):
            value = node.value
            return self.scalar(node, path) if isinstance(value, str) and "$" in value else value
        if isinstance(node, Sequence):
            return [self.tree(item, (*path, index)) for index, item in enumerate(node.items)]
        return {key: self.tree(value, (*path, key)) for key, value in node.values.items()}

    def scalar(self, node: Scalar, path: Path) -> Value:
        """One text; a text that is wholly a reference takes the value's type."""
        text = str(node.value)
        try:
            whole = _WHOLE.fullmatch(text)
            if whole and whole[1] not in RUN_TIME_NAMES:
                return self._whole(whole[1], node, path)
            return _REFERENCE.sub(lambda match: self._inside(match, node, path), text)
        except _UnknownError as error:
            self.faults.append(error.fault)
            return text

    def _whole(self, name: str, node: Scalar, path: Path) -> Value:
        value = self._value(name, node, path)
        if not name.startswith("env:"):
            return value
        self.env_texts[path] = str(value)
        try:
            return resolve(str(value)) if value else ""
        except NumberRangeError:
            return value

    def _inside(self, match: re.Match[str], node: Scalar, path: Path) -> str:
        if match[0] == "$$" or match[1] in RUN_TIME_NAMES:
            return match[0]
        if match[2] is None:
            raise _unknown("E037", "a '${' is not closed", "close it with '}', or write $$ for "
                           "a dollar", node, path)  # fmt: skip
        value = self._value(match[1], node, path)
        return str(value).lower() if isinstance(value, bool) else str(value)

    def _value(self, name: str, node: Scalar, path: Path) -> Value:
        if name.startswith("env:"):
            return self._variable(name, node, path)
        if name == "run.seed" and self.seed is not None:
            return self.seed
        if name in self.params:
            return self.params[name]
        known = [*self.params, "run.seed", *RUN_TIME_NAMES]
        match = nearest(name, known)
        hint = f"did you mean '${{{match}}}'?  " if match else ""
        mend = f"{hint}known here: {', '.join(known)}; $${{{short(name)}}} leaves it to the shell"
        raise _unknown("E037", f"'${{{short(name)}}}' stands for nothing", mend, node, path)

    def _variable(self, name: str, node: Scalar, path: Path) -> str:
        variable, comma, default = name.removeprefix("env:").partition(",")
        value = self.environment.get(variable)
        if value is None and not comma:
            message = f"the environment variable {variable} is not set"
            mend = f"set it, or give a default: ${{env:{variable},value}}"
            raise _unknown("E038", message, mend, node, path)
        text = default if value is None else value
        self.digests[variable] = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
        return text


def _unknown(code: str, message: str, mend: str, node: Scalar, path: Path) -> _UnknownError:
    return _UnknownError(Fault(code, message, mend, origin_of(node.place), path_text(path)))


def references(node: Node) -> set[str]:
    """All names that ``${…}`` asks for anywhere in the tree."""
    if isinstance(node, Scalar):
        text = node.value
        if not isinstance(text, str) or "${" not in text:
            return set()
        return {match[1] for match in _REFERENCE.finditer(text) if match[2]}
    below = node.items if isinstance(node, Sequence) else node.values.values()
    return set().union(*(references(item) for item in below))
