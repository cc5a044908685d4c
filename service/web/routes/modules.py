"""Uploads."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from toast.service.web.routes.shared import Shared, Trail, take_module
from toast.service.web.views import ModuleView

router = APIRouter()


@router.post("/v1/modules", status_code=201, responses={200: {"model": ModuleView}})
async def upload(request: Request, response: Response, context: Shared, trail: Trail) -> ModuleView:
    """Take the bytes of a module; 201 for new ones, 200 for known ones. Nothing is parsed."""
    artifact, new = await take_module(request, context, trail)
    response.status_code = 201 if new else 200
    return ModuleView(id=artifact.sha256, size=artifact.size)
