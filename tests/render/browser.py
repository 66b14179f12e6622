"""Pages in a browser without a window: what it complains about, loads and draws, at several widths."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--enable-logging=stderr", "--dump-dom", "--virtual-time-budget=20000",
)  # fmt: skip

#: puts every page into a frame of every width, opens and closes what can be, and measures
SCRIPT = """
const found = [];
const pages = JSON.parse(document.getElementById("pages").textContent);
async function look(page, width) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width:${width}px;height:800px;border:0`;
  frame.srcdoc = page;
  const ready = new Promise(resolve => frame.onload = resolve);
  document.body.append(frame);
  await ready;
  const inside = frame.contentDocument, root = inside.documentElement;
  const wide = () => width - root.clientWidth + Math.max(root.scrollWidth, inside.body.scrollWidth);
  const result = {width, closed: wide()};
  const details = [...inside.querySelectorAll("details")];
  for (const one of details) one.open = false;
  const shut = root.scrollHeight;
  for (const one of details) one.querySelector("summary").click();
  await new Promise(resolve => setTimeout(resolve, 0));
  result.opened = details.every(one => one.open);
  result.grows = details.length === 0 || root.scrollHeight > shut;
  result.open = wide();
  result.flat = [...inside.querySelectorAll("math")].filter(one => {
    const box = one.getBoundingClientRect();
    return box.width < 1 || box.height < 1;
  }).length;
  result.formulas = inside.querySelectorAll("math").length;
  result.astray = [...inside.querySelectorAll(".formula")].filter(one => {
    const number = one.previousElementSibling?.matches(".chain .number") ? [one.previousElementSibling] : [];
    const boxes = [...number, ...one.querySelectorAll("math")].map(part => part.getBoundingClientRect());
    return boxes.some((box, n) => n && box.bottom <= boxes[n - 1].top);
  }).length;
  const targets = [...inside.querySelectorAll("a, summary")];
  result.small = targets.filter(one => one.getBoundingClientRect().height < 10).length;
  result.loaded = frame.contentWindow.performance.getEntriesByType("resource").map(one => one.name);
  result.ground = frame.contentWindow.getComputedStyle(inside.body).backgroundColor;
  found.push(result);
  frame.remove();
}
(async () => {
  for (const page of pages) for (const width of WIDTHS) await look(page, width);
  document.body.textContent = JSON.stringify(found);
})();
"""


def look(pages: list[str], widths: tuple[int, ...], directory: Path, *more: str) -> tuple[list[dict[str, object]], str]:
    """What was measured of each page at each width, and what the browser said on its console."""
    assert CHROMIUM is not None
    text = json.dumps(pages).replace("<", "\\u003c")
    script = SCRIPT.replace("WIDTHS", json.dumps(widths))
    file = directory / "frames.html"
    file.write_text(
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Frames</title><body>'
        f'<script id="pages" type="application/json">{text}</script><script>{script}</script></body></html>',
        encoding="utf-8",
    )
    command = [CHROMIUM, *OPTIONS, f"--user-data-dir={directory / 'profile'}", *more, file.as_uri()]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    body = re.search(r"<body>(.*)</body>", ended.stdout, re.DOTALL)
    assert body is not None and body[1].startswith("["), ended.stdout[-500:] + ended.stderr[-500:]
    console = "\n".join(line for line in ended.stderr.splitlines() if "CONSOLE" in line)
    return json.loads(html.unescape(body[1])), console
