"""The programs: models of ours with what a person writes by hand, and programs of the zoo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any
from unittest import mock

from benchmarks.fit.by_hand import Policy, checkpointed, in_parts
from examples.forms import Step, serialize
from examples.models import MODELS, gpt, transformer, unet
from toast.analysis.calls import resolve_calls
from toast.analysis.forms import decode
from toast.analysis.load import load
from toast.recompute.names import flatten_with_names
from toast.resize.resize import resize

Module = Callable[[], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A training step that fits under no layout on `mesh`.

    `by_hand` writes it with a policy of `jax.checkpoint` and a number of parts of the batch, and
    `family` names its layouts by hand; both are empty where no person wrote it.
    """

    about: str
    mesh: str
    module: Module
    by_hand: Callable[[Policy, int], bytes] | None = None
    family: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A model of ours: where its loss and the function of one block are."""

    source: ModuleType
    block: str
    config: Any
    static: tuple[int, ...] = ()

    def write(self, policy: Policy, parts: int) -> bytes:
        """The step with its blocks under a policy and its batch in parts."""
        plain = getattr(self.source, self.block)
        block = checkpointed(plain, policy, self.static)
        with mock.patch.object(self.source, self.block, block):
            step: Step = self.source.make_step(self.config)
            if parts > 1:
                step = in_parts(step, partial(self.source.loss, self.config), parts)
            return serialize(step, "bytecode")


def ours(about: str, mesh: str, family: str, example: Example) -> Program:
    """A model of ours, as it is and by hand."""
    return Program(
        about=about,
        mesh=mesh,
        module=partial(example.write, "none", 1),
        by_hand=example.write,
        family=family,
    )


def _zoo(about: str, mesh: str, program: str, batch: int) -> Program:
    return Program(about=about, mesh=mesh, module=partial(_at, program, batch))


def _at(program: str, batch: int) -> bytes:
    """A program of the zoo at another batch, which is a dimension of its labels."""
    # Only here: who runs a program of ours needs nothing of the zoo.
    from benchmarks.zoo.lowering import module_of

    module = module_of(program)
    arguments = load(module).program.arguments
    labels = max(i for i, one in enumerate(arguments) if one.name.startswith("batch"))
    decoded = decode(module).module
    with decoded.context:
        flatten_with_names(resolve_calls(decoded))
    written, _ = resize(decoded, {(labels, 0): batch})
    return written


_T2B, _GPT, _UNET = (MODELS[name].presets["paper"] for name in ("t2b", "gpt", "unet"))
MIXED, DATA = "data=2,model=4", "data=8"
PROGRAMS: dict[str, Program] = {
    "gemma": ours(
        "Gemma 2B, 18 layers scanned, 32 texts of 2,048",
        MIXED,
        "transformer",
        Example(source=transformer, block="layer", config=replace(_T2B, scan=True)),
    ),
    "gemma_6": ours(
        "Gemma 2B, 6 layers, 192 texts of 1,024",
        DATA,
        "transformer",
        Example(
            source=transformer,
            block="layer",
            config=replace(_T2B, layers=6, batch=192, seq=1024, vocab=32128),
        ),
    ),
    "gpt": ours(
        "GPT of the paper, 4 of 8 layers of 14,336, 64 texts of 512",
        MIXED,
        "gpt",
        Example(source=gpt, block="layer", config=replace(_GPT, layers=4, batch=64), static=(0,)),
    ),
    "gpt_scan": ours(
        "GPT, 24 layers of 2,048 scanned, 64 texts of 512",
        DATA,
        "gpt",
        Example(
            source=gpt,
            block="layer",
            config=replace(_GPT, layers=24, d_model=2048, heads=16, batch=64, scan=True),
            static=(0,),
        ),
    ),
    "unet": ours(
        "U-Net of 256 to 512 channels, 4,096 images of 32 x 32",
        DATA,
        "unet",
        Example(
            source=unet,
            block="residual",
            config=replace(_UNET, channels=256, batch=4096, image=32, widen=(1, 2)),
            static=(0,),
        ),
    ),
    "zoo_mistral": _zoo("Mistral, AdamW", MIXED, "mistral/train-adamw-deep", 128),
    "zoo_roberta": _zoo("RoBERTa", MIXED, "roberta_prelayernorm/train-momentum", 2048),
    "zoo_dinov2": _zoo("DINOv2, a ViT", DATA, "dinov2/train-lion", 6144),
    "zoo_nnx": _zoo("flax.nnx, 24 layers scanned", DATA, "nnx_scanned/train-adamw-deep", 768),
}
