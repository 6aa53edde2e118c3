"""Error codes of the compile layer."""

from __future__ import annotations

from jobrun.core.codes import failure, graph, handmade, order, queues, readers
from jobrun.core.codes.code import Code

CODES: dict[str, Code] = {
    "E100": Code(
        "an expression or statement cannot be read",
        "Statements and expressions are written as in Python: one statement per step, == to"
        " compare, and, or, not for single truths, & | ~ for arrays. The caret stands where reading"
        " stopped.",
        "steps: ['y = 2 x']   # say y = 2 * x",
    ),
    "E101": Code(
        "brackets or quotes are not balanced",
        "Most often YAML has cut the text: inside flow collections expressions with , [ { : # need"
        " quotes, because there these characters belong to YAML.",
        "steps: ['x = sqrt(a + b']   # say x = sqrt(a + b)",
    ),
    "E102": Code(
        "this part of Python is not part of the language",
        "Expressions are a small subset of Python over blobs: numbers, text, names, operators,"
        " comparisons, indices, functions, and x if condition else y. There is no lambda, no"
        " comprehension, no import, no in or is. Whole arrays do most of it; a call step the rest.",
        "steps: ['y = [v * 2 for v in x]']   # say y = x * 2",
    ),
    "E103": Code(
        "a value has no such attribute or method",
        "Values have the attributes T, shape, size, ndim and dtype, and no methods; only rng has"
        " some. What are methods in numpy are functions here, by the same names.",
        "steps: ['s = x.sum()']   # say s = sum(x)",
    ),
    "E104": Code(
        "there is no such function",
        "Functions are numpy's by name and meaning; 'jobrun ops' lists those there are. Anything"
        " else is a Python function of your own, in a call step.",
        "steps: ['y = sqroot(x)']   # say y = sqrt(x)",
    ),
    "E105": Code(
        "the arguments do not fit the function",
        "There are too many or too few arguments, or one has a name that the function does not"
        " know. Arguments that write into an array, such as out, are left out everywhere.",
        "steps: ['m = max(a, b)']   # say m = maximum(a, b)",
    ),
    "E106": Code(
        "this word is no value",
        "Functions, rng and node stand for something only together with what follows: a call, a"
        " draw, node.name. True, False and None are written with capitals.",
        "steps: ['x = rng']   # say x = rng.random()",
    ),
    "E107": Code(
        "this cannot be a name",
        "A name has letters, digits and '_', at most 64 of them, begins with no digit and not with"
        " two underscores, and is written in its plain form, not in look-alike letters.",
        "steps: ['__x = 1']",
    ),
    "E108": Code(
        "an expression is too large",
        "An expression has at most 4096 characters, 50 levels, 2000 parts and 1000 items in a list."
        " Break it up into statements; load data from a file.",
        "steps: ['x = [1, 2, 3, …]']   # say load: {x: data.npy}",
    ),
    "E109": Code(
        "a number is too large",
        "Whole numbers of a spec have at most 64 bits, also where they are computed from constants."
        " A float reaches to about 1.8e308; beyond that is inf.",
        "steps: ['x = 9 ** 9 ** 9']",
    ),
    "E110": Code(
        "a result is not used, or there is none",
        "A statement assigns, deletes, or calls an operator for its effect, such as count_up or"
        " add_at. An operator that only has an effect gives nothing to assign.",
        "steps: ['x + 1']   # say x += 1",
    ),
    "E111": Code(
        "this cannot be assigned",
        "On the left stand blobs, items of blobs such as U[i], or several of them with commas, each"
        " once. A blob cannot hold None.",
        "steps: ['a = b = 0']   # say 'b = 0' and 'a = b'",
    ),
    "E112": Code(
        "a '${…}' is in the wrong place, or stands for nothing",
        "In texts '${run.dir}', '${node}', '${epoch}' and '${instance}' are filled in at run time,"
        " params and environment variables before. In expressions names are written as they are,"
        " and '${…}' stands only inside quotes. A dollar is '$$'.",
        "steps: ['x = ${epoch} * 2']   # say x = epoch * 2",
    ),
    "E113": Code(
        "a '{…}' in a text cannot be read",
        "In log and message '{expr}' and '{expr:format}' are filled in; the format is Python's,"
        " without '!r', '=' and fields inside it. Braces are written '{{' and '}}'.",
        "steps: [{log: 'x is {x:.3z}'}]   # say {x:.3f}",
    ),
    "E114": Code(
        "this is no dtype",
        "A dtype is known before the job runs: one of the names (float32, int64, …), or the dtype"
        " of a blob. Arrays of Python objects are not among them.",
        "steps: ['x = zeros(3, dtype=object)']",
    ),
    "E115": Code(
        "rng has no such method",
        "Draws are the methods of numpy's Generator, without those that work in place or hand the"
        " generator on.",
        "steps: ['rng.shuffle(x)']   # say x = rng.permutation(x)",
    ),
    "E116": Code(
        "text is not computed with like that",
        "Text can be joined with + and compared. It is filled in by log and message, not by %, and"
        " neither text nor a list is repeated by *, except a list a few times.",
        "steps: ['s = \"%d\" % n']   # say log: '{n:d}'",
    ),
    "E117": Code(
        "this cannot be a value",
        "Where a value is wanted stands an expression, a number, a bool, or a list of them.",
        "steps: [{op: add, in: [{a: 1}, 2], out: c}]",
    ),
    "E118": Code(
        "an operator that works in place needs a blob",
        "add_at and its like, and those of counters, change their first argument where it is. That"
        " must be a blob by its name: the change of anything else would be lost.",
        "steps: ['add_at(M[rows], i, 1)']   # say add_at(M, (rows, i), 1)",
    ),
    "E127": Code(
        "checkpoints cannot be copied there, or not collected from there",
        "'checkpoint.upload.to' is a directory that this machine sees: a path, relative to the"
        " spec's folder, or a URL file:///…; or the URL of an object store: s3://, gs://, az:// and"
        " the other names of Azure, with a bucket. Other machines are not reached; mount them, or"
        " copy with a program of theirs in an exit task. 'checkpoint.node_dir' is an absolute path"
        " on each node's machine, and needs 'collect: master', or the URL of an object store: what"
        " is only there is lost with the node. Nodes that write there see no directory to upload"
        " to, and what they bring to an object store needs no 'upload'.",
        "checkpoint: {node_dir: /var/tmp, upload: {to: 'ftp://host/runs'}}",
    ),
    "E128": Code(
        "an operator of an installed package cannot be used",
        "A package offers operators by entry points of the group jobrun.operators. Each is an OpDef"
        " under its own name, which nobody else has, and changes no argument in place.",
        "pip install a-package-with-a-second-operator-sum",
    ),
    "E129": Code(
        "an operator cannot be loaded",
        "What computes the operator could not be imported. For a built-in one numpy is older than"
        " jobrun needs; for one of a package, that package is broken or has been removed.",
        "steps: ['y = operator_of_a_package(x)']",
    ),
    **graph.CODES,
    **order.CODES,
    **handmade.CODES,
    **failure.CODES,
    **queues.CODES,
    **readers.CODES,
}
