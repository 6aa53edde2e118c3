import pytest
from pydantic import ValidationError

from jobrun.spec.models.job import JobSpec
from jobrun.spec.models.validation_errors import describe_value, model_faults
from jobrun.spec.yaml.nodes import SourceMap, plain
from jobrun.spec.yaml.parse import read_document
from tests.support.tables import each_case

HEADER = "jobrun: 1\nname: a\n"


def _fault(body, header=HEADER):
    root = read_document(header + body, "job.yaml").root
    with pytest.raises(ValidationError) as caught:
        JobSpec.model_validate(plain(root))
    (fault,) = model_faults(caught.value, JobSpec, SourceMap(root))
    return fault


# One line per kind of error: body, code, line:column, path, words of the message, of the mend.
KINDS = [
    ("epoch: [{steps: []}]", "E020", "3:9", "epoch[0].task", "missing key", "unique in the job"),
    ("stp: 1", "E021", "3:1", "stp", "unknown key", "did you mean 'stop'?"),
    ("zzz: 1", "E021", "3:1", "zzz", "unknown key", "allowed here: adapt, blas_threads"),
    ("k: 1\nparams: {k: 2}", "E021", "3:1", "k", "unknown key", "did you mean 'params.k'?"),
    ("seed: x", "E022", "3:7", "seed", "expected an integer, found the text 'x'", "write"),
    ("seed: '3'", "E022", "3:7", "seed", "found the text '3'", "without quotes"),
    ("description: 3", "E022", "3:14", "description", "found the number 3", "quote it"),
    ("stop: {epochs: 3}", "E022", "3:7", "stop", "expected a list, found a mapping", "'- '"),
    ("stop: 3", "E022", "3:7", "stop", "expected a list", "put it in [ ]"),
    ("stop: [3]", "E022", "3:8", "stop[0]", "expected a mapping", "write a mapping"),
    ("nodes: [a]", "E022", "3:8", "nodes", "expected a mapping, found a list", "write"),
    ("init: 3", "E022", "3:7", "init", "expected a list or a mapping", "write"),
    ("metrics: {a: }", "E022", "3:11", "metrics.a", "found nothing", "write a value"),
    ("queues: {q: {shared: no}}", "E023", "3:22", "queues.q.shared", "two", "write false"),
    ("seed: 010", "E023", "3:7", "seed", "two", "write 8 or 10"),
    ("margin: 1:30", "E023", "3:9", "margin", "two", "write 90s"),
    ("checkpoint: {every: 1:30}", "E023", "3:21", "checkpoint.every", "two", "write 90s"),
    ("seed: -1", "E024", "3:7", "seed", "expected 0 or more, found -1", "write 0 or more"),
    ("epoch: [{task: t, steps: [{save: {}}]}]", "E024", "3:34", "epoch[0].steps[0].save",
     "it is empty", "at least one"),
    ("epoch: [{task: t, on_error: wran}]", "E025", "3:29", "epoch[0].on_error",
     "expected 'fail' or 'warn'", "did you mean 'warn'?"),
    ("checkpoint: never", "E025", "3:13", "checkpoint", "'none' or a mapping", "none"),
    ("nodes: {a b: {}}", "E026", "3:9", "nodes.a b", "expected a name, found the text", "file"),
    ("metrics: {a-b: x}", "E026", "3:11", "metrics.a-b", "a blob's name", "digits and '_'"),
    ("nets: {n: [{lop: 3}]}", "E027", "3:12", "nets.n[0]", "unknown step", "did you mean 'loop'?"),
    ("nets: {n: [far: 0.0]}", "E027", "3:12", "nets.n[0]", "unknown step", "write 'far = 0.0'"),
    ('nets: {n: [if x > 3: x = 0]}', "E027", "3:12", "nets.n[0]", "unknown step",
     'write {if: "x > 3", then: ["x = 0"]}'),
    ('nets: {n: [while x > 3: x -= 1]}', "E027", "3:12", "nets.n[0]", "unknown step",
     'write {while: "x > 3", steps: ["x -= 1"]}'),
    ('nets: {n: [for i in range(3): x += i]}', "E027", "3:12", "nets.n[0]", "unknown step",
     'write {loop: 3, as: i, steps: ["x += i"]}'),
    ('nets: {n: [for i in range(len(x) - 1): x += i]}', "E027", "3:12", "nets.n[0]",
     "unknown step", 'write {loop: count, as: i, steps: ["x += i"]}'),
    ('nets: {n: [for i in range(k): [x += i]]}', "E027", "3:12", "nets.n[0]", "unknown step",
     "write {loop: k, as: i, steps: […]}"),
    ('nets: {n: [if x > 3: [x = 0]]}', "E027", "3:12", "nets.n[0]", "unknown step",
     'write {if: "x > 3", then: […]}'),
    ('nets: {n: [while x > 3: [x -= 1]]}', "E027", "3:12", "nets.n[0]", "unknown step",
     'write {while: "x > 3", steps: […]}'),
    ('nets: {n: [print: "{x}"]}', "E027", "3:12", "nets.n[0]", "unknown step",
     'write {log: "{x}"}'),
    ("nets: {n: [x: int = 3]}", "E027", "3:12", "nets.n[0]", "unknown step", "write 'x = 3'"),
    ("nets: {n: ['d = {a': '1}']}", "E027", "3:12", "nets.n[0]", "unknown step", "in quotes"),
    ("nets: {n: ['f = lambda a': a]}", "E027", "3:12", "nets.n[0]", "unknown step", "in quotes"),
    ("nets: {n: [{for: i, in: 3}]}", "E027", "3:12", "nets.n[0]", "unknown step",
     "write {loop: count, as: i, steps: […]}"),
    ("nets: {n: [{shell: ls}]}", "E027", "3:12", "nets.n[0]", "unknown step",
     'write {run: "ls"}'),
    ("nets: {n: [{python: mine.step}]}", "E027", "3:12", "nets.n[0]", "unknown step",
     "write {call: "),
    ("nets: {n: [{loop: 3, steps: [], do: []}]}", "E021", "3:33", "nets.n[0].do",
     "unknown key", "did you mean 'steps'?"),
    ('nets: {n: [{call: "m:f", args: {}}]}', "E021", "3:26", "nets.n[0].args",
     "unknown key", "did you mean 'with'?"),
    ('nets: {n: [{call: "m:f", with: [x]}]}', "E022", "3:32", "nets.n[0].with",
     "found a list", "under its name in the function"),
    ("nets: {n: [{metric: x}]}", "E022", "3:21", "nets.n[0].metric", "found the text",
     "write metric: {x: x}"),
    ("nets: {n: [{save: out/x.npy}]}", "E022", "3:19", "nets.n[0].save", "found the text",
     'write save: {x: "out/x.npy"}'),
    ('nets: {n: [{call: "m:f(x)"}]}', "E022", "3:19", "nets.n[0].call", "pkg.mod:function",
     "write 'm:f', and its arguments in 'with'"),
    ("nets: {n: [{call: m.f}]}", "E022", "3:19", "nets.n[0].call", "pkg.mod:function", "'m:f'"),
    ('nets: {n: [{if: x > 3, then: [x = 0], steps: [x = 0]}]}', "E021", "3:39",
     "nets.n[0].steps", "unknown key", "did you mean 'then'?"),
    ("nets: {n: [3]}", "E027", "3:12", "nets.n[0]", "found the number 3", "a statement such as"),
    ("stop: [{}]", "E028", "3:8", "stop[0]", "found none", "use one of: data_finished"),
    ("stop: [{epochs: 1, time: 1s}]", "E028", "3:8", "stop[0]", "found epochs, time", "own"),
    ("readers: {r: {npz: a, fields: {x: {values: v}}}}", "E020", "3:35",
     "readers.r.fields.x.lengths", "missing key", "add 'lengths: "),
    ("readers: {r: {npz: a, fields: {x: {values: v, lengths: n, n: 1}}}}", "E021", "3:59",
     "readers.r.fields.x.n", "unknown key", "lengths, values"),
    ("readers: {r: {npz: a, fields: {x: [v, n]}}}", "E022", "3:35", "readers.r.fields.x",
     "found a list", "write a single value or a mapping"),
    ("readers: {r: {npz: a, fields: {x: {values: v, lengths: 3}}}}", "E022", "3:56",
     "readers.r.fields.x.lengths", "expected text", "quote it"),
    ("readers: {r: {npy: a, csv: b}}", "E028", "3:14", "readers.r", "found npy, csv", "use one"),
    ("margin: 90", "E030", "3:9", "margin", "found the number 90", "write 90s, 90m or 90h"),
    ("margin: soon", "E030", "3:9", "margin", "such as 90s", "ms s m h d"),
    ("checkpoint: {every: 5}", "E030", "3:21", "checkpoint.every", "such as 5ep", "5ep or 5s"),
    ("checkpoint: {every: x}", "E030", "3:21", "checkpoint.every", "such as 5ep", "ep s m h d"),
    ("margin:", "E031", "3:1", "margin", "the key has no value", "remove the key"),
    ("params: {a: {default: 1, max: .inf}}", "E022", "3:31", "params.a.max", "finite", "write"),
    ("params: {a: [1]}", "E022", "3:13", "params.a", "expected a value", "write"),
    ("nets: {n: [{call: f}]}", "E022", "3:19", "nets.n[0].call", "pkg.mod:function", "':'"),
]  # fmt: skip


