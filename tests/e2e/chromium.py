"""A real browser without a window, driven through the pipe that Chromium offers for that (DevTools protocol)."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PATIENCE = 60.0  # seconds; machines are slow at times


def program() -> str | None:
    """Where Chromium is, if it is."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One page; `requests` are the addresses of everything it asked for, `complaints` what it logged as errors."""

    def __init__(self, profile: Path, *, width: int = 1200, height: int = 900) -> None:
        executable = program()
        assert executable is not None
        (read_ours, write_theirs), (read_theirs, write_ours) = os.pipe(), os.pipe()
        os.set_inheritable(read_theirs, True)
        os.set_inheritable(write_theirs, True)
        # Chromium reads commands from descriptor 3 and writes to descriptor 4.
        moved = f'exec "$0" "$@" 3<&{read_theirs} 4>&{write_theirs}'
        options = [
            *("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--disable-dev-shm-usage"),
            *("--disable-background-networking", "--no-first-run", f"--user-data-dir={profile}"),
            f"--window-size={width},{height}",
        ]
        self._process = subprocess.Popen(
            ["bash", "-c", moved, executable, *options, "about:blank"],
            pass_fds=(read_theirs, write_theirs),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_theirs)
        os.close(write_theirs)
        self._in, self._out = read_ours, write_ours
        self._numbers = itertools.count(1)
        self._rest = b""
        self._session: str | None = None
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._loaded = False

    def __enter__(self) -> Self:
        targets = self._call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._out)
        os.close(self._in)
        self._process.terminate()
        self._process.wait(30)

    def open(self, address: str) -> None:
        """Go to an address and wait until it is there."""
        self._loaded = False
        self._call("Page.navigate", url=address)
        self._wait_for_load()

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def text(self) -> str:
        """What a person reads."""
        return str(self.run("document.body?.innerText ?? ''"))  # none yet while a page renews itself

    def fill(self, name: str, value: str) -> None:
        """Type into the field of that name."""
        script = '(n, v) => { const f = document.querySelector(`[name="${n}"]`); f.value = v; return f.value === v; }'
        assert self.run(f"({script})({json.dumps(name)}, {json.dumps(value)})") is True

    def press(self, label: str) -> None:
        """Press the button or follow the link that says so, and wait for what comes."""
        script = """(label) => {
            const named = [...document.querySelectorAll("button, a, input[type=submit]")]
                .filter(one => (one.innerText || one.value || "").trim().replace(/\\s+/g, " ") === label);
            if (!named.length) return false;
            for (let up = named[0]; up; up = up.parentElement) if (up.tagName === "DETAILS") up.open = true;
            setTimeout(() => named[0].click(), 0);
            return true;
        }"""
        self._loaded = False
        assert self.run(f"({script})({json.dumps(label)})") is True, f"no {label!r} in {self.text()}"
        self._wait_for_load()

    def wait_for(self, words: str, seconds: float = PATIENCE) -> None:
        """Wait until the page, which renews itself, says something."""
        end = time.monotonic() + seconds
        while words not in self.text():
            assert time.monotonic() < end, f"no {words!r} within {seconds} s in {self.text()}"
            time.sleep(0.3)

    def look(self, *, width: int, dark: bool = False) -> None:
        """Be a screen of that width, in light or dark."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path) -> None:
        """Keep what the whole page looks like."""
        shot = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _wait_for_load(self) -> None:
        end = time.monotonic() + PATIENCE
        while not self._loaded:
            self._read(end)

    def _call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None and not method.startswith("Target."):
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        end = time.monotonic() + PATIENCE
        while True:
            answer = self._read(end)
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def _read(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser says nothing"
            more = os.read(self._in, 1 << 16)
            assert more, "the browser is gone"
            self._rest += more
        line, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        parameters = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Log.entryAdded" if parameters["entry"]["level"] == "error":
                self.complaints.append(parameters["entry"]["text"])
            case "Runtime.exceptionThrown":
                self.complaints.append(str(parameters["exceptionDetails"]))
        return message
