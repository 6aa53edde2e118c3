"""A loaded spec as text again, and its digest. Deterministic; comments are not kept."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import yaml

from jobrun.spec.load import LoadedSpec
from jobrun.spec.scalars import NumberRangeError, old_reading, resolve

_KEY_ORDER = ("jobrun", "name")


def dump_resolved(loaded: LoadedSpec) -> str:
    """The merged spec as YAML that loads to the same job.

    References to params and to the environment stay references. Load it with ``folder``
    set to that of ``loaded``, as its paths start there.
    """
    tree = {key: loaded.merged[key] for key in _KEY_ORDER if key in loaded.merged}
    return dump_tree(tree | loaded.merged)


def dump_tree(tree: dict[str, Any]) -> str:
    """Plain data as YAML 1.2, one line per text, so that columns mean something."""
    text: str = yaml.dump(
        tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**30, indent=2
    )
    return text


class _Dumper(yaml.SafeDumper):
    """Writes what our reader reads: YAML 1.2, no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write what is shared twice: an alias would be an anchor to keep apart."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = '"' if _may_be_misread(value) else "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _may_be_misread(value: str) -> bool:
    """Whether some reader of YAML could see something else than this very text."""
    if not value.replace("\n", "").isprintable():
        return True  # among these are what YAML 1.1 takes for the end of a line
    try:
        return not isinstance(resolve(value), str) or old_reading(value) is not None
    except NumberRangeError:
        return True


def _float(dumper: yaml.SafeDumper, value: float) -> yaml.ScalarNode:
    text = {"nan": ".nan", "inf": ".inf", "-inf": "-.inf"}.get(repr(value), repr(value))
    if "." not in text:
        text = text.replace("e", ".0e")  # a float to readers of YAML 1.1 as well
    return dumper.represent_scalar("tag:yaml.org,2002:float", text)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(float, _float)


def spec_digest(loaded: LoadedSpec) -> str:
    """``sha256:<hex>`` of what the spec says, after references are replaced.

    Equal for specs that differ only in comments, the order of keys, quoting, or in how
    a value came about (a default written out, a param given by an option).
    """
    # Not mode="json": that makes null of NaN and infinity.
    data = loaded.spec.model_dump(mode="python", by_alias=True)
    text = json.dumps(_numbers_as_text(data), sort_keys=True, ensure_ascii=True)
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()


def _numbers_as_text(value: Any) -> Any:
    """Floats by their exact digits: JSON has no NaN, and writers differ in the last digit."""
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, list | tuple):
        return [_numbers_as_text(item) for item in value]
    if isinstance(value, dict):
        return {key: _numbers_as_text(item) for key, item in value.items()}
    return value
