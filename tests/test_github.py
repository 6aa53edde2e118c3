"""The files that GitHub reads: pinned actions, templates that ask for what is needed."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

FOLDER = Path(__file__).parent.parent / ".github"
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")


def test_each_action_is_pinned_to_a_commit_with_its_version():
    uses = [
        line.partition("uses:")[2].strip()
        for path in sorted(FOLDER.glob("workflows/*.yml"))
        for line in path.read_text().splitlines()
        if "uses:" in line
    ]

    assert len(uses) >= 4
    assert [action for action in uses if not PINNED.fullmatch(action)] == []


def test_a_report_of_a_fault_needs_the_output_of_doctor():
    template = yaml.safe_load((FOLDER / "ISSUE_TEMPLATE" / "bug.yml").read_text())
    (doctor,) = (item for item in template["body"] if item.get("id") == "doctor")

    assert "jobrun doctor" in doctor["attributes"]["label"]
    assert doctor["validations"]["required"] is True


def test_a_pull_request_asks_for_why_and_for_the_output_of_doctor():
    text = (FOLDER / "PULL_REQUEST_TEMPLATE.md").read_text()

    assert "**Why**" in text
    assert "jobrun doctor" in text
    assert "72 characters" in text
