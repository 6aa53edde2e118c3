"""Drive a real browser over its debugging pipe: pages, pictures, keys, pointer, requests."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
_TIMEOUT_S = 30.0


def executable() -> str:
    """Find the browser of this machine."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    assert path, f"none of {', '.join(NAMES)} is installed"
    return path


@contextmanager
def browsing(folder: Path):
    """Open a tab of a new browser with an empty profile in ``folder``."""
    to_read, to_write = os.pipe(), os.pipe()
    # The browser reads commands from descriptor 3, and answers on 4.
    shell = f'exec "$0" "$@" 3<&{to_read[0]} 4>&{to_write[1]}'
    process = subprocess.Popen(
        ["bash", "-c", shell, executable(), *_FLAGS, f"--user-data-dir={folder / 'profile'}"],
        pass_fds=(to_read[0], to_write[1]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read[0])
    os.close(to_write[1])
    try:
        yield Tab(to_write[0], to_read[1])
    finally:
        os.close(to_read[1])
        process.terminate()
        try:
            process.wait(100)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(to_write[0])


class Tab:
    """One tab of the browser; what it logs and requests is kept."""

    def __init__(self, answers: int, commands: int) -> None:
        self._answers, self._commands = answers, commands
        self._held = b""
        self._number = 0
        self._session = ""
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.loaded = 0
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def open(self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Show a file, and wait for its load event."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        before = self.loaded
        self.send("Page.navigate", url=path.absolute().as_uri())
        self._until(lambda: self.loaded > before)

    def value(self, expression: str):
        """Evaluate a JavaScript expression; return its value as JSON has it."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def box(self, selector: str) -> tuple[float, float, float, float]:
        """Return left, top, width and height of an element in the window, after scrolling to it."""
        return tuple(
            self.value(
                "(e => {e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
                " return [b.left, b.top, b.width, b.height]})"
                f"(document.querySelector({json.dumps(selector)}))"
            )
        )

    def pointer(self, kind: str, x: float, y: float, **more) -> None:
        """Send a pointer event: ``mouseMoved``, ``mousePressed``, ``mouseReleased`` and so on."""
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def press(self, key: str) -> None:
        """Press and release a key."""
        text = {"text": key} if len(key) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self, path: Path) -> None:
        """Render the whole page as a PNG file."""
        size = self.value("[document.documentElement.scrollWidth, document.body.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
        answer = self.send("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def send(self, method: str, **params):
        """Send one command of the debugging protocol; return its answer."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        answer: list = []
        self._until(
            lambda: bool(answer),
            lambda message_: message_.get("id") == number and answer.append(message_),
        )
        assert "error" not in answer[0], (method, answer[0])
        return answer[0]["result"]

    def _until(self, done, look=lambda message_: None) -> None:
        deadline = time.monotonic() + _TIMEOUT_S
        while not done():
            remaining_s = deadline - time.monotonic()
            assert remaining_s > 0, "the browser does not answer"
            if not select.select([self._answers], [], [], remaining_s)[0]:
                continue
            got = os.read(self._answers, 1 << 20)
            assert got, "the browser has gone"
            self._held += got
            while b"\0" in self._held:
                line, self._held = self._held.split(b"\0", 1)
                message = json.loads(line)
                self._see(message)
                look(message)

    def _see(self, message) -> None:
        params = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self.loaded += 1
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(params["exceptionDetails"])[:500])
            case "Runtime.consoleAPICalled":
                self.errors.append(json.dumps(params["args"])[:500])
            case "Log.entryAdded":
                self.errors.append(params["entry"]["text"])
            case _:
                pass
