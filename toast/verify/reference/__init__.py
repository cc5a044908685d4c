"""The reference executor: runs the forms `collectives` and `local` device by device.

After DistIR, section 3.1: every value is what each device holds of it, every op is run for one
device after another, and collectives are done by NumPy over the arrays of all devices. No
partitioner has a part in it.
"""

from __future__ import annotations
