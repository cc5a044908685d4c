"""The programs that are compiled: tiny ones, and large ones cut to a layer or two at full width.

A program whose peak is below some 64 MiB says little about memory on a TPU, where its arrays stay
on the chip; hence the cut ones. `REWRITTEN` are some of them after TOAST rewrote them. `HELD_OUT`
are the models of public libraries, which nobody looks at while tuning the cost model: kept as
modules, so that nothing has to be installed for them.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from examples import gemma, mlp
from examples.forms import Step, serialize
from examples.models import MODELS, gat, gns, gpt, itx, t2b, t7b, unet, wideresnet
from toast.pipeline.variants import Variant, Variants
from toast.request.request import PlanRequest

Maker = Callable[[], Step]
KEPT = Path(__file__).parent / "data" / "modules"
HELD_OUT = (
    "bert_cut",
    "gpt2_cut",
    "llama_cut",
    "t5_cut",
    "vit_cut",
    "whisper_cut",
    "resnet_cut",
    "diffusers_cut",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many (mesh, plan) cases of a model are compiled: on a GPU, on a v5e, on other TPUs.

    What a TPU compiles in minutes gets few there; the order of `SIZES` is that of compile time.
    """

    gpu: int
    v5e: int
    tpu: int

    def on(self, target: str) -> int:
        """The number for a target."""
        if not target.startswith("tpu"):
            return self.gpu
        return self.v5e if target.startswith("tpu-v5e") else self.tpu


SIZES: dict[str, Size] = {
    "mlp_large": Size(gpu=12, v5e=25, tpu=21),
    "gat": Size(gpu=12, v5e=25, tpu=21),
    "itx_2": Size(gpu=12, v5e=25, tpu=21),
    "itx_2_prefill": Size(gpu=12, v5e=25, tpu=21),
    "gpt_1": Size(gpu=12, v5e=21, tpu=4),
    "mlp_small": Size(gpu=6, v5e=21, tpu=2),
    "t2b_scan": Size(gpu=10, v5e=4, tpu=3),
    "gpt_2_scan": Size(gpu=10, v5e=21, tpu=3),
    "gemma_small": Size(gpu=12, v5e=5, tpu=2),
    "gns_2": Size(gpu=8, v5e=3, tpu=2),
    "gemma_2b_1": Size(gpu=8, v5e=3, tpu=2),
    "t7b_1": Size(gpu=8, v5e=3, tpu=2),
    "wideresnet_cut": Size(gpu=8, v5e=1, tpu=1),
    "unet_cut": Size(gpu=6, v5e=0, tpu=0),
    "gemma_2b_2_remat": Size(gpu=4, v5e=1, tpu=1),
    "gns_3_65k": Size(gpu=3, v5e=1, tpu=0),
    "gemma_demo": Size(gpu=4, v5e=21, tpu=0),
    "gns_tiny": Size(gpu=2, v5e=0, tpu=0),
    "itx_tiny": Size(gpu=2, v5e=0, tpu=0),
    "gpt_tiny": Size(gpu=2, v5e=0, tpu=0),
    "gat_tiny": Size(gpu=2, v5e=0, tpu=0),
    "wideresnet_tiny": Size(gpu=2, v5e=0, tpu=0),
    "unet_tiny": Size(gpu=2, v5e=9, tpu=0),
    "gpt_6_scan": Size(gpu=0, v5e=2, tpu=0),
    "gpt_6_scan_all": Size(gpu=0, v5e=3, tpu=0),
    "gpt_6_scan_products": Size(gpu=0, v5e=3, tpu=0),
    "gpt_6_scan_parts": Size(gpu=0, v5e=3, tpu=0),
    "t2b_thin": Size(gpu=0, v5e=2, tpu=0),
    "t2b_thin_all": Size(gpu=0, v5e=3, tpu=0),
    "t2b_thin_products": Size(gpu=0, v5e=3, tpu=0),
    "t2b_thin_parts": Size(gpu=0, v5e=3, tpu=0),
}
REWRITTEN: dict[str, tuple[str, str, int]] = {
    "gpt_6_scan_all": ("gpt_6_scan", "all", 1),
    "gpt_6_scan_products": ("gpt_6_scan", "products", 1),
    "gpt_6_scan_parts": ("gpt_6_scan", "none", 4),
    "t2b_thin_all": ("t2b_thin", "all", 1),
    "t2b_thin_products": ("t2b_thin", "products", 1),
    "t2b_thin_parts": ("t2b_thin", "none", 4),
}
"""Models that TOAST rewrites first: of which, how layers are recomputed, and in how many parts."""


