"""Declare the operators that rearrange arrays: reshape, transpose, concatenate, pad, …."""

from __future__ import annotations

from jobrun.ops.definition import MANY, OpDef, ruled
from jobrun.ops.type_rules.index_functions import PART_RULES
from jobrun.ops.type_rules.shaping import SHAPING_RULES


def _view(name: str, signature: str, doc: str, example: str, *, results: int = 1) -> OpDef:
    return OpDef(
        name, signature, f"numpy:{name}", doc, example, shares_memory=True, results=results
    )


def _new(name: str, signature: str, doc: str, example: str) -> OpDef:
    return OpDef(name, signature, f"numpy:{name}", doc, example)


_SHAPING = (
    _view("reshape", "(a, shape, /)", "the items in another shape; one length may be -1",
          "a = arange(6); reshape(a, (2, -1))"),
    _view("transpose", "(a, axes=None)", "axes in another order, reversed unless said",
          "a = zeros((2, 3)); transpose(a)"),
    _view("matrix_transpose", "(x, /)", "the last two axes swapped",
          "a = zeros((4, 2, 3)); matrix_transpose(a)"),
    _view("swapaxes", "(a, axis1, axis2)", "two axes swapped",
          "a = zeros((2, 3)); swapaxes(a, 0, 1)"),
    _view("moveaxis", "(a, source, destination)", "axes moved to another place",
          "a = zeros((2, 3, 4)); moveaxis(a, 0, -1)"),
    _view("ravel", "(a)", "all items in one row", "a = zeros((2, 3)); ravel(a)"),
    _view("squeeze", "(a, axis=None)", "without axes of length 1",
          "a = zeros((1, 3)); squeeze(a)"),
    _view("expand_dims", "(a, axis)", "with a further axis of length 1",
          "a = zeros(3); expand_dims(a, 0)"),
    _view("broadcast_to", "(array, shape, /)", "repeated along axes to a shape",
          "a = arange(3); broadcast_to(a, (2, 3))"),
    _view("flip", "(m, axis=None)", "items in reverse order", "a = arange(3); flip(a)"),
    _view("fliplr", "(m)", "columns in reverse order", "a = eye(2); fliplr(a)"),
    _view("flipud", "(m)", "rows in reverse order", "a = eye(2); flipud(a)"),
    _view("rot90", "(m, k=1, axes=(0, 1))", "turned by k quarter turns", "a = eye(2); rot90(a)"),
    _view("diagonal", "(a, offset=0, axis1=0, axis2=1)", "the items on a diagonal",
          "a = eye(3); diagonal(a)"),
    _view("atleast_1d", "(a, /)", "with one axis or more", "a = arange(3); atleast_1d(a)"),
    _view("atleast_2d", "(a, /)", "with two axes or more", "a = arange(3); atleast_2d(a)"),
    _view("atleast_3d", "(a, /)", "with three axes or more", "a = arange(3); atleast_3d(a)"),
    _view("split", "(ary, indices_or_sections, axis=0)", "cut into equal parts, or at indices",
          "a = arange(6); split(a, 3)", results=MANY),
    _view("array_split", "(ary, indices_or_sections, axis=0)", "cut into nearly equal parts",
          "a = arange(7); array_split(a, 3)", results=MANY),
    _new("concatenate", "(arrays, /, axis=0)", "joined along an axis",
         "concatenate([[1, 2], [3]])"),
    _new("stack", "(arrays, axis=0)", "joined along a new axis", "stack([[1, 2], [3, 4]])"),
    _new("vstack", "(tup)", "joined as rows", "vstack([[1, 2], [3, 4]])"),
    _new("hstack", "(tup)", "joined as columns", "hstack([[1, 2], [3, 4]])"),
    _new("dstack", "(tup)", "joined along the third axis", "dstack([[1, 2], [3, 4]])"),
    _new("column_stack", "(tup)", "rows turned to columns and joined",
         "column_stack([[1, 2], [3, 4]])"),
    _new("delete", "(arr, obj, axis=None)", "without the items at an index",
         "delete([1, 2, 3], 1)"),
    _new("tile", "(A, reps)", "the whole repeated", "tile([1, 2], 3)"),
    _new("repeat", "(a, repeats, axis=None)", "each item repeated", "repeat([1, 2], 3)"),
    _new("resize", "(a, new_shape)", "cut or repeated to a shape", "resize([1, 2, 3], (2, 2))"),
    _new("roll", "(a, shift, axis=None)", "shifted round the end", "roll([1, 2, 3], 1)"),
    # No further keywords: numpy's 'mode' may be a function, and those of the modes differ.
    OpDef("pad", "(array, pad_width, mode='constant', *, constant_values=0)",
          "jobrun.ops.implementations.non_numpy_functions:pad",
          "with a border: constant, edge, reflect, symmetric, wrap",
          "pad([1, 2], 1, constant_values=9)"),
)  # fmt: skip

SHAPING = ruled(_SHAPING, {**SHAPING_RULES, **PART_RULES})
