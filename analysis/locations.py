"""Where in somebody's source ops come from, read off their MLIR locations."""

from __future__ import annotations

import re
from dataclasses import dataclass

from toast.analysis.load import Source

_FILE = re.compile(r'"([^"]+)":(\d+):\d+')
_FRAME = re.compile(r'"([^"]+)"\("([^"]+)":(\d+):\d+')
_LABEL = re.compile(r'loc\("((?:[^"\\]|\\.)*)"[()]')
_LIBRARY = re.compile(r"[\\/](site|dist)-packages[\\/]|[\\/]lib[\\/]python\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """What one location says.

    `label` is the name stack, such as `jit(step)/jvp(bsd,dnh->bsnh)/dot_general`. `line`
    (`file.py:99`) and `function` (`attention`) are those of the innermost frame that is not of an
    installed library, else of the innermost; `callee` is the library's function that is called
    there (`Linear.__call__`). '' where there is none.

    >>> helper = Location.parse('loc("select_n")')
    >>> helper.within(Location.parse('loc("jit(f)/jit(_where)"("f"("a.py":3:8)))'))
    Location(label='jit(f)/jit(_where)/select_n', line='a.py:3', function='f', callee='')
    """

    label: str
    line: str
    function: str
    callee: str = ""

    @classmethod
    def parse(cls, text: str) -> Location:
        """Read a location as MLIR writes it."""
        label = _LABEL.match(text)
        rest = text[label.end() - 1 :] if label else text
        frames = _FRAME.findall(rest)
        if not frames:
            file = _FILE.search(rest)
            line = f"{file[1]}:{file[2]}" if file else ""
            return cls(label=label[1] if label else "", line=line, function="")
        own = next((i for i, (_, path, _) in enumerate(frames) if not _LIBRARY.search(path)), 0)
        function, path, number = frames[own]
        return cls(
            label=label[1] if label else "",
            line=f"{path}:{number}",
            function=function,
            callee=frames[own - 1][0] if own else "",
        )

    def within(self, call: Location) -> Location:
        """The location of an op of a function, as seen from a call of that function.

        The ops of helpers such as `jnp.where` have no line of their own: theirs is the caller's.
        """
        return Location(
            label="/".join(filter(None, (call.label, self.label))),
            line=self.line or call.line,
            function=self.function or call.function,
            callee=self.callee if self.function else call.callee,
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
