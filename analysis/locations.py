"""Where in somebody's source ops come from, read off their MLIR locations."""

from __future__ import annotations

import re
from dataclasses import dataclass

from toast.analysis.load import Source

_FILE = re.compile(r'"([^"]+)":(\d+):\d+')
_FRAME = re.compile(r'"([^"]+)"\("[^"]+":\d+')
_LABEL = re.compile(r'loc\("((?:[^"\\]|\\.)*)"[()]')


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """What one location says.

    `label` is the name stack, such as `jit(step)/jvp(bsd,dnh->bsnh)/dot_general`, `line`
    (`file.py:99`) and `function` (`attention`) those of the innermost frame; '' where there is
    none.

    >>> helper = Location.parse('loc("select_n")')
    >>> helper.within(Location.parse('loc("jit(f)/jit(_where)"("f"("a.py":3:8)))'))
    Location(label='jit(f)/jit(_where)/select_n', line='a.py:3', function='f')
    """

    label: str
    line: str
    function: str

    @classmethod
    def parse(cls, text: str) -> Location:
        """Read a location as MLIR writes it."""
        label, line, frame = _LABEL.match(text), _FILE.search(text), _FRAME.search(text)
        return cls(
            label=label[1] if label else "",
            line=f"{line[1]}:{line[2]}" if line else "",
            function=frame[1] if frame else "",
        )

    def within(self, call: Location) -> Location:
        """The location of an op of a function, as seen from a call of that function.

        The ops of helpers such as `jnp.where` have no line of their own: theirs is the caller's.
        """
        return Location(
            label="/".join(filter(None, (call.label, self.label))),
            line=self.line or call.line,
            function=self.function or call.function,
        )


class Locations:
    """The locations of a module's ops by number. Equal ones, as layers have, are read once."""

    def __init__(self, source: Source) -> None:
        self._source = source  # without its module, its locations are nowhere
        self._known: dict[int, Location] = {}

    def __getitem__(self, op: int) -> Location:
        """The location of an op."""
        return self._at(int(self._source.places[op]))

    def _at(self, place: int) -> Location:
        found = self._known.get(place)
        if found is None:
            location, call = self._source.locations[place]
            found = Location.parse(str(location))
            found = self._known[place] = found if call < 0 else found.within(self._at(call))
        return found
