"""PyYAML as jobrun imports it is PyYAML, but for the time that its import takes."""

from __future__ import annotations

import subprocess
import sys

import pytest

_CHECK = """\
import re
before = re.compile
{first}
import jobrun.spec.yaml.parse
import yaml
assert re.compile is before
print(type(yaml.reader.Reader.NON_PRINTABLE).__name__)
try:
    yaml.load("a: \\x01", yaml.BaseLoader)
except yaml.reader.ReaderError as error:
    print(error.character, error.position)
print(yaml.load("a: b", yaml.BaseLoader))
"""


@pytest.mark.parametrize(
    ("first", "pattern"), [("", "_LazyPattern"), ("import yaml", "Pattern")], ids=["jobrun", "user"]
)
def test_characters_that_yaml_forbids_are_refused_as_ever(first, pattern):
    command = [sys.executable, "-c", _CHECK.format(first=first)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.stdout.splitlines() == [pattern, "1 3", "{'a': 'b'}"], done.stderr
