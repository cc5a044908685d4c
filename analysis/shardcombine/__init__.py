"""ShardCombine: sharding rules found by running ops whole and in shards (MetaDist, section 3.3)."""

from __future__ import annotations

from toast.analysis.shardcombine.discover import Discoverer, discover, discover_all

__all__ = ["Discoverer", "discover", "discover_all"]
