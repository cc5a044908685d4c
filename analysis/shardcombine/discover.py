"""Rules for ops that have none, found once and kept."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from jaxlib.mlir import ir

from toast.analysis.rules import Rule
from toast.analysis.shardcombine.cache import Cache, Missing, default_folder
from toast.analysis.shardcombine.extract import key_of, may_run, text_of
from toast.analysis.shardcombine.findings import Discovery
from toast.analysis.shardcombine.given import given
from toast.analysis.shardcombine.opcopy import GROUPS
from toast.analysis.shardcombine.runner import Request, Runner
from toast.analysis.shardcombine.subprocesses import ChildRunner
from toast.analysis.shardcombine.torule import rule_of

_caches: dict[Path, Cache] = {}


class Discoverer:
    """Finds rules of ops; a context manager, since it may hold a child process.

    `folder` is where findings are kept between processes (`default_folder()` unless given);
    `runner` is what runs ops, a child process unless given. Nothing is started, read or written
    before the first op that needs it.
    """

    def __init__(self, *, folder: Path | None = None, runner: Runner | None = None) -> None:
        self._folder = folder
        self._runner = runner

    def __enter__(self) -> Discoverer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the child process, if there is one."""
        if self._runner is not None:
            self._runner.close()

    def rule(self, op: ir.Operation) -> Rule | None:
        """The rule of `op`; None when it must not run, cannot run, or did not survive."""
        found = self.discovery(op)
        if found is None:
            return None
        shapes = [tuple(ir.RankedTensorType(value.type).shape) for value in op.operands]
        results = [tuple(ir.RankedTensorType(value.type).shape) for value in op.results]
        counts = {
            name: int(ir.IntegerAttr(op.attributes[name]).value)
            for name in GROUPS
            if name in op.attributes
        }
        return rule_of(found, shapes, results, counts)

    def discovery(self, op: ir.Operation) -> Discovery | None:
        """What is found for `op`: written down, from the cache, or by running it."""
        written = given(op)
        if written is not None or not may_run(op):
            return written
        text = text_of(op)
        if text is None:
            return None
        cache = self._cache()
        key = key_of(text)
        known = cache.get(op.name, key)
        if not isinstance(known, Missing):
            return known
        request = Request(name=op.name, text=text, hints=cache.hints(op.name))
        if self._runner is None:
            self._runner = ChildRunner()
        found = self._runner.run(request)
        cache.put(op.name, key, found)
        return found

    def _cache(self) -> Cache:
        folder = default_folder() if self._folder is None else self._folder
        return _caches.setdefault(folder, Cache(folder))


def discover(
    op: ir.Operation, *, folder: Path | None = None, runner: Runner | None = None
) -> Rule | None:
    """The rule of one op; see `Discoverer`."""
    return discover_all([op], folder=folder, runner=runner)[op]


def discover_all(
    ops: Iterable[ir.Operation], *, folder: Path | None = None, runner: Runner | None = None
) -> dict[ir.Operation, Rule | None]:
    """The rules of many ops, with one child process at most alive for all of them."""
    with Discoverer(folder=folder, runner=runner) as discoverer:
        return {op: discoverer.rule(op) for op in ops}


def forget() -> None:
    """Drop what this process remembers; files stay."""
    _caches.clear()
