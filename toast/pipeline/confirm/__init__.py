"""The compiler has the last word: the most promising plans compiled, and the best of them taken.

| file | owns |
| --- | --- |
| `confirm.py` | the whole: rounds of proposing, compiling and choosing, and the record of them |
| `proposals.py` | which plans are put before the compiler, and their modules |
| `trial.py` | one such plan with what became of it, and which of several is best |
| `compilations.py` | many compilations at a time, within the time that there is |
| `verdict_cache.py` | what was compiled before, on disk |
| `lessons.py` | what compiled programs teach about the price, and a device that is priced so |
"""

from __future__ import annotations

from toast.pipeline.confirm.confirm import Confirmer, confirmer_for, with_confirmation

__all__ = ["Confirmer", "confirmer_for", "with_confirmation"]
