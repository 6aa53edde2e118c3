"""Render a loaded spec as YAML text again, and compute its digest; comments are not kept."""

from __future__ import annotations

import json
from typing import Any

from jobrun.core.files.digest import digest_bytes
from jobrun.spec.load import LoadedSpec
from jobrun.spec.recorded_origins import ordered
from jobrun.spec.yaml.pyyaml import yaml
from jobrun.spec.yaml.scalars import NumberRangeError, old_reading, resolve
from jobrun.spec.yaml.spec_text import FORBIDDEN


def dump_resolved(loaded: LoadedSpec) -> str:
    """Dump a resolved (merged and substituted) spec as YAML that loads to the same job.

    References to params and to the environment stay references. Load it with ``folder``
    set to that of ``loaded``, as its paths start there.
    """
    return dump_tree(ordered(loaded.merged))


def dump_tree(tree: dict[str, Any]) -> str:
    """Dump plain data as YAML 1.2 text, each string on one line."""
    text: str = yaml.dump(
        tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**30, indent=2
    )
    # PyYAML writes some as they are, which our reader refuses: they are within double quotes.
    return FORBIDDEN.sub(lambda char: f"\\u{ord(char[0]):04x}", text)


class _Dumper(yaml.SafeDumper):
    """A YAML writer of what our reader reads: YAML 1.2 without aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Dump a value that is shared twice in full, without a YAML alias."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = '"' if _may_be_misread(value) else "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _may_be_misread(value: str) -> bool:
    """Return whether another YAML reader could misread a text dumped without quotes."""
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
    """Compute the digest ``sha256:<hex>`` of a loaded spec, from its dump without comments.

    Equal for specs that differ only in comments, the order of keys, quoting, or in how
    a value came about (a default written out, a param given by an option).
    """
    # Not mode="json": that makes null of NaN and infinity.
    data = loaded.spec.model_dump(mode="python", by_alias=True)
    text = json.dumps(_numbers_as_text(data), sort_keys=True, ensure_ascii=True)
    return digest_bytes(text.encode("ascii"))


def _numbers_as_text(value: Any) -> Any:
    """Replace floats in a dumped spec by their exact digits, before its digest is computed."""
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, list | tuple):
        return [_numbers_as_text(item) for item in value]
    if isinstance(value, dict):
        return {key: _numbers_as_text(item) for key, item in value.items()}
    return value
