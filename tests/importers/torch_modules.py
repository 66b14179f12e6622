"""Multi-head attention as torch modules, in the styles in which people write it; no code of the package.

Defines `RIGHT`, by name: a module, the arrays that it takes beside ``x`` with their shapes, and named arguments.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from torch import Tensor, nn

M, H, D = 24, 4, 6  # model width, heads, features of a head
G = 2  # key and value heads of grouped modules


class Fused(nn.Module):
    """One projection for queries, keys and values, cut by ``split``, and a mask in a buffer."""

    def __init__(self, block: int = 16) -> None:
        super().__init__()
        self.n_head = H
        self.c_attn, self.c_proj = nn.Linear(M, 3 * M), nn.Linear(M, M)
        self.register_buffer("mask", torch.tril(torch.ones(block, block)).view(1, 1, block, block))

    def forward(self, x: Tensor) -> Tensor:
        b, t, m = x.size()
        q, k, v = self.c_attn(x).split(m, dim=2)
        q, k, v = (one.view(b, t, self.n_head, m // self.n_head).transpose(1, 2) for one in (q, k, v))
        scores = q @ k.transpose(-2, -1) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        z = F.softmax(scores, dim=-1) @ v
        return self.c_proj(z.transpose(1, 2).contiguous().view(b, t, m))


class Flash(nn.Module):
    """The same with torch's own attention, causal."""

    def __init__(self) -> None:
        super().__init__()
        self.n_head = H
        self.c_attn, self.c_proj = nn.Linear(M, 3 * M, bias=False), nn.Linear(M, M, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        b, t, m = x.size()
        q, k, v = self.c_attn(x).chunk(3, dim=-1)
        q, k, v = (one.view(b, t, self.n_head, -1).transpose(1, 2) for one in (q, k, v))
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(z.transpose(1, 2).reshape(b, t, m))


class Einops(nn.Module):
    """Patterns for everything."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = H
        self.to_qkv, self.to_out = nn.Linear(M, 3 * H * D, bias=False), nn.Linear(H * D, M)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = rearrange(self.to_qkv(x), "b t (qkv h d) -> qkv b h t d", qkv=3, h=self.heads).unbind(0)
        weights = (einsum(q, k, "b h t d, b h s d -> b h t s") * D**-0.5).softmax(-1)
        return self.to_out(rearrange(einsum(weights, v, "b h t s, b h s d -> b h t d"), "b h t d -> b t (h d)"))


class Einsum(nn.Module):
    """Weights by head, and one einsum after the other; the last has three operands."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads = H
        self.w_q, self.w_k, self.w_v = (nn.Parameter(torch.randn(H, M, D)) for _ in range(3))
        self.w_o = nn.Parameter(torch.randn(H, D, M))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (torch.einsum("btm,hmd->bhtd", x, w) for w in (self.w_q, self.w_k, self.w_v))
        weights = torch.softmax(torch.einsum("bhtd,bhsd->bhts", q, k) / D**0.5, dim=-1)
        return torch.einsum("bhts,bhsd,hdm->btm", weights, v, self.w_o)


class Bmm(nn.Module):
    """Batch and heads in one axis, scores by ``baddbmm``, a mask that is added."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads = H
        self.q, self.k, self.v, self.o = (nn.Linear(M, M) for _ in range(4))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        b, t, _ = x.shape
        q, k, v = (f(x).view(b, t, H, D).transpose(1, 2).reshape(b * H, t, D) for f in (self.q, self.k, self.v))
        added = mask.expand(b, H, t, t).reshape(b * H, t, t)
        scores = torch.baddbmm(added, q, k.transpose(1, 2), alpha=1 / math.sqrt(D))
        z = torch.bmm(scores.softmax(-1), v)
        return self.o(z.view(b, H, t, D).transpose(1, 2).flatten(2))


class OpenSoftmax(nn.Module):
    """The softmax written out, its maximum subtracted, in place where people do that."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads = H
        self.qkv, self.proj = nn.Linear(M, 3 * M), nn.Linear(M, M)

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, H, D).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT
        scores /= D**0.5
        scores.masked_fill_(torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1), -math.inf)
        scores = scores - scores.max(dim=-1, keepdim=True).values
        e = torch.exp(scores)
        return self.proj((e / e.sum(-1, keepdim=True) @ v).transpose(1, 2).reshape(b, t, M))


