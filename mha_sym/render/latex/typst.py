r"""The LaTeX documents of this package as Typst, which needs no TeX to make a PDF of them.

Defines `typst_text`.  It knows the commands and environments that `mha_sym.render.latex.article` and
`mha_sym.render.questions.book` write, and refuses others; formulas are read by `mha_sym.render.latex.typst_math`.
"""

from __future__ import annotations

import re

from mha_sym.errors import Problem
from mha_sym.render.latex.typst_math import typst_math

#: what the commands of the documents look like; the measures are those of the LaTeX
PREAMBLE = r"""
#set page(paper: "a4", margin: (x: 22mm, y: 24mm), numbering: "1")
#set text(font: "New Computer Modern", size: 10pt, lang: "en")
#set par(leading: 0.55em, spacing: 0.75em)
#set grid(align: top + left)
#show math.equation: set text(top-edge: "bounds", bottom-edge: "bounds")
#let faint = rgb("#666666")
#let alarm = rgb("#bf0000")
#let new(it) = text(fill: rgb("#993300"), it)
#let small(it) = text(size: 8pt, it)
#let name(it) = text(font: "DejaVu Sans Mono", size: 0.85em, it)
#let line(n, body, why, widths) = block(above: 0.6em, below: 0.6em, breakable: false, grid(
  columns: widths, column-gutter: 3mm, row-gutter: 1mm, small(text(fill: faint, n)), par(hanging-indent: 2em, body),
  small(why)))
#let statement(it, where) = line([], it, where, (6mm, 111mm, 43mm))
#let start(it) = line([], it, [], (6mm, 154mm, 0mm))
#let opening(it) = start(it)
#let step(n, it, why) = line(n, [$=$ #it], why, (6mm, 108mm, 43mm))
#let below(why) = block(above: 0.3em, below: 0.9em, grid(columns: (117mm, 43mm), column-gutter: 3mm, [], small(why)))
#let widestep(n, it, why) = { line(n, [$=$ #it], [], (6mm, 154mm, 0mm)); below(why) }
#let stage(n, it, why) = line(n, it, why, (6mm, 90mm, 61mm))
#let widestage(n, it, why) = { line(n, it, [], (6mm, 154mm, 0mm)); below(why) }
#let sign(it, range, what) = block(above: 0.6em, below: 0.6em, grid(
  columns: (38mm, 48mm, 74mm), column-gutter: 2mm, it, range, what))
#let widesign(it, range, what) = { line([], it, [], (0mm, 160mm, 0mm)); sign([], range, what) }
#let defined(it, why) = line([], it, why, (0mm, 114mm, 43mm))
#let widedefined(it, why) = { line([], it, [], (0mm, 160mm, 0mm)); below(why) }
#let control(what, words) = block(above: 1.2em, sticky: true)[#name(what)#h(1em)#words]
#let lemma = counter("lemma")
#let theorem(it) = block[*Theorem.* #emph(it)]
#let claim(what, it) = { lemma.step(); block(above: 1.2em)[*Lemma #context lemma.display()* (#what)*.* #emph(it)] }
#let proof(it) = block[_Proof._ #it]
#let done = { h(1fr); $square$ }
#show heading: it => block(text(size: 17pt, weight: "bold", it.body))
#let title(it) = heading(it)
#let part(it) = block(above: 1.6em, below: 0.9em, sticky: true, text(size: 12pt, weight: "bold", it))
#let page-of(it) = context counter(page).at(it).first()
"""

_TOKEN = re.compile(r"\\[A-Za-z]+\*?|\\.|\$|[{}~%]|``|''|---?|\n\s*\n|\s+|[^\\${}~%`'\-\s\[\]]+|.", re.DOTALL)

#: commands whose arguments are formulas, by place; all other arguments are words
_FORMULAS = {
    "statement": (0,), "start": (0,), "opening": (0,), "step": (1,), "widestep": (1,), "stage": (1,), "widestage": (1,),
    "sign": (0, 1), "widesign": (0, 1), "defined": (0,), "widedefined": (0,), "control": (),
}  # fmt: skip
_ARGUMENTS = {"statement": 2, "start": 1, "opening": 1, "defined": 2, "widedefined": 2, "control": 2}
#: commands that pages without running heads do without, as headings make the outline, and how many arguments they have
_UNUSED = {"vspace": 1, "running": 1, "outline": 2}
_WORDS = {
    r"\dots": "…", r"\textbackslash": r"\\", r"\textasciitilde": r"\~", r"\textasciicircum": r"\^", r"\textless": r"\<",
    r"\textgreater": r"\>", "~": r"\u{a0}", "``": "“", "''": "”", "--": "–", "---": "—", r"\\": "\\ ",
    r"\par": "\n\n", r"\bigskip": "\n#v(1em)\n", r"\clearpage": "\n#pagebreak()\n",
    r"\dotfill": "#box(width: 1fr, repeat[.])",
    r"\done": "#done", r"\derivation": "#lemma.update(0)",
}  # fmt: skip
_SILENT = {r"\allowbreak", r"\noindent", r"\raggedright", r"\nopagebreak", r"\relax", r"\leavevmode"}
#: what goes on to the end of a group
_FONTS = {
    r"\LARGE": "title", r"\small": "small", r"\bfseries": "strong", r"\itshape": "emph",
}  # fmt: skip
_AROUND = {r"\name": "name", r"\textbf": "strong", r"\textit": "emph", r"\texttt": "name", r"\subsection*": "part"}


