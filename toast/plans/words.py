"""Rows of an explanation in words, for terminals and pages."""

from __future__ import annotations

import re

from toast.plans.explanation import (
    AliveRow,
    CollectiveRow,
    FusionRow,
    PeakMoment,
    SentFor,
)

_ATTRIBUTE = re.compile(r"(?<=[\w\]*])\.(?=[A-Za-z_*\d])")
_ATTRIBUTES = re.compile(r"(?<=[\w\]*])\.([\w*]+(?:,[\w*]+)+)")
_KEYS = re.compile(r"\['([^\]]*','[^\]]*)'\]")
_STEP = re.compile(r"\['?([^\]']*)'?\]")
PASS = {"forward": "fwd", "backward": "bwd", "": ""}
"""The passes, in short."""
_REASONS: dict[SentFor, str] = {
    "scattered": "partial sum",
    "unwanted": "partial sum",
    "two_dimensions": "partial sum, whole: two dimensions take it",
    "all_devices": "partial sum, whole: over all devices",
    "batch": "partial sum, whole: its batch is sharded",
    "lookup": "partial sum, whole: of a lookup",
    "sliced": "partial sum, whole: a slice is cut",
    "sharded_already": "partial sum, whole: sharded already",
    "segments": "partial sum, whole: of a scatter",
    "axis_order": "partial sum, whole: order of axes",
    "behind_loop": "partial sum, behind the loop",
    "regathered": "partial sum: its batch is sharded",
    "reordered": "order of axes",
    "in_region": "written in a shard_map",
    "left_out": "partial sum, whole: scattering is left out",
    "traded": "resharding, to other axes",
    "rematerialized": "resharding, whole: no shorter way",
    "uneven": "partial sum, whole: no equal pieces",
    "flattened": "partial sum, whole: dimensions of 1",
    "complex": "partial sum, gathered: of complex numbers",
}
"""Words for reasons that say more than `why`."""


def path(name: str) -> str:
    """A path through a pytree as patterns of pins write it: `params/layers/*/gate`.

    A step that stands for several has them in braces: `state/{mu,nu}/w`.
    """
    if " " not in name:  # else it is no path alone
        name = _ATTRIBUTE.sub("/", _ATTRIBUTES.sub(r"/{\1}", name))
    name = _KEYS.sub(lambda match: "[{" + match[1].replace("','", ",") + "}]", name)
    return _STEP.sub(r"/\1", name).lstrip("/")


def reason(row: AliveRow) -> str:
    """Why a value is alive."""
    return row.why.replace("_", " ")


def shape(row: AliveRow) -> str:
    """The dimensions on one device."""
    return " x ".join(str(size) for size in row.shape) or "scalar"


def moment(peak: PeakMoment) -> str:
    """Where in the schedule the peak is, in words."""
    at = f" ({peak.location})" if peak.location else ""
    return f"{peak.op}{at}, position {peak.position:,} of {peak.positions:,}"


def fusion_name(row: FusionRow) -> str:
    """`mlp/dot_general`, and whether it is about partial sums."""
    name = row.op if row.place in ("", row.op) else f"{row.place}/{row.op}"
    return f"{name} (partial sums)" if row.partial_sums else name


def sent(row: CollectiveRow) -> str:
    """What a collective sends, and for which op."""
    needed = "" if row.needed_by == row.value else f" for {row.needed_by}"
    return path(row.value) + needed


def sent_for(row: CollectiveRow) -> str:
    """Why a collective is needed and why it is no cheaper one, and the decisions behind it."""
    said = _REASONS.get(row.reason, row.why.replace("_", " "))
    return " ".join([said, *(f"#{number}" for number in row.decisions)])
