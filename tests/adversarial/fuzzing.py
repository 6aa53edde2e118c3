"""Texts for the parser: grown by a grammar, thrown together, and valid ones with slips in them."""

from __future__ import annotations

from hypothesis import strategies as st

from jobrun.graph.expressions import ATTRIBUTES, BUILTINS, DTYPES
from jobrun.ops.operator_table import DRAWS, OPERATORS
from tests.adversarial.escapes import EXPRESSIONS

_NAMES = ("x", "y", "n", "long_name", "_", "__class__", "__builtins__", "os", "eval", "rng", "np")
_NUMBERS = ("0", "1", "2.5", "1e-3", "1j", "9" * 30, "0x1f", "1_000", "1e999", "10 ** 9", "007")
_QUOTED = ("'a'", '"%d"', "'''a\nb'''", "r'\\d'", "b'a'", "f'{x}'", "'\\x5f'", "'${run.dir}'", "'")
_MARKS_TEXT = (
    "+ - * / // % ** @ & | ^ << >> < <= > >= == != ~ ( ) [ ] { } , : . ... := = += @= -> ; "
    "! ? $ \\ # ` ${ } && || <> ++"
)
_MARKS = tuple(_MARKS_TEXT.split())
_WORDS_TEXT = (
    "and or not if else in is lambda for yield await async def class return import from "
    "del pass None True False global assert with as try except match case"
)
_WORDS = tuple(_WORDS_TEXT.split())
_ODD = ("\uff45val", "\u00a0", "\u200b", "\u202e", "\ud800", "\x00", "\t", "\n", "\r\n", "\f", "é")
_FUNCTIONS = (*OPERATORS, *(f"rng.{name}" for name in DRAWS))

TOKENS = st.one_of(
    st.sampled_from((*_NAMES, *BUILTINS, *DTYPES)),
    st.sampled_from(_NUMBERS),
    st.sampled_from(_QUOTED),
    st.sampled_from(_MARKS),
    st.sampled_from(_MARKS),
    st.sampled_from(_WORDS),
    st.sampled_from(_ODD),
    st.sampled_from(_FUNCTIONS),
    st.sampled_from(tuple(f".{name}" for name in (*ATTRIBUTES, "__class__", "real", "sum"))),
    st.text(max_size=3),
)


@st.composite
def jumbles(draw: st.DrawFn) -> str:
    """Tokens of this and other languages in a row."""
    glue = draw(st.sampled_from(("", " ")))
    return glue.join(draw(st.lists(TOKENS, max_size=20)))


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    several = st.lists(inner, min_size=1, max_size=3).map(", ".join)
    operator = st.sampled_from([mark for mark in _MARKS[:19] if mark not in "~()[]"])
    return st.one_of(
        st.tuples(inner, operator, inner).map(" ".join),
        st.tuples(st.sampled_from(("-", "~", "not ", "*")), inner).map("".join),
        st.tuples(st.sampled_from(_FUNCTIONS), several).map(
            lambda parts: f"{parts[0]}({parts[1]})"
        ),
        st.tuples(inner, several).map(lambda parts: f"{parts[0]}[{parts[1]}]"),
        st.tuples(inner, inner, inner).map(
            lambda parts: f"({parts[0]} if {parts[1]} else {parts[2]})"
        ),
        st.tuples(inner, st.sampled_from((*ATTRIBUTES, "__dict__", "flat"))).map(".".join),
        several.map(lambda parts: f"[{parts}]"),
        several.map(lambda parts: f"({parts},)"),
        st.tuples(inner, inner).map(lambda parts: f"x[{parts[0]}:{parts[1]}]"),
        st.tuples(st.sampled_from(("axis", "dtype", "out", "size")), inner).map("=".join),
    )


# Of the language, mostly.
GROWN = st.recursive(
    st.sampled_from((*_NAMES[:4], *_NUMBERS[:5], *_QUOTED[:2], *BUILTINS, *DTYPES[:4])),
    _grown,
    max_leaves=12,
)
_VALID = tuple(part for operator in OPERATORS.values() for part in operator.example.split("; "))
_KNOWN = (*_VALID, *(text for texts in EXPRESSIONS.values() for text in texts if len(text) < 200))


@st.composite
def slips(draw: st.DrawFn) -> str:
    """A text that is valid, or an attack, with a few characters changed."""
    text = draw(st.sampled_from(_KNOWN))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        end = min(len(text), at + draw(st.integers(0, 3)))
        text = text[:at] + draw(TOKENS) + text[end:]
    return text


TEXTS = st.one_of(jumbles(), GROWN, slips(), st.text(max_size=40))
