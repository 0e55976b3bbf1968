"""What the files in deploy/ start: for each process the command and the variables, read as the engine would."""

import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
UNIT = DEPLOY / "systemd" / "artel.service"
_INSTRUCTION = re.compile(r"^([A-Z]+) (.*)$")
_VARIABLE = re.compile(r"\$\{(\w+)(?::[-?]([^}]*))?\}")


@dataclass(frozen=True)
class Process:
    """One process of ours: where it is described, the arguments of `artel`, and its variables."""

    where: str
    arguments: list[str]
    variables: dict[str, str]
    port: int | None = None


@dataclass(frozen=True)
class Image:
    """The last stage of the Dockerfile."""

    instructions: list[tuple[str, str]] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)  # what the build copies from the repository

    @classmethod
    def read(cls) -> "Image":
        text = (DEPLOY / "Dockerfile").read_text()
        logical = re.sub(r"\\\n(?:\s*#[^\n]*\n)*\s*", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
        parsed = [match.groups() for line in logical.splitlines() if (match := _INSTRUCTION.match(line))]
        starts = [number for number, (name, _) in enumerate(parsed) if name == "FROM"]
        copied = [
            source
            for name, value in parsed
            if name == "COPY" and not value.startswith("--from")
            for source in value.split()[:-1]
        ]
        return cls([(name, value) for name, value in parsed[starts[-1] :]], copied)

    def values(self, name: str) -> list[str]:
        return [value for instruction, value in self.instructions if instruction == name]

    @property
    def variables(self) -> dict[str, str]:
        pairs = [pair for value in self.values("ENV") for pair in shlex.split(value)]
        return dict(pair.split("=", 1) for pair in pairs)


def copy_build_context(target: Path) -> None:
    """Copy what the build of the image gets: the files that Dockerfile.dockerignore lets through."""
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    excluded = [rule.removeprefix("**/") for rule in rules[1:] if not rule.startswith("!")]

    def ignore(folder: str, names: list[str]) -> set[str]:
        paths = [Path(folder, name).relative_to(ROOT) for name in names]
        return {path.name for path in paths if any(path.match(rule) for rule in excluded)}

    for rule in rules:
        for source in ROOT.glob(rule.removeprefix("!")) if rule.startswith("!") else ():
            copy = target / source.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, copy, ignore=ignore)
            else:
                shutil.copy(source, copy)


def read_yaml(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text()))


def env_file(path: Path) -> dict[str, str]:
    """Return the variables of an env file, also those that are commented out as examples."""
    lines = [line.removeprefix("#") for line in path.read_text().splitlines() if re.match(r"#?[A-Z_]+=", line)]
    return dict(line.split("=", 1) for line in lines)


def compose() -> dict[str, Any]:
    """Return the compose file, its variables replaced: secrets by 48 characters, the others by their example."""
    text = (DEPLOY / "compose.yaml").read_text()
    examples = env_file(DEPLOY / ".env.example")

    def value(match: re.Match[str]) -> str:
        name, default = match.groups()
        return examples[name] or "0123456789abcdef" * 3 if name in examples else default

    document: dict[str, Any] = yaml.safe_load(_VARIABLE.sub(value, text))
    return document


def manifests() -> list[dict[str, Any]]:
    """Return the Kubernetes manifests that the kustomization lists."""
    (kustomization,) = read_yaml(KUBERNETES / "kustomization.yaml")
    return [document for name in kustomization["resources"] for document in read_yaml(KUBERNETES / name)]


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the pod specification of each workload."""
    for document in manifests():
        if document["kind"] in ("Deployment", "Job"):
            yield document["metadata"]["name"], document["spec"]["template"]["spec"]


def unit() -> dict[str, list[str]]:
    """Return the section [Service] of the systemd unit: all values of each key."""
    values: dict[str, list[str]] = {}
    section = UNIT.read_text().partition("[Service]\n")[2].partition("\n[")[0]
    for line in section.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition("=")
            values.setdefault(name, []).append(value)
    return values


def processes() -> Iterator[Process]:
    """Yield every process of ours that the files start."""
    image = Image.read()
    yield Process("Dockerfile", ["serve"], image.variables)
    for name, service in compose()["services"].items():
        if service["image"] == "artel:local":
            variables = {key: str(value) for key, value in service["environment"].items()}
            yield Process(f"compose.yaml, {name}", service["command"], image.variables | variables)
    variables = env_file(KUBERNETES / "settings.env") | env_file(KUBERNETES / "secret.env.example")
    for name, pod in pods():
        (container,) = pod["containers"]
        ports = [port["containerPort"] for port in container.get("ports", [])]
        yield Process(name, container["args"], image.variables | variables, ports[0] if ports else None)
    service, example = unit(), env_file(DEPLOY / "systemd" / "artel.env.example")
    own = dict(pair.split("=", 1) for value in service["Environment"] for pair in value.split())
    secrets = {name: value or "0123456789abcdef" * 3 for name, value in example.items()}
    for command in service["ExecStartPre"] + service["ExecStart"]:
        yield Process(f"artel.service, {command}", command.split()[1:], secrets | own)
