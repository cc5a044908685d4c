"""How kernels are compiled: to run without the GIL, and only once.

What Python calls is an `entry`, kept on disk. What only kernels call is `inner`: it is compiled as
part of the entries that call it. Numba would make machine code of every function, with all that it
calls, before it makes that of its callers; here a function is translated for LLVM, and LLVM
optimises an entry and what it calls once, as one program. Kernels do not count references to
arrays, which would take most of the time. So a kernel can neither make nor copy an array (Numba
refuses to compile it), and Python holds on to what it passes in until the call returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from llvmlite import binding
from numba import types
from numba._dynfunc import make_function
from numba.core import config, event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NativeLowering

from toast.analysis.kernel_store import Kept

F = TypeVar("F", bound=Callable[..., Any])

_KERNELS: list[Any] = []


class _Translated(JITCodeLibrary):
    """A function as it is translated, for entries to optimise as part of themselves."""

    def _ensure_finalized(self) -> None:
        """Nothing: no machine code is made of it."""

    def add_llvm_module(self, module: Any) -> None:
        self._final_module.link_in(module)

    def get_pointer_to_function(self, _name: str) -> int:
        return 0

    def alone(self) -> Any:
        """Its module without what it calls."""
        return super()._get_module_for_linking()

    def _get_module_for_linking(self) -> Any:
        """For what Numba compiles by itself: with all that it calls."""
        module = self.alone().clone()
        _link(module, self)
        return module


class _Whole(JITCodeLibrary):
    """An entry with all that it calls, optimised as one program."""

    def add_llvm_module(self, module: Any) -> None:
        self._final_module.link_in(module)

    def finalize(self) -> None:
        _link(self._final_module, self)
        self._linking_libraries: list[Any] = []
        super().finalize()

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if function.linkage == binding.Linkage.linkonce_odr:
                function.linkage = binding.Linkage.internal
                # LLVM may change its arguments, and its linker takes what has a name for the
                # functions of that name in other libraries.
                function.name = f"{function.name}.{self.name}"
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


def _link(module: Any, library: Any) -> None:
    """Link into a module all that its library calls, directly or not.

    Callers come first: of what may be left out LLVM links only what the module already calls.
    """
    found: dict[Any, None] = {}
    _collect(library, found)
    for each in reversed(found):
        alone = isinstance(each, _Translated)
        part = each.alone() if alone else each._get_module_for_linking()
        module.link_in(part, preserve=True)


def _collect(library: Any, found: dict[Any, None]) -> None:
    """Add the libraries that one calls, each behind those that it calls itself."""
    for each in library._linking_libraries:
        if each not in found:
            if isinstance(each, _Translated):
                _collect(each, found)
            found[each] = None


@register_pass(mutates_CFG=True, analysis_only=False)
class _Translate(NativeLowering):
    _name = "translate"

    def run_pass(self, state: Any) -> bool:
        whole = not state.flags.no_cpython_wrapper
        library = _Whole if whole else _Translated
        state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        if whole:
            return bool(super().run_pass(state))
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        name = lowered.fndesc.qualname.split(".")[-1]
        module = lowered.fndesc.lookup_module()
        function = make_function(module, name, "", 0, lowered.env, (state.library,))
        state.targetctx.insert_user_function(function, lowered.fndesc, [state.library])
        state["cr"] = _LowerResult(lowered.fndesc, lowered.call_helper, function, lowered.env)
        return True


class _Compiler(CompilerBase):
    def define_pipelines(self) -> list[Any]:
        builder = DefaultPassBuilder
        pipeline = builder.define_nopython_pipeline(self.state)
        for place, (each, text) in enumerate(pipeline.passes):
            if each is NativeLowering:
                pipeline.passes[place] = _Translate, text
        pipeline._finalized = False
        pipeline.finalize()
        return [pipeline]


class _Inner(CPUDispatcher):
    """One version for all numbers of a type, whether or not the caller knows their values."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        named = {name: types.unliteral(each) for name, each in kws.items()}
        return super().get_call_template([types.unliteral(each) for each in args], named)


def entry(function: Callable[..., Any]) -> Any:
    """Decorate a function that Python calls; kernels may call it, too, if it is small.

    It is kept unless it is defined inside another, whose variables no source tells of.
    """
    made = _dispatcher(CPUDispatcher, function, {})
    if not config.DISABLE_JIT and function.__closure__ is None:
        made._cache = Kept(function)
    return made


def inner(function: F) -> F:
    """Decorate a function that only kernels call; to the type checker it stays what it is."""
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast("F", _dispatcher(_Inner, function, options))


def _dispatcher(kind: Any, function: Callable[..., Any], options: dict[str, bool]) -> Any:
    if config.DISABLE_JIT:
        return function
    options |= {"nopython": True, "nogil": True, "_nrt": False}
    made = kind(py_func=function, targetoptions=options, pipeline_class=_Compiler)
    _KERNELS.append(made)
    return made


class _Counter(event.Listener):
    """Tells which part of the kernels known is compiled, whenever one is."""

    def __init__(self, on_share: Callable[[float], None]) -> None:
        self._on_share = on_share
        self._left = set(_KERNELS)
        self._all = len(self._left)

    def on_start(self, _: Any) -> None:
        """Nothing is done yet."""

    def on_end(self, happened: Any) -> None:
        self._left.discard(happened.data["dispatcher"])
        self._on_share(1.0 - len(self._left) / self._all)


@contextmanager
def counted(on_share: Callable[[float], None]) -> Iterator[None]:
    """Inside, tell how much is compiled (0 to 1) of the kernels of the modules loaded so far."""
    with event.install_listener("numba:compile", _Counter(on_share)):
        yield
