"""Programs with numbers and ops changed, as a tool with a mistake in it would write them.

    python -m tests.toast.changed_programs FIRST END

Plans those with the numbers from FIRST up to END, in this process, which XLA and MLIR may abort. A
line of JSON says what came of each: its number, the program that it is made of, and a plan
(`planned`), the code of the caller's error, or the traceback of a mistake of ours.
"""

from __future__ import annotations

import json
import random
import re
import sys
import traceback
from collections.abc import Iterator
from functools import cache

import jax
import jax.numpy as jnp

from examples import forms, gemma, mlp
from tests.analysis.op_modules_special import CONTROL, OPAQUE
from tests.analysis.op_modules_structured import STRUCTURED
from toast.analysis.errors import ToastError
from toast.pipeline.plan_module import make_plan
from toast.request.request import PlanRequest

PLANNED = "planned"
REQUEST = PlanRequest(
    mesh="data=2,model=2", rollouts=8, threads=1, device="tpu-v5e", advice=False, refine=True
)
_NUMBER = re.compile(r"(?<![\w%#.])\d{1,4}(?![\w.x])")
_SIZE = re.compile(r"(?<=[<x])\d{1,4}(?=x)")
_OP = re.compile(r"stablehlo\.\w+")
_ALIKE = (
    ("exponential", "tanh", "negate", "sqrt", "abs", "log"),
    ("add", "multiply", "maximum", "subtract", "divide", "minimum"),
)


def _looped(x: jax.Array, w: jax.Array) -> jax.Array:
    def step(carry: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        return jnp.tanh(carry @ w), carry.sum(0)

    last, sums = jax.lax.scan(step, x, None, length=5)
    return last[jnp.argsort(last[:, 0])] + sums.mean(0)


@cache
def programs() -> dict[str, str]:
    """Texts by name: training steps, a loop, and a small module for each op."""
    shapes = [jax.ShapeDtypeStruct(size, jnp.float32) for size in ((16, 8), (8, 8))]
    found = {
        "gemma": gemma.lower(gemma.PRESETS["tiny"]).as_text(),
        "looped": jax.jit(jax.grad(lambda *a: _looped(*a).sum())).lower(*shapes).as_text(),
        "mlp": forms.serialize(mlp.make_step(mlp.PRESETS["tiny"]), "text").decode(),
    }
    return found | CONTROL | OPAQUE | STRUCTURED


def changed(number: int) -> tuple[str, str]:
    """The name of a program, and its text with up to four changes."""
    chance = random.Random(number)
    large = ("gemma", "looped", "mlp")
    name = chance.choice(large if number % 2 else sorted(programs()))
    text = programs()[name]
    for _ in range(chance.randint(1, 4)):
        text = _change(text, chance)
    return name, text


def _change(text: str, chance: random.Random) -> str:
    kind = chance.random()
    if kind < 0.2:
        names = chance.choice(_ALIKE)
        spots = [spot for spot in _OP.finditer(text) if spot[0][len("stablehlo.") :] in names]
        new = f"stablehlo.{chance.choice(names)}"
    else:
        spots = list((_NUMBER if kind < 0.9 else _SIZE).finditer(text))
        old = int(chance.choice(spots)[0]) if spots else 0
        new = str(chance.choice([0, 1, 2, 3, 7, -1, 10**6, old + 1, 2 * old, old // 2]))
    if not spots:
        return text
    spot = chance.choice(spots)
    return text[: spot.start()] + new + text[spot.end() :]


def outcomes(first: int, end: int) -> Iterator[tuple[int, str, str]]:
    """Number, program, and what came of it, one by one."""
    for number in range(first, end):
        name, text = changed(number)
        try:
            make_plan(text.encode(), REQUEST)
        except ToastError as error:
            yield number, name, error.code
        except Exception:
            yield number, name, traceback.format_exc()
        else:
            yield number, name, PLANNED


if __name__ == "__main__":
    for outcome in outcomes(*map(int, sys.argv[1:3])):
        sys.stdout.write(json.dumps(outcome) + "\n")
        sys.stdout.flush()
