"""The application: routes, handlers and the guard around one context."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from toast.service.context import Context
from toast.service.web import handlers
from toast.service.web.guard import Guard
from toast.service.web.observed import Observed
from toast.service.web.openapi import describe_api
from toast.service.web.routes import audit, jobs, modules, operations, pages, plan
from toast.service.work.dispatcher import Dispatcher
from toast.service.work.expiry import Sweeper

TITLE = "TOAST"


def create_app(
    context: Context, dispatcher: Dispatcher, *beside: Callable[[], Coroutine[None, None, None]]
) -> FastAPI:
    """The ASGI application. Its lifespan starts the workers and, at the end, stops them.

    What runs `beside` the requests is started with it and cancelled at the end.
    """
    sweeper = Sweeper(context)

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        context.notifier.attach(asyncio.get_running_loop())
        await run_in_threadpool(dispatcher.start)
        tasks = [asyncio.create_task(run()) for run in beside]
        try:
            sweeper.start()
            yield
        finally:
            for task in tasks:
                task.cancel()
            context.notifier.drain()
            await run_in_threadpool(sweeper.stop)
            await run_in_threadpool(dispatcher.stop)

    # No interactive pages: they load their scripts from elsewhere.
    app = FastAPI(title=TITLE, version="1", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.context = context
    app.state.dispatcher = dispatcher
    served = (modules, jobs, plan, audit, operations, pages)
    for router in (one.router for one in served):
        app.include_router(router)
    handlers.install(app)
    app.add_middleware(Guard, context=context)
    app.add_middleware(Observed, context=context)
    app.openapi = partial(describe_api, app)  # type: ignore[method-assign]
    return app
