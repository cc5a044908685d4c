"""What the partitioner puts around a collective, to cut, pack and put in place what it moves.

Where nothing fuses these ops they are small fusions of their own, launched beside the collective.
"""

from __future__ import annotations

from toast.costmodel.compilers.rules import SpmdPartitionerRules
from toast.costmodel.hardware.devices import Device


def launched_beside(device: Device, rules: SpmdPartitionerRules) -> float:
    """The seconds of the small fusions beside one collective, in the mean."""
    return device.op_overhead if rules.packs else 0.0
