"""Pages opened in a headless browser, and what they measure there."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# Run before anything else in the page, so that it sees every error and every request that the page's policy refuses.
SCRIPT = """
const found = {errors: [], refused: []};
window.addEventListener("error", e => found.errors.push(String(e.message)), true);
document.addEventListener("securitypolicyviolation", e => found.refused.push(e.blockedURI));
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
window.addEventListener("load", () => {
  found.width = window.innerWidth;
  found.page = document.documentElement.scrollWidth;
  found.dark = matchMedia("(prefers-color-scheme: dark)").matches;
  found.outside = [...document.querySelectorAll("body *")].filter(e => !clipped(e))
    .filter(e => e.getBoundingClientRect().right > window.innerWidth + 0.5).map(e => e.outerHTML.slice(0, 200));
  found.scrolls = [...document.querySelectorAll(".scroll")].map(e => e.getBoundingClientRect().right);
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
  parent.postMessage(JSON.stringify(found), "*");
});
"""
# Windows are at least 500 pixels wide, but frames are not.
FRAME = """<!DOCTYPE html><meta name="color-scheme" content="light dark"><title>frame</title>
<script>
window.addEventListener("message", e => {{ document.getElementById("measured").textContent = e.data; }});
</script>
<pre id="measured"></pre><iframe src="{page}" width="{width}" height="900" style="border: 0"></iframe>
"""


def browser() -> str | None:
    """The program of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def measured(page: str, folder: Path, width: int, dark: bool = False) -> dict[str, Any]:
    """What a page measures in a window of this width."""
    program = browser()
    assert program is not None
    allowed = page.replace("default-src 'none'", "default-src 'none'; script-src 'unsafe-inline'", 1)
    name = f"{width}-{'dark' if dark else 'light'}"
    copy, frame = folder / f"page-{name}.html", folder / f"frame-{name}.html"
    copy.write_text(allowed.replace("<head>", f"<head><script>{SCRIPT}</script>", 1), encoding="utf-8")
    frame.write_text(FRAME.format(page=copy.name, width=width), encoding="utf-8")
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    flags = [*FLAGS, *scheme, f"--user-data-dir={folder / f'profile-{name}'}", "--window-size=1400,1000"]
    done = subprocess.run(
        [program, *flags, "--virtual-time-budget=5000", "--dump-dom", frame.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r'<pre id="measured">(.+?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stdout[-2000:] + done.stderr[-2000:]
    measurements: dict[str, Any] = json.loads(html.unescape(found.group(1)))
    return measurements
