"""Read the manual and render it as text: Markdown pages, and topics of the language.

The pages are the files of ``jobrun/manual``, the topics come from the tables that the program goes
by.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct

from jobrun.compile.expressions import limits
from jobrun.core.text.names import did_you_mean
from jobrun.core.text.patterns import lazy_pattern
from jobrun.core.text.terminal_text import align_cells
from jobrun.graph.expressions import ATTRIBUTES, BUILTINS, DTYPES
from jobrun.ops.operator_table import DRAWS, OPERATORS
from jobrun.tools.spec_key_tables import list_key_tables, list_key_words, render_steps

FOLDER = Path(__file__).parent.parent / "manual"
# Pages by what a reader wants, in the order of reading.
SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Begin": ("tutorial",),
    "How to": (
        "runs", "killed", "drift", "batch", "nodes", "gpu", "object-stores", "ci", "python",
        "sweeps", "notifications", "listeners", "moving-a-run", "prove", "plug-ins",
    ),
    "Understand": ("exactness", "saving", "data", "objects", "adapters", "other-tools"),
    "Design": (
        "hdf5-writer", "commit", "supervisor", "sessions", "copy-elision", "refcounts", "comparing",
        "same-bits", "layers", "language",
    ),
    "Reference": ("exit-codes", "compatibility"),
}  # fmt: skip
_PICTURE = lazy_pattern(r"!\[([^\]]+)\]\(pictures/([a-z-]+\.svg)\)")
# From one page to another, by its name, in whichever folder it is.
LINK = lazy_pattern(r"\[([^\]]+)\]\((?:\.\./|design/)?([a-z][a-z0-9-]*)\.md\)")


_EXPRESSIONS = """\
Expressions: a subset of Python over blobs

A string where a value is expected is an expression; text inside it is quoted again. It is parsed
before anything runs, and each fault has its file, line and column. What is not named here cannot
be used: there is no import, lambda, comprehension, f-string, method, 'in', 'is' or ':='.

Statements   x = e · a, b = e · U[i] = e · x += e, and so with every operator · U[i] += e
             del a, b · a call for its side effect only, such as count_up(c)
Operators    + - * / // % ** @   & | ^ ~ << >>   < <= > >= == != (chains too)   and or not
             e if condition else e
Values       1  2.5  1e-3  2j  'text'  True False None   (1, 2)  [1, 2]
Indices      x[0]  x[1:3]  x[::2]  x[..., 0]  x[:, None]  x[mask]  x[[0, 2]]  x[i, j]
Calls        f(x, axis=0) of the {functions} functions that 'jobrun ops' lists
Draws        rng.normal(size=3), of the {draws} that 'jobrun ops' lists after the functions
Attributes   {attributes}; no others
Words        {words}
             epoch (from 1 on), iter (iteration of the innermost loop), rng
             task.output; node.blob in conditions
Dtypes       {dtypes}

Bounds
  {characters} characters and {parts} parts in one expression, {depth} levels deep
  {items} items in a list, {text_kib} KiB of text; lists are not repeated by *: tile(x, times)
  integers of 64 bits, also in constant expressions: 2 ** 65 and 1 << 65 are refused
  text is concatenated with + and compared; not multiplied, and not formatted with %
  at run time a power, shift or product of Python ints has at most a million bits

What is known of dtypes and shapes before the run is followed through every statement; what cannot
be computed is an error with its place (E290, E291, E292), in validate, plan and run alike.
"""
_OPERATORS = """\
Operators: the same in expressions and in {op: …}

  x = add(a, b)   is   {op: add, in: [a, b], out: x}

'jobrun ops' lists them, 'jobrun ops NAME' shows one with what its parameters take, an example,
and whether it is atomic. Of numpy's functions those that run code, reach files or memory, or write
into their arguments are left out: 'jobrun ops --left-out' gives the reason for each.

A package adds operators by entry points of the group jobrun.operators, each naming an OpDef; its
tests subclass jobrun.testing.operators.OperatorContract.

Common operators of Caffe2, and how to write them

