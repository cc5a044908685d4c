"""The models that the planner is judged on, at their published sizes and tiny."""

from __future__ import annotations

from examples.models import gat, gns, gpt, itx, t2b, t7b, unet, wideresnet
from examples.models.common import Model

MODELS: dict[str, Model] = {
    module.MODEL.name: module.MODEL for module in (t2b, t7b, gns, unet, itx, gpt, wideresnet, gat)
}
__all__ = ["MODELS", "Model"]
