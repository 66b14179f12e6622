"""Derivations as web pages: what stands on them, that they need nothing else, and how a browser shows them."""

from __future__ import annotations

import importlib.util
import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mha_sym.axes import axis
from mha_sym.expr import Input
from mha_sym.library import theorem_names
from mha_sym.proof.prover import prove
from mha_sym.proof.theorem import Claim, Control, Report, Theorem
from mha_sym.render.book import Chapter, html_book
from mha_sym.render.derivation import derivation
from mha_sym.render.sentences import SAME_FORMULA
from mha_sym.render.vocabulary import Vocabulary
from mha_sym.render.web.math import Writer
from mha_sym.render.web.page import Surroundings, html_fragment, html_page
from mha_sym.render.web.style import DARK, LIGHT, READ_ON, style

XHTML = "{http://www.w3.org/1999/xhtml}"
GOLDEN = Path(__file__).parent / "golden" / "twice.html"

X, C = Input("X", (axis("t", "T"),)), Input("c", ())
TWICE = Theorem(
    "twice", "Twice & more", "x + x is 2 x.",
    (Claim("twice", X + X, X * 2, "The sum of X and X is 2 X."),),
    (Control("thrice", X + X, X * 3, "It is taken for 3 X."),),
)  # fmt: skip
WRONG = Theorem("wrong", "Wrong", "x + x is 3 x.", (Claim("thrice", X + X, X * 3, "The sum is 3 X."),))


def browser() -> object:
    """The module that runs a browser; tests are no package, so it is loaded from its file."""
    path = Path(__file__).parent / "browser.py"
    spec = importlib.util.spec_from_file_location("browser", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def pages(proved: Callable[[str], Report]) -> dict[str, str]:
    return {name: html_page(derivation(proved(name))) for name in theorem_names()}


def text(page: str) -> str:
    return re.sub(r"\s+", " ", "".join(ElementTree.fromstring(page).itertext()))


# ---------------------------------------------------------------- what stands on a page


def test_golden() -> None:
    """Word for word; with MHA_SYM_GOLDEN=write the file is written anew, to be looked at."""
    found = html_fragment(derivation(prove(TWICE, recheck=False)))
    if os.environ.get("MHA_SYM_GOLDEN") == "write":
        GOLDEN.write_text(found, encoding="utf-8")
    assert found == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", theorem_names())
class TestEveryTheorem:
    def test_is_well_formed_and_says_its_language(self, name: str, pages: dict[str, str]) -> None:
        root = ElementTree.fromstring(pages[name])
        assert root.get("lang") == "en"
        ids = [one.get("id") for one in root.iter() if one.get("id")]
        assert len(ids) == len(set(ids))

    def test_needs_nothing_from_outside(self, name: str, pages: dict[str, str]) -> None:
        page = pages[name]
        assert not re.search(r"<script|<img|<iframe|<object|@import|\bon\w+=", page)
        assert set(re.findall(r"https?://[^\"]*", page)) <= {
            "http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/svg",
        }  # fmt: skip
        assert all(target.startswith(("#", "data:,")) for target in re.findall(r'href="([^"]*)"', page))

    def test_headings_are_in_order(self, name: str, pages: dict[str, str]) -> None:
        levels = [int(one.tag[-1]) for one in ElementTree.fromstring(pages[name]).iter() if one.tag[-2:-1] == "h"
                  and one.tag[-1].isdigit()]  # fmt: skip
        assert levels[0] == 1 and levels.count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))

    def test_heads_of_tables_say_what_they_are_heads_of(self, name: str, pages: dict[str, str]) -> None:
        assert all(one.get("scope") for one in ElementTree.fromstring(pages[name]).iter(f"{XHTML}th"))

    def test_formulas_have_a_text(self, name: str, pages: dict[str, str]) -> None:
        assert all(one.get("alttext") for one in ElementTree.fromstring(pages[name]).iter(f"{XHTML}math"))

    def test_links_lead_somewhere(self, name: str, pages: dict[str, str]) -> None:
        root = ElementTree.fromstring(pages[name])
        ids = {one.get("id") for one in root.iter()}
        assert all(one.get("href", "")[1:] in ids for one in root.iter(f"{XHTML}a"))

    def test_every_claim_opens_into_its_lines(
        self, name: str, pages: dict[str, str], proved: Callable[[str], Report]
    ) -> None:
        root, found = ElementTree.fromstring(pages[name]), derivation(proved(name))
        claims = [one for one in root.iter(f"{XHTML}details") if one.get("class") == "claim"]
        assert len(claims) == len(found.claims)
        for shown, claim in zip(claims, found.claims, strict=True):
            assert shown[0].tag == f"{XHTML}summary"
            lines = [list(one) for one in shown.iter(f"{XHTML}ol") if one.get("class") == "chain"]
            alone = SAME_FORMULA in "".join(shown.itertext())
            assert list(map(len, lines)) == ([] if claim.moves or alone else [len(one.steps) for one in claim.proofs])


