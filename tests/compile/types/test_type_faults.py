from __future__ import annotations

from jobrun.compile.faults import Faults, Place
from jobrun.compile.types.expressions import Misfit
from jobrun.compile.types.type_faults import TypeFaults, render_short
from jobrun.core.errors import Origin
from jobrun.graph.expressions import Binary, Name
from jobrun.ops.abstract_values import SHAPES, MisfitError

ERROR = MisfitError(SHAPES, "shapes do not fit", "mend them")
AT = Origin("t.yaml", 4, 7, 20, 7)


def test_a_misfit_stands_at_its_first_word():
    judge = TypeFaults(Faults())

    judge.add_misfit(
        Misfit(Binary(Name("a", 6), "@", Name("b", 10)), ERROR, is_perhaps=False), "e", AT
    )

    (fault,) = judge.faults.all()
    assert (fault.code, fault.severity) == (SHAPES, "error")
    assert fault.message == "in a @ b: shapes do not fit"
    assert (fault.where.line, fault.where.column) == (4, 13)


def test_in_doubt_it_is_a_warning():
    judge = TypeFaults(Faults(), doubt=1)

    judge.add(ERROR, "", Place("e", AT))
    judge.doubt = 0
    judge.add(ERROR, "other: ", Place("e", AT), perhaps=True)

    assert [(one.code, one.severity) for one in judge.faults.all()] == [("W138", "warning")] * 2


def test_a_long_expression_is_cut():
    long = Name("x" * 64)

    assert render_short(long) == "x" * 59 + "…"
    assert render_short(Name("x")) == "x"
