"""Names of the arguments of what `flax.nnx.jit` lowers.

It flattens modules and optimizers before it calls jax, which then knows an array of the third
layer as `model.states[0][3]`; the way back to the module is in the tree of the arguments.
"""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any

_FLAT = re.compile(r"\.states\[\d+\]")
_LOCATION = re.compile(r'loc\("([^"]+)"')
_BOX = re.compile(r"\.(raw_)?value$")


def with_names(wrapped: Any, module: Any) -> Any:
    """`module` with its arguments named by their paths in the modules that `wrapped` was made of.

    Where there is nothing to rename, or flax says otherwise than this knows, it is as it was.
    """
    main = next(op for op in module.body.operations if op.attributes["sym_name"].value == "main")
    known = [_LOCATION.match(str(one.location)) for one in main.regions[0].blocks[0].arguments]
    if not any(match and _FLAT.search(match[1]) for match in known):
        return module
    try:
        names = _names(wrapped)
    except (AttributeError, ImportError, TypeError, ValueError):  # another version of flax
        return module
    copy = module.operation.clone()
    main = next(op for op in copy.regions[0].blocks[0] if op.attributes["sym_name"].value == "main")
    for argument, match in zip(main.regions[0].blocks[0].arguments, known, strict=True):
        if match and match[1] in names:
            argument.set_location(
                type(argument.location).name(names[match[1]], context=copy.context)
            )
    return copy


def _names(wrapped: Any) -> dict[str, str]:
    """The path of each array in its module, by the name that jax gives it."""
    import jax  # which is there if flax is; the client starts without it

    extract = sys.modules["flax.nnx"].extract
    tree = wrapped.lowered.in_tree
    numbers = jax.tree.unflatten(tree, range(tree.num_leaves))
    modules = extract.from_tree(
        numbers, merge_fn=lambda to, _path, _prefix, leaf: to.unflatten(leaf.graphdef, *leaf.states)
    )
    paths = {number: path for path, number in jax.tree_util.tree_leaves_with_path(modules)}
    function = wrapped.jit_wrapped
    parameters = list(inspect.signature(getattr(function, "fun", function)).parameters)
    return {
        _name(path, parameters): _BOX.sub("", _name(paths[number], parameters))
        for path, number in jax.tree_util.tree_leaves_with_path(numbers)
    }


def _name(path: Any, parameters: list[str]) -> str:
    """The name of a leaf of `(args, kwargs)`."""
    import jax

    first = path[1]
    name = first.key if isinstance(first, jax.tree_util.DictKey) else parameters[first.idx]
    return f"{name}{jax.tree_util.keystr(path[2:])}"
