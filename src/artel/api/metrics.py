"""Figures about requests, for Prometheus. Labels are route templates and codes: nothing of any tenant."""

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 35)
_METHODS = frozenset({"GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS"})


class HttpMetrics:
    """Counts and times requests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._requests = Counter(
            "artel_http_requests", "Requests answered.", ("method", "route", "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "artel_http_request_seconds", "Time to answer.", ("route",), buckets=_BUCKETS, registry=self.registry
        )

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request; a status of 0 is a client that went away."""
        known = method if method in _METHODS else "other"  # methods come from the client and may be anything
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def render(self) -> bytes:
        """Return all figures in the format of Prometheus."""
        return generate_latest(self.registry)
