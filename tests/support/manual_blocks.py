"""Read and execute the blocks of the manual's pages and of the README, as their marks say.

What follows the language on the line of a fence:

- ``file=NAME``: the block is a file, which a later block uses by its name.
- ``part=KEY``: a part of a spec; it is run within a small one, for an epoch.
- ``walk``, ``killed``: before the block there is a run of the README's job, which has ended or was
  killed.
- ``tree``: of ``text``, the files of a run.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jobrun.tools.manual import FOLDER
from tests.support.command import ROOT
from tests.support.manual_services import Services
from tests.support.manual_shell import Command, PageShell, read_commands, read_session

PATHS = {path.stem: path for path in sorted([*FOLDER.glob("*.md"), *FOLDER.glob("design/*.md")])}
PAGES = {name: path.read_text() for name, path in PATHS.items()}
TEXTS = {"README": (ROOT / "README.md").read_text(), **PAGES}
# What stands around a part of a spec, so that it is a whole one.
_AROUND = {
    "job": "{}",
    "checkpoint": "checkpoint:\n{}",
    "readers": "readers:\n{}",
    "init": "init:\n{}",
    "objects": "init:\n  - task: network\n    rebuild: true\n    steps:\n{}",
    "steps": "epoch:\n  - task: t\n    steps:\n{}",
}
_REST = {
    "jobrun": "1",
    "name": "page",
    # The blobs of which parts speak.
    "nodes": "{trainer: {}}",
    "init": "[{task: start, steps: [W = zeros(3), loss = 0.25, 'U = zeros((4, 2))', V = U]}]",
    "epoch": "[{task: t, steps: [scratch = 1]}]",
    "stop": "[{epochs: 1}]",
}
_TESTED = f"{sys.executable} -m pytest -q -p no:cacheprovider"
_KEY = re.compile(r"^(\w+):", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a manual page.

    Attributes:
        language: Such as ``yaml``.
        words: What follows it on the line of the fence: ``run``, ``file=NAME`` or ``part=KEY``.
        text: The lines between the fences.
    """

    language: str
    words: tuple[str, ...]
    text: str


def iter_blocks(text: str) -> Iterator[Block]:
    """Iterate over the fenced code blocks of a Markdown page of the manual."""
    pieces = re.split(r"^```(.*)\n", text, flags=re.MULTILINE)
    for head, body in zip(pieces[1::4], pieces[2::4], strict=True):
        language, *words = head.split() or [""]
        yield Block(language, tuple(words), body)


def blocks() -> Iterator[tuple[str, Block]]:
    """Iterate over the blocks of all texts, each with the name of its text."""
    for name, text in TEXTS.items():
        for block in iter_blocks(text):
            yield name, block


def mark(block: Block, name: str) -> str:
    """Return the value of a mark such as ``file=NAME``; empty if the block has none."""
    values = (word.partition("=")[2] for word in block.words if word.startswith(f"{name}="))
    return next(values, "")


def whole_spec(block: Block) -> str:
    """Return a whole spec around a block of YAML that is a part of one."""
    part = mark(block, "part")
    if not part:
        return block.text
    depth = {"job": 0, "objects": 6, "steps": 6}.get(part, 2)
    body = "".join(" " * depth + line + "\n" for line in block.text.splitlines())
    text = _AROUND[part].format(body)
    keys = _KEY.findall(text)
    return text + "".join(f"{key}: {_REST[key]}\n" for key in _REST if key not in keys)


def walk_spec() -> str:
    """Return the first job of the README, of which the pages speak."""
    return next(block.text for block in iter_blocks(TEXTS["README"]) if "name: walk" in block.text)


def way_to_run(block: Block) -> str:
    """Return how a block of a page is tried out.

    Raises:
        ValueError: No way to try it out is known.
    """
    if mark(block, "file"):
        return "file"
    match block.language:
        case "bash":
            return "commands"
        case "console":
            return "session"
        case "python":
            return "program"
        case "yaml":
            return "spec"
        case "text" if "tree" in block.words:
            return "tree"
    raise ValueError(
        f"nothing runs a block of '{block.language} {' '.join(block.words)}': let it be bash, "
        "console, python or yaml, or a file that a later block uses"
    )


def unused_files(text: str) -> list[str]:
    """Find the files of a page that no other block of it names."""
    all_blocks = [*iter_blocks(text)]
    return [
        name
        for block in all_blocks
        # That one pip finds by itself.
        if (name := mark(block, "file")) and name != "pyproject.toml"
        if not any(
            re.search(rf"\b{Path(name).stem}\b", other.text)
            for other in all_blocks
            if other != block
        )
    ]


def play(name: str, folder: Path, services: Services) -> int:
    """Run the blocks of a page in their order, as a reader does; return how many.

    Args:
        name: Of the page.
        folder: Where, in the beginning empty but for what the services need.
        services: What the page needs of other machines, and what it is called there.
    """
    count = 0
    (folder / "walk.yaml").write_text(walk_spec())
    shell = PageShell(folder, services.variables, services.words)
    try:
        for block in iter_blocks(TEXTS[name]):
            _prepare(block, folder, shell)
            for command in _commands_of(block, folder, services):
                shell.run(command)
            services.settle()
            count += 1
    finally:
        shell.close()
    return count


def _prepare(block: Block, folder: Path, shell: PageShell) -> None:
    """Make what a block finds already there."""
    if "walk" in block.words or "killed" in block.words:
        killed = "killed" in block.words
        shell.run(Command("jobrun run walk.yaml --quiet", 137 if killed else 0, killed))


def _commands_of(block: Block, folder: Path, services: Services) -> Iterator[Command]:
    """Write the files that a block is, and return the commands that run it."""
    text = services.replace(block.text)
    match way_to_run(block):
        case "file":
            (folder / mark(block, "file")).write_text(text)
        case "commands":
            yield from read_commands(text)
        case "session":
            yield from read_session(text)
        case "program":
            (folder / "test_block.py").write_text(text)
            yield Command(f"{_TESTED if 'class Test' in text else sys.executable} test_block.py")
        case "spec":
            whole = services.replace(whole_spec(block))
            (folder / "part.yaml").write_text(whole)
            yield Command("jobrun run part.yaml --resume never --max-epochs 1")
        case "tree":
            yield from (Command(f"ls -d runs/walk/latest/{name}") for name in names_of_tree(text))


def names_of_tree(text: str) -> Iterator[str]:
    """Iterate over the files below a run that the picture of its directory names."""
    for line in text.splitlines()[1:]:
        for word in re.split(r" {3,}", line.strip())[0].split():
            # The number of the epoch is that of an example.
            yield re.sub(r"epoch-\d+/?", "epoch-*", word)