@each_case(("body", "code", "position", "path", "message", "mend"), KINDS)
def test_each_kind_of_error(body, code, position, path, message, mend):
    fault = _fault(body)

    assert (fault.code, str(fault.where), fault.path) == (code, f"job.yaml:{position}", path)
    words = "in YAML 1.1 and" if message == "two" else message
    assert words in fault.message
    assert mend in fault.mend


def test_another_version_of_the_language():
    fault = _fault("", header="jobrun: 2\nname: a\n")

    assert (fault.code, str(fault.where), fault.mend) == ("E029", "job.yaml:1:9", "write jobrun: 1")


def test_a_missing_name_is_reported_at_the_start():
    fault = _fault("", header="jobrun: 1\n")

    assert (fault.code, fault.path, fault.where.line) == ("E020", "name", 1)


@each_case(
    ("value", "words"),
    [(None, "nothing"), (True, "true"), (False, "false"), (3, "the number 3"), ([], "a list"),
     (2.5, "the number 2.5"), ("x", "the text 'x'"), ({}, "a mapping"), ((), "a list"),
     ("a" * 99, "the text '" + "a" * 39 + "…'"), ("\x1b", "the text '\\x1b'")],
)  # fmt: skip
def test_a_value_in_a_few_words(value, words):
    assert describe_value(value) == words
