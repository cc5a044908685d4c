"""The catalogue, the probes and the metrics."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from toast.costmodel.hardware import devices
from toast.service.web import conditional
from toast.service.web.health import check_ready
from toast.service.web.routes.shared import Shared, Workers
from toast.service.web.version import Confined, Version, version
from toast.service.web.views import DeviceList, DeviceView, NetworkView

router = APIRouter()


@router.get("/v1/devices", response_model=DeviceList, responses=conditional.UNCHANGED)
def list_devices(seen: conditional.Seen = None) -> Response:
    """The chips that can be planned for."""
    return conditional.answer(_devices(), seen)


def _devices() -> DeviceList:
    found = devices.catalogue().values()
    return DeviceList(
        devices=[
            DeviceView(
                name=device.name,
                kind=device.kind,
                description=device.description,
                memory_bytes=device.memory_bytes,
                networks=[
                    NetworkView(
                        name=link.name,
                        topology=link.topology,
                        span=link.span,
                        bandwidth=link.bandwidth,
                    )
                    for link in device.links
                ],
            )
            for device in found
        ]
    )


@router.get("/version")
def show_version(workers: Workers) -> Version:
    """Which planner this is, and what its workers may reach."""
    found = workers.confinement
    confined = None if found is None else Confined(**asdict(found))
    return version().model_copy(update={"workers": confined})


@router.get("/healthz", response_class=PlainTextResponse)
async def alive() -> str:
    """The process answers."""
    return "ok\n"


@router.get("/readyz", response_class=PlainTextResponse)
def ready(context: Shared, workers: Workers) -> str:
    """The database takes writes, the disk has room, the workers live, we are not shutting down."""
    check_ready(context, workers)
    return "ready\n"


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(context: Shared) -> Response:
    """Prometheus text."""
    return Response(generate_latest(context.metrics.registry), media_type=CONTENT_TYPE_LATEST)
