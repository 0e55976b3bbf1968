"""How a private Redis starts."""

from .installed import Program
from .launch import Launch

REDIS = Program("Redis", "redis-server", ("redis-server",))


def start_redis(launch: Launch) -> str:
    """Start Redis without a disk copy, and return its URL."""
    program = launch.programs.find(REDIS)
    [port] = launch.choose_ports(1)
    options = {"--port": str(port), "--bind": "127.0.0.1", "--save": "", "--appendonly": "no"}
    server = launch.spawn([program, *(part for option in options.items() for part in option)])
    launch.wait_for_answer(port, b"INFO server\r\n", b"process_id:%d\r" % server.pid)
    return f"redis://127.0.0.1:{port}/0"
