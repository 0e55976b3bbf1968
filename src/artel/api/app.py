"""The FastAPI application: routers and middleware."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, FastAPI

from artel import __version__
from artel.api import (
    admin,
    approvals,
    attachments,
    auth,
    chat,
    connectors,
    health,
    memory,
    models,
    nodes,
    projects,
    spaces,
    tools,
    ui,
    usage,
    workflows,
    workspace,
)
from artel.api.metrics import HttpMetrics
from artel.api.middleware import BodyLimitMiddleware, OriginMiddleware, PathMiddleware, RequestMiddleware
from artel.api.problems import install_problem_handlers
from artel.auth.middleware import AuthMiddleware
from artel.container import Container
from artel.contract.http import Problem

DESCRIPTION = (
    "A team of AI agents for every project, on your own server, while the files stay on your machine. "
    "Every path works with and without a trailing slash. Errors are application/problem+json."
)

PUBLIC_AUTH = frozenset({"register", "token", "browser"})

# Routes are matched in this order: the most used come first.
ROUTERS = (
    chat.router,
    attachments.router,
    auth.router,
    projects.router,
    projects.agents_router,
    projects.templates_router,
    memory.router,
    memory.project_router,
    workspace.router,
    chat.sessions_router,
    spaces.router,
    connectors.router,
    approvals.router,
    workflows.router,
    tools.router,
    admin.router,
    models.router,
    models.admin_router,
    nodes.router,
    usage.router,
    health.router,
    ui.router,
)


class App(FastAPI):
    """FastAPI whose document has our errors, and marks what needs a token: the middleware checks it."""

    def __init__(self, routers: Sequence[APIRouter] = ROUTERS) -> None:
        super().__init__(
            title="Artel",
            version=__version__,
            description=DESCRIPTION,
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
        )
        for router in routers:
            # `include_router` would build the routes a second time at the first request, and match each request twice.
            self.router.routes.extend(router.routes)
        install_problem_handlers(self)

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        if self.openapi_schema:
            return self.openapi_schema
        document = super().openapi()
        schemas = document["components"]["schemas"]
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(problem.pop("$defs"))
        schemas["Problem"] = problem
        flows = {"password": {"scopes": {}, "tokenUrl": "auth/token"}}
        document["components"]["securitySchemes"] = {"bearer": {"type": "oauth2", "flows": flows}}
        for path, operations in document["paths"].items():
            for operation in operations.values():
                operation["responses"] = dict(sorted(operation["responses"].items()))
                if not is_public(path):
                    operation["security"] = [{"bearer": []}]
        return document


def create_app(container: Container) -> FastAPI:
    """Return the application of a server."""
    settings = container.settings
    app = App((health.router,) if settings.role == "host" else ROUTERS)
    app.state.container = container
    app.state.metrics = HttpMetrics(container.registry)
    # The last one added is the outermost.
    app.add_middleware(AuthMiddleware, authenticate=container.login.authenticate, is_public=is_public)
    app.add_middleware(BodyLimitMiddleware, max_bytes=settings.max_body_bytes)
    app.add_middleware(OriginMiddleware, hosts=settings.hosts, check_probes=settings.listens_on_loopback)
    app.add_middleware(PathMiddleware, base_path=settings.base_path)
    app.add_middleware(RequestMiddleware, metrics=app.state.metrics)
    return app


def is_public(path: str) -> bool:
    """Return whether a path can be reached without a token."""
    first, _, rest = path.lstrip("/").partition("/")
    return not (first in ("my", "nodes", "admin") or (first == "auth" and rest not in PUBLIC_AUTH))
