"""Modules: upload, look, delete."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from toast.service.web import conditional
from toast.service.web.routes.shared import Caller, Shared, Trail, take_module
from toast.service.web.views import ModuleView, StoredModuleView, module_view

router = APIRouter()


@router.post("/v1/modules", status_code=201, responses={200: {"model": ModuleView}})
async def upload(request: Request, response: Response, context: Shared, trail: Trail) -> ModuleView:
    """Take the bytes of a module; 201 for new ones, 200 for known ones. Nothing is parsed."""
    artifact, new = await take_module(request, context, trail)
    response.status_code = 201 if new else 200
    return ModuleView(id=artifact.sha256, size=artifact.size)


@router.get(
    "/v1/modules/{module_id}", response_model=StoredModuleView, responses=conditional.UNCHANGED
)
def show(
    module_id: str, context: Shared, caller: Caller, seen: conditional.Seen = None
) -> Response:
    """The module: its size, its use, and how many jobs name it."""
    return conditional.answer(module_view(context.store.module(module_id, caller.sees)), seen)


@router.delete("/v1/modules/{module_id}", status_code=204, response_class=Response)
def delete(module_id: str, context: Shared, trail: Trail) -> Response:
    """Forget a module that no job names, with its bytes."""
    context.store.delete_module(module_id, trail.caller.sees)
    trail.record("module.deleted", module=module_id)
    context.artifacts.release(module_id, context.store.refers_to)
    return Response(status_code=204)
