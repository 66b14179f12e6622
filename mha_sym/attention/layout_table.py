"""The table of known layouts: for each its words, its rows in one-line form, and features that it cannot tell apart.

Defines `TABLE`.  First come layouts by the way in which weights lie, then libraries by the names that their parameters
have; a further layout is one more row.  What a row means is in `mha_sym.attention.rows`.
"""

from __future__ import annotations

from collections.abc import Mapping

#: words, rows, and head features that are one
Entry = tuple[str, dict[str, str], dict[str, str]]

_TARGETS = ("w_q", "w_k", "w_v", "w_o", "b_q", "b_k", "b_v", "b_o")

#: values as wide as keys
_ALIKE = {"v": "k"}


def _rows(patterns: Mapping[str, str], names: str) -> dict[str, str]:
    """Patterns under the stored names, which are given in the order of the patterns; ``-`` leaves one out."""
    pairs = zip(patterns.items(), names.split(), strict=True)
    return {target: f"{name}: {pattern}" for (target, pattern), name in pairs if name != "-"}


def _patterns(*eight: str) -> dict[str, str]:
    return dict(zip(_TARGETS, eight, strict=True))


_PLAIN_BIASES = ("(h k) -> (h k)", "(h k) -> (h k)", "(h v) -> (h v)", "m -> m")
_GROUPED_BIASES = ("(h k) -> (h k)", "(g k) -> (g r k)", "(g v) -> (g r v)", "m -> m")
_OUT_IN, _IN_OUT = "m (h v) -> (h v) m", "(h v) m -> (h v) m"

_COMBINED = _patterns("m (h k) -> m (h k)", "m (h k) -> m (h k)", "m (h v) -> m (h v)", _IN_OUT, *_PLAIN_BIASES)
_LINEAR = _patterns("(h k) m -> m (h k)", "(h k) m -> m (h k)", "(h v) m -> m (h v)", _OUT_IN, *_PLAIN_BIASES)
_SEPARATE = _patterns(
    "h m k -> m (h k)", "h m k -> m (h k)", "h m v -> m (h v)", "h v m -> (h v) m",
    "h k -> (h k)", "h k -> (h k)", "h v -> (h v)", "m -> m",
)  # fmt: skip
_HEADS_INSIDE = _patterns(
    "m h k -> m (h k)", "m h k -> m (h k)", "m h v -> m (h v)", "h v m -> (h v) m",
    "h k -> (h k)", "h k -> (h k)", "h v -> (h v)", "m -> m",
)  # fmt: skip
_GROUPED = _patterns(
    "m (h k) -> m (h k)", "m (g k) -> m (g r k)", "m (g v) -> m (g r v)", _IN_OUT, *_GROUPED_BIASES
)
_GROUPED_LINEAR = _patterns(
    "(h k) m -> m (h k)", "(g k) m -> m (g r k)", "(g v) m -> m (g r v)", _OUT_IN, *_GROUPED_BIASES
)
_GROUPS_INSIDE = _patterns(
    "m h k -> m (h k)", "m g k -> m (g r k)", "m g v -> m (g r v)", "h v m -> (h v) m",
    "h k -> (h k)", "g k -> (g r k)", "g v -> (g r v)", "m -> m",
)  # fmt: skip


def _strided(patterns: Mapping[str, str]) -> dict[str, str]:
    """Query head i reads key and value head ``i mod G`` instead of ``floor(i / R)``."""
    return {target: pattern.replace("(g r ", "(r g ") for target, pattern in patterns.items()}


def _packed(weights: str, biases: str, w_o: str) -> dict[str, str]:
    """Queries, keys and values in one parameter; ``{}`` stands for the number of the block."""
    q, k, v = ("m (h k)", "m (h k)", "m (h v)") if "g" not in weights else ("m (h k)", "m (g r k)", "m (g r v)")
    if "(r +" in weights:
        q = v = "m (g r k)"  # one letter for all three: their blocks are as wide as one another
    rows = [f"{weights} [{n}] -> {right}" for n, right in enumerate((q, k, v))]
    rows_b = [f"{biases} [{n}] -> {right.removeprefix('m ')}" for n, right in enumerate((q, k, v))]
    return _patterns(*rows, w_o, *rows_b, "m -> m")


def _counted(weights: str, biases: str, w_o: str) -> dict[str, str]:
    """Three parameters of one size in one, which a letter counts."""
    rows = [f"{weights} -> three m (h k) [{n}]" for n in range(3)]
    return _patterns(*rows, w_o, *(f"{biases} -> three (h k) [{n}]" for n in range(3)), "m -> m")