def test_a_title_of_a_source_is_no_formula() -> None:
    report = prove(replace(TWICE, source="Elhage et al. 2021, A Mathematical Framework"), recheck=False)
    assert "Source: Elhage et al. 2021, A Mathematical Framework.</p>" in html_page(derivation(report))


def test_proved_and_refuted_neighbours() -> None:
    shown = text(html_page(derivation(prove(TWICE, recheck=False))))
    assert "Proved for all sizes; 1 of 1 false statement beside it is refuted." in shown
    assert "thrice: It is taken for 3X." in shown


def test_what_is_not_proved_says_so_at_the_top_in_red() -> None:
    page = html_page(derivation(prove(WRONG, recheck=False)))
    top = page[page.index("<h1>") : page.index('<div class="statement">')]
    assert '<p class="verdict alarm">NOT PROVED: claim 1 (thrice) is refuted.</p>' in top
    assert "REFUTED: it fails at" in re.sub(r"<[^>]*>", "", top)
    assert "verdict good" not in page
    assert 'id="claim-1" open="open"' in page


def test_words_are_text_whatever_they_are() -> None:
    title = 'A < B & "C" <script>alert(1)</script>\x00'
    page = html_page(derivation(prove(Theorem("odd", title, title, (Claim("n", X + X, X * 2, title),)), recheck=False)))
    assert "<script" not in page
    assert "alert" in text(page)


def test_a_page_of_a_book_links_to_the_others() -> None:
    theorem = Theorem("twice", "Twice", "As in thrice_as_much, not as in twice.", TWICE.claims)
    links, titles = {"thrice_as_much": "b.html", "twice": "a.html"}, {"thrice_as_much": "Thrice"}
    around = Surroundings("index.html", links, titles, (("thrice_as_much", "Same."),))
    root = ElementTree.fromstring(html_page(derivation(prove(theorem, recheck=False)), around))
    assert "See also: Thrice: Same." in re.sub(r"\s+", " ", "".join(root.itertext()))
    targets = [one.get("href") for one in root.iter(f"{XHTML}a")]
    assert targets == ["index.html", "b.html", "b.html"]


def test_axes_that_are_rearranged_are_drawn(pages: dict[str, str]) -> None:
    root = ElementTree.fromstring(pages["split_transpose_join_is_identity"])
    pictures = list(root.iter("{http://www.w3.org/2000/svg}svg"))
    assert len(pictures) == 2 + 4  # of two claims, and of four controls that take a wrong way
    assert all(one.get("role") == "img" and one.get("aria-labelledby") for one in pictures)


def test_boxes_that_scroll_have_a_name(pages: dict[str, str]) -> None:
    boxes = [one for page in pages.values() for one in ElementTree.fromstring(page).iter() if one.get("tabindex")]
    assert boxes
    assert all(one.get("role") == "group" and one.get("aria-label") for one in boxes)


def test_a_stop_is_not_parted_from_its_formula() -> None:
    shown = ElementTree.fromstring(f"<p>{Writer(Vocabulary()).prose('See (W_Q), x -> W_K, or W_V alone.')}</p>")
    assert ["".join(one.itertext()) for one in shown.iter("span") if one.get("class") == "one"] == ["(WQ),", "WK,"]
    assert "→" in "".join(shown.itertext())


