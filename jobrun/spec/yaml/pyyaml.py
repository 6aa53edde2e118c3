"""Import PyYAML fast, and yield the events of its parser.

The pattern of its reader in Python, of all printable characters, is not compiled: that would take
7 of the 10 ms (Python 3.11, PyYAML 6.0), and libyaml's parser does not use it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

from jobrun.core.text.patterns import lazy_pattern

_compile = re.compile


def _compile_lazily(pattern: Any, flags: Any = 0) -> re.Pattern[Any]:
    """Compile a pattern while PyYAML is imported; postpone the slow one of PyYAML's reader."""
    importer = sys._getframe(1).f_globals["__name__"]
    return lazy_pattern(pattern, flags) if importer == "yaml.reader" else _compile(pattern, flags)


if "yaml" not in sys.modules:
    re.compile = _compile_lazily
try:
    import yaml
finally:
    re.compile = _compile

__all__ = ["parser_events", "yaml"]


def parser_events(text: str) -> Iterator[yaml.events.Event]:
    """Yield the events of PyYAML's parser, without resolving tags, aliases or scalars.

    Raises:
        yaml.YAMLError: It is not YAML.
    """
    return iter(_parser(text).get_event, None)


def _parser(text: str) -> yaml.CBaseLoader | yaml.BaseLoader:
    """Create PyYAML's parser: the one of libyaml if available, else that in Python."""
    return yaml.CBaseLoader(text) if yaml.__with_libyaml__ else yaml.BaseLoader(text)
