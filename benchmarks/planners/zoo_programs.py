"""Ten training steps of the zoo, and what a person who knows each library splits of them.

They are programs that no rule of the search was made for. The tactics are those of
`layouts.TACTICS`: the batch, hidden layers and heads as Megatron splits them (of the vocabulary
what the mesh divides), and the width of the parameters for storage.
"""

from __future__ import annotations

from benchmarks.planners.tactics import Tactic

_TOKENS: Tactic = (("['input_ids']", 0),)


def _flax(
    up: tuple[str, ...], heads: tuple[str, ...], *vocabulary: tuple[str, int]
) -> dict[str, Tactic]:
    """Tactics of a transformer whose kernels are (input, output)."""
    split = tuple((f"['{name}']['kernel']", -1) for name in (*up, *heads))
    return {
        "batch": _TOKENS,
        "parameters": ((f"['{up[0]}']['kernel']", -2),),
        "megatron": (*split, *vocabulary),
    }


_PROJECTIONS = ("q_proj", "k_proj", "v_proj")
_EMBEDDED = ("['embed_tokens']['embedding']", 0)
_HEAD = ("['lm_head']['kernel']", -1)

PROGRAMS: dict[str, tuple[str, dict[str, Tactic]]] = {
    "zoo_opt": ("opt/train-momentum", _flax(("fc1",), _PROJECTIONS, _EMBEDDED)),
    "zoo_xglm": ("xglm/train-momentum", _flax(("fc1",), _PROJECTIONS, _EMBEDDED)),
    "zoo_mistral": ("mistral/train-adam", _flax(("up_proj",), ("q_proj",), _HEAD)),
    "zoo_gpt_neo": ("gpt_neo/train-momentum", _flax(("c_fc",), _PROJECTIONS)),
    "zoo_gptj": ("gptj/train-adam", _flax(("fc_in",), _PROJECTIONS, _HEAD)),
    "zoo_bloom": (
        "bloom/train-adam",
        _flax(("dense_h_to_4h",), ("query_key_value",), ("['word_embeddings']['embedding']", 0)),
    ),
    "zoo_roberta": (
        "roberta_prelayernorm/train-momentum",
        _flax(("intermediate']['dense",), ("query", "key", "value")),
    ),
    "zoo_electra": (
        "electra/train-lion",
        _flax(("intermediate']['dense",), ("query", "key", "value")),
    ),
    "zoo_mixer": (
        "mlp_mixer/train-lion",
        {
            "batch": (("['images']", 0),),
            "parameters": (("['Dense_2']['kernel']", -2),),
            "megatron": (("['Dense_2']['kernel']", -1), ("['Dense_6']['kernel']", -1)),
        },
    ),
    "zoo_sentences": (
        "sentence_encoder/train-lion",
        {
            "batch": (("['ids']", 0),),
            "parameters": ((".up.weight", -1),),
            "megatron": ((".up.weight", -2), (".query_proj.weight", -2)),
        },
    ),
}
"""By the name in the tables: the program of the zoo, and its tactics."""