class LoopOverHeads(nn.Module):
    """A head after the other, written into its columns of the result."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads = H
        self.each = nn.ModuleList(nn.ModuleList(nn.Linear(M, D, bias=False) for _ in range(3)) for _ in range(H))
        self.out = nn.Linear(M, M)

    def forward(self, x: Tensor) -> Tensor:
        z = torch.zeros(x.shape[0], x.shape[1], M, dtype=x.dtype)
        for r, (q, k, v) in enumerate(self.each):
            weights = torch.softmax(q(x) @ k(x).mT / math.sqrt(D), -1)
            z[:, :, r * D : (r + 1) * D] = weights @ v(x)
        return self.out(z)


class Cross(nn.Module):
    """Queries from one sequence, keys and values from another, and keys that are padding."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = H
        self.to_q, self.to_kv, self.to_out = nn.Linear(M, M), nn.Linear(10, 2 * M), nn.Linear(M, M)

    def forward(self, x: Tensor, context: Tensor, keep: Tensor) -> Tensor:
        q, (k, v) = self.to_q(x), self.to_kv(context).chunk(2, dim=-1)
        q, k, v = (one.unflatten(-1, (H, D)).transpose(1, 2) for one in (q, k, v))
        z = F.scaled_dot_product_attention(q, k, v, attn_mask=keep[:, None, None, :])
        return self.to_out(z.transpose(1, 2).flatten(-2))


class Grouped(nn.Module):
    """Key and value heads that several query heads read."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.num_heads, self.num_kv_heads = H, G
        self.q, self.k, self.v, self.o = (nn.Linear(M, n * D, bias=False) for n in (H, G, G, H))

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        q, k, v = (f(x).view(b, t, -1, D).transpose(1, 2) for f in (self.q, self.k, self.v))
        if self.way == "interleave":
            k, v = (one.repeat_interleave(H // G, dim=1) for one in (k, v))
        elif self.way == "expand":
            k, v = (one[:, :, None].expand(b, G, H // G, t, D).reshape(b, H, t, D) for one in (k, v))
        z = F.scaled_dot_product_attention(q, k, v, enable_gqa=self.way == "sdpa")
        return self.o(z.transpose(1, 2).reshape(b, t, M))


class Rotary(nn.Module):
    """Positions turned into queries and keys, neighbours in pairs or the two halves."""

    def __init__(self, pairs: bool) -> None:
        super().__init__()
        self.pairs = pairs
        self.num_heads = H
        self.qkv, self.out = nn.Linear(M, 3 * M), nn.Linear(M, M)
        self.register_buffer("freq", 10000 ** (-torch.arange(0, D, 2) / D))

    def turned(self, x: Tensor) -> Tensor:
        angle = torch.arange(x.shape[2])[:, None] * self.freq
        one, other = (x[..., ::2], x[..., 1::2]) if self.pairs else x.chunk(2, -1)
        both = one * angle.cos() - other * angle.sin(), one * angle.sin() + other * angle.cos()
        return torch.stack(both, -1).flatten(-2) if self.pairs else torch.cat(both, -1)

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, H, D).permute(2, 0, 3, 1, 4).unbind()
        z = F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True)
        return self.out(z.transpose(1, 2).reshape(b, t, M))


#: module, further arrays by argument (sizes as words, ``bool`` for truth values), named arguments
RIGHT: dict[str, tuple[nn.Module, dict[str, tuple[object, ...]]]] = {
    "fused, split, buffer": (Fused(), {}),
    "fused, chunk, sdpa causal": (Flash(), {}),
    "einops": (Einops(), {}),
    "einsum": (Einsum(), {}),
    "bmm": (Bmm(), {"mask": ("B", 1, "T", "T")}),
    "open softmax": (OpenSoftmax(), {}),
    "loop over heads": (LoopOverHeads(), {}),
    "cross": (Cross(), {"context": ("B", "S", 10), "keep": ("B", "S", bool)}),
    "grouped, repeat_interleave": (Grouped("interleave"), {}),
    "grouped, expand": (Grouped("expand"), {}),
    "grouped, sdpa": (Grouped("sdpa"), {}),
    "rotary, pairs": (Rotary(pairs=True), {}),
    "rotary, halves": (Rotary(pairs=False), {}),
}


# ---------------------------------------------------------------- modules with a catch


class DoubledWhenAlone(nn.Module):
    """Another function where the batch is 1."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] == 1 else x * 3


class SameEitherWay(nn.Module):
    """A branch on the length that makes no difference."""

    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Linear(M, M)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > 100:
            return self.f(x)
        return self.f(x)


class LoopOverPositions(nn.Module):
    """Python that counts the positions."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([x[:, t] * (t + 1) for t in range(x.shape[1])], 1)


class Counting(nn.Module):
    """A buffer that changes with every call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x + self.calls


class Remembering(nn.Module):
    """A mask that is made in the first call and kept."""

    def __init__(self) -> None:
        super().__init__()
        self.mask: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.mask is None:
            self.mask = torch.ones(x.shape[1], x.shape[1], dtype=x.dtype).tril()
        return self.mask @ x


class Showing(nn.Module):
    """Weights that are kept for people to look at, and never read."""

    def forward(self, x: Tensor) -> Tensor:
        self.weights = x.softmax(-1)
        return self.weights @ x.mT


class OnEntries(nn.Module):
    """A branch on what the tensor holds."""

    def forward(self, x: Tensor) -> Tensor:
        if (x > 0).any():
            return x
        return -x


class WritesInput(nn.Module):
    """An input that is changed."""

    def forward(self, x: Tensor) -> Tensor:
        x += 1
        return x


class Dropping(nn.Module):
    """Dropout on the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(x.softmax(-1))
