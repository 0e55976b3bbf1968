"""The exit codes of the command line."""

from enum import IntEnum

from artel.errors import Kind


class ExitCode(IntEnum):
    """All exit codes; the numbers are stable, for scripts."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_ALLOWED = 4
    CONFLICT = 5
    UNAVAILABLE = 6
    INTERRUPTED = 130


OF_KIND = {
    Kind.INVALID: ExitCode.USAGE,
    Kind.UNAUTHENTICATED: ExitCode.NOT_ALLOWED,
    Kind.FORBIDDEN: ExitCode.NOT_ALLOWED,
    Kind.NOT_FOUND: ExitCode.NOT_FOUND,
    Kind.CONFLICT: ExitCode.CONFLICT,
    Kind.TOO_LARGE: ExitCode.USAGE,
    Kind.MISDIRECTED: ExitCode.NOT_ALLOWED,
    Kind.TOO_LONG: ExitCode.USAGE,
    Kind.TOO_MANY: ExitCode.UNAVAILABLE,
    Kind.UNAVAILABLE: ExitCode.UNAVAILABLE,
    Kind.FAILED: ExitCode.FAILED,
    Kind.TIMED_OUT: ExitCode.FAILED,
}
