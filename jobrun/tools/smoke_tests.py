"""Run several specs as smoke tests in parallel, and render the results for CI."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from msgspec import Struct, field

from jobrun.core.child_process import parse_event, python_command, run_and_capture
from jobrun.tools.isolation.isolation import plain_environment

_STOPPED = 75
_UNEXPECTED = 9
_LAST_LINES = 40


class SmokeResult(Struct, frozen=True):
    """The result of one spec's smoke test.

    Attributes:
        spec: As it was named.
        exit_code: Of its run; negative for the signal that killed it.
        seconds: From the start of its process to its end.
        epoch: The last that ran; -1 for none.
        reason: Why it ended, in words.
        faults: What went wrong, as ``jobrun.core.text.fault_text`` lists faults.
        metrics: The last value of each.
        said: The last lines it said.
    """

    spec: str
    exit_code: int
    seconds: float
    epoch: int = -1
    reason: str = ""
    faults: tuple[Mapping[str, Any], ...] = ()
    metrics: Mapping[str, Any] = field(default_factory=dict)
    said: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """Return whether a smoke test ended as expected, or was stopped at the end of its time."""
        return self.exit_code in (0, _STOPPED)

    @property
    def word(self) -> str:
        """Return the result of a smoke test in a word, such as ``passed`` or ``failed``."""
        words = {0: "passed", _STOPPED: "passed, stopped", _UNEXPECTED: "unexpected"}
        return words.get(self.exit_code, "failed")


def run_smoke_tests(
    specs: Sequence[str],
    words: Sequence[str],
    run_dir: Path,
    jobs: int,
    listen: Callable[[SmokeResult], None],
    variables: Callable[[str], Mapping[str, str]] = lambda _: {},
) -> tuple[SmokeResult, ...]:
    """Run specs as smoke tests, each in its own process, several at a time.

    Args:
        specs: Their files.
        words: Further words of each command line, such as ``--epochs 2``.
        run_dir: Where their runs go.
        jobs: How many at a time.
        listen: Called with each result, from any thread.
        variables: Makes the further environment variables of a spec's process, by the spec.

    Returns:
        One result per spec, in their order.
    """

    def work(spec: str) -> SmokeResult:
        environment = {**plain_environment(), **variables(spec)}
        result = _run(spec, [*words, "--run-dir", str(run_dir)], environment)
        listen(result)
        return result

    with ThreadPoolExecutor(jobs) as pool:
        return tuple(pool.map(work, specs))


def _run(spec: str, words: Sequence[str], environment: Mapping[str, str]) -> SmokeResult:
    command = python_command("jobrun", "run", spec, "--resume", "never", "--json")
    started = time.monotonic()
    done = run_and_capture([*command, "--log-format", "json", *words], environment=environment)
    seconds = time.monotonic() - started
    ended = parse_event(done.stdout)
    faults, last_lines = _split_output(done.stderr)
    first = faults[0]["message"] if faults else ""
    return SmokeResult(
        spec,
        done.returncode,
        seconds,
        ended.get("epoch", -1),
        ended.get("reason") or first,
        faults,
        ended.get("metrics", {}),
        last_lines,
    )


def _split_output(text: str) -> tuple[tuple[Mapping[str, Any], ...], tuple[str, ...]]:
    """Split the output of a smoke test into error events and the last lines of text."""
    faults, last_lines = [], []
    for line in text.splitlines():
        event = parse_event(line)
        match event.get("event"):
            case "Fault":
                faults.append(event)
            case "Logged":
                last_lines.append(f"{event['task']}: {event['text']}")
            case None:
                last_lines.append(line)
            case _:
                pass
    return tuple(fault for fault in faults if fault["severity"] == "error"), tuple(
        last_lines[-_LAST_LINES:]
    )


def junit(results: Sequence[SmokeResult]) -> str:
    """Render the results of smoke tests as JUnit XML, one test case per spec."""
    bad = [result for result in results if not result.good]
    unexpected = sum(result.exit_code == _UNEXPECTED for result in bad)
    suite = ET.Element(
        "testsuite",
        name="jobrun",
        tests=str(len(results)),
        failures=str(unexpected),
        errors=str(len(bad) - unexpected),
        time=f"{sum(result.seconds for result in results):.3f}",
    )
    for result in results:
        case = ET.SubElement(
            suite, "testcase", classname="jobrun", name=result.spec, time=f"{result.seconds:.3f}"
        )
        if not result.good:
            kind = "failure" if result.exit_code == _UNEXPECTED else "error"
            problem = ET.SubElement(
                case, kind, message=_clean(result.reason), type=str(result.exit_code)
            )
            problem.text = _clean("\n".join(_fault_line(fault) for fault in result.faults))
        if result.said:
            ET.SubElement(case, "system-out").text = _clean("\n".join(result.said))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def markdown(results: Sequence[SmokeResult]) -> str:
    """Convert results of smoke tests to a Markdown table, a row per spec, for use in CI."""
    lines = ["| spec | result | epochs | seconds | why |", "|---|---|---|---|---|"]
    for result in results:
        mark = "✅" if result.good else "❌"
        epoch = str(result.epoch) if result.epoch >= 0 else ""
        cells = (
            f"`{result.spec}`",
            f"{mark} {result.word}",
            epoch,
            f"{result.seconds:.1f}",
            result.reason,
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    for result in results:
        if not result.good:
            lines += ["", f"**{result.spec}**", "```", *map(_fault_line, result.faults), "```"]
    return "\n".join(lines) + "\n"


def _fault_line(fault: Mapping[str, Any]) -> str:
    position = f"{fault['file']}:{fault['line']}:{fault['column']}  " if fault.get("line") else ""
    path = f"{fault['path']}: " if fault.get("path") else ""
    mend = f" ({fault['mend']})" if fault.get("mend") else ""
    return f"error[{fault['code']}] {position}{path}{fault['message']}{mend}"


def _clean(text: str) -> str:
    # XML 1.0 has no way to write them.
    return "".join(
        character if character in "\t\n" or ord(character) >= 32 else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )
