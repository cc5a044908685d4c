"""Random programs of functions that call each other, with Hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st

VECTOR, NUMBER = "tensor<4xf32>", "tensor<i32>"
TYPES = (VECTOR, NUMBER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """What a caller has to know."""

    name: str
    takes: list[str]
    gives: list[str]


@dataclass(slots=True)
class _Body:
    """Lines of a function, and the values that there are by now, with their types."""

    draw: Callable[..., object]
    callees: list[Function]
    number: list[int]
    lines: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)

    def any_of(self, kind: str) -> str:
        """A value of a type; a new constant where there is none."""
        known = [name for name, has in self.values.items() if has == kind]
        if not known or self.draw(st.integers(0, 5 if kind == VECTOR else 1)) == 0:
            literal = "dense<1.5>" if kind == VECTOR else f"dense<{self.draw(st.integers(1, 4))}>"
            return self.made(f"stablehlo.constant {literal} : {kind}", kind)
        found = self.draw(st.sampled_from(known))
        assert isinstance(found, str)
        return found

    def made(self, line: str, *kinds: str) -> str:
        """Add an op; returns its first result."""
        self.number[0] += 1
        name = f"%v{self.number[0]}"
        self.lines.append(f"{name}{f':{len(kinds)}' if len(kinds) > 1 else ''} = {line}")
        names = [name] if len(kinds) == 1 else [f"{name}#{i}" for i in range(len(kinds))]
        self.values.update(zip(names, kinds, strict=True))
        return names[0]

    def add_op(self, depth: int) -> None:
        """Add one op of some kind, or a loop with some inside."""
        match self.draw(st.integers(0, 6 if depth else 5)):
            case 0:
                self.made(f"stablehlo.sine {self.any_of(VECTOR)} : {VECTOR}", VECTOR)
            case 1:
                one, other = self.any_of(VECTOR), self.any_of(VECTOR)
                self.made(f"stablehlo.add {one}, {other} : {VECTOR}", VECTOR)
            case 2:
                self.made(
                    f"stablehlo.reshape {self.any_of(VECTOR)} : ({VECTOR}) -> {VECTOR}", VECTOR
                )
            case 6:
                self.add_loop(depth)
            case _:
                self.add_call()

    def add_call(self) -> None:
        """Call a function, if there is one."""
        if not self.callees:
            return
        callee = self.draw(st.sampled_from(self.callees))
        assert isinstance(callee, Function)
        passed = [self.any_of(kind) for kind in callee.takes]
        types = f"({', '.join(callee.takes)}) -> ({', '.join(callee.gives)})"
        self.made(f"func.call @{callee.name}({', '.join(passed)}) : {types}", *callee.gives)

    def add_loop(self, depth: int) -> None:
        """A counted loop whose start, limit and step may come from anywhere."""
        start, limit, begin = self.any_of(NUMBER), self.any_of(NUMBER), self.any_of(VECTOR)
        self.number[0] += 1
        i, x = f"%i{self.number[0]}", f"%x{self.number[0]}"
        outside, outer = dict(self.values), self.lines
        self.lines = []
        self.values |= {i: NUMBER, x: VECTOR}
        for _ in range(self.draw(st.integers(0, 2))):  # type: ignore[call-overload]
            self.add_op(depth - 1)
        step = self.any_of(NUMBER)
        following = self.made(f"stablehlo.add {i}, {step} : {NUMBER}", NUMBER)
        last = self.any_of(VECTOR)
        body, self.lines, self.values = self.lines, outer, outside
        self.number[0] += 1
        name, p = f"%v{self.number[0]}", f"%p{self.number[0]}"
        self.lines += [
            f"{name}:2 = stablehlo.while({i} = {start}, {x} = {begin}) : {NUMBER}, {VECTOR}",
            "cond {",
            f"{p} = stablehlo.compare LT, {i}, {limit} : ({NUMBER}, {NUMBER}) -> tensor<i1>",
            f"stablehlo.return {p} : tensor<i1>",
            "} do {",
            *body,
            f"stablehlo.return {following}, {last} : {NUMBER}, {VECTOR}",
            "}",
        ]
        self.values |= {f"{name}#0": NUMBER, f"{name}#1": VECTOR}


@st.composite
def modules(draw: Callable[..., object]) -> str:
    """The text of a module: each function calls some of those before it, `main` is the last."""
    known: list[Function] = []
    texts: list[str] = []
    types = st.lists(st.sampled_from(TYPES), min_size=1, max_size=3)
    for name in [f"f{i}" for i in range(draw(st.integers(1, 4)))] + ["main"]:  # type: ignore[call-overload]
        takes = draw(types)
        assert isinstance(takes, list)
        body = _Body(draw, known, [0])
        body.values = {f"%a{i}": kind for i, kind in enumerate(takes)}
        for _ in range(draw(st.integers(1, 6))):  # type: ignore[call-overload]
            body.add_op(2)
        gives = draw(types)
        assert isinstance(gives, list)
        returned = [body.any_of(kind) for kind in gives]
        arguments = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(takes))
        head = f"func.func @{name}({arguments}) -> ({', '.join(gives)}) {{"
        end = f"return {', '.join(returned)} : {', '.join(gives)}"
        texts.append("\n  ".join([head, *body.lines, end]) + "\n}")
        known.append(Function(name=name, takes=takes, gives=gives))
    return "\n".join(reversed(texts))