def typst_text(latex: str) -> str:
    r"""The document.

    Raises:
        Problem: for a command that is not known.

    Example:
        >>> from mha_sym.render.latex.article import latex_frame
        >>> print(typst_text(latex_frame("T", [r"\textbf{Both} $a_{1}$"])).splitlines()[-1])
        #strong[Both] $attach(a, b: 1)$
    """
    title = re.search(r"pdftitle=\{(.*)\}\}$", latex, re.MULTILINE)
    body = latex.split(r"\begin{document}")[1].split(r"\end{document}")[0]
    head = f"#set document(title: [{_Reader(title[1]).all().strip()}], date: none)" if title else ""
    text = re.sub(r"\n[ \n]*\n|\n +", lambda one: "\n" * min(2, one[0].count("\n")), _Reader(body).all().strip())
    return f"{head}{PREAMBLE}{text}\n"


class _Reader:
    """Reads a text from left to right."""

    def __init__(self, latex: str) -> None:
        self.tokens: list[str] = _TOKEN.findall(latex)
        self.place = 0

    def all(self) -> str:
        """Everything."""
        return self._until("")

    def _until(self, end: str) -> str:
        """What stands before a token or the end of an environment; what changes the font goes on so far."""
        found, fonts = "", 0
        while self.place < len(self.tokens):
            token = self._next()
            if token == end or (token == r"\end" and end == f"end {self._name()}"):
                return found + "]" * fonts
            if token in _FONTS or token == r"\color":
                colour = f"text.with(fill: {self._name()})" if token == r"\color" else _FONTS[token]
                found, fonts = f"{found}#({colour})[", fonts + 1
                self._skip()
            else:
                found += self._one(token)
        return found + "]" * fonts

    def _next(self) -> str:
        self.place += 1
        return self.tokens[self.place - 1]

    def _skip(self) -> None:
        while self.place < len(self.tokens) and self.tokens[self.place].isspace():
            self.place += 1

    def _one(self, token: str) -> str:
        if token in _WORDS:
            return _WORDS[token] + (" " if token == r"\par" else self._empty())
        if token in _SILENT:
            return self._empty()
        if token == "$":
            return self._formula()
        if token == "{":
            return self._until("}")
        if token == r"\begin":
            return self._environment(self._name())
        if token == r"\item":
            self._skip()
            return "\n- "
        if token in _AROUND:
            return f"#{_AROUND[token]}[{self._argument()}]"
        if token[0] == "\\" and token[1].isalpha():
            return self._command(token[1:])
        return "\n\n" if token.count("\n") > 1 else " " if token.isspace() else _plain(token)

    def _empty(self) -> str:
        """Braces with nothing in them end the name of a command."""
        if self.tokens[self.place : self.place + 2] == ["{", "}"]:
            self.place += 2
        return ""

    def _command(self, name: str) -> str:
        if name in ("hypertarget", "hyperlink"):
            target, text = _label(self._raw()), self._argument()
            return f"#link(<{target}>)[{text}]" if name == "hyperlink" else f"#[#metadata(none) <{target}>]{text}"
        if name in ("label", "pageref"):
            target = self._raw()
            return f"#page-of(<{_label(target)}>)" if name == "pageref" else ""
        if name in _UNUSED:
            for _ in range(_UNUSED[name]):
                self._raw()
            return ""
        if name not in _FORMULAS:
            raise Problem(f"\\{name} is not known", where="the document")
        formulas, found = _FORMULAS[name], ""
        for n in range(_ARGUMENTS.get(name, 3)):
            found += f"[{typst_math(self._raw(), display=True) if n in formulas else self._argument()}]"
        return f"\n#{name}{found}\n"

    def _environment(self, name: str) -> str:
        label = ""
        if self.tokens[self.place : self.place + 1] == ["["]:
            self.place += 1
            label = self._until("]")
        inside = self._until(f"end {name}").strip()
        if name == "itemize":
            return f"\n{inside}\n"
        return f"\n#claim[{label}][{inside}]\n" if name == "lemma" else f"\n#{name}[{inside}]\n"

    def _formula(self) -> str:
        end = self.tokens.index("$", self.place)
        latex = "".join(self.tokens[self.place : end])
        self.place = end + 1
        return typst_math(latex)

    def _raw(self) -> str:
        """What stands in braces, as it is."""
        self._skip()
        start, depth = self.place, 0
        while True:
            depth += {"{": 1, "}": -1}.get(self._next(), 0)
            if not depth:
                return "".join(self.tokens[start + 1 : self.place - 1])

    def _name(self) -> str:
        return self._raw()

    def _argument(self) -> str:
        self._skip()
        self.place += 1
        return self._until("}")


def _plain(token: str) -> str:
    """Words with every sign escaped that may mean something."""
    if token[0] == "\\":
        token = token[1:]
    return re.sub(r"([^\w\s]|_)", lambda one: f"\\{one[0]}" if one[0].isascii() else one[0], token)


def _label(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.:-]", "-", name)
