"""How a private RabbitMQ starts."""

import os

from .installed import Program
from .launch import Launch

# Debian's /usr/sbin/rabbitmq-server insists on the system's own user, the script it wraps does not.
RABBITMQ = Program("RabbitMQ", "rabbitmq-server", ("rabbitmq-server",), "usr/lib/rabbitmq/bin")
EPMD = Program("RabbitMQ", "rabbitmq-server", ("epmd",), "usr/lib*/erlang/bin")
FOREIGN = ("RABBITMQ_", "ERL_", "NOTIFY_SOCKET")


def start_rabbitmq(launch: Launch) -> str:
    """Start RabbitMQ and the port mapper it needs, and return its URL."""
    server, mapper = launch.programs.find(RABBITMQ), launch.programs.find(EPMD)
    port, cluster_port, mapper_port = launch.choose_ports(3)
    folder = launch.folder
    node = f"{folder.parent.name}-{port}"
    (folder / "enabled_plugins").write_text("[].")
    (folder / "rabbitmq.conf").write_text("loopback_users = none\n")
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
    launch.spawn([server], environment=environment)
    launch.wait_for_answer(port, b"AMQP\0\0\x09\1", node.encode())
    return f"amqp://guest:guest@127.0.0.1:{port}/"