"""
_RNG = """\
rng: the random generator of a step

One stream for each task and epoch, made from 'seed' of the spec: no draw depends on timing, on
threads or on the session, and a resumed run draws what the killed one would have drawn. Use it in
expressions
  x = rng.normal(size=3)
and in a called function that has an argument named rng, without naming it in 'with':
  def step(x, rng): ...        # a numpy.random.Generator
'jobrun explain objects' is about generators that a library keeps for itself. The draws:

"""
# Operators of Caffe2, how to write them here, and the functions that this names.
ANCESTORS: tuple[tuple[str, str, str], ...] = (
    ("Const, Fill, ConstantFill, GivenTensorFill", "full((2, 3), 0.5), array([1, 2])", "full"),
    ("XavierFill, GaussianFill, UniformFill", "rng.normal(0.0, s, (n, m))", "rng"),
    ("Add, Sub, Mul, Div, Negative", "a + b, a - b, a * b, a / b, -a", "add subtract multiply"),
    ("Sqr, Sqrt, Exp, Log, Tanh, Sigmoid, Relu", "square(x), sqrt(x), …", "square sqrt sigmoid"),
    ("EQ, NE, LT, LE, GT, GE", "a == b, a != b, a < b, …", "equal less greater_equal"),
    ("And, Or, Xor, Not", "a & b, a | b, a ^ b, ~a", "logical_and logical_or logical_not"),
    ("MatMul, FC", "x @ w, x @ w.T + b", "matmul"),
    ("Sum, ReduceSum, ReduceMean, Max, ArgMax", "a + b + c, sum(x, axis=0), …", "sum mean argmax"),
    ("Softmax, LogSoftmax", "softmax(x, axis=-1)", "softmax log_softmax"),
    ("Reshape, Transpose, Concat, Split, Tile", "reshape(x, (2, -1)), x.T, …", "concatenate split"),
    ("Cast", "astype(x, float32)", "astype"),
    ("Where, Conditional", "where(c, x, y)", "where select"),
    ("Gather, Slice", "x[i], x[1:3]", "take"),
    ("ScatterAssign, ScatterWeightedSum", "U[i] = v, add_at(U, i, v)", "index_set index_add"),
    ("SortedSegmentSum, UnsortedSegmentSum", "segment_sum(x, label, n)", "segment_sum bincount"),
    ("TopK, Unique", "argpartition(x, k), unique(x)", "argpartition unique"),
    ("Counter, CreateCounter, ResetCounter", "c = counter(3), count_reset(c)", "counter"),
    ("CountUp, CountDown, RetrieveCount", "count_up(c), count_down(c), …", "count_up count_value"),
    ("AtomicFetchAdd", "atomic_add(c, 5)", "atomic_add"),
    ("Copy, EnsureCPUOutput, Alias", "b = a: a blob is a value", "copy"),
    ("Python, PythonGradient", "{call: 'module:function', with: {…}, out: …}", ""),
    ("Print, Summarize", "{log: 'loss {loss:.3g}'}", ""),
    ("Load, Save, DBExists", "{load: …}, {save: …}", ""),
    ("If, While, Do, AsyncNetWait", "{if: …}, {while: …}, {loop: …}, {parallel: …}", ""),
    ("BlobsQueue, DequeueBlobs, EnqueueBlobs", "queues:, read:, write:", ""),
    ("FillGradient, StopGradient, Iter", "none: there are no gradients; epoch, iter", ""),
)  # fmt: skip


class Page(Struct, frozen=True):
    """One page of the manual.

    Attributes:
        name: As in ``jobrun explain NAME``.
        title: Its first line.
        text: All of it, as Markdown.
    """

    name: str
    title: str
    text: str


@cache
def read_pages() -> Mapping[str, Page]:
    """Read all pages of the manual, and return them by name in the order of its contents.

    Raises:
        FileNotFoundError: A page is missing: the package is not installed as a whole.
    """
    pages = {}
    for section, names in SECTIONS.items():
        folder = FOLDER / "design" if section == "Design" else FOLDER
        for name in names:
            text = (folder / f"{name}.md").read_text(encoding="utf-8")
            pages[name] = Page(name, text.partition("\n")[0].removeprefix("# "), text)
    return pages


def render_for_terminal(text: str, width: int) -> str:
    """Render a Markdown page of the manual as plain text, with links as commands to type.

    Args:
        text: As Markdown.
        width: In columns.
    """
    # Importing rich takes tens of milliseconds, and only pages need it.
    from rich.console import Console  # noqa: PLC0415
    from rich.markdown import Markdown  # noqa: PLC0415

    title, _, body = text.partition("\n")
    # A picture can be seen in the HTML page only (``jobrun explain --out``).
    markdown = LINK.sub(r"\1 (`jobrun explain \2`)", _PICTURE.sub(r"\n> Picture: \1\n", body))
    output = io.StringIO()
    Console(file=output, width=width, color_system=None).print(Markdown(markdown, hyperlinks=False))
    lines = (line.rstrip() for line in output.getvalue().splitlines())
    whole = "\n".join((title.removeprefix("# "), "", *lines))
    return re.sub(r"\n{3,}", "\n\n", whole).rstrip()


def list_pages() -> str:
    """List the manual's Markdown pages by section, one line of name and title for each."""
    pages = read_pages()
    width = max(map(len, pages))
    return "\n\n".join(
        "\n".join((title, *(f"  {name:<{width}}  {pages[name].title}" for name in names)))
        for title, names in SECTIONS.items()
    )


