from __future__ import annotations

from jobrun.compile.faults import Faults, Place
from jobrun.compile.shape_eval import Misfit
from jobrun.compile.shape_judge import Judge, shown
from jobrun.core.origin import Origin
from jobrun.graph.expr import Binary, Name
from jobrun.ops.arguments import SHAPES, MisfitError

ERROR = MisfitError(SHAPES, "shapes do not fit", "mend them")
AT = Origin("t.yaml", 4, 7, 20, 7)


def test_a_misfit_stands_at_its_first_word():
    judge = Judge(Faults())

    judge.note(Misfit(Binary(Name("a", 6), "@", Name("b", 10)), ERROR, is_perhaps=False), "e", AT)

    (fault,) = judge.faults.all()
    assert (fault.code, fault.severity) == (SHAPES, "error")
    assert fault.message == "in a @ b: shapes do not fit"
    assert (fault.where.line, fault.where.column) == (4, 13)


def test_in_doubt_it_is_a_warning():
    judge = Judge(Faults(), doubt=1)

    judge.tell(ERROR, "", Place("e", AT))
    judge.doubt = 0
    judge.tell(ERROR, "other: ", Place("e", AT), perhaps=True)

    assert [(one.code, one.severity) for one in judge.faults.all()] == [("W138", "warning")] * 2


def test_a_long_expression_is_cut():
    long = Name("x" * 64)

    assert shown(long) == "x" * 59 + "…"
    assert shown(Name("x")) == "x"