_QKV, _QKV_GROUPED = "(h k + h k + h v)", "(h k + g k + g v)"
_BY_HEAD, _BY_GROUP = "(h (k + k + v))", "(g (r + 1 + 1) k)"

_PACKED = _packed(f"m {_QKV}", _QKV, _IN_OUT)
_PACKED_LINEAR = _packed(f"{_QKV} m", _QKV, _OUT_IN)
_BY_HEAD_LINEAR = _packed(f"{_BY_HEAD} m", _BY_HEAD, _OUT_IN)
_GROUPED_PACKED_LINEAR = _packed(f"{_QKV_GROUPED} m", _QKV_GROUPED, _OUT_IN)
_BY_GROUP_LINEAR = _packed(f"{_BY_GROUP} m", _BY_GROUP, _OUT_IN)
_SHARDED_QVK = _patterns(
    *(f"(four three l k) m -> three m (four l k) [{n}]" for n in (0, 2, 1)), _OUT_IN, *_PLAIN_BIASES
)  # fmt: skip
_TORCH = _counted("(three h k) m", "(three h k)", _OUT_IN)
_TORCH_SEPARATE = {
    **_TORCH, "w_q": "(h k) m -> m (h k)", "w_k": "(h k) n -> n (h k)", "w_v": "(h v) p -> p (h v)",
}  # fmt: skip

_OWN = "w_q w_k w_v w_o b_q b_k b_v b_o"
_ONE = "w_qkv w_qkv w_qkv w_o b_qkv b_qkv b_qkv b_o"


def _dotted(weights: str, biases: bool = True, one: str = "weight", other: str = "bias", dot: str = ".") -> str:
    """``q k v o`` as names of weights and biases: ``q.weight k.weight ... o.bias``."""
    names = weights.split()
    again = [f"{name}{dot}{other}" for name in names] if biases else ["-"] * len(names)
    return " ".join([*(f"{name}{dot}{one}" for name in names), *again])


def _one_name(packed: str, out: str, biases: bool = True) -> str:
    return _dotted(f"{packed} {packed} {packed} {out}", biases)


