"""Read how modules are written, and say of each sentence that breaks a rule what to write instead.

``tests/test_prose.py`` applies the rules to the package.
"""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_VERBS = Path(__file__).parent / "verbs.txt"

#: Words that readers stumble over, and what to write instead.
AVOIDED_WORDS: Mapping[str, str] = {
    "told": "'report', or whom the message reaches: 'the user sees …'",
    "tells": "'reports', 'returns' or 'says'",
    "stands": "'is'",
    "stood": "'was'",
    "goes on": "'continues'",
    "whoever": "'who', or which process or person",
    "nobody": "'no one', or which process or user does not",
    "somebody": "'another process', 'a user'",
    "anew": "'again'",
    "heed": "'obey' or 'read'",
    "heeds": "'obeys' or 'reads'",
    "in all": "'altogether', or the sum without it",
    "so long": "'until …' or 'while …'",
}

#: Messages are read by people in a hurry, and by more who learned English late.
AVOIDED_IN_MESSAGES: Mapping[str, str] = {
    **AVOIDED_WORDS,
    "tell": "'report', 'return' or 'say'",
    "stand": "'be', or where it is: 'is listed in …'",
}


@dataclass(frozen=True)
class Function:
    """A function or class where it is defined, and its docstring."""

    line: int
    name: str
    docstring: str
    is_property: bool = False
    is_overload: bool = False


@dataclass(frozen=True)
class PublicClass:
    """A class at the top of a module, with the names of its bases and its functions."""

    definition: Function
    bases: Sequence[str]
    methods: Sequence[Function]


@dataclass(frozen=True)
class ModuleDocstrings:
    """What a module documents: all functions at any depth, and what it defines at the top."""

    functions: Sequence[Function]
    top_functions: Sequence[Function]
    classes: Sequence[PublicClass]


@cache
def read_docstrings(path: Path) -> ModuleDocstrings:
    """Parse a module once for all rules about its docstrings."""
    tree = parse(path.read_text())
    body = tree.body
    return ModuleDocstrings(
        [_function(node) for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)],
        [_function(node) for node in body if isinstance(node, _FUNCTIONS)],
        [_class(node) for node in body if isinstance(node, ast.ClassDef)],
    )


def parse(text: str) -> ast.Module:
    """Parse a module without collecting garbage, which takes as long again in a large process."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if was_enabled:
            gc.enable()


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Function:
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    return Function(
        node.lineno, node.name, ast.get_docstring(node) or "",
        any("property" in decorator for decorator in decorators), "overload" in decorators,
    )  # fmt: skip


def _class(node: ast.ClassDef) -> PublicClass:
    bases = [ast.unparse(base).split("[")[0].rpartition(".")[2] for base in node.bases]
    methods = [_function(each) for each in node.body if isinstance(each, _FUNCTIONS)]
    return PublicClass(_function(node), bases, methods)


def find_docstrings_without_verb(paths: Iterable[Path], root: Path) -> list[str]:
    """Report each function whose docstring begins with no verb; properties may have a noun."""
    verbs = frozenset(_VERBS.read_text().split())
    return [
        _report(
            f"{path.relative_to(root)}:{function.line} {function.name}",
            function.docstring.splitlines()[0],
            f"{word!r} is no verb of tests/support/verbs.txt",
            _imperative(word, verbs),
        )
        for path in paths
        for function in read_docstrings(path).functions
        if function.docstring and not function.is_property
        if (word := function.docstring.split()[0].strip(".,:;")) not in verbs
    ]


def _imperative(word: str, verbs: frozenset[str]) -> str:
    """Say how to begin the sentence: with the imperative of the word, if it has one."""
    title = word.capitalize()
    for stem in (title, title.removesuffix("s"), title.removesuffix("es"), title[:-3] + "y"):
        if stem in verbs:
            return f"begin with {stem!r}"
    return (
        "begin with what the function does, and to what: 'Return the number of rows.' "
        "(or add the verb to tests/support/verbs.txt, if it is one)"
    )


def find_undocumented(paths: Sequence[Path], root: Path) -> list[str]:
    """Report what is public and has no docstring, but for methods that a base declares."""
    modules = {path: read_docstrings(path) for path in paths}
    classes = {each.definition.name: each for module in modules.values() for each in module.classes}
    return [
        f"{path.relative_to(root)}:{each.line} {each.name} is public and has no docstring: "
        "write one sentence that begins with a verb (a noun, for a class), or begin the name "
        "with an underscore"
        for path, module in modules.items()
        for each in _public(module, classes)
        if not each.name.startswith(("_", "test_")) and not each.docstring and not each.is_overload
    ]


def _public(module: ModuleDocstrings, classes: Mapping[str, PublicClass]) -> Iterator[Function]:
    yield from module.top_functions
    for each in module.classes:
        yield each.definition
        inherited = _inherited(each, classes)
        if not each.definition.name.startswith("_") and inherited is not None:
            yield from (method for method in each.methods if method.name not in inherited)


def _inherited(start: PublicClass, classes: Mapping[str, PublicClass]) -> set[str] | None:
    """Return the methods that classes above a class declare; None if one of them is foreign."""
    declared, seen, above = set[str](), {start.definition.name}, [start]
    while above:
        for base in above.pop().bases:
            if base not in classes:
                return None
            if base not in seen:
                seen.add(base)
                above.append(classes[base])
                declared |= {method.name for method in classes[base].methods}
    return declared


def find_avoided_words(
    text: str, label: str, words: Mapping[str, str] = AVOIDED_WORDS
) -> list[str]:
    """Report each line of a text that holds an avoided word, once for each."""
    pattern = re.compile(rf"\b({'|'.join(words)})\b", re.IGNORECASE)
    return [
        _report(f"{label}:{number}", line.strip(), f"{word!r} is avoided", f"write {words[word]}")
        for number, line in enumerate(text.splitlines(), 1)
        for word in dict.fromkeys(match.lower() for match in pattern.findall(line))
    ]


def _report(position: str, sentence: str, reason: str, mend: str) -> str:
    return f"{position}\n    {sentence}\n    {reason}: {mend}"
