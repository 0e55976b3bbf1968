"""How a private RabbitMQ starts."""

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .installed import Program
from .launch import Launch

# Debian's /usr/sbin/rabbitmq-server insists on the system's own user, the script it wraps does not.
RABBITMQ = Program("RabbitMQ", "rabbitmq-server", ("rabbitmq-server",), "usr/lib/rabbitmq/bin")
EPMD = Program("RabbitMQ", "rabbitmq-server", ("epmd",), "usr/lib*/erlang/bin")
FOREIGN = ("RABBITMQ_", "ERL_", "NOTIFY_SOCKET")
VIRTUAL_HOSTS = 40


@dataclass(frozen=True)
class RabbitServer:
    """A prepared server, which can be started again after it was killed."""

    program: Path
    environment: Mapping[str, str]
    port: int
    node: str

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def run(self, launch: Launch) -> None:
        """Start the server and wait until it answers."""
        launch.spawn([self.program], environment=self.environment)
        launch.wait_for_answer(self.port, b"AMQP\0\0\x09\1", self.node.encode())


def start_rabbitmq(launch: Launch) -> str:
    """Start RabbitMQ and the port mapper it needs, and return its URL."""
    server = prepare_rabbitmq(launch)
    server.run(launch)
    return server.url


def prepare_rabbitmq(launch: Launch) -> RabbitServer:
    """Start the port mapper that RabbitMQ needs, and return the server to run."""
    server, mapper = launch.programs.find(RABBITMQ), launch.programs.find(EPMD)
    port, cluster_port, mapper_port = launch.choose_ports(3)
    folder = launch.folder
    node = f"{folder.parent.name}-{port}"
    (folder / "enabled_plugins").write_text("[].")
    (folder / "definitions.json").write_text(json.dumps(_definitions()))
    (folder / "rabbitmq.conf").write_text(f"loopback_users = none\nload_definitions = {folder / 'definitions.json'}\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)} | {
        "HOME": str(folder),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(mapper_port),
        "RABBITMQ_NODENAME": f"{node}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(cluster_port),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_LOG_BASE": str(folder),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}",
        "RUNNING_UNDER_SYSTEMD": "true",  # the script then becomes the server, so that one pid is enough
    }
    # Started here, because the one that RabbitMQ starts by itself leaves no trace of its pid.
    launch.spawn([mapper], environment=environment)
    launch.wait_for_answer(mapper_port, b"\0\1n", mapper_port.to_bytes(4))
    return RabbitServer(server, environment, port, node)


def virtual_host(number: int) -> str:
    """Return the name of a virtual host, which shares nothing with the others."""
    if number >= VIRTUAL_HOSTS:
        raise ValueError(f"there are {VIRTUAL_HOSTS} virtual hosts; add some in {__name__}")
    return f"v{number}"


def _definitions() -> dict[str, object]:
    """Return the user and the virtual hosts; RabbitMQ creates none itself then."""
    salt = os.urandom(4)
    password = base64.b64encode(salt + hashlib.sha256(salt + b"guest").digest()).decode()
    hosts = ["/", *map(virtual_host, range(VIRTUAL_HOSTS))]
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    return {
        "users": [
            {
                "name": "guest",
                "password_hash": password,
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "tags": ["administrator"],
            }
        ],
        "vhosts": [{"name": host} for host in hosts],
        "permissions": [{"user": "guest", "vhost": host, **everything} for host in hosts],
    }
