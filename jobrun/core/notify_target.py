"""Define where news of a run is sent: a URL that gets JSON, or a command that gets it on stdin."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Literal, get_args
from urllib.parse import urlsplit

from msgspec import Struct

News = Literal["finished", "failed", "stopped", "no_progress", "node_lost"]
ALL_NEWS: tuple[News, ...] = get_args(News)


_NEWS_OF_CODE: dict[int, News] = {0: "finished", 75: "stopped", 130: "stopped"}


def news_of_exit(exit_code: int) -> News:
    """Map a run's exit code to the news that a ``NotifyTarget`` receives, such as ``finished``."""
    return _NEWS_OF_CODE.get(exit_code, "failed")


class NotifyTarget(Struct, frozen=True):
    """One receiver of news of a run.

    Attributes:
        on: Which news it gets.
        post: An http or https URL; empty where ``run`` is given.
        run: A command, as an argument list.
    """

    on: tuple[News, ...] = ALL_NEWS
    post: str = ""
    run: tuple[str, ...] = ()

    def describe(self) -> str:
        """Describe a notify target as text without secrets: a URL's host, or a command's name."""
        if self.post:
            parts = urlsplit(self.post)
            return f"{parts.scheme}://{parts.hostname or '?'}/…"
        return f"the command '{self.run[0]}'"


def check_target(target: NotifyTarget) -> str:
    """Return why a notify target is invalid, without its secrets; empty if it is valid."""
    if bool(target.post) == bool(target.run):
        return "a notification needs either 'post' (a URL) or 'run' (a command)"
    if target.run:
        return "" if target.run[0] else "the command of a notification is empty"
    try:
        parts = urlsplit(target.post)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"the URL of a notification cannot be read: {error}"
    if not parts.scheme:
        return "the URL of a notification has no scheme"
    if parts.scheme not in ("http", "https"):
        return f"'{parts.scheme}:' is no scheme for a notification"
    if not host or any(
        character.isspace() or not character.isprintable() for character in target.post
    ):
        return "the URL of a notification names no host"
    return ""


def describe_target(text: str) -> str:
    """Describe the notify target given by a command-line option, without its secrets."""
    try:
        (target,) = parse_targets([text])
    except ValueError:
        return "…"
    return target.describe() if target.post else target.run[0]


def parse_targets(texts: Sequence[str]) -> tuple[NotifyTarget, ...]:
    """Parse each text as a ``NotifyTarget``: a URL to post JSON to, or a command to run.

    Raises:
        ValueError: One is neither; the message says why, without its secrets.
    """
    targets = []
    for text in texts:
        is_url = "://" in text.partition(" ")[0]
        target = NotifyTarget(post=text) if is_url else NotifyTarget(run=tuple(shlex.split(text)))
        if why := check_target(target):
            raise ValueError(why)
        targets.append(target)
    return tuple(targets)
