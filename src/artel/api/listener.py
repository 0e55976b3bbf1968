"""The socket that a server listens on; without imports of the server, for the process that starts workers."""

import errno
import socket

from artel.errors import AddressUnavailable

BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address; port 0 chooses a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as failure:
        listener.close()
        advice = "another port with --port or ARTEL_PORT" if failure.errno == errno.EADDRINUSE else "another address"
        raise AddressUnavailable(f"Can't listen on {host}:{port} ({failure.strerror}). Choose {advice}.") from failure
    listener.setblocking(False)
    return listener


def url_of(host: str, listener: socket.socket) -> str:
    """Return the URL of a server that listens there."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
