"""Which chunk of a pipeline holds which weights: the layers in order, cut where the user says.

Layers are the entries of a repeated path of the arguments, `params/layers/3`. Of several such paths
the one with most entries counts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from toast.analysis.errors import InvalidRequest
from toast.request.patterns import path

_DIGITS = re.compile(r"\d+")
_WEIGHTS = 2
"""A layer of less than two stages is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerNumbers:
    """The repeated layers of a program: the path of each in order, and that of each argument."""

    entries: tuple[str, ...]
    of_argument: dict[int, int]

    def chunks(self, cuts: Sequence[int]) -> dict[int, int]:
        """The chunk of each argument that is of a layer; a chunk begins at each of the `cuts`."""
        return {
            argument: sum(layer >= cut for cut in cuts)
            for argument, layer in self.of_argument.items()
        }


def find_layers(names: Sequence[str], read: Iterable[int]) -> LayerNumbers:
    """The repeated layers among the arguments that the forward pass reads, in that order.

    Raises:
        InvalidRequest: no two arguments are of different layers.
    """
    found: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for argument in dict.fromkeys(read):
        for pattern, entry in _entries(names[argument]):
            found[pattern].setdefault(entry, []).append(argument)
    if not found:
        raise InvalidRequest(
            "No repeated layers were found among the arguments.",
            "A pipeline needs weights with paths such as params/layers/3/w; scanned layers, "
            "stacked in one argument, need --form spmd.",
        )
    best = max(found.values(), key=len)
    if len(best) < _WEIGHTS:
        raise InvalidRequest(
            f"The arguments have one layer only, {next(iter(best))}.",
            "Layers that are stacked in one argument and scanned need --form spmd.",
        )
    return LayerNumbers(
        entries=tuple(best),
        of_argument={
            argument: layer
            for layer, arguments in enumerate(best.values())
            for argument in arguments
        },
    )


def _entries(name: str) -> list[tuple[str, str]]:
    """The repeated paths that a path is in, starred, each with the path of the entry."""
    steps = path(name).split("/")
    places = [place for place, step in enumerate(steps) if _DIGITS.search(step)]
    entries = ["/".join(steps[: place + 1]) for place in places]
    return [(_DIGITS.sub("*", entry), entry) for entry in entries]


def even_cuts(layers: int, chunks: int) -> tuple[int, ...]:
    """The first layer of each chunk but the first, for chunks of about as many layers.

    Raises:
        InvalidRequest: there are fewer layers than chunks.
    """
    if chunks > layers:
        raise InvalidRequest(
            f"{layers} layers cannot be cut into {chunks} parts.",
            f"Give at most {layers} stages times chunks.",
        )
    return tuple(-(-layers * chunk // chunks) for chunk in range(1, chunks))


def check_cuts(cuts: Sequence[int], layers: int) -> None:
    """Refuse cuts that are no layers in order."""
    if list(cuts) != sorted(set(cuts)) or not all(0 < cut < layers for cut in cuts):
        raise InvalidRequest(
            f"The cuts {list(cuts)} are not in order between 1 and {layers - 1}.",
            "Give the first layer of each chunk but the first.",
        )
