"""Codes of blobs that go from one node to another."""

from __future__ import annotations

from jobrun.core.codes.code import Code

CODES: dict[str, Code] = {
    "E270": Code(
        "a pulled blob is not there",
        "pull reads global blobs of nodes: state, constants, and what tasks of a global group have"
        " left there. This node had none of that name when it was asked.",
        "steps: [{pull: {w: {from: trainer_*, blob: w}}}]   # after del w on trainer_1",
    ),
    "E271": Code(
        "pulled values cannot be joined",
        "sum, mean and stack need values of one kind, dtype and shape from all nodes, concat arrays"
        " that differ along the first axis only; text and counters can be pulled with first.",
        "pull: {w: {from: 't_*', blob: w, reduce: mean}}   # w has 3 items here, 4 there",
    ),
    "E272": Code(
        "a pull races with a write",
        "A task pulls a blob from a node where another task of the group, for which it does not"
        " wait, writes it; what it gets would depend on timing. A counted task that pulls what it"
        " writes races with itself on the other nodes: pull in a task of its own, give the value"
        " out as an output, and let the other task need it.",
        "steps: [{pull: {m: {from: trainer_*, blob: w, reduce: mean}}}, w = m]",
    ),
    "E273": Code(
        "a blob to be pulled is not made",
        "pull reads global blobs of nodes. No task of init makes this one on that node, nor does a"
        " task of this global group that has certainly ended before.",
        "steps: [{pull: {x: {from: trainer_*, blob: ww}}}]   # init makes w",
    ),
    "E274": Code(
        "a value cannot leave its process",
        "An output, or a record of a queue, has to go to another process, and its dtype cannot be"
        " told there exactly: a record with fields of no size, or a type that a package has added.",
        "outputs: [table]   # with --session processes",
    ),
}
