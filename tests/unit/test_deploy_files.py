"""The files in deploy/ fit the code: settings, commands, ports, probes, folders; and they give no more than needed."""

import fnmatch
import ipaddress
import os
import re
import shlex
from typing import Any

import pytest

from artel import __version__
from artel.api import health
from artel.cli.command_line import ExitCode
from artel.settings import Settings, load_settings, unknown_variables
from tests.artel_commands import parse_command
from tests.deployment import (
    DEPLOY,
    KUBERNETES,
    ROOT,
    UNIT,
    Image,
    Process,
    compose,
    env_file,
    manifests,
    pods,
    processes,
    read_yaml,
    unit,
)

PROCESSES = list(processes())
DATA_DIR, WORKSPACES_DIR = "/var/lib/artel", "/var/lib/artel-workspaces"
PORT = Settings.model_fields["port"].default
USER = 10001
PROVIDERS = {"OPENAI_API_KEY"}
_PATH = re.compile(r"[\w./-]+")


@pytest.mark.parametrize("process", PROCESSES, ids=lambda process: process.where)
def test_every_process_has_a_command_and_settings_that_artel_accepts(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse_command(process.arguments)
    assert unknown_variables(process.variables) == []
    assert {name for name in process.variables if not name.startswith(("ARTEL_", "PYTHON", "PATH"))} <= PROVIDERS

    for name in [name for name in os.environ if name.startswith("ARTEL_")]:
        monkeypatch.delenv(name)
    for name, value in process.variables.items():
        monkeypatch.setenv(name, value)
    role = process.arguments[process.arguments.index("--role") + 1] if "--role" in process.arguments else None
    settings = load_settings(role=role)

    assert settings.port == PORT
    assert process.port in (None, PORT)
    assert str(settings.data_dir) == DATA_DIR
    assert settings.role == (role or "all")
    if process.where != "Dockerfile":
        assert settings.hosts is not None  # no server for others takes requests with any host name
        assert settings.registration_open is False
        for proxy in settings.trusted_proxies:
            ipaddress.ip_network(proxy)
    if "--role" in process.arguments:
        assert str(settings.workspaces_dir) == WORKSPACES_DIR


def test_both_roles_run_wherever_they_are_separate() -> None:
    for place in ("compose.yaml", "artel-"):
        roles = {process.arguments[-1] for process in PROCESSES if process.where.startswith(place)}
        assert roles == {"upgrade", "api", "host"}


def test_image_runs_without_root_and_checks_its_health() -> None:
    image = Image.read()
    text = (DEPLOY / "Dockerfile").read_text()

    assert image.values("USER") == [f"{USER}:{USER}"]
    assert f"--uid {USER}" in text
    assert image.values("EXPOSE") == [str(PORT)]
    assert image.values("ENTRYPOINT") == ['["artel"]']
    (check,) = image.values("HEALTHCHECK")
    assert f"http://127.0.0.1:{PORT}/healthz" in check
    assert {"/healthz", "/readyz", "/metrics"} <= _routes()
    assert image.values("VOLUME") == [DATA_DIR]
    assert f"{DATA_DIR} {WORKSPACES_DIR}" in text
    assert "--require-hashes" in text
    assert not re.search(r"\bADD\b|\bsudo\b|curl [^\n]*\| *(ba)?sh|apt-get", text)
    for copied in image.copied:
        assert copied == "." or (ROOT / copied).exists(), copied


def test_image_is_built_from_what_the_wheel_needs_only() -> None:
    rules = [line for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if not line.startswith("#")]

    assert rules[0] == "*"
    allowed = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    for rule in allowed:
        assert any(ROOT.glob(rule)), rule
    for needed in ("pyproject.toml", "README.md", "LICENSE", "requirements/server.txt", "src"):
        assert any(fnmatch.fnmatch(needed, rule) for rule in allowed), needed


def test_compose_services_are_pinned_healthy_and_closed_to_the_outside() -> None:
    document = compose()
    services: dict[str, Any] = document["services"]

    assert set(services) == {"postgres", "rabbitmq", "redis", "qdrant", "migrate", "api", "host", "proxy"}
    for name, service in services.items():
        assert re.search(r":v?\d|^artel:local$", service["image"]), name
        assert {*service.get("depends_on", {})} <= set(services), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in document["volumes"] or (DEPLOY / source).exists(), (name, source)
        assert {*service["networks"]} <= set(document["networks"]), name
        outside = [port for port in service.get("ports", []) if not str(port).startswith("127.0.0.1:")]
        assert not outside or name == "proxy", name
        if service["image"] != "artel:local" and name != "proxy":
            assert service["networks"] == ["backend"], name
            assert service["healthcheck"]["test"], name
    for name in ("migrate", "api", "host"):
        service = services[name]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert f"workspaces:{WORKSPACES_DIR}" in service["volumes"]
        assert any(f"uid={USER}" in mount for mount in service["tmpfs"] if mount.startswith(DATA_DIR))
    assert document["networks"]["backend"]["internal"]
    subnet = document["networks"]["frontend"]["ipam"]["config"][0]["subnet"]
    assert subnet in services["api"]["environment"]["ARTEL_TRUSTED_PROXIES"]


def test_compose_asks_for_each_secret_that_the_example_names() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    example = env_file(DEPLOY / ".env.example")

    assert set(re.findall(r"\$\{(\w+):\?", text)) == set(example)
    assert {name for name, value in example.items() if value} == {"ARTEL_DOMAIN"}
    ignored = (DEPLOY / ".gitignore").read_text().split()
    assert ".env" in ignored
    assert "models.env" in ignored
    assert "secret.env" in (KUBERNETES / ".gitignore").read_text().split()


def test_proxy_streams_answers_and_hides_probes() -> None:
    text = (DEPLOY / "Caddyfile").read_text()

    assert f"reverse_proxy api:{PORT}" in text
    assert "flush_interval -1" in text
    hidden = re.search(r"@inside path (.+)", text)
    assert hidden
    assert set(hidden[1].split()) == {"/metrics", "/healthz", "/readyz"} <= _routes()


def test_unit_is_hardened_and_does_not_restart_after_a_mistake_in_the_settings() -> None:
    service = unit()

    assert service["User"] == ["artel"]
    assert service["StateDirectory"] == ["artel"]
    assert service["RestartPreventExitStatus"] == [str(ExitCode.USAGE.value)]
    for key in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "RestrictNamespaces"):
        assert service[key] == ["yes"], key
    assert service["ProtectSystem"] == ["strict"]
    assert service["CapabilityBoundingSet"] == [""]
    assert int(service["TimeoutStopSec"][0]) > 15
    (environment,) = service["EnvironmentFile"]
    assert f"{environment} " in UNIT.read_text()  # the comment says how to create it


