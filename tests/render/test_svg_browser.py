"""Pictures in a browser without a window: every text inside its picture, and none over another."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mha_sym.attention.dims import combined_weights, cross_inputs, dims, head_weights, self_inputs
from mha_sym.attention.forms import combined, head_sum
from mha_sym.attention.head_paths import WRONG_PATHS, right_path, wrong_path
from mha_sym.library import load
from mha_sym.render.pictures import cells as svg_cells
from mha_sym.render.pictures.svg import trace_svg
from mha_sym.trace import trace, trace_stages

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--dump-dom", "--virtual-time-budget=10000",
)  # fmt: skip

#: what sticks out of its picture, and what stands over something else, by more than the air around letters
SCRIPT = """
const bad = [];
let texts = 0;
for (const picture of document.querySelectorAll("svg")) {
  const view = picture.viewBox.baseVal, name = picture.querySelector("title").textContent;
  const boxes = [...picture.querySelectorAll("text")].map(one => [one.getBBox(), one.textContent]);
  texts += boxes.length;
  boxes.forEach(([a, told], n) => {
    if (a.x < 0 || a.y < 0 || a.x + a.width > view.width + .5 || a.y + a.height > view.height) bad.push([name, told]);
    for (const [b, other] of boxes.slice(n + 1)) {
      const wide = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
      const high = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
      if (wide > 1.5 && high > 4) bad.push([name, told, other]);
    }
  });
}
document.body.textContent = JSON.stringify([texts, bad]);
"""


def pictures() -> list[str]:
    d, e = dims(), dims(S="S")
    sizes = {"B": 2, "T": 5, "d_model": 12, "h": 3, "d_k": 4, "d_v": 4}
    found = [
        trace_svg(trace_stages(combined(e, cross_inputs(e), combined_weights(e, bias=True))), title="combined"),
        trace_svg(trace_stages(head_sum(d, self_inputs(d), head_weights(d))), sizes, title="head_sum"),
        trace_svg(trace(load("head_pruning_is_a_smaller_layer").claims[-3].left), title="a_theorem_of_a_name_" * 4),
    ]
    for name, wrong in WRONG_PATHS.items():
        at = dims(**wrong.sizes)
        ways = [right_path(at, wrong.back), wrong_path(name, at)]
        found.append(svg_cells.cells_svg([svg_cells.Path(w.title, w.expr, w.words) for w in ways], title=name))
    return found


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_texts_stand_apart_and_inside(tmp_path: Path) -> None:
    page = tmp_path / "pictures.html"
    text = f"<!DOCTYPE html><meta charset=utf-8><body>{''.join(pictures())}<script>{SCRIPT}</script></body>"
    page.write_text(text, encoding="utf-8")
    command = [str(CHROMIUM), *OPTIONS, f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stdout
    body = re.search(r"<body>(.*)</body>", shown, re.DOTALL)
    assert body is not None, shown[-500:]
    texts, bad = json.loads(html.unescape(body[1]))
    assert texts > 1000
    assert not bad
