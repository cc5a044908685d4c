"""What ShardCombine finds: MetaDist's ShardSpec and CombineSpec (section 3.2), one per id."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class How(StrEnum):
    """How the local results of two shards become the global result (MetaDist, appendix A.3)."""

    GATHER = "gather"
    HALO = "halo"
    """Gather with a halo: drop the rows next to the seam, or add up those that overlap."""
    BLOCKS = "blocks"
    """Gather in blocks: each local result is cut in n parts, and part is gathered with part."""
    REDUCE = "reduce"


@dataclass(frozen=True, slots=True, kw_only=True)
class Combine:
    """One CombineFunc for one result.

    `dim` is the dimension of the result that is gathered, -1 when it is reduced. `before` and
    `after` are rows: dropped at the seam from the first and the second local result when not
    negative, added up across the seam when `before` is negative. `reduce` is `sum`, `max`, `min`
    or `mean`.
    """

    how: How
    dim: int = -1
    before: int = 0
    after: int = 0
    blocks: int = 1
    reduce: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One ShardDim id.

    `dims` is the dimension of each operand that it splits, -1 for none; `combines` has one entry
    per result. `halo` are the rows that the first shard takes over from the second, and the other
    way round, of the first operand that is split. `divided` names the attribute whose groups the
    shards divide among themselves, if there is one: they can be no more than the groups.
    """

    dims: tuple[int, ...]
    combines: tuple[Combine, ...]
    halo: tuple[int, int] = (0, 0)
    divided: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """All ids of one op; `attempts` counts the splittings that were run to find them."""

    findings: tuple[Finding, ...]
    attempts: int = 0

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Discovery:
        """The inverse of `to_json`; raises KeyError, TypeError or ValueError for anything else."""
        return cls(
            findings=tuple(finding_from_json(item) for item in data["findings"]),
            attempts=int(data["attempts"]),
        )


def finding_from_json(data: dict[str, Any]) -> Finding:
    """A finding from the JSON values that `dataclasses.asdict` makes of it."""
    combines = tuple(Combine(**{**item, "how": How(item["how"])}) for item in data["combines"])
    left, right = data["halo"]
    return Finding(
        dims=tuple(data["dims"]),
        combines=combines,
        halo=(int(left), int(right)),
        divided=str(data["divided"]),
    )
