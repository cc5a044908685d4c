"""What `toast pipeline` is asked, as one record that travels between processes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toast.analysis.errors import InvalidRequest
from toast.costmodel.network.mesh import Mesh
from toast.request.settings import invalid_setting, memory_bytes
from toast.request.size_request import full_name

STAGES_AXIS = "pipe"
"""The axis of a mesh whose positions are the stages of a pipeline."""
PipelineForm = Literal["stages", "spmd"]
"""One module for each stage, or one for the whole mesh."""
ScheduleChoice = Literal["auto", "gpipe", "1f1b", "interleaved"]
AUTO: Literal["auto"] = "auto"


class PipelineRequest(BaseModel):
    """A pipeline of `stages`, each a mesh of its own (`mesh`) or one chip where that is None.

    Each stage holds `chunks` runs of layers; `cuts` are the first layers of all chunks but the
    first, or None for chunks of about equal time. `memory` are bytes per device. `rollouts` bounds
    the search for the layout of one module.

    With `devices`, how many there are, the stages, their mesh, chunks and cuts are searched. Of
    `microbatches` that are `auto`, the fastest number that divides the batch and fits is taken.

    The `form` spmd asks for one module in which scanned layers lie on the stages. Its schedule is
    GPipe; its layers are shared out evenly.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    stages: int = Field(default=1, ge=1, le=1024)
    devices: int | None = Field(default=None, ge=1, le=4096)
    microbatches: Annotated[int, Field(ge=1, le=1 << 16)] | Literal["auto"] = AUTO
    chunks: int = Field(default=1, ge=1, le=64)
    schedule: ScheduleChoice = "auto"
    cuts: tuple[int, ...] | None = None
    mesh: str | None = None
    device: str = "tpu-v5e"
    memory: int | None = Field(default=None, gt=0)
    seed: int = Field(default=0, ge=0, lt=2**63)
    rollouts: int | None = Field(default=None, ge=1, le=100_000_000)
    form: PipelineForm = "stages"

    @property
    def count(self) -> int:
        """The number of microbatches; it has to be decided."""
        assert self.microbatches != AUTO
        return self.microbatches


def make_pipeline_request(
    *, device: str = "tpu-v5e", memory: int | str | None = None, **settings: object
) -> PipelineRequest:
    """A request whose every setting is in range; or a ToastError that says what is wrong."""
    fields = {key: value for key, value in settings.items() if value is not None}
    _take_stages(fields)
    try:
        request = PipelineRequest.model_validate(
            {
                "device": full_name(device),
                "memory": None if memory is None else memory_bytes(memory),
                **fields,
            }
        )
    except ValidationError as error:
        raise invalid_setting(error) from None
    searched = request.model_fields_set & {"stages", "chunks", "cuts", "mesh"}
    if request.devices is not None and searched:
        raise InvalidRequest(
            f"With devices, {', '.join(sorted(searched))} cannot be given.",
            "They are searched; give either devices or stages.",
        )
    if request.devices is None and "stages" not in request.model_fields_set:
        raise InvalidRequest(
            "A pipeline needs a number of stages.",
            "Give stages, or devices to have the stages searched.",
        )
    if request.devices is None and request.schedule == "interleaved" and request.chunks == 1:
        raise InvalidRequest(
            "An interleaved schedule has several chunks on each stage.", "Give --chunks 2 or more."
        )
    if request.form == "spmd":
        _check_spmd(request)
    return request


def _check_spmd(request: PipelineRequest) -> None:
    """One module has a number of stages and of microbatches, and one schedule."""
    unfit = sorted(request.model_fields_set & {"devices", "chunks", "cuts"})
    if unfit:
        raise InvalidRequest(
            f"With the form spmd, {', '.join(unfit)} cannot be given.",
            "Each stage has as many layers as any other; name the mesh, as in pipe=4,data=2.",
        )
    if request.schedule not in ("auto", "gpipe"):
        raise InvalidRequest(
            f"The form spmd has the schedule gpipe, not {request.schedule}.",
            "Leave out the schedule, or the form.",
        )
    if request.microbatches == AUTO:
        raise InvalidRequest(
            "The form spmd needs a number of microbatches.", "Give one that divides the batch."
        )
    if request.stages == 1:
        raise InvalidRequest(
            "A pipeline in one module needs two stages or more.",
            f"Give the mesh an axis {STAGES_AXIS}, as in {STAGES_AXIS}=4,data=2.",
        )


def _take_stages(fields: dict[str, object]) -> None:
    """Read the axis `pipe` of a mesh as the stages; the other axes are the mesh of each."""
    mesh = fields.get("mesh")
    if not isinstance(mesh, str):
        return
    given = Mesh.parse(mesh)
    stages = next((axis.size for axis in given.axes if axis.name == STAGES_AXIS), None)
    if stages is None:
        return
    if fields.setdefault("stages", stages) != stages:
        raise InvalidRequest(
            f"The mesh has {stages} stages, and stages={fields['stages']} is asked for.",
            f"Leave one of them out: the axis {STAGES_AXIS} of a mesh is its stages.",
        )
    rest = [str(axis) for axis in given.axes if axis.name != STAGES_AXIS]
    fields["mesh"] = ",".join(rest) or None
