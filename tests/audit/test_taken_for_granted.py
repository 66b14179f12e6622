"""What a description did not say: what was found or left alone is told, and wrong code is not fitted to be right."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from mha_sym.audit import Implementation, check
from mha_sym.audit.frameworks.probe import Probed, found
from mha_sym.audit.proving.pair import prove_equal
from mha_sym.audit.target import as_implementation

WIDTH, HEADS = 12, 3


class Separate(torch.nn.Module):
    """Attention with the names that people use; what is wrong with it is overridden below."""

    scale = (WIDTH // HEADS) ** -0.5

    def __init__(self) -> None:
        super().__init__()
        self.num_heads = HEADS
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, torch.nn.Linear(WIDTH, WIDTH, bias=False))

    def projected(self, x):
        return [getattr(self, f"{letter}_proj")(x) for letter in "qkv"]

    def out(self, z):
        return self.o_proj(z)

    def weights(self, scores):
        return scores.softmax(-1)

    def forward(self, x, key_padding_mask=None):
        b, t, _ = x.shape
        q, k, v = (one.view(b, t, HEADS, -1).transpose(1, 2) for one in self.projected(x))
        scores = q @ k.transpose(-1, -2) * self.scale
        if key_padding_mask is not None:
            scores = scores.masked_fill(~key_padding_mask[:, None, None, :], -1e9)
        return self.out((self.weights(scores) @ v).transpose(1, 2).reshape(b, t, -1))


class Unscaled(Separate):
    scale = 1.0


class OutTransposed(Separate):
    def out(self, z):
        return z @ self.o_proj.weight


class Swapped(Separate):
    def projected(self, x):
        q, k, v = super().projected(x)
        return [k, q, v]


class OverQueries(Separate):
    def weights(self, scores):
        return scores.softmax(-2)


def noted(module: torch.nn.Module) -> str:
    return "\n".join(as_implementation(module).notes)


def test_what_was_found_out_is_told() -> None:
    assert "stored as" in noted(Separate()) and "scale" not in noted(Separate())
    assert "the scale was found to be none, where 1/sqrt(d_k) is usual" in noted(Unscaled())
    assert "W_O transposed" in noted(OutTransposed())


def test_arguments_that_are_never_given_are_told() -> None:
    assert "nothing is said of key_padding_mask" in noted(Separate())

    def attention(x, w_q, w_k, w_v, w_o, heads, hide=None, causal=False):
        q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        scores = np.where(np.tri(x.shape[1], dtype=bool), scores, -np.inf) if causal else scores
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        z = weights / weights.sum(-1, keepdims=True) @ v
        return z.swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o

    report = check(attention)
    assert report.ok and any("nothing is said of hide:" in note for note in report.notes), report.notes


@pytest.mark.parametrize(
    ("wrong", "fault"), [(Swapped, "weights_in_order_kqv"), (OverQueries, "softmax_over_queries")]
)
def test_wrong_code_with_usual_names_is_audited_under_what_they_say(wrong: type, fault: str) -> None:
    report = check(wrong())
    assert not report.ok and fault in [one.name for one in report.faults]


@pytest.mark.parametrize("other", [OutTransposed, Swapped, Unscaled])
def test_modules_of_the_same_parameters_are_compared_on_the_same_values(other: type) -> None:
    torch.manual_seed(0)
    one, two = Separate().double(), other().double()
    two.load_state_dict(one.state_dict())
    x = torch.randn(2, 5, WIDTH, dtype=torch.float64)
    assert not torch.allclose(one(x), two(x))
    assert prove_equal(as_implementation(two), as_implementation(one)).verdict.value == "refuted"


def test_modules_of_the_same_parameters_that_are_equal_are_proved_so() -> None:
    class Again(Separate):
        def projected(self, x):
            return [x @ getattr(self, f"{letter}_proj").weight.T for letter in "qkv"]

    assert prove_equal(as_implementation(Again()), as_implementation(Separate())).verdict.value == "proved"


def probed(scale: float, swap: bool = False) -> Probed:
    """Code of which only weights and numbers are known, as a file or a module of JAX is."""

    def call(weights, x):
        order = "kqv" if swap else "qkv"
        flat = (x @ weights[f"{one}_proj.weight"].T for one in order)
        q, k, v = (one.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2) for one in flat)
        e = np.exp(scale * q @ k.swapaxes(-1, -2))
        z = e / e.sum(-1, keepdims=True) @ v
        return z.swapaxes(1, 2).reshape(*x.shape[:2], -1) @ weights["o_proj.weight"].T

    weights = {f"{one}_proj.weight": np.ones((WIDTH, WIDTH)) for one in "qkvo"}
    return Probed(call=call, weights=weights, heads=(HEADS,), widths=(WIDTH,), title="probed")


def test_code_known_by_numbers_alone_is_told_of_in_the_same_words() -> None:
    usual, unscaled = ("\n".join(found(probed(scale)).notes) for scale in (Separate.scale, 1.0))
    assert "stored as" in usual and "scale" not in usual
    assert "the scale was found to be none, where 1/sqrt(d_k) is usual" in unscaled


def test_a_scale_that_was_found_stands_in_the_headline() -> None:
    headlines = [found(probed(scale)).headline for scale in (Separate.scale, 1.0, Separate.scale**2)]
    assert headlines == ["probed", "probed with scale 1 (see the note)", "probed with scale 1/d_k (see the note)"]
    assert any("as if it were scaled twice" in one for one in found(probed(Separate.scale**2)).notes)


def heads_apart(scale: float, values: slice = slice(None), weights: Callable = lambda a: a) -> Probed:
    """Kernels with an axis of heads, as Flax has them, under names of its own."""
    names = {"to_query": (WIDTH, HEADS, WIDTH // HEADS), "to_out": (HEADS, WIDTH // HEADS, WIDTH)}
    names |= {"to_key": names["to_query"], "to_value": names["to_query"]}

    def call(given, x):
        p = {name.split(".")[0]: given[name] for name in given if name.endswith("kernel")}
        q, k, v = (np.einsum("btm,mhd->bhtd", x, p[f"to_{one}"]) for one in ("query", "key", "value"))
        q, k, v = (one + given[f"to_{name}.bias"][:, None] for one, name in ((q, "query"), (k, "key"), (v, "value")))
        e = weights(np.exp(scale * q @ k.swapaxes(-1, -2)))
        z = (e / e.sum(-1, keepdims=True)).astype(weights(e).dtype) @ v[..., values]
        return np.einsum("bhtd,hdm->btm", z, p["to_out"]) + given["to_out.bias"]

    kernels = {f"{name}.kernel": np.ones(shape) for name, shape in names.items()}
    biases = {f"{name}.bias": np.ones(shape[1:] if name != "to_out" else shape[2:]) for name, shape in names.items()}
    return Probed(call=call, weights=kernels | biases, heads=(HEADS,), widths=(WIDTH,), title="probed")


def test_kernels_with_an_axis_of_heads_are_read_whatever_they_are_called() -> None:
    right, twice, wrong = (
        found(one)
        for one in (
            heads_apart(Separate.scale), heads_apart(Separate.scale**2),
            heads_apart(Separate.scale, values=slice(None, None, -1)),
        )
    )  # fmt: skip
    assert {one.how_stored.name for one in (right, twice, wrong)} == {"flax"} and right.biases == "qkvo"
    assert right.headline == "probed" and twice.headline == "probed with scale 1/d_k (see the note)"
    assert right.names["query.kernel"] == "to_query.kernel"
    assert any("under no layout that fits" in one for one in wrong.notes)


def test_code_that_rounds_to_single_precision_by_itself_is_judged_in_it() -> None:
    rounded, whole = heads_apart(Separate.scale, weights=lambda a: a.astype(np.float32)), heads_apart(Separate.scale)
    assert rounded.is_single() and not whole.is_single()
    assert (found(rounded).dtype, found(whole).dtype) == ("float32", "float64")
    assert any("computes in float32 by itself" in one for one in found(rounded).notes)


def test_code_known_by_numbers_alone_is_read_as_its_names_say_where_nothing_fits() -> None:
    made = found(probed(Separate.scale, swap=True))
    assert made.names["w_q"] == "q_proj.weight" and made.how_stored.name == "combined"
    assert "under no layout that fits" in made.notes[-1]


# ---------------------------------------------------------------- weights that are stored differently


def equal(one, other):
    return prove_equal(*(as_implementation(side, name) for side, name in ((one, "one"), (other, "other"))))


class Packed(torch.nn.Module):
    """The same attention as `Separate` with one matrix; ``late`` adds its mask after the softmax."""

    def __init__(self, late=False):
        super().__init__()
        self.heads, self.late = 4, late
        self.qkv, self.out = torch.nn.Linear(24, 72), torch.nn.Linear(24, 24)

    def projected(self, x):
        return self.qkv(x).chunk(3, -1)

    def forward(self, x, attn_mask=None):
        b, t, _ = x.shape
        q, k, v = (part.view(b, t, 4, 6).transpose(1, 2) for part in self.projected(x))
        scores = q @ k.transpose(-1, -2) / 6**0.5
        scores = scores if attn_mask is None or self.late else scores + attn_mask
        weights = scores.softmax(-1)
        weights = weights + attn_mask if attn_mask is not None and self.late else weights
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, -1))


class Unpacked(Packed):
    """The same with a matrix each."""

    def __init__(self):
        super().__init__()
        del self.qkv
        self.q, self.k, self.v = (torch.nn.Linear(24, 24) for _ in range(3))

    def projected(self, x):
        return self.q(x), self.k(x), self.v(x)


class Looked(torch.nn.Module):
    """Attention without a scale, and a bias that it looks up by position."""

    def __init__(self):
        super().__init__()
        self.heads = 4
        self.q, self.k, self.v = (torch.nn.Linear(20, 24, bias=False) for _ in range(3))
        self.o = torch.nn.Linear(24, 20, bias=False)
        self.relative = torch.nn.Embedding(8, 4)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (one(x).view(b, t, 4, 6).transpose(1, 2) for one in (self.q, self.k, self.v))
        apart = torch.arange(t)[None, :] - torch.arange(t)[:, None]
        bias = self.relative(apart.clamp(-4, 3) + 4).permute(2, 0, 1)[None]
        return self.o(((q @ k.transpose(-1, -2) + bias).softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1))


class Unbiased(Looked):
    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (one(x).view(b, t, 4, 6).transpose(1, 2) for one in (self.q, self.k, self.v))
        return self.o(((q @ k.transpose(-1, -2)).softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1))


def unscaled(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    weights = np.exp(q @ k.swapaxes(-1, -2))
    z = weights / weights.sum(-1, keepdims=True) @ v
    return z.swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o


def test_a_bias_that_one_looks_up_is_not_taken_for_nothing():
    """Each is what its own specification says, and these differ."""
    plain = Implementation(call=unscaled, scale=1, heads=4)
    assert equal(Looked(), plain).verdict.value == "undecided"
    assert equal(plain, Looked()).verdict.value == "undecided"
    assert equal(Unbiased(), plain).verdict.value == "proved"


def test_a_mask_that_fits_one_only_is_not_claimed_of_both():
    assert equal(Packed(), Packed()).against == "other"
    found = equal(Packed(), Packed(late=True))
    assert found.verdict.value == "proved"
    assert found.against == "other called without attn_mask in the ways of calling that both have"
    assert [case.case for case in found.cases] == ["no mask"]
    found = equal(Unpacked(), Packed(late=True))  # stored differently: each is compared with the specification
    assert found.verdict.value == "proved" and "called without attn_mask" in found.against
    assert all(case.case.endswith("no mask") for case in found.cases)