def test_a_wide_formula_without_places_to_break_it_gets_some() -> None:
    wide = r"Q[b,r,t,j] = Q_{f}[b,\,\lfloor (r\,T + t)/h\rfloor,\,((r\,T + t) \bmod h)\,d_{k} + j]"
    parts = re.findall(r'alttext="([^"]*)"', Writer(Vocabulary()).latex(wide))
    assert parts == ["Q[b,r,t,j]", "= Q_f[b,", "⌊(r T + t)/h⌋,", "((r T + t) mod h) d_k + j]"]
    named = r"X[\mathit{batch}(b),\mathit{query}(t),\,\mathit{joined}(r\,d_{k} + j)]"
    parts = re.findall(r'alttext="([^"]*)"', Writer(Vocabulary()).latex(named))
    assert parts == ["X[batch(b),", "query(t),", "joined(r d_k + j)]"]


def test_how_each_claim_was_checked() -> None:
    found = derivation(prove(TWICE, recheck=True))
    assert found.claims[0].checked.digits == 12
    assert "Checked: " not in text(html_page(found)), "said once for all claims, below"
    less = replace(found, claims=tuple(replace(one, rechecked=()) for one in found.claims))
    assert (
        "Checked: every line follows from the one before by the checker, equals it in fractions at two choices of "
        "sizes, and agrees with einops to 12 digits."
    ) in text(html_page(less))


# ---------------------------------------------------------------- how it looks


def luminance(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("ink", "ground"), READ_ON)
def test_text_stands_out_from_its_ground(ink: str, ground: str, colours: dict[str, str]) -> None:
    low, high = sorted((luminance(colours[ink]), luminance(colours[ground])))
    assert (high + 0.05) / (low + 0.05) >= 4.5


def test_every_colour_of_the_rules_is_one_of_those() -> None:
    rules = style()
    assert set(re.findall(r"var\(--(\w+)\)", rules)) <= set(LIGHT) == set(DARK)
    inks = set(re.findall(r"[;{]color:var\(--(\w+)\)", rules))
    assert inks <= {ink for ink, _ in READ_ON}
    assert set(re.findall(r"background:var\(--(\w+)\)", rules)) <= {ground for _, ground in READ_ON}
    assert not re.search(r"url\(|@font-face", rules)


@pytest.mark.skipif(browser().CHROMIUM is None, reason="no Chromium")  # type: ignore[attr-defined]
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_in_a_browser(dark: bool, pages: dict[str, str], tmp_path: Path) -> None:
    more = ["--blink-settings=preferredColorScheme=0"] if dark else []
    wrong = derivation(prove(WRONG, recheck=False))
    every = {**pages, "wrong": html_page(wrong), "index": html_book([Chapter(wrong)])["index.html"]}
    shown, console = browser().look([*every.values()], (390, 1280), tmp_path, *more)  # type: ignore[attr-defined]
    assert not console
    for name, one in zip([name for name in every for _ in range(2)], shown, strict=True):
        assert (name, one["loaded"], one["flat"], one["small"], one["astray"]) == (name, [], 0, 0, 0)
        assert one["formulas"] and one["opened"] and one["grows"]
        assert max(one["closed"], one["open"]) <= one["width"], (name, one)
        colour = (DARK if dark else LIGHT)["ground"]
        assert one["ground"] == f"rgb({', '.join(str(int(colour[n : n + 2], 16)) for n in (1, 3, 5))})"


def test_all_theorems_are_written_within_seconds(proved: Callable[[str], Report], checking: list[float]) -> None:
    reports = [proved(name) for name in theorem_names()]
    start = time.process_time()
    pages = [html_page(derivation(report)) for report in reports]
    spent = time.process_time() - start
    print(f"{len(pages)} pages, {sum(map(len, pages)) >> 10} KiB in {spent:.2f} s, {checking[0]:.2f} s of it for lines")
    proving = sum(report.seconds for report in reports)  # on the same machine, as busy as it is
    assert spent - checking[0] < max(3, 0.6 * proving), (spent, proving)
    assert spent < max(6, 0.8 * proving), (spent, proving)  # with every line computed
