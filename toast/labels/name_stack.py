"""What JAX's name stack says of an op: scopes, the equation of an einsum, the pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

EINSUM = re.compile(r"([A-Za-z]*),([A-Za-z]*)->([A-Za-z]*)")
_WRAPPED = re.compile(r"(\w+)\((.*)\)")
_TRANSFORMS = frozenset({"jvp", "transpose", "vmap", "pmap", "shard_map", "remat", "checkpoint"})
_WORD = re.compile(r"[A-Za-z_]\w*")
_DIGITS = re.compile(r"\d+")
_DULL = re.compile(
    r"<.*>|__\w+__|wrap\w*|fun|f|p?jit|jvp|vmap|transpose|remat2?|checkpoint|rematted_computation|"
    r"loss|main|while|body|cond|branch_\d+_fun|closed_call|core_call|custom_[jv]\w+|scan|run_scoped"
)
RECOMPUTED = "rematted_computation"


@dataclass(frozen=True, slots=True, kw_only=True)
class NameStack:
    """The parts of a name stack.

    `scopes` are those of `jax.named_scope`, as flax.linen opens one for each module, numbers
    starred; `helper` is a jitted function of a library, such as `softmax`, `equation` the einsum's.

    >>> NameStack.parse("jit(step)/transpose(jvp(Block_0/attn))/jit(softmax)/div")
    NameStack(scopes=('Block_*', 'attn'), helper='softmax', equation='', recomputed=False)
    """

    scopes: tuple[str, ...]
    helper: str
    equation: str
    recomputed: bool

    @classmethod
    @lru_cache(maxsize=1 << 14)
    def parse(cls, label: str) -> NameStack:
        """Read a stack; its last step, the op itself, is left out."""
        steps = [*_steps(label)]
        inner = steps[1:] if steps and steps[0].startswith("jit(") else steps
        helpers = [step[4:-1] for step in inner if step.startswith("jit(")]
        equations = [step for step in inner if EINSUM.fullmatch(step)]
        plain = inner[:-1] if inner and _WORD.fullmatch(inner[-1]) else inner
        return cls(
            scopes=tuple(
                _DIGITS.sub("*", step)
                for step in plain
                if _WORD.fullmatch(step) and is_telling(step)
            ),
            helper=next((one for one in helpers if one[0] != "_" and is_telling(one)), ""),
            equation=equations[-1] if equations else "",
            recomputed=RECOMPUTED in inner,
        )


def is_telling(name: str) -> bool:
    """Whether a function's or a scope's name says more than that it is one."""
    return bool(name) and not _DULL.fullmatch(name)


def telling_part(function: str) -> str:
    """The last part of a qualified name that tells: `Block` of `Block.__call__`; or ''."""
    return next((part for part in reversed(function.split(".")) if is_telling(part)), "")


def _steps(label: str) -> Iterator[str]:
    """The steps of a stack, those of transformations without them; the outermost `jit(f)` too."""
    for step in _split(label):
        wrapped = _WRAPPED.fullmatch(step)
        if wrapped and wrapped[1] in _TRANSFORMS:
            yield from _steps(wrapped[2])
        elif step:
            yield step


def _split(label: str) -> Iterator[str]:
    """Split at slashes that are within no parentheses."""
    start = depth = 0
    for place, character in enumerate(label):
        depth += (character == "(") - (character == ")")
        if character == "/" and depth == 0:
            yield label[start:place]
            start = place + 1
    yield label[start:]
