"""Error codes of the spec layer."""

from __future__ import annotations

from jobrun.core.codes.code import Code

CODES: dict[str, Code] = {
    "E001": Code(
        "a spec file cannot be read",
        "The file does not exist, may not be read, or is no regular file (a directory, a named "
        "pipe, a device). Nothing was run. Check the name and the permissions.",
        "jobrun run no-such.yaml",
    ),
    "E002": Code(
        "a spec file is too large",
        "A spec has at most 16 MiB; larger ones are refused before they are read. Data belongs "
        "into data files that a 'load' step or a reader names.",
        "init: [{task: data, steps: ['X = [0.1, 0.2, …a million numbers…]']}]",
    ),
    "E003": Code(
        "a spec file is not UTF-8",
        "Specs are UTF-8 text. The message names the first byte that is not, or the byte order "
        "mark of another encoding. Save the file as UTF-8; a UTF-8 byte order mark is accepted.",
        "iconv -f UTF-16 -t UTF-8 job.yaml > job-utf8.yaml",
    ),
    "E004": Code(
        "a character that cannot be seen",
        "Control characters, line separators other than newline, and marks that change the "
        "direction of text make a file look different from what it says. Delete them, or write "
        "them as an escape in double quotes, where they are wanted in a text.",
        'description: "a bell: \\u0007"',
    ),
    "E005": Code(
        "not valid YAML",
        "The text does not follow the rules of YAML, so nothing behind this place was looked at. "
        "Most often the indentation is off, a quote or bracket is not closed, or a text with "
        "': ' in it needs quotes.",
        'steps:\n  - "a" + b      # write: \'"a" + b\'',
    ),
    "E006": Code(
        "a tab as indentation",
        "YAML counts spaces; a tab has no width. Most editors can be told to write spaces.",
        "epoch:\n\t- task: train",
    ),
    "E007": Code(
        "an expression needs quotes",
        "Inside [...] and {...} YAML takes the characters , [ ] { } : # for its own, so an "
        "expression with one of them is cut in two. Put quotes around the whole expression, or "
        "write the list with one '- ' per line, where they are needed less often.",
        "- {if: a, then: [x = f(a, b)]}      # write: then: [\"x = f(a, b)\"]",
    ),
    "E008": Code(
        "several documents in one file",
        "A spec file holds one document. A line '---' in the middle starts a second one.",
        "name: a\n---\nname: b",
    ),
    "E009": Code(
        "a spec is a mapping",
        "The file is empty, or its top is a list or a single value. A spec starts with keys.",
        "jobrun: 1\nname: example",
    ),
    "E010": Code(
        "a duplicate key",
        "One mapping has the same key twice; other readers of YAML would silently take the last "
        "one. The message names the line of the first.",
        "stop: [{epochs: 3}]\nstop: [{epochs: 5}]",
    ),
    "E011": Code(
        "a key that is not text",
        "Keys are text. A number, true, null, a list or a mapping as a key, or nothing before "
        "the ':', is refused; quote the key if its text is meant.",
        "props: {1: one}      # write: {\"1\": one}",
    ),
    "E012": Code(
        "a YAML tag",
        "Tags ('!!str', '!python/…') ask the reader to build something else than the text says. "
        "None is read and nothing is run. Quote a value to make it text.",
        "name: !!str 12      # write: \"12\"",
    ),
    "E013": Code(
        "an alias or merge key that leads nowhere",
        "An alias names an anchor that stands before it in the same file, has ended, and for a "
        "merge key '<<' is a mapping or a list of mappings.",
        "a: &a [*a]",
    ),
    "E014": Code(
        "too many values",
        "Once all aliases are followed the file has more than 1,000,000 values. Aliases of "
        "aliases multiply; use a net, 'instances' or a node 'count' to repeat work.",
        "a: &a [x, x, x]\nb: &b [*a, *a, *a]\nc: &c [*b, *b, *b]",
    ),
    "E015": Code(
        "nested too deeply",
        "Lists and mappings may be nested 64 levels deep, aliases counted. Give inner steps a "
        "name as a net.",
        "steps: [[[[[[[[…]]]]]]]]",
    ),
    "E016": Code(
        "a number that does not fit",
        "Integers have at most 64 bits, and a float must be finite as written. Write '.inf' or "
        "an expression such as 'inf' for infinity; quote the digits to make them text.",
        "params: {n: 99999999999999999999}",
    ),
    "E017": Code(
        "another version of YAML",
        "Specs are YAML 1.2. A file that declares another version would be read differently "
        "from what it says.",
        "%YAML 1.1\n---\nname: a",
    ),
    "E020": Code(
        "a missing key",
        "This mapping needs a key that is not there. The place is the start of the mapping.",
        "epoch: [{steps: [x = 1]}]      # a task needs 'task'",
    ),
    "E021": Code(
        "an unknown key",
        "No key of this name is allowed here; the nearest ones are named. Keys that start with "
        "'x-' are allowed at the top of a spec, for anchors and notes.",
        "stop:\n  - wen: shift < tol",
    ),
    "E022": Code(
        "a value of the wrong kind",
        "Here a text, a number, a bool, a list or a mapping is wanted, and something else "
        "stands. Nothing is converted: \"3\" is text, 3.0 is no whole number, true is no number.",
        "stop: [{epochs: \"3\"}]",
    ),
    "E023": Code(
        "a value with two readings",
        "YAML 1.1 and 1.2 read this text differently: no is false or text, 010 is 8 or 10, 1:30 "
        "is 90 or text. Where it would matter, write what is meant.",
        "epoch: [{task: t, hogwild: no}]      # write: false",
    ),
    "E024": Code(
        "a value out of bounds",
        "The value is of the right kind, but less or more than what makes sense here, or empty.",
        "stop: [{epochs: 0}]",
    ),
    "E025": Code(
        "not one of the choices",
        "Only the words that the message lists are allowed here.",
        "epoch: [{task: t, on_error: ignore}]",
    ),
    "E026": Code(
        "not a name",
        "Names of tasks, nodes and the like become parts of file names: letters, digits, '_', "
        "'.' and '-', at most 64, not starting with '.' or '-'. Names of blobs stand in "
        "expressions: letters, digits and '_', not starting with a digit.",
        "nodes: {../x: {}}",
    ),
    "E027": Code(
        "an unknown step",
        "A step is a statement as text, or a mapping with a key that says what it does, such as "
        "'op', 'net', 'loop' or 'if'.",
        "steps:\n  - lop: 3\n    steps: [n += 1]",
    ),
    "E028": Code(
        "exactly one key is needed",
        "An item of 'stop' has one condition, and a reader one source. Several conditions are "
        "several items, any of which stops the job.",
        "stop: [{epochs: 3, time: 2h}]      # write: [{epochs: 3}, {time: 2h}]",
    ),
    "E029": Code(
        "an unknown version of the spec language",
        "'jobrun: 1' says which version of the language the file is written in. A later version "
        "needs a later jobrun.",
        "jobrun: 2",
    ),
    "E030": Code(
        "not a duration",
        "Durations have a unit: 250ms, 90s, 30m, 4h, 2d. 'every' of a checkpoint also takes "
        "epochs: 5ep.",
        "epoch: [{task: t, timeout: 90}]      # write: 90s",
    ),
    "E031": Code(
        "a key without a value",
        "Nothing stands behind the ':'. Leave the key out to get its default.",
        "stop:\n  - epochs:",
    ),
    "E032": Code(
        "names that differ in case only",
        "Each node has files of its name, and some file systems take 'Worker' and 'worker' for "
        "the same file. The members of a counted node count too.",
        "nodes: {w: {count: 2}, W_1: {}}",
    ),
    "E033": Code(
        "too many nodes",
        "A job has at most 100,000 nodes, counted ones included.",
        "nodes: {a: {count: 90000}, b: {count: 90000}}",
    ),
    "E034": Code(
        "an include that cannot be followed",
        "'include' is a list of files, named from the folder of the file that includes them. A "
        "file may not include itself, and a spec has at most 200 files.",
        "include: [common.yaml]",
    ),
    "E036": Code(
        "a param's value does not fit",
        "The value of a param must be of its type, within its bounds, and one of its choices; "
        "a param without a default needs a value from --set or -f.",
        "params: {k: {type: int, default: 1, min: 2}}",
    ),
    "E037": Code(
        "a reference that stands for nothing",
        "${…} is replaced by a param, ${env:NAME,default}, ${run.dir}, ${run.seed}, ${node}, "
        "${epoch} or ${instance}. A param may use those above it. $$ is a dollar, so $${HOME} "
        "reaches the shell as ${HOME}.",
        'steps: [{run: "echo ${HOME}"}]      # write: $${HOME}, or env: [HOME]',
    ),
    "E038": Code(
        "an environment variable that is not set",
        "The spec reads a variable that the environment does not have, and gives no default. "
        "Values of variables are never recorded, only their digest.",
        "checkpoint: {dir: \"${env:SCRATCH}/ckpt\"}      # or ${env:SCRATCH,/tmp}",
    ),
    "E040": Code(
        "--set needs PATH=VALUE",
        "The path leads through the keys of the spec, joined with '.'; an index of a list is "
        "[0] or .0; a key that has a '.' in it is quoted. The value is read as YAML.",
        "jobrun run job.yaml --set params.k=12 --set 'stop[0].epochs=5'",
    ),
    "E041": Code(
        "the value of --set is not YAML",
        "A value that starts with a bracket or a quote is read as YAML and must be whole. "
        "Mind that the shell removes one level of quotes.",
        "jobrun run job.yaml --set 'stop=[{epochs: 5}]'",
    ),
    "E042": Code(
        "--set names an unknown param",
        "A param is declared under 'params' of the spec before an option can give it a value.",
        "jobrun run job.yaml --set params.learning_rat=0.1",
    ),
    "E043": Code(
        "--set leads nowhere",
        "The path goes through a single value, or to an item that a list does not have. The "
        "index behind the last item adds one.",
        "jobrun run job.yaml --set 'stop[7].epochs=5'",
    ),
    "E044": Code(
        "a declaration of what is no state",
        "'state' declares how blobs that init makes, and that every checkpoint holds, lie on the "
        "nodes: parts of one array, or the same on all. A name that no task of init makes at "
        "global level has nothing to be declared.",
        "state: {Uu: {partition: rows}}     # init makes U",
    ),
    "E045": Code(
        "a single value divided by rows",
        "'partition: rows' means that the nodes have parts of one array along its first axis. A "
        "single value has none: either it is the same on all nodes (replicated), or it is kept in "
        "an array with one row for each node.",
        "nodes: {trainer: {count: 2}}\nstate: {loss: {partition: rows}}\n"
        "init: [{task: i, node: trainer, steps: [loss = 0.0]}]\n"
        "epoch: [{task: e, node: trainer, steps: [loss += 1.0]}]",
    ),
    "W100": Code(
        "PyYAML without libyaml",
        "The parser written in Python reads the same, several times slower.",
        "pip install --force-reinstall pyyaml",
    ),
    "W101": Code(
        "a param that looks like a number",
        "Short params take their type from the value, and in YAML 1.2 this value is text. Write "
        "the number that is meant, or quote the text.",
        "params: {n: 1_000}      # write: 1000",
    ),
}  # fmt: skip
