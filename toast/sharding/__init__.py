"""From a function to the same function, sharded: `toast.autoshard`.

| file | owns |
| --- | --- |
| `entry.py` | `autoshard` and `Sharded`, what people call |
| `functions.py` | what a function is: jitted by whom, which arguments are static or donated |
| `calls.py` | one call: its arguments by name, arrays apart from what is static |
| `containers.py` | any pytree as dicts and lists that name their leaves, and back |
| `graphs.py` | modules of flax.nnx, whose methods change them |
| `tracing.py` | the exported program of a call |
| `meshes.py` | which mesh, and which chips it is made of |
| `planning.py`, `plan_cache.py` | a plan from the disk, this machine or a service |
| `running.py` | the planned program with the arrays of a call |
"""

from __future__ import annotations

from toast.sharding.entry import Sharded, autoshard

__all__ = ["Sharded", "autoshard"]
