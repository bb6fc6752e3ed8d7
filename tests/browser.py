"""Pages opened in a headless Chromium by WebDriver: what they measure there, and what keys do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

BROWSERS, DRIVER = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"), "chromedriver"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
SECONDS = 120
TAB, ENTER = "\ue004", "\ue007"
# Run before anything else in the page, so that it sees every error and every request that the page's policy refuses.
BEFORE = """
window.found = {errors: [], refused: []};
window.addEventListener("error", e => found.errors.push(String(e.message)), true);
document.addEventListener("securitypolicyviolation", e => found.refused.push(e.blockedURI));
"""
# Answers when the page has the focus and has been drawn: keys that are pressed before may be lost.
DRAWN = """
const done = arguments[0], look = () => requestAnimationFrame(document.hasFocus() ? done : look);
requestAnimationFrame(look);
"""
MEASURED = """
const parsed = text => {
  const n = (text.match(/[\\d.]+(e-?\\d+)?/g) || []).map(Number), of = text.startsWith("color(") ? 255 : 1;
  return [n[0] * of, n[1] * of, n[2] * of, n.length > 3 ? n[3] : 1];
};
const light = c => {
  const [r, g, b] = c.slice(0, 3).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = element => {
  let layers = [];
  for (let e = element; e; e = e.parentElement) {
    const style = getComputedStyle(e), colour = parsed(style.backgroundColor);
    if (style.backgroundImage !== "none" && !e.matches(".scroll")) return null;  // .scroll: a shadow at its edge
    layers.push(colour);
    if (colour[3] === 1) break;
  }
  return layers.reverse().reduce((under, c) => under.map((v, k) => k < 3 ? c[3] * c[k] + (1 - c[3]) * v : 1),
                                 [255, 255, 255, 1]);
};
const clipped = e => e.closest(".scroll, .command, nav ul, .skip, .stacked");
found.width = window.innerWidth;
found.page = document.documentElement.scrollWidth;
found.dark = matchMedia("(prefers-color-scheme: dark)").matches;
found.print = matchMedia("print").matches;
found.outside = [...document.querySelectorAll("body *")].filter(e => !clipped(e))
  .filter(e => e.getBoundingClientRect().right > window.innerWidth + 0.5).map(e => e.outerHTML.slice(0, 200));
found.scrolls = [...document.querySelectorAll(".scroll")].map(e => e.getBoundingClientRect().right);
found.hidden = [...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth + 1).length;
found.contrasts = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const text = walker.currentNode.textContent.trim(), e = walker.currentNode.parentElement;
  if (!text || ["STYLE", "SCRIPT"].includes(e.tagName) || !e.checkVisibility()) continue;
  const under = behind(e);
  if (under === null) continue;
  const [a, b] = [light(parsed(getComputedStyle(e).color)), light(under)].sort((x, y) => y - x);
  found.contrasts.push([(a + 0.05) / (b + 0.05), text.slice(0, 60)]);
}
found.sections = [...document.querySelectorAll("main > section")].map(e => e.id);
found.headings = [...document.querySelectorAll("h1, h2, h3, h4")].map(e => Number(e.tagName[1]));
found.text = document.body.innerText;
found.requests = performance.getEntriesByType("resource").map(e => e.name);
found.folded = [...document.querySelectorAll("details")].filter(e => !e.lastElementChild.checkVisibility()).length;
found.dead = [...document.querySelectorAll("a[href]")].map(e => e.getAttribute("href"))
  .filter(to => !to.startsWith("#") || !document.getElementById(to.slice(1)));
return found;
"""
# What has the focus: which of all that can have it, and whether that is seen.
FOCUS = """
const all = [...document.querySelectorAll("a[href], summary, [tabindex='0'], button")].filter(e => e.checkVisibility());
const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
return {index: all.indexOf(e), of: all.length, there: box.bottom > 0 && box.top < window.innerHeight,
        href: e.getAttribute("href"), seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0};
"""


def missing() -> str:
    """What is not installed of a Chromium and its driver; empty if both are."""
    there = any(map(shutil.which, BROWSERS)), shutil.which(DRIVER) is not None
    return " and ".join(name for name, found in zip(("chromium", "chromium-driver"), there, strict=True) if not found)


class Browser:
    """A session of WebDriver."""

    def __init__(self, port: int) -> None:
        self._root, self._opener = f"http://127.0.0.1:{port}/session", build_opener(ProxyHandler({}))
        options = {"binary": next(filter(None, map(shutil.which, BROWSERS))), "args": list(FLAGS)}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self._root += "/" + self._ask("", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def _ask(self, path: str, data: dict[str, Any] | None, method: str = "POST") -> Any:
        body = None if data is None else json.dumps(data).encode()
        request = Request(self._root + path, body, {"Content-Type": "application/json"}, method=method)
        try:
            with self._opener.open(request, timeout=SECONDS) as answer:
                return json.load(answer)["value"]
        except HTTPError as error:
            raise RuntimeError(f"{path}: {json.load(error)['value']['message']}") from error

    def command(self, name: str, **given: Any) -> Any:
        """What a command of the developer tools answers."""
        return self._ask("/goog/cdp/execute", {"cmd": name, "params": given})

    def open(self, page: Path, width: int, *, dark: bool = False, print_: bool = False) -> None:
        """Open a page in a window of this width."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", **size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.command("Emulation.setEmulatedMedia", media="print" if print_ else "", features=scheme)
        self.command("Page.addScriptToEvaluateOnNewDocument", source=BEFORE)
        self._ask("/url", {"url": page.as_uri()})
        self._ask("/execute/async", {"script": DRAWN, "args": []})

    def run(self, script: str) -> Any:
        """What a script returns."""
        return self._ask("/execute/sync", {"script": script, "args": []})

    def wait(self, script: str, wanted: Callable[[Any], bool]) -> Any:
        """What a script returns as soon as that is as wanted: what a key leads to may come after the key."""
        end = time.monotonic() + SECONDS
        while not wanted(found := self.run(script)):
            assert time.monotonic() < end, f"not within {SECONDS} seconds, but {found}"
        return found

    def tab(self, k: int) -> dict[str, Any]:
        """Press the tab key, after which the `k`-th has the focus."""
        self.press(TAB)
        return self.wait(FOCUS, lambda found: found["index"] == k)

    def press(self, key: str) -> None:
        """Press a key and let it go."""
        keys = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        self._ask("/actions", {"actions": [{"type": "key", "id": "keys", "actions": keys}]})

    @property
    def console(self) -> list[str]:
        """What the console has said since it was last asked."""
        return [one["message"] for one in self._ask("/se/log", {"type": "browser"})]

    def close(self) -> None:
        """End the session."""
        self._ask("", None, "DELETE")


@contextmanager
def opened() -> Iterator[Browser]:
    """A browser, and its driver at a free port."""
    with subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as driver:
        assert driver.stdout is not None
        try:
            lines = (re.search(r"successfully on port (\d+)", line) for line in driver.stdout)
            browser = Browser(next(int(line[1]) for line in lines if line))
            try:
                yield browser
            finally:
                browser.close()
        finally:
            driver.terminate()
