"""Structured logs: one line per event, with the request's ids and without secrets."""

import logging
import re
import sys
from collections.abc import Mapping
from typing import Any, Literal

from artel.text import shorten

_rich = sys.modules.pop("rich", None)
sys.modules["rich"] = None  # type: ignore[assignment]  # structlog would import it to format tracebacks, for 4 MB
try:
    import structlog
finally:
    del sys.modules["rich"]
    if _rich is not None:
        sys.modules["rich"] = _rich

from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger  # noqa: E402 - see above

log_context = structlog.contextvars  # ids that each line of a task has; imported from here, so that rich is left out

MASK = "***"
_SECRET_KEY = re.compile(r"password|passwd|secret|token|authorization|cookie|api_?key|credential", re.IGNORECASE)
_PUBLIC_KEYS = frozenset({"token_type", "max_tokens", "tokens", "input_tokens", "output_tokens"})
MAX_TEXT_CHARACTERS = 10_000
MAX_TRACEBACK_CHARACTERS = 100_000
# The text is untrusted: each pattern runs in linear time.
_SECRET_TEXT = re.compile(
    r"(?<![\w-])(?=[\w-]*?eyJ[\w-]{5})[\w-]++\.[\w-]++\.[\w-]*+"  # a JSON web token
    r"|(?<=bearer )\S++"
    r"|\bsk-[\w-]{8,}+"  # keys of model providers
    r"|(?<=password=)[^\s&]++",
    re.IGNORECASE,
)
_URL = re.compile(r"[^\s\"']++")  # matches any word; `_without_login` keeps words that are not URLs
# Control characters that a terminal would interpret. Newlines are kept only in tracebacks.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_MANY_LINES = frozenset({"exception", "stack"})
_loggers: list[FilteringBoundLogger] = []  # one per module


def mask(value: Any) -> Any:
    """Return the value with everything that looks like a secret replaced by `***`."""
    match value:
        case str():
            text = value[:MAX_TRACEBACK_CHARACTERS]  # longer than what is logged: no part of a cut secret is shown
            if "://" in text and "@" in text:
                text = _URL.sub(_without_login, text)
            text = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", _SECRET_TEXT.sub(MASK, text))
            return shorten(text, MAX_TEXT_CHARACTERS)
        case Mapping():
            secret = {key for key in value if key not in _PUBLIC_KEYS and _SECRET_KEY.search(str(key))}
            return {key: MASK if key in secret and item else mask(item) for key, item in value.items()}
        case list() | tuple():
            return [mask(item) for item in value]
        case _:
            return value


def _without_login(found: re.Match[str]) -> str:
    """Return a URL without user and password."""
    scheme, separator, rest = found[0].partition("://")
    login, _, host = rest.rpartition("@")
    return f"{scheme}{separator}{MASK}@{host}" if login else found[0]


def _mask_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    masked: EventDict = mask(event)
    for name in _MANY_LINES & event.keys():
        text = str(event[name])[:MAX_TRACEBACK_CHARACTERS]
        masked[name] = "\n".join(mask(line) for line in text.splitlines())
    return masked


def _add_name(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    event["logger"] = event.pop("_name", None)
    return event


def configure_logs(log_format: Literal["auto", "console", "json"], level: str, worker: int | None = None) -> None:
    """Send Artel's and libraries' log lines to standard error, in one format; those of a worker with its number."""
    in_terminal = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())

    def add_worker(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        return {**event, "worker": worker}

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        *([] if worker is None else [add_worker]),
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        _mask_event,
    ]
    renderer: Processor = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
        if in_terminal
        else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    # Artel's own lines bypass the standard library's logging, which takes three times as long.
    structlog.configure(
        processors=[_add_name, *shared, renderer],
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    forget_used_loggers()
    for noisy in ("uvicorn.access", "alembic", "httpx", "httpcore", "aio_pika"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # It logs a traceback for every lost connection; RabbitBus logs it itself.
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)


def set_level(level: str) -> None:
    """Change the level of a running process."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()])
    )
    forget_used_loggers()
    logging.getLogger().setLevel(level.upper())


def forget_used_loggers() -> None:
    """Let loggers that were used follow a new configuration: structlog keeps the one of the first use."""
    for logger in _loggers:
        vars(logger).pop("bind", None)


def get_logger(name: str) -> FilteringBoundLogger:
    """Return the logger of a module."""
    logger: FilteringBoundLogger = structlog.get_logger(_name=name)
    _loggers.append(logger)
    return logger
