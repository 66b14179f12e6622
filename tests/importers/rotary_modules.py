"""Torch modules that make the tables of their rotary positions by themselves, right and wrong, as people write them."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def rotate_half(x: Tensor) -> Tensor:
    one, other = x.chunk(2, -1)
    return torch.cat((-other, one), -1)


class Frequencies(nn.Module):
    """Halves: angles twice over, their cosines taken after that; frequencies in a buffer."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / 10000 ** (torch.arange(0, features, 2).float() / features))

    def forward(self, length: int) -> tuple[Tensor, Tensor]:
        angles = torch.outer(torch.arange(length).to(self.inv_freq.dtype), self.inv_freq)
        both = torch.cat((angles, angles), -1)
        return both.cos(), both.sin()


class InHalves(nn.Module):
    """As in Llama: fewer key and value heads, causal."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads, self.num_key_value_heads, self.head_dim = 4, 2, 6
        self.q_proj, self.k_proj = nn.Linear(24, 24, bias=False), nn.Linear(24, 12, bias=False)
        self.v_proj, self.o_proj = nn.Linear(24, 12, bias=False), nn.Linear(24, 24, bias=False)
        self.rotary = Frequencies(6)

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        q, k, v = (p(x).view(b, t, -1, 6).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        cos, sin = self.rotary(t)
        q, k = (one * cos + rotate_half(one) * sin for one in (q, k))
        k, v = (one.repeat_interleave(2, dim=1) for one in (k, v))
        z = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(z.transpose(1, 2).reshape(b, t, -1))


class Kept(nn.Module):
    """As in GPT-NeoX: the first features of a head, tables of 32 positions in buffers, cut or looked up."""

    def __init__(self, looked_up: bool = False) -> None:
        super().__init__()
        self.num_heads, self.looked_up = 3, looked_up
        self.qkv, self.dense = nn.Linear(24, 72), nn.Linear(24, 24)
        cos, sin = Frequencies(4)(32)
        self.register_buffer("cos_cached", cos[None, None])
        self.register_buffer("sin_cached", sin[None, None])

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 24).transpose(1, 2).chunk(3, -1)
        tables = (self.cos_cached, self.sin_cached)
        cos, sin = (one[0, 0][torch.arange(t)] if self.looked_up else one[:, :, :t] for one in tables)
        q, k = (torch.cat((y[..., :4] * cos + rotate_half(y[..., :4]) * sin, y[..., 4:]), -1) for y in (q, k))
        weights = (q @ k.transpose(-1, -2) / math.sqrt(8)).softmax(-1)
        return self.dense((weights @ v).transpose(1, 2).reshape(b, t, -1))


class Neighbours(nn.Module):
    """As in GPT-J: neighbouring features, each number of a table twice in a row; with mistakes."""

    def __init__(self, wrong: str = "", base: int = 10000) -> None:
        super().__init__()
        self.num_heads, self.head_dim, self.wrong, self.base = 4, 6, wrong, base
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(24, 24, bias=False) for _ in range(4))

    def turned(self, x: Tensor, length: int, first: int = 0) -> Tensor:
        frequencies = 1.0 / self.base ** (torch.arange(0, self.head_dim, 2) / self.head_dim)
        angles = torch.einsum("t,f->tf", (torch.arange(length) + first).float(), frequencies)
        cos, sin = (one.repeat_interleave(2, -1) for one in (angles.cos(), angles.sin()))
        if self.wrong == "exchanged":
            cos, sin = sin, cos
        one, other = x[..., ::2], x[..., 1::2]
        partner = rotate_half(x) if self.wrong == "pairs" else torch.stack((-other, one), -1).flatten(-2)
        return x * cos + partner * sin

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        q, k, v = (
            p(x).view(b, t, self.num_heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        q = self.turned(q, t)
        k = k if self.wrong == "keys left" else self.turned(k, t, int(self.wrong == "shifted"))
        weights = (q @ k.transpose(-1, -2) / math.sqrt(self.head_dim)).softmax(-1)
        return self.out_proj((weights @ v).transpose(1, 2).reshape(b, t, -1))
