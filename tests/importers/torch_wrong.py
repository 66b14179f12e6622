"""Torch modules with one fault each; the line with the fault, or the first that it spoils, ends in ``# here``.

Defines `WRONG`, by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

M, H, D = 20, 4, 5  # model width, heads, features of a head


class Layer(nn.Module):
    """Four linear maps, and what is done with them."""

    def __init__(self, run: Callable[[Layer, Tensor], Tensor]) -> None:
        super().__init__()
        self.num_heads, self.run = H, run
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(M, M) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self, x)

    def heads(self, x: Tensor) -> list[Tensor]:
        """Queries, keys and values ``(b, h, t, d)``, as they should be."""
        b, t, _ = x.shape
        return [f(x).view(b, t, H, D).transpose(1, 2) for f in (self.to_q, self.to_k, self.to_v)]

    def joined(self, z: Tensor) -> Tensor:
        """The output, as it should be."""
        return self.to_out(z.transpose(1, 2).reshape(z.shape[0], z.shape[2], M))


def split_without_transpose(layer: Layer, x: Tensor) -> Tensor:
    b, t, _ = x.shape
    q, k, v = (f(x).view(b, H, t, D) for f in (layer.to_q, layer.to_k, layer.to_v))  # here
    return layer.joined(F.scaled_dot_product_attention(q, k, v))


def features_before_heads(layer: Layer, x: Tensor) -> Tensor:
    q, k, _ = layer.heads(x)
    v = layer.to_v(x).view(*x.shape[:2], D, H).permute(0, 3, 1, 2)  # here
    return layer.joined(F.scaled_dot_product_attention(q, k, v))


def join_without_transpose(layer: Layer, x: Tensor) -> Tensor:
    z = F.scaled_dot_product_attention(*layer.heads(x))
    return layer.to_out(z.reshape(*x.shape))  # here


def scale_squared_wrong(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.heads(x)
    weights = torch.softmax(q @ k.mT / (2 * D), -1)  # here
    return layer.joined(weights @ v)


def scaled_twice(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.heads(x)
    return layer.joined(F.scaled_dot_product_attention(q / math.sqrt(D), k, v))


def softmax_over_queries(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.heads(x)
    weights = torch.softmax(q @ k.mT / math.sqrt(D), -2)  # here
    return layer.joined(weights @ v)


def softmax_over_heads(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.heads(x)
    weights = torch.softmax(q @ k.mT / math.sqrt(D), 1)  # here
    return layer.joined(weights @ v)


def normalised_over_heads(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.heads(x)
    scores = q @ k.mT / math.sqrt(D)
    weights = scores.exp() / scores.exp().sum(1, keepdim=True)  # here
    return layer.joined(weights @ v)


def keys_as_values(layer: Layer, x: Tensor) -> Tensor:
    q, k, _ = layer.heads(x)
    return layer.joined(F.scaled_dot_product_attention(q, k, k))  # here


def heads_added(layer: Layer, x: Tensor) -> Tensor:
    z = F.scaled_dot_product_attention(*layer.heads(x))
    return layer.to_out(z.sum(1, keepdim=True).expand_as(z).transpose(1, 2).flatten(2))  # here


def batch_and_heads_mixed(layer: Layer, x: Tensor) -> Tensor:
    b, t, _ = x.shape
    q, k, v = (one.reshape(b * H, t, D) for one in layer.heads(x))
    z = torch.bmm(torch.softmax(torch.bmm(q, k.mT) / math.sqrt(D), -1), v)
    return layer.joined(z.view(H, b, t, D).transpose(0, 1))  # here


#: the faults; none of them changes the shape of anything that is returned
WRONG: dict[str, Callable[[Layer, Tensor], Tensor]] = {
    run.__name__: run for run in (
        split_without_transpose, features_before_heads, join_without_transpose, scale_squared_wrong,
        softmax_over_queries, softmax_over_heads, normalised_over_heads, keys_as_values, heads_added,
        batch_and_heads_mixed,
    )
}  # fmt: skip
