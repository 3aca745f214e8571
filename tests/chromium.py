"""A headless Chromium driven over its debugging pipe: JSON messages on file descriptors 3 and 4, each ended by a zero byte."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
"""The first takes a third of the others' computing: it has no window that isn't shown."""
QUIET = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run"),
    *("--disable-background-networking", "--disable-breakpad", "--disable-component-update", "--disable-default-apps"),
    *("--disable-extensions", "--disable-component-extensions-with-background-pages", "--disable-sync", "--metrics-recording-only"),
    "--disable-features=BackForwardCache,MediaRouter,OptimizationHints,SpareRendererForSitePerProcess,Translate",
)
"""One page after the other, and nothing beside them: no GPU, crash reports, updates, or processes and pages kept for later."""


def find_browser():
    """The browser's path; None where there is none."""
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


class Browser:
    """One browser with one page; ``errors`` collects uncaught exceptions, console errors and refused loads."""

    def __init__(self, profile, timeout=120.0):
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        self._number, self._buffer, self.timeout = 0, b"", timeout
        self.errors, self.view, self._loaded = [], None, set()
        command = [find_browser(), *QUIET, "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        # the shell moves our pipes to 3 and 4, whatever their numbers are here
        moved = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["bash", "-c", moved, "bash", *command],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = None
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def call(self, method, **params):
        """Call a method of the debugging protocol and wait for what it returns."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if getattr(self, "_session", None):
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, url, width=1400, height=900, dark=False, scripts=True):
        """Open a page and wait until it is loaded and painted; return the seconds that took."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        if "#" in url:
            self.call("Page.navigate", url="about:blank")  # else the page that is there only scrolls
        started = time.perf_counter()
        loader = self.call("Page.navigate", url=url).get("loaderId")
        while loader is not None and loader not in self._loaded:
            self._receive()
        if scripts:
            self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.view = (url, width, height, dark, scripts)
        return time.perf_counter() - started

    def run(self, expression):
        """The value of a JavaScript expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"])
        return found["result"].get("value")

    def press(self, key):
        """Press and release a key, as a user does."""
        text = key if len(key) == 1 else ""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def visible_text(self, expected):
        """The text that is laid out, also where scripts are disabled; asks again until ``expected`` is there, as layout comes in frames."""
        until, text = time.monotonic() + self.timeout / 3, ""
        while expected not in text and time.monotonic() < until:
            self.call("Page.captureScreenshot", format="jpeg", quality=1)  # has a frame made
            found = self.call("DOMSnapshot.captureSnapshot", computedStyles=[])
            text = " ".join(found["strings"][place] for place in found["documents"][0]["layout"]["text"] if place >= 0)
        return text

    def screenshot(self, path, full=False):
        """Save what the page shows as PNG; with ``full`` all of it."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        Path(path).write_bytes(base64.b64decode(shot["data"]))

    def close(self):
        """End the browser."""
        os.close(self._write)
        os.close(self._read)
        self._process.terminate()
        self._process.wait(120)

    def _receive(self):
        until = time.monotonic() + self.timeout
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], max(0.0, until - time.monotonic()))[0]:
                raise TimeoutError(f"the browser said nothing for {self.timeout} s")
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise RuntimeError("the browser has ended")
            self._buffer += chunk
        raw, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(raw)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method, params):
        if method == "Runtime.exceptionThrown" or (method == "Runtime.consoleAPICalled" and params["type"] == "error"):
            self.errors.append(json.dumps(params))
        if method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        if method == "Page.frameNavigated" and "parentId" not in params["frame"]:
            self.errors.clear()  # they are of the page before
        if method == "Page.lifecycleEvent" and params["name"] == "load":
            self._loaded.add(params["loaderId"])