def _expressions() -> str:
    return _EXPRESSIONS.format(
        functions=len(OPERATORS),
        draws=len(DRAWS),
        attributes=" ".join(ATTRIBUTES),
        words=" ".join(BUILTINS),
        dtypes=_wrapped(DTYPES),
        characters=limits.MAX_TEXT_LENGTH,
        parts=limits.MAX_NODES,
        depth=limits.MAX_DEPTH,
        items=limits.MAX_ITEMS,
        text_kib=limits.MAX_TEXT_BYTES // 1024,
    ).rstrip()


def _wrapped(words: tuple[str, ...]) -> str:
    """Wrap the words of a list in the manual, such as all dtypes, aligned in a column."""
    return textwrap.fill(" ".join(words), 84).replace("\n", "\n" + " " * 13)


def _operators() -> str:
    rows = align_cells([(theirs, ours) for theirs, ours, _ in ANCESTORS])
    return _OPERATORS + "\n".join(map("  ".join, rows))


def _rng() -> str:
    rows = align_cells([(name, draw.doc) for name, draw in sorted(DRAWS.items())])
    return _RNG + "\n".join(f"  rng.{name}  {text}" for name, text in rows)


def _checkpoint_format() -> str:
    # With numpy and h5py: not for those who ask about something else.
    from jobrun.checkpoint.format_description import describe_format  # noqa: PLC0415

    return describe_format()


# Rendered from the tables that the program goes by; the other topics are pages of the manual.
TOPICS: Mapping[str, Callable[[], str]] = {
    "expressions": _expressions,
    "operators": _operators,
    "steps": render_steps,
    "rng": _rng,
    "checkpoint-format": _checkpoint_format,
}


def counterpart(operator: str) -> str:
    """Return the manual's sentence on the counterpart of a Caffe2 operator; empty without one."""
    for theirs, ours, _ in ANCESTORS:
        for name in theirs.split(", "):
            if name.casefold() == operator.casefold():
                return f"{name} of Caffe2 is here: {ours} (see 'jobrun explain operators')"
    return ""


def list_topics() -> list[str]:
    """List what the manual explains: names of pages, functions, random draws, spec keys."""
    draws = (f"rng.{name}" for name in DRAWS)
    keys = list_key_words(list_key_tables())
    return [*TOPICS, *read_pages(), *OPERATORS, *draws, *keys]


def suggest_topic(word: str) -> str:
    """Suggest the page, function or spec key of the manual that is nearest to an unknown word."""
    if sentence := counterpart(word):
        return sentence
    return did_you_mean(word, list_topics())
