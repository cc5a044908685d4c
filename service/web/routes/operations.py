"""The catalogue, the probes and the metrics."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from toast.costmodel.hardware import devices
from toast.service import problems
from toast.service.web.routes.shared import Shared
from toast.service.web.views import DeviceList, DeviceView, NetworkView

router = APIRouter()


@router.get("/v1/devices")
def list_devices() -> DeviceList:
    """The chips that can be planned for."""
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


@router.get("/healthz", response_class=PlainTextResponse)
async def alive() -> str:
    """The process answers."""
    return "ok\n"


@router.get("/readyz", response_class=PlainTextResponse)
def ready(context: Shared) -> str:
    """The database answers, the disk takes files, and we are not shutting down."""
    if context.notifier.draining:
        raise problems.Draining("The service is shutting down.", "Use another replica.")
    try:
        context.store.ping()
        with context.artifacts.incoming() as probe:
            probe.write(b"ready")
            probe.finish()
    except Exception as error:
        raise problems.NotReady(
            f"The store does not answer: {type(error).__name__}.", "Look at the server's log."
        ) from error
    return "ready\n"


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(context: Shared) -> Response:
    """Prometheus text."""
    return Response(generate_latest(context.metrics.registry), media_type=CONTENT_TYPE_LATEST)
