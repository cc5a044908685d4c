"""What tactics of people split, by family of programs: ends of names, and a dimension of each."""

from __future__ import annotations

Tactic = tuple[tuple[str, int], ...]
"""Dimensions of arguments, counted from the last: the end of a name, and which."""

FAMILIES: dict[str, dict[str, Tactic]] = {
    "transformer": {
        "batch": (("['tokens']", 0),),
        "sequence": (("['tokens']", 1),),
        "parameters": (("['up']", -2),),
        "megatron": (("['up']", -1), ("['query']", -2), ("['embedding']", 0)),
    },
    "gpt": {
        "batch": (("['inputs']", 0),),
        "parameters": (("['up']['kernel']", -2),),
        "megatron": (("['up']['kernel']", -1), ("['query']['kernel']", -1)),
    },
    "itx": {
        "batch": (("tokens", 0),),
        "hidden": (("['up']", -1),),
        "heads": (("['query']", -2),),
    },
    "gns": {
        "edges": (("['senders']", 0),),
        "nodes": (("batch['nodes']", 0),),
        "megatron": tuple(
            (f"['{kind}']['hidden'][{layer}]['kernel']", -1)
            for kind in ("edge", "node")
            for layer in (0, 2)
        ),
        "parameters": tuple((f"['hidden'][{layer}]['kernel']", -1) for layer in (0, 2)),
    },
    "unet": {
        "batch": (("['images']", 0),),
        "megatron": (("['first']['kernel']", -1), ("['query']['kernel']", -1)),
        "parameters": (("['first']['kernel']", -2), ("['second']['kernel']", -1)),
    },
    "mlp": {
        "batch": (("x", 0),),
        "megatron": (("['w1']", -1),),
        "parameters": (("['w1']", -2), ("['w2']", -1)),
    },
}
