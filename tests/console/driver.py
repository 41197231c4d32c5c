"""A headless Chromium by the W3C's WebDriver protocol, which Debian's chromedriver speaks."""

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import Request, urlopen

from psp.servers.ports import PortAllocator
from psp.waiting import wait_until

PROGRAM = shutil.which("chromedriver")
WAIT_S = 30


class Browser:
    def __init__(self, address: str) -> None:
        self._address = address
        wanted = {
            "goog:chromeOptions": {"args": ["--headless=new", "--no-sandbox", "--disable-gpu"]},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        made = self._send("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        self._address += f"/{made['sessionId']}"

    def _send(self, method: str, path: str, value: Any = None) -> Any:
        body = None if method in ("GET", "DELETE") else json.dumps(value or {}).encode()
        request = Request(f"{self._address}{path}", body, {"Content-Type": "application/json"}, method=method)
        with urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, url: str) -> None:
        self._send("POST", "/url", {"url": url})

    def run(self, script: str) -> Any:
        return self._send("POST", "/execute/sync", {"script": script, "args": []})

    def wait(self, script: str) -> Any:
        return wait_until(script, lambda: self.run(f"return {script}"), WAIT_S)

    def size(self, width: int, height: int) -> None:
        """Of the page. (A window cannot be so narrow.)"""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        command = {"cmd": "Emulation.setDeviceMetricsOverride", "params": size}
        self._send("POST", "/goog/cdp/execute", command)

    def theme(self, name: str) -> None:
        features = {"features": [{"name": "prefers-color-scheme", "value": name}]}
        self._send("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": features})

    def press(self, key: str) -> None:
        keys = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self._send("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": keys}]})

    def messages(self) -> list[str]:
        """What the page has made the browser complain about since the last call."""
        return [entry["message"] for entry in self._send("POST", "/se/log", {"type": "browser"})]

    def picture(self) -> bytes:
        """The whole page as a PNG."""
        wanted = {"cmd": "Page.captureScreenshot", "params": {"captureBeyondViewport": True}}
        return base64.b64decode(self._send("POST", "/goog/cdp/execute", wanted)["data"])

    def quit(self) -> None:
        self._send("DELETE", "")


@contextmanager
def browser() -> Iterator[Browser]:
    assert PROGRAM is not None
    port = PortAllocator().take()
    process = subprocess.Popen([PROGRAM, f"--port={port}"], stdout=subprocess.DEVNULL)

    def is_ready() -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{port}/status", timeout=5) as answer:
                return bool(json.load(answer)["value"]["ready"])
        except OSError:
            return False

    try:
        wait_until("chromedriver", is_ready, WAIT_S)
        made = Browser(f"http://127.0.0.1:{port}/session")
        try:
            yield made
        finally:
            made.quit()
    finally:
        process.terminate()
        process.wait()
