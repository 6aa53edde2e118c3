"""Measure how large the package is, and how much of it one command needs: ``make house``.

Prints modules, lines, the largest folder, the modules that the README's first job executes, those
that ``validate`` executes, the share of identifiers that say nothing, and the hardest functions.
With ``--questions SEED`` it writes ``questions.txt`` and ``key.json`` to the current directory:
thirty functions drawn at random, of which a reader who has not seen the code gets the first
sentence and guesses the file.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import complexipy

from tests.support.prose import parse

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "jobrun"
README = ROOT / "README.md"
# Executed in a process of its own: which files of the package define a function that was called.
_TRACE = """\
import json, sys
seen = set()
def note(frame, event, argument):
    # Bodies of modules and classes have no fast locals (CO_OPTIMIZED).
    if event == "call" and frame.f_code.co_flags & 1:
        seen.add(frame.f_code.co_filename)
import threading
sys.setprofile(note)
threading.setprofile(note)
from jobrun.cli.run_command import invoke
code = invoke(sys.argv[2:])
sys.setprofile(None)
names = sorted(name for name in seen if "/jobrun/" in name and name.startswith(sys.argv[1]))
print(json.dumps([code, len(names)]), file=sys.stderr)
"""
_SENTENCE = range(7, 41)

#: Identifiers that say nothing of what they hold, and what to write instead.
EMPTY_NAMES = {
    "one": "the noun of what the loop goes over: node, blob, epoch, path, entry",
    "found": "what was looked for: path, faults, rows, match",
    "place": "position (in a spec), path (in a value), directory, offset, index",
    "kept": "what it is: retained, snapshot, shown_rows",
    "given": "arguments, options, word, by_name",
    "made": "what was made: record, inspection, session",
    "own": "whose it is, with a noun: own_pid, parameters",
    "what": "subject, noun, description",
    "form": "shape, dtype, structure, file_format, template",
    "left": "lhs of an operator; remaining, unread",
    "rest": "remaining, unread, suffix",
    "said": "output, errors, message, lines",
    "how": "difference, state, message",
    "thing": "its noun",
    "told": "events, messages, reports",
    "beside": "temporary, staged, companions",
    "around": "outer, the noun of what is outside",
    "still": "what does not move or change",
    "looker": "who looks, by its noun: evaluator, probe",
    "ends": "bounds, exits, ended_tasks",
    "moves": "steps, transfers",
}


def modules() -> list[Path]:
    """Return the modules of the package, sorted."""
    return sorted(PACKAGE.rglob("*.py"))


@dataclass(frozen=True)
class ModuleMeasure:
    """What is counted of a module: lines that hold code, and each identifier it uses."""

    code_lines: int
    names: Counter[str]


@cache
def measure(path: Path) -> ModuleMeasure:
    """Read and parse a module once for all that is counted of it."""
    text = path.read_text()
    nodes = [*ast.walk(parse(text))]
    return ModuleMeasure(_code_lines(text, nodes), Counter(_identifiers(nodes)))


def measure_below(folder: Path) -> dict[str, ModuleMeasure]:
    """Measure all modules below a folder, by their paths from the root."""
    return {
        path.relative_to(ROOT).as_posix(): measure(path) for path in sorted(folder.rglob("*.py"))
    }


def code_lines(text: str) -> int:
    """Count the lines of a module that hold code: no blank lines, comments or docstrings.

    A text or f-string of several lines counts with the blank lines in it.
    """
    return _code_lines(text, [*ast.walk(parse(text))])


def _code_lines(text: str, nodes: Sequence[ast.AST]) -> int:
    lines = [line.strip() for line in text.splitlines()]
    used = {number for number, line in enumerate(lines, 1) if line and not line.startswith("#")}
    docstrings = set[int]()
    for node in nodes:
        if isinstance(node, ast.Constant | ast.JoinedStr):
            used.update(_lines_of(node))
        elif isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(_lines_of(node.body[0]))
    return len(used - docstrings)


def _lines_of(node: ast.expr | ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def lines_by_folder() -> dict[str, int]:
    """Sum the lines of code of each first-level folder of the package and of the tests.

    Modules that are in none of them count for ``jobrun`` and ``tests`` themselves.
    """
    sums = Counter[str]()
    for top in (PACKAGE, ROOT / "tests"):
        for path, module in measure_below(top).items():
            sums["/".join(path.split("/")[:-1][:2])] += module.code_lines
    return dict(sorted(sums.items()))


# The attribute of each kind of node that is an identifier.
_NAME_OF: Mapping[type[ast.AST], str] = {
    ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg", ast.keyword: "arg",
    ast.FunctionDef: "name", ast.AsyncFunctionDef: "name", ast.ClassDef: "name",
}  # fmt: skip


def identifiers(text: str) -> list[str]:
    """List the identifiers of a module where they are used, without those of foreign packages."""
    return _identifiers([*ast.walk(parse(text))])


def _identifiers(nodes: Sequence[ast.AST]) -> list[str]:
    foreign = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        if (node.module or "").partition(".")[0] not in {"jobrun", "tests"}
        for alias in node.names
    }
    pairs = ((node, _NAME_OF.get(type(node))) for node in nodes)
    names = ((type(node), getattr(node, field)) for node, field in pairs if field)
    # A keyword without a name unpacks a mapping.
    return [name for kind, name in names if name and (kind is not ast.Name or name not in foreign)]


@dataclass(frozen=True)
class EmptyNames:
    """Count the identifiers below a folder, and in each file those that say nothing."""

    identifiers: int
    by_file: Mapping[str, Counter[str]]

    @classmethod
    def below(cls, folder: Path) -> EmptyNames:
        """Count those of all modules below a folder."""
        count, by_file = 0, {}
        for path, module in measure_below(folder).items():
            count += module.names.total()
            empty = Counter({name: n for name in EMPTY_NAMES if (n := module.names[name])})
            if empty:
                by_file[path] = empty
        return cls(count, by_file)

    @property
    def percent(self) -> float:
        """Return the share of empty names."""
        return 100 * sum(names.total() for names in self.by_file.values()) / self.identifiers

    def describe(self, most_files: int = 10) -> str:
        """List the files with most of them, and what to write instead."""
        files = sorted(self.by_file.items(), key=lambda item: -item[1].total())[:most_files]
        lines = [
            f"  {path}: " + ", ".join(f"{name} {n}" for name, n in names.most_common())
            for path, names in files
        ]
        used = {name for _, names in files for name in names}
        mends = [f"  {name}: {mend}" for name, mend in EMPTY_NAMES.items() if name in used]
        return "\n".join([*lines, "Name each after what it holds, such as", *mends])


def hardest_functions(folder: Path, count: int = 20) -> list[tuple[int, str]]:
    """List the functions of the highest cognitive complexity, and it: nested branches count more.

    See G. A. Campbell, "Cognitive Complexity", SonarSource 2018.
    """
    complexities = [
        (function.complexity, f"{path.relative_to(ROOT)}:{function.line_start} {function.name}")
        for path in sorted(folder.rglob("*.py"))
        for function in complexipy.file_complexity(str(path)).functions
    ]
    return sorted(complexities, reverse=True)[:count]


def executed(*words: str) -> int:
    """Count the modules of the package with a function that a command line calls."""
    text = README.read_text()
    spec = next(
        block
        for block in re.findall(r"```yaml[^\n]*\n(.*?)```", text, re.DOTALL)
        if "walk" in block
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "walk.yaml").write_text(spec)
        ended = subprocess.run(
            [sys.executable, "-c", _TRACE, str(PACKAGE), *words],
            cwd=folder, capture_output=True, text=True, check=True,
        )  # fmt: skip
    code, count = json.loads(ended.stderr.strip().splitlines()[-1])
    if code not in {0, 75}:
        raise SystemExit(ended.stderr)
    return int(count)


def draw_questions(seed: int) -> None:
    """Write the paths and thirty first sentences for a reader, and the key."""
    drawing = random.Random(seed)
    sentences: dict[str, list[tuple[str, str]]] = {}
    for path in modules():
        for name, sentence in _first_sentences(path):
            sentences.setdefault(path.relative_to(PACKAGE).as_posix(), []).append((name, sentence))
    names = list(sentences)
    drawing.shuffle(names)
    drawn = [(name, *drawing.choice(sentences[name])) for name in names[:30]]
    paths = [path.relative_to(PACKAGE).as_posix() for path in modules()]
    asked = [f"{number}. {sentence}" for number, (_, _, sentence) in enumerate(drawn, 1)]
    Path("questions.txt").write_text("\n".join([*paths, "", *asked]) + "\n")
    Path("key.json").write_text(json.dumps(drawn, indent=1))


def _first_sentences(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and (text := ast.get_docstring(node)):
            sentence = " ".join(text.split("\n\n")[0].split())
            if len(sentence.split()) in _SENTENCE:
                yield node.name, sentence


def main() -> None:
    """Print the figures, or draw the questions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, metavar="SEED")
    options = parser.parse_args()
    if options.questions is not None:
        draw_questions(options.questions)
        return
    texts = {path: path.read_text() for path in modules()}
    code = measure_below(PACKAGE).values()
    folders = Counter(
        path.parent.relative_to(ROOT).as_posix() for path in texts if path.name != "__init__.py"
    )
    largest, files = folders.most_common(1)[0]
    print(f"modules                      {len(texts):7,}")
    print(f"lines                        {sum(len(t.splitlines()) for t in texts.values()):7,}")
    print(f"lines of code                {sum(module.code_lines for module in code):7,}")
    print(f"folders                      {len(folders):7,}")
    print(f"largest folder               {files:7,}  {largest}")
    print(f"modules the first job needs  {executed('run', 'walk.yaml', '--max-epochs', '3'):7,}")
    print(f"modules validate needs       {executed('validate', 'walk.yaml'):7,}")
    for folder in (PACKAGE, ROOT / "tests"):
        share = EmptyNames.below(folder).percent
        print(f"{f'names that say nothing, {folder.name}':28} {share:7.2f} %")
    for folder, lines in lines_by_folder().items():
        print(f"{f'lines of code, {folder}':38} {lines:7,}")
    print("cognitive complexity of the hardest functions")
    for complexity, function in hardest_functions(PACKAGE):
        print(f"{complexity:7} {function}")


if __name__ == "__main__":
    main()