TABLE: dict[str, Entry] = {
    # ------------------------------------------------ by the way in which they lie
    "combined": (
        "one matrix for all heads, (in, out), the columns of a head together", _rows(_COMBINED, _OWN), {},
    ),
    "separate": ("one matrix a head, as in the paper", _rows(_SEPARATE, _OWN), {}),
    "linear": ("torch.nn.Linear style, (out, in)", _rows(_LINEAR, _OWN), {}),
    "packed": ("[Q | K | V] in one matrix, (in, out)", _rows(_PACKED, _ONE), {}),
    "packed_linear": ("[Q; K; V] in one matrix, (out, in)", _rows(_PACKED_LINEAR, _ONE), {}),
    "packed_by_head": (
        "Q, K and V of a head together, (in, out)", _rows(_packed(f"m {_BY_HEAD}", _BY_HEAD, _IN_OUT), _ONE), {},
    ),
    "packed_by_head_linear": ("Q, K and V of a head together, (out, in)", _rows(_BY_HEAD_LINEAR, _ONE), {}),
    "packed_innermost_linear": (
        "Q, K and V of a feature together, (out, in)",
        _rows(_counted("(h k three) m", "(h k three)", _OUT_IN), _ONE), _ALIKE,
    ),
    "grouped": ("fewer key and value heads, (in, out)", _rows(_GROUPED, _OWN), {}),
    "grouped_linear": ("fewer key and value heads, (out, in)", _rows(_GROUPED_LINEAR, _OWN), {}),
    "grouped_strided": (
        "fewer key and value heads, (in, out), query head i reading head i mod G",
        _rows(_strided(_GROUPED), _OWN), {},
    ),
    "grouped_strided_linear": (
        "fewer key and value heads, (out, in), query head i reading head i mod G",
        _rows(_strided(_GROUPED_LINEAR), _OWN), {},
    ),
    "grouped_packed": (
        "[Q | K | V] with fewer key and value heads, (in, out)",
        _rows(_packed(f"m {_QKV_GROUPED}", _QKV_GROUPED, _IN_OUT), _ONE), {},
    ),
    "grouped_packed_linear": (
        "[Q; K; V] with fewer key and value heads, (out, in)", _rows(_GROUPED_PACKED_LINEAR, _ONE), {},
    ),
    "grouped_by_group_linear": (
        "the queries of a group with its key and value, (out, in)", _rows(_BY_GROUP_LINEAR, _ONE), _ALIKE,
    ),
    # ------------------------------------------------ by the names that libraries give
    "torch_packed": (
        "torch.nn.MultiheadAttention with one in_proj_weight",
        _rows(_TORCH, "in_proj_weight in_proj_weight in_proj_weight out_proj.weight"
                      " in_proj_bias in_proj_bias in_proj_bias out_proj.bias"), _ALIKE,
    ),
    "torch_separate": (
        "torch.nn.MultiheadAttention with kdim or vdim of its own",
        _rows(_TORCH_SEPARATE, "q_proj_weight k_proj_weight v_proj_weight out_proj.weight"
                               " in_proj_bias in_proj_bias in_proj_bias out_proj.bias"), _ALIKE,
    ),
    "flax": (
        "Flax MultiHeadDotProductAttention and nnx.MultiHeadAttention with as many key as query heads",
        _rows(_HEADS_INSIDE, _dotted("query key value out", one="kernel")), {},
    ),
    "keras": (
        "keras.layers.MultiHeadAttention",
        _rows(_HEADS_INSIDE, _dotted("query key value attention_output", one="kernel", dot="/")), {},
    ),
    "keras_grouped": (
        "keras.layers.GroupQueryAttention, whose parameters have the names of keras",
        _rows(_GROUPS_INSIDE, _dotted("query key value attention_output", one="kernel", dot="/")), {},
    ),
    "haiku": (
        "hk.MultiHeadAttention", _rows(_COMBINED, _dotted("query key value linear", one="w", other="b", dot="/")), {},
    ),
    "equinox": (
        "eqx.nn.MultiheadAttention",
        _rows(_LINEAR, _dotted("query_proj key_proj value_proj output_proj")), {},
    ),
    "x_transformers": (
        "x-transformers, query head i reading key head i mod G",
        _rows(_strided(_GROUPED_LINEAR), _dotted("to_q to_k to_v to_out", biases=False)), {},
    ),
    "bert": ("BERT, RoBERTa", _rows(_LINEAR, _dotted("query key value dense")), {}),
    "llama": (
        "Llama, Mistral, Qwen2, Gemma: q_proj to o_proj, fewer key and value heads",
        _rows(_GROUPED_LINEAR, _dotted("q_proj k_proj v_proj o_proj")), {},
    ),
    "opt": ("OPT, GPT-J, Whisper: q_proj to out_proj", _rows(_LINEAR, _dotted("q_proj k_proj v_proj out_proj")), {}),
    "t5": ("T5, which does not scale its scores", _rows(_LINEAR, _dotted("q k v o", biases=False)), {}),
    "gpt2": (
        "GPT-2, [Q | K | V], (in, out)", _rows(_counted("m (three h k)", "(three h k)", _IN_OUT),
                                               _one_name("c_attn", "c_proj")), _ALIKE,
    ),
    "nanogpt": ("nanoGPT, minGPT: [Q; K; V], (out, in)", _rows(_TORCH, _one_name("c_attn", "c_proj")), _ALIKE),
    "starcoder": (
        "StarCoder with one key and value head", _rows(_GROUPED_PACKED_LINEAR, _one_name("c_attn", "c_proj")), {},
    ),
    "timm_vit": ("timm vision transformers", _rows(_TORCH, _one_name("qkv", "proj")), _ALIKE),
    "mpt": ("MPT, flash-attention modules", _rows(_TORCH, _one_name("Wqkv", "out_proj")), _ALIKE),
    "phi3": ("Phi-3", _rows(_GROUPED_PACKED_LINEAR, _one_name("qkv_proj", "o_proj")), {}),
    "gpt_neox": (
        "GPT-NeoX, BLOOM, Persimmon: Q, K and V of a head together",
        _rows(_counted("(h three k) m", "(h three k)", _OUT_IN), _one_name("query_key_value", "dense")), _ALIKE,
    ),
    "codegen": (
        "CodeGen: in each of four shards its queries, values and keys",
        _rows(_SHARDED_QVK, "qkv_proj.weight qkv_proj.weight qkv_proj.weight out_proj.weight - - - -"), _ALIKE,
    ),
    "falcon_7b": (
        "Falcon with one key and value head", _rows(_GROUPED_PACKED_LINEAR, _one_name("query_key_value", "dense")), {},
    ),
    "falcon_grouped": (
        "Falcon 40B: the queries of a group with its key and value",
        _rows(_BY_GROUP_LINEAR, _one_name("query_key_value", "dense")), _ALIKE,
    ),
}  # fmt: skip
