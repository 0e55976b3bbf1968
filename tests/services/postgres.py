"""How a private PostgreSQL starts."""

import shutil
import signal
import struct
import sys
from pathlib import Path

from .installed import Program
from .launch import Launch

POSTGRES = Program("PostgreSQL", "postgresql", ("postgres",), "usr/lib/postgresql/*/bin")
LOCALE = "C.UTF-8" if sys.platform == "linux" else "en_US.UTF-8"
INITDB_OPTIONS = ("--auth=trust", "--no-sync")
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "300",
}


def start_postgres(launch: Launch) -> str:
    """Start PostgreSQL with the superuser app, and return the URL of its admin database."""
    postgres = launch.programs.find(POSTGRES)
    [port] = launch.choose_ports(1)
    data = launch.folder / "data"
    as_owner: list[str | Path] = []
    if launch.programs.uid == 0:  # PostgreSQL refuses to run as root
        shutil.chown(launch.folder, "postgres", "postgres")
        as_owner = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--"]
    initdb = postgres.with_name("initdb")
    launch.prepare([*as_owner, initdb, "-D", data, "-U", "app", "-E", "UTF8", f"--locale={LOCALE}", *INITDB_OPTIONS])
    settings = SETTINGS | {"port": str(port), "unix_socket_directories": str(launch.folder)}
    options = [option for name, value in settings.items() for option in ("-c", f"{name}={value}")]
    launch.spawn([*as_owner, postgres, "-D", data, *options], ending=signal.SIGINT)  # SIGINT: does not wait for clients
    launch.wait_for_answer(port, _connect_and_ask_for_folder(), str(data).encode())
    return f"postgresql://app@127.0.0.1:{port}/postgres"


def _connect_and_ask_for_folder() -> bytes:
    """Write the start-up message and one query of PostgreSQL's protocol 3.0."""
    parameters = b"user\0app\0database\0postgres\0\0"
    query = b"SHOW data_directory\0"
    start_up = struct.pack("!ii", 8 + len(parameters), 3 << 16) + parameters
    return start_up + struct.pack("!ci", b"Q", 4 + len(query)) + query
