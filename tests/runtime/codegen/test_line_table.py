"""The place of an instruction is found without a variable that notes it."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from jobrun.core.errors import Origin
from jobrun.runtime.codegen.line_table import StepLocation, find_location, locate, location_number

PLACES = tuple(StepLocation(f"e/t/steps[{index}]", Origin("job.yaml", 7, 5)) for index in range(3))


def code_of(*lines: str):
    body = []
    for number, line in enumerate(lines):
        nodes = ast.parse(line).body
        for node in ast.walk(ast.Module(nodes, [])):
            for name in ("lineno", "end_lineno", "col_offset", "end_col_offset"):
                if hasattr(node, name):
                    delattr(node, name)
        locate(nodes, PLACES[number].origin, number)
        body += nodes
    return compile(ast.fix_missing_locations(ast.Module(body, [])), "job.yaml", "exec")


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_of_equal_lines_the_one_that_failed_is_found(failing):
    lines = ["1 / 1"] * 3
    lines[failing] = "1 / 0"
    code = code_of(*lines)

    with pytest.raises(ZeroDivisionError) as caught:
        exec(code, {})

    trace = caught.tb
    while trace.tb_next:
        trace = trace.tb_next
    assert find_location(code, trace.tb_lasti, PLACES) is PLACES[failing]
    assert trace.tb_lineno == 7


def test_before_the_first_instruction_the_first_location_is_returned():
    assert find_location(code_of("1 / 1"), -1, PLACES) is PLACES[0]


def test_nodes_with_a_location_keep_it():
    inner = ast.parse("pass").body
    del inner[0].lineno
    locate(inner, Origin("job.yaml", 3), 1)
    locate(inner, Origin("job.yaml", 4), 2)

    assert inner[0].lineno == 3


def test_without_columns_the_line_determines_the_location():
    script = (
        "from tests.runtime.codegen.test_line_table import *\n"
        "places = (StepLocation('a', Origin('f', 1)), StepLocation('b', Origin('f', 2)))\n"
        "code = compile('x = 1\\ny = 2\\nz = 3', 'f', 'exec')\n"
        "offset = [i for i, p in enumerate(code.co_positions()) if p[0] == 2][0] * 2\n"
        "assert list(code.co_positions())[0][2] is None\n"
        "assert find_location(code, offset, places).path == 'b'\n"
        "assert find_location(code, len(code.co_code) - 2, places).path == 'a'\n"
    )

    subprocess.run([sys.executable, "-X", "no_debug_ranges", "-c", script], check=True)


def test_the_number_of_a_place_is_read_from_the_statement():
    (placed, bare) = ast.parse("a = 1\nb = 2").body
    for node in ast.walk(placed):
        for name in ("lineno", "end_lineno", "col_offset", "end_col_offset"):
            if hasattr(node, name):
                delattr(node, name)

    locate([placed], Origin("job.yaml", 4, 3), 7)

    assert location_number(placed) == 7
    assert location_number(bare) is None
    assert location_number(ast.Pass()) is None