def test_manifests_name_each_other() -> None:
    documents = {(document["kind"], document["metadata"]["name"]): document for document in manifests()}
    (kustomization,) = read_yaml(KUBERNETES / "kustomization.yaml")
    files = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    generated = {entry["name"] for kind in ("configMapGenerator", "secretGenerator") for entry in kustomization[kind]}

    assert set(kustomization["resources"]) == files
    assert kustomization["namespace"] == documents["Namespace", "artel"]["metadata"]["name"]
    assert [image["newTag"] for image in kustomization["images"]] == [__version__]
    for name, pod in pods():
        (container,) = pod["containers"]
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        assert container["image"] in {image["name"] for image in kustomization["images"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes), name
        assert {mount["mountPath"] for mount in container["volumeMounts"]} >= {DATA_DIR, "/tmp"}
        sources = [source[kind]["name"] for source in container["envFrom"] for kind in source]
        assert set(sources) == generated, name
        if "workspaces" in volumes:
            claim = volumes["workspaces"]["persistentVolumeClaim"]["claimName"]
            assert ("PersistentVolumeClaim", claim) in documents
        assert ("ServiceAccount", pod["serviceAccountName"]) in documents
    labels = {
        name: document["spec"]["template"]["metadata"]["labels"]
        for (kind, name), document in documents.items()
        if kind == "Deployment"
    }
    assert documents["Service", "artel"]["spec"]["selector"] == labels["artel-api"]
    for name, chosen in labels.items():
        assert documents["Deployment", name]["spec"]["selector"]["matchLabels"] == chosen
        assert documents["PodDisruptionBudget", name]["spec"]["selector"]["matchLabels"] == chosen


def test_ingress_leads_to_the_server_by_the_name_that_it_allows() -> None:
    (ingress,) = [document for document in manifests() if document["kind"] == "Ingress"]
    (service,) = [document for document in manifests() if document["kind"] == "Service"]
    (policy,) = [document for document in manifests() if document["kind"] == "NetworkPolicy"]
    (rule,) = ingress["spec"]["rules"]
    (path,) = rule["http"]["paths"]

    assert f'["{rule["host"]}"]' == env_file(KUBERNETES / "settings.env")["ARTEL_ALLOWED_HOSTS"]
    assert ingress["spec"]["tls"][0]["hosts"] == [rule["host"]]
    backend = path["backend"]["service"]
    assert backend["name"] == service["metadata"]["name"]
    assert [port["name"] for port in service["spec"]["ports"]] == [backend["port"]["name"]]
    assert service["spec"]["ports"][0]["targetPort"] == "http"
    assert policy["spec"]["ingress"][0]["ports"][0]["port"] == PORT


def test_pods_are_restricted_probed_and_free_of_variables_of_services() -> None:
    for name, pod in pods():
        (container,) = pod["containers"]
        security = container["securityContext"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] == USER
        assert pod["automountServiceAccountToken"] is False
        # Kubernetes sets ARTEL_PORT=tcp://… for a service named artel, which the server would refuse as a port.
        assert pod["enableServiceLinks"] is False, name
        assert security["readOnlyRootFilesystem"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
        if name == "artel-migrate":
            continue
        assert pod["terminationGracePeriodSeconds"] > 15
        probes = {probe: container[f"{probe}Probe"]["httpGet"] for probe in ("startup", "liveness", "readiness")}
        assert {probe["port"] for probe in probes.values()} == {container["ports"][0]["name"]}
        assert probes["liveness"]["path"] == "/healthz"  # a database that is away restarts nothing
        assert probes["readiness"]["path"] == "/readyz"


def test_commands_in_the_comments_name_files_that_exist() -> None:
    for path in (DEPLOY / "Dockerfile", DEPLOY / "compose.yaml", KUBERNETES / "kustomization.yaml"):
        for line in path.read_text().splitlines():
            if not line.startswith("#   "):
                continue
            for word in shlex.split(line.removeprefix("#").split("  #")[0]):
                if word.startswith(("deploy/", "docs/")) and _PATH.fullmatch(word) and word != "deploy/artel-api":
                    assert (ROOT / word).exists(), (path.name, word)


def _routes() -> set[str]:
    return {getattr(route, "path", "") for route in health.router.routes}
