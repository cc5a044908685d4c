"""What the partitioner puts around a collective, to cut, pack and put in place what it moves.

Where nothing fuses these ops they are small fusions of their own, launched beside the collective.
"""

from __future__ import annotations

from toast.analysis.program import Floats
from toast.costmodel.compilers.rules import SpmdPartitionerRules
from toast.costmodel.hardware.devices import Device
from toast.costmodel.network.collectives import Kind
from toast.costmodel.program.arrays import floats


def launched_beside(device: Device, rules: SpmdPartitionerRules) -> Floats:
    """By kind of collective the seconds of the small fusions beside one."""
    counts = (getattr(rules, f"beside_{kind.name.lower()}") for kind in Kind)
    return floats([count * device.op_overhead for count in counts])