def makers() -> dict[str, Maker]:
    """All models by name, held-out ones left out."""
    large = replace(gemma.PRESETS["gemma_2b"], batch=16)
    small = replace(
        large, layers=2, d_model=1024, hidden=4096, heads=8, head_dim=128, vocab=32000, seq=512
    )
    cut = {
        "mlp_small": partial(mlp.make_step, mlp.PRESETS["small"]),
        "mlp_large": partial(
            mlp.make_step, mlp.Config(batch=8192, inputs=4096, hidden=16384, outputs=4096)
        ),
        "gemma_tiny": partial(gemma.make_step, gemma.PRESETS["tiny"]),
        "gemma_demo": partial(gemma.make_step, gemma.PRESETS["demo"]),
        "gemma_small": partial(gemma.make_step, small),
        "gemma_2b_1": partial(gemma.make_step, replace(large, layers=1)),
        "gemma_2b_2": partial(gemma.make_step, replace(large, layers=2)),
        "gemma_2b_2_remat": partial(gemma.make_step, replace(large, layers=2, remat=True)),
    }
    return cut | _cut_models() | _public_models()


def module_of(name: str) -> bytes:
    """The StableHLO of a model as bytecode."""
    if name in HELD_OUT:
        return lzma.decompress((KEPT / f"{name}.mlirbc.xz").read_bytes())
    if name in REWRITTEN:
        return _rewritten(*REWRITTEN[name])
    return serialize(makers()[name](), "bytecode")


def _rewritten(name: str, policy: str, parts: int) -> bytes:
    """A model with the layers of all groups recomputed, and its batch in parts."""
    request = PlanRequest(mesh="data=8", recompute=(policy,), microbatches=parts)
    variants = Variants(module=module_of(name), request=request)
    return variants.written(Variant(microbatches=parts, recompute=variants.policies()))


def _cut_models() -> dict[str, Maker]:
    """The models of `examples.models` with few layers, as wide as they are published."""
    paper = itx.PRESETS
    graph = replace(gns.PRESETS["paper"], steps=2, edges=8192)
    scanned = replace(t2b.PRESETS["paper"], layers=3, batch=16, scan=True)
    thin = replace(scanned, d_model=512, hidden=2048, vocab=8192, batch=64, seq=512)
    deep = replace(t7b.PRESETS["paper"], batch=16)
    six = replace(gpt.PRESETS["paper"], layers=6, d_model=2048, heads=16, batch=32, scan=True)
    image = replace(unet.PRESETS["paper"], channels=256, batch=32, image=32, widen=(1, 2))
    return {
        "gat": partial(gat.make_step, gat.PRESETS["paper_1gpu"]),
        "gpt_1": partial(gpt.make_step, gpt.PRESETS["paper_1gpu"]),
        "gpt_2_scan": partial(gpt.make_step, replace(gpt.PRESETS["paper_2gpu"], scan=True)),
        "gpt_6_scan": partial(gpt.make_step, six),
        "itx_2": partial(itx.make_step, replace(paper["paper"], layers=2)),
        "itx_2_prefill": partial(itx.make_step, replace(paper["paper_prefill"], layers=2)),
        "gns_2": partial(gns.make_step, graph),
        "gns_3_65k": partial(gns.make_step, replace(graph, steps=3, edges=65536)),
        "t2b_scan": partial(MODELS["t2b"].make_step, scanned),
        "t2b_thin": partial(MODELS["t2b"].make_step, thin),
        "t7b_1": partial(MODELS["t7b"].make_step, replace(deep, layers=1)),
        "unet_cut": partial(unet.make_step, replace(image, down_blocks=1, up_blocks=2)),
        "wideresnet_cut": partial(
            wideresnet.make_step, replace(wideresnet.PRESETS["paper_1gpu"], blocks=(1, 1, 1))
        ),
    }


def _public_models() -> dict[str, Maker]:
    """The smallest size of each model of `examples.models`."""
    return {
        f"{name}_tiny": partial(model.make_step, model.presets["tiny"])
        for name, model in MODELS.items()
        if "tiny" in model.presets
    }
