"""What kind of function was given, and what its own decorator says of its arguments."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Names = str | Iterable[str] | None
Numbers = int | Sequence[int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function with what is known of its parameters.

    `static` and `donated` are names of parameters. `scalars_static` says whether numbers of Python
    are part of the program, as `equinox.filter_jit` has it; `graph` whether modules of flax.nnx
    among the arguments are changed by a call, as in `nnx.jit`.
    """

    call: Callable[..., Any]
    name: str
    parameters: tuple[inspect.Parameter, ...]
    static: frozenset[str] = frozenset()
    donated: frozenset[str] = frozenset()
    scalars_static: bool = False
    graph: bool = True

    def positional(self, number: int) -> str:
        """The name of the parameter that takes the positional argument `number`."""
        for index, parameter in enumerate(self.parameters):
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                return f"{parameter.name}_{number - index}"
            if index == number and parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
                return parameter.name
        return f"arg{number}"


def describe_function(
    function: Callable[..., Any],
    *,
    static_argnums: Numbers = None,
    static_argnames: Names = None,
    donate_argnums: Numbers = None,
    donate_argnames: Names = None,
) -> Function:
    """A function of anybody's: plain, or from `jax.jit`, `nnx.jit` or `equinox.filter_jit`.

    What a jitted function says of its arguments holds besides what is said here.
    """
    plain = _Plain(function)
    names = Function(call=plain.call, name=plain.name, parameters=plain.parameters)
    static = _names(names, static_argnums, static_argnames)
    donated = _names(names, donate_argnums, donate_argnames)
    return Function(
        call=plain.call,
        name=plain.name,
        parameters=plain.parameters,
        static=static | _names(names, *plain.static),
        donated=donated | _names(names, *plain.donated),
        scalars_static=plain.scalars_static,
        graph=plain.graph,
    )


class _Plain:
    """The function under a decorator; what cannot be looked into is called as it is."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.call = function
        self.parameters = _parameters(function)
        self.static: tuple[Numbers, Names] = (None, None)
        self.donated: tuple[Numbers, Names] = (None, None)
        self.scalars_static = False
        self.graph = True
        if _is_a(function, "flax.nnx", "JitWrapped", "JitFn"):
            self._of_nnx(function)
        elif _is_a(function, "equinox", "_JitWrapper"):
            self._of_equinox(function)
        elif (info := getattr(function, "_jit_info", None)) is not None:
            self._of_jax(function, info)
        wanted = self.call
        while hasattr(wanted, "func"):  # a functools.partial
            wanted = wanted.func
        self.name = getattr(wanted, "__name__", type(wanted).__name__)

    def _of_jax(self, function: Any, info: Any) -> None:
        self.graph = False
        self._of_info(info)
        placed = getattr(info, "user_specified_in_shardings", True)
        leaves = getattr(info, "out_shardings_leaves", ("unknown",))
        if not placed and all(type(leaf).__name__ == "UnspecifiedValue" for leaf in leaves):
            self.call = getattr(function, "__wrapped__", function)

    def _of_info(self, info: Any) -> None:
        self.static = (info.static_argnums, info.static_argnames)
        self.donated = (info.donate_argnums, info.donate_argnames)

    def _of_nnx(self, function: Any) -> None:
        self.call = getattr(function, "__wrapped__", function)
        info = getattr(getattr(function, "jitted_fn", None), "_jit_info", None)
        if info is not None:
            self._of_info(info)

    def _of_equinox(self, function: Any) -> None:
        self.graph, self.scalars_static = False, True
        self.call = getattr(function, "__wrapped__", function)
        positional = range(len(self.parameters))
        first = [0] if getattr(function, "donate_first", False) else []
        rest = list(positional[1:]) if getattr(function, "donate_rest", False) else []
        self.donated = ([*first, *rest], None)


def _is_a(function: Any, package: str, *classes: str) -> bool:
    kind = type(function)
    return kind.__module__.startswith(package) and kind.__name__ in classes


def _parameters(function: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    try:
        return tuple(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ()


def _names(function: Function, numbers: Numbers, names: Names) -> frozenset[str]:
    """Parameters by number or name, as names."""
    given = (numbers,) if isinstance(numbers, int) else tuple(numbers or ())
    count = len(function.parameters)
    found = {function.positional(one if one >= 0 else count + one) for one in given}
    return frozenset(found | ({names} if isinstance(names, str) else set(names or ())))


def library(name: str) -> Any | None:
    """A library that the caller has imported; none is imported for the sake of asking."""
    return sys.modules.get(name)
