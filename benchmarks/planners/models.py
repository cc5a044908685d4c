"""The programs that plans are compared on: the paper's five models, cut and at full size.

Cut ones have a layer or two at full width. Full ones have their layers in a scan where the model
can, which compiles in a fraction of the time to nearly the same program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.accuracy.models import makers
from benchmarks.planners.zoo_programs import PROGRAMS
from examples.forms import Step, serialize
from examples.models import gns, itx, t2b, t7b, transformer, unet
from toast.analysis.errors import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A program: a step of ours by `make`, or one of the zoo by its name in `public`.

    `family` names its layouts by hand, `peer` says whether the peer is asked too.
    """

    family: str
    make: Callable[[], Step] | None = None
    public: str = ""
    full: bool = False
    peer: bool = False

    def module(self) -> bytes:
        """The bare module; raises InvalidRequest for one of the zoo that is not lowered here."""
        if self.make is not None:
            return serialize(self.make(), "bytecode")
        # Only here: the peer's environment has no libraries of the zoo.
        from benchmarks.zoo.lowering import module_of, path_of

        if not path_of(self.public).exists():
            raise InvalidRequest(f"{self.public} is not lowered.", "Run benchmarks.zoo lower.")
        return module_of(self.public)


def models() -> dict[str, Model]:
    """All programs by name, the quickest to compile first, full ones last."""
    kept = makers()
    cut = replace(t2b.PRESETS["paper"], layers=1, batch=16)
    return {
        "mlp": Model(family="mlp", make=kept["mlp_large"], peer=True),
        "itx_2": Model(family="itx", make=kept["itx_2"], peer=True),
        "itx_2_prefill": Model(family="itx", make=kept["itx_2_prefill"], peer=True),
        "t2b_1": Model(family="transformer", make=partial(transformer.make_step, cut), peer=True),
        "gns_2": Model(family="gns", make=kept["gns_2"], peer=True),
        "unet_cut": Model(family="unet", make=kept["unet_cut"], peer=True),
        "t7b_1": Model(family="transformer", make=kept["t7b_1"], peer=True),
        **{name: Model(family=name, public=program) for name, (program, _) in PROGRAMS.items()},
    } | _full()


def _full() -> dict[str, Model]:
    """The published sizes; the batch of T2B and T7B, which no paper states, is what can fit."""
    served = {
        "itx": replace(itx.PRESETS["paper_5b"], scan=True),
        "itx_prefill": replace(itx.PRESETS["paper_prefill"], scan=True),
    }
    trained = {
        name: replace(presets["paper"], scan=True, remat=True, batch=8)
        for name, presets in (("t2b", t2b.PRESETS), ("t7b", t7b.PRESETS))
    }
    graph = replace(gns.PRESETS["paper"], scan=True)
    steps: dict[str, tuple[str, Callable[[], Step]]] = {
        **{name: ("itx", partial(itx.make_step, one)) for name, one in served.items()},
        **{
            name: ("transformer", partial(transformer.make_step, one))
            for name, one in trained.items()
        },
        "gns": ("gns", partial(gns.make_step, graph)),
        "unet": ("unet", partial(unet.make_step, unet.PRESETS["paper"])),
    }
    return {
        name: Model(family=family, make=make, full=True) for name, (family, make) in steps.items()
    }
