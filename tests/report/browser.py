"""A headless Chromium for the tests, spoken to in its DevTools protocol over a pair of pipes.

Pipes need no port, which tests that run side by side would fight for, and no package.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
HOW_TO_GET_IT = "the report was not opened in a browser, as there is none: sudo apt-get install chromium"
# Generous, because a test must pass on a machine that is busy with others.
PATIENCE = 120.0
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--no-first-run",
    "--force-device-scale-factor=1",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)

# Chromium reads from descriptor 3 and writes to 4, whatever numbers the pipes have here.
LAUNCHER = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find_browser() -> str | None:
    """The path of a Chromium, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One tab; keeps what the page said to the console and what it asked the network for."""

    def __init__(self, executable: str) -> None:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        command = [executable, *OPTIONS, f"--user-data-dir={self._profile.name}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, str(to_read), str(to_write), *command],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._loaded = False
        targets = self.send("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.send("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        self.prefer()
        for domain in ("Page", "Runtime", "Log", "Network", "DOM", "Accessibility"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        """End the process and forget its profile."""
        try:
            self._session = None
            self.send("Browser.close")
            self._process.wait(timeout=20)
        except (OSError, EOFError, TimeoutError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)
        self._profile.cleanup()

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the protocol and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        number = self._number
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._read, 1 << 20)
            if not piece:
                raise EOFError("the browser has ended")
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, event: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(event["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(event["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.complaints.append(json.dumps(event["entry"]))
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(json.dumps(event["args"]))

    def open(self, page: Path, *, width: int = 1280, height: int = 900, touch: bool = False) -> float:
        """Open a file, wait until it is loaded and drawn, and return the seconds that took."""
        self.complaints, self.requests, self._loaded = [], [], False
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=touch,
        )
        began = time.perf_counter()
        self.send("Page.navigate", url=page.resolve().as_uri())
        while not self._loaded:
            self._receive()
        # Two frames later everything that the page draws on loading is on the screen.
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
        return time.perf_counter() - began

    def run(self, expression: str) -> Any:
        """Evaluate JavaScript in the page, waiting for promises; return what JSON can hold of the result."""
        result = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"], indent=1))
        return result["result"].get("value")

    def until(self, expression: str) -> Any:
        """Wait until an expression is true."""
        deadline = time.monotonic() + PATIENCE
        while not (value := self.run(expression)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"this never became true: {expression}")
            time.sleep(0.02)
        return value

    def prefer(self, **features: str) -> None:
        """Set media features, such as prefers_color_scheme="dark"; medium="print" sets the medium.

        Motion is reduced unless asked for: what scrolls smoothly is elsewhere by the time it is clicked on.
        """
        medium = features.pop("medium", "")
        features = {"prefers_reduced_motion": "reduce", "prefers_color_scheme": "light", **features}
        wanted = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.send("Emulation.setEmulatedMedia", media=medium, features=wanted)

    def point(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Send an event of the mouse: mouseMoved, mousePressed, mouseReleased, mouseWheel."""
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, selector: str) -> None:
        """Click in the middle of an element, scrolled into view."""
        x, y = self.middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.point(kind, x, y, button="left", clickCount=1)

    def middle(self, selector: str) -> tuple[float, float]:
        """Where the middle of an element is on the screen, after scrolling to it."""
        box = self.run(
            f"(() => {{ const it = document.querySelector({json.dumps(selector)});"
            "it.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const box = it.getBoundingClientRect();"
            "return [box.left + box.width / 2, box.top + box.height / 2]; })()"
        )
        return box[0], box[1]

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press and release a key; ``code`` is the Windows key code that the protocol asks for."""
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Save what the page looks like."""
        import base64

        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))
