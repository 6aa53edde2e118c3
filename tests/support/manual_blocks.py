"""Read and execute the blocks of the manual's pages and of the README, as their marks say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from jobrun.tools.manual.markdown_pages import FOLDER, Block, iter_blocks
from tests.support.command import ROOT, bash

PAGES = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.md"))}
TEXTS = {"README": (ROOT / "README.md").read_text(), **PAGES}
# What stands around a part of a spec, so that it is a whole one.
_AROUND = {
    "job": "{}",
    "checkpoint": "checkpoint:\n{}",
    "readers": "readers:\n{}",
    "init": "init:\n{}",
    "steps": "epoch:\n  - task: t\n    steps:\n{}",
}
_REST = {
    "jobrun": "1",
    "name": "page",
    # The blobs of which parts speak.
    "nodes": "{trainer: {}}",
    "init": "[{task: start, steps: [W = zeros(3), loss = 1.0, 'U = zeros((4, 2))', V = U]}]",
    "epoch": "[{task: t, steps: [scratch = 1]}]",
    "stop": "[{epochs: 1}]",
}
_KEY = re.compile(r"^(\w+):", re.MULTILINE)


def blocks() -> Iterator[tuple[str, Block]]:
    """Iterate over the blocks of all texts, each with the name of its text."""
    for name, text in TEXTS.items():
        for block in iter_blocks(text):
            yield name, block


def mark(block: Block, name: str) -> str:
    """Return the value of a mark such as ``file=NAME``; empty if the block has none."""
    found = (word.partition("=")[2] for word in block.words if word.startswith(f"{name}="))
    return next(found, "")


def whole_spec(block: Block) -> str:
    """Return a whole spec around a block of YAML that is a part of one."""
    part = mark(block, "part")
    if not part:
        return block.text
    depth = {"job": 0, "steps": 6}.get(part, 2)
    body = "".join(" " * depth + line + "\n" for line in block.text.splitlines())
    text = _AROUND[part].format(body)
    given = _KEY.findall(text)
    return text + "".join(f"{key}: {_REST[key]}\n" for key in _REST if key not in given)


def commands(block: Block) -> Iterator[tuple[str, int]]:
    """Iterate over the command lines of a block, each with the exit code that it announces."""
    for line in block.text.splitlines():
        words, _, comment = line.partition(" #")
        if words.strip() and not line.startswith("#"):
            found = re.search(r"\bexit (\d+)\b", comment)
            yield words.strip(), int(found[1]) if found else 0


def play(text: str, folder: Path) -> int:
    """Write the files of a page to a folder, run its marked commands, and count those.

    With the mark ``walk``, of a block of commands, there is a finished run of the README's job.
    """
    count = 0
    if re.search(r"^```bash run walk$", text, re.MULTILINE):
        spec = next(one.text for one in iter_blocks(TEXTS["README"]) if "name: walk" in one.text)
        (folder / "walk.yaml").write_text(spec)
        code, out, err = bash("jobrun run walk.yaml --quiet", folder)
        assert code == 0, (out, err)
    for block in iter_blocks(text):
        if name := mark(block, "file"):
            (folder / name).write_text(block.text)
        if "run" in block.words:
            for line, expected in commands(block):
                code, out, err = bash(line, folder)
                assert code == expected, (line, out, err)
                count += 1
    return count
