"""What a process may still write after it has given up writing elsewhere."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jobrun.tools.isolation.landlock import landlock_version
from tests.support.tables import check_each

PROGRAM = """
import os, sys
from pathlib import Path
from jobrun.tools.isolation.landlock import bind_write_limit

inside, outside = Path(sys.argv[1]), Path(sys.argv[2])
bind_write_limit([inside, Path("/dev"), inside / "missing"])()
exec(sys.argv[3])
"""
REFUSED = {
    "open": "open(outside / 'f', 'a')",
    "truncate": "os.truncate(outside / 'f', 0)",
    "remove": "os.remove(outside / 'f')",
    "rename": "os.rename(outside / 'f', inside / 'g')",
    "link": "os.link(outside / 'f', inside / 'g')",
    "create": "os.mkdir(outside / 'new')",
    "symlink": "(inside / 'l').symlink_to(outside / 'f'); open(inside / 'l', 'a')",
    "program": "assert os.system(f'echo x >> {outside}/f') == 0",
}
ALLOWED = {
    "read": "assert open(outside / 'f').read() == 'precious'",
    "write": "open(inside / 'f', 'w').write('x')",
    "rename": "(inside / 'd').mkdir(); open(inside / 'f', 'w'); "
    "os.rename(inside / 'f', inside / 'd' / 'f')",
    "program": "assert os.system(f'cat {outside}/f > {inside}/g') == 0",
    "device": "open('/dev/null', 'w').write('x')",
}


@pytest.mark.parametrize(("table", "fails"), [(REFUSED, True), (ALLOWED, False)])
def test_a_process_writes_only_where_it_may(tmp_path, table, fails):
    assert landlock_version() > 0

    def check(name: str) -> None:
        inside, outside = tmp_path / name / "inside", tmp_path / name / "outside"
        inside.mkdir(parents=True)
        outside.mkdir()
        (outside / "f").write_text("precious")
        words = [sys.executable, "-c", PROGRAM, str(inside), str(outside), table[name]]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (done.returncode != 0) is fails, done.stderr
        assert list(outside.iterdir()) == [outside / "f"]
        assert (outside / "f").read_text() == "precious"

    check_each(table, check)
