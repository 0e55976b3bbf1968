"""Prometheus metrics of requests. Labels are route templates and status codes, never tenant data."""

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
        """Count one request; status 0 means that the client disconnected."""
        label = method if method in _METHODS else "other"  # clients can send any method
        self._requests.labels(label, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def render(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self.registry)
