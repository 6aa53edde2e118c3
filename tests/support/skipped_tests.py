"""Fail if a test was skipped for another reason than those that are named; or list the skipped.

Usage: python -m tests.support.skipped_tests FILE_OF_JUNIT_XML [BEGINNING_OF_A_REASON]...
       python -m tests.support.skipped_tests --list FILE_OF_JUNIT_XML
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree


def main() -> None:
    """Read the results of pytest, and end with 1 if no test ran or one should have."""
    if sys.argv[1] == "--list":
        print(*dict.fromkeys(map(_node_id, _skipped(_cases(sys.argv[2])))), sep="\n")
        return
    file, *reasons = sys.argv[1:]
    cases = _cases(file)
    skipped = _skipped(cases)
    unnamed = [
        f"{_node_id(case)}: {reason}"
        for case in skipped
        if not (reason := _reason(case)).startswith(tuple(reasons))
    ]
    print(f"{len(cases) - len(skipped)} tests ran, {len(skipped)} were skipped")
    if unnamed or not cases:
        sys.exit("skipped:\n  " + "\n  ".join(unnamed))


def _cases(file: str) -> list[ElementTree.Element]:
    return list(ElementTree.parse(file).iter("testcase"))


def _skipped(cases: list[ElementTree.Element]) -> list[ElementTree.Element]:
    return [case for case in cases if case.find("skipped") is not None]


def _reason(case: ElementTree.Element) -> str:
    return next((skip.get("message", "") for skip in case.iter("skipped")), "")


def _node_id(case: ElementTree.Element) -> str:
    """Return what pytest calls a test, or the file of a module that was skipped as a whole."""
    module, name = case.get("classname") or case.get("name", ""), case.get("name", "")
    steps = module.split(".")
    for count in range(len(steps), 0, -1):
        path = Path(*steps[:count]).with_suffix(".py")
        if path.is_file():
            is_whole = not case.get("classname")
            return "::".join((path.as_posix(), *steps[count:], *([] if is_whole else [name])))
    return f"{module}::{name}"


if __name__ == "__main__":
    main()
