"""Fail if a test was skipped for another reason than those that are named.

Usage: python -m tests.support.skipped_tests FILE_OF_JUNIT_XML [BEGINNING_OF_A_REASON]...
"""

from __future__ import annotations

import sys
from xml.etree import ElementTree


def main() -> None:
    """Read the results of pytest, and end with 1 if no test ran or one should have."""
    file, *reasons = sys.argv[1:]
    cases = list(ElementTree.parse(file).iter("testcase"))
    skipped = [
        (f"{case.get('classname')}::{case.get('name')}", skip.get("message", ""))
        for case in cases
        for skip in case.iter("skipped")
    ]
    unnamed = [
        f"{name}: {reason}" for name, reason in skipped if not reason.startswith(tuple(reasons))
    ]
    print(f"{len(cases) - len(skipped)} tests ran, {len(skipped)} were skipped")
    if unnamed or not cases:
        sys.exit("skipped:\n  " + "\n  ".join(unnamed))


if __name__ == "__main__":
    main()
