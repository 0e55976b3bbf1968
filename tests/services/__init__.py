"""Private PostgreSQL, Redis, RabbitMQ and Chromium for one test run, shared by all its workers."""

from .installed import ServiceUnavailable
from .process import until
from .service_run import ServiceRun

__all__ = ["ServiceRun", "ServiceUnavailable", "until"]
