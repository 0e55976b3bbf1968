"""Check the files in deploy/ with the tools of this machine: what a tool refuses fails, a missing tool is named.

What needs no tool (settings, commands, ports, probes) is in tests/unit/test_deploy_files.py.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
SECONDS = 120
SECRET = "0123456789abcdef" * 3


class Refused(Exception):
    """A tool found a mistake; the text is what it printed."""


def run(*command: str, env: dict[str, str] | None = None) -> str:
    """Run a tool and return what it printed; raise Refused if it fails."""
    done = subprocess.run(
        command, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode:
        raise Refused(done.stdout + done.stderr)
    return done.stdout


def check_manifests(validate: str) -> str:
    """Check the manifests against the schemas of Kubernetes."""
    files = sorted(str(path) for path in KUBERNETES.glob("*.yaml") if path.name != "kustomization.yaml")
    run(validate, "--strict", *files)
    return f"{len(files)} files fit the schemas of Kubernetes"


def check_kustomization(folder: Path) -> str:
    """Build the kustomization with the example of the secrets."""
    copy = folder / "kubernetes"
    shutil.copytree(KUBERNETES, copy)
    shutil.copy(copy / "secret.env.example", copy / "secret.env")
    built = run("kubectl", "kustomize", str(copy))
    return f"{built.count('apiVersion:')} objects"


def check_compose() -> str:
    """Let the engine's client read the compose file."""
    lines = (DEPLOY / ".env.example").read_text().splitlines()
    env = {line.partition("=")[0]: SECRET for line in lines if line and not line.startswith("#")}
    services = run(
        "docker", "compose", "-f", str(DEPLOY / "compose.yaml"), "--profile", "tls", "config", "--services", env=env
    )
    return f"services {', '.join(sorted(services.split()))}"


def check_unit(folder: Path) -> str:
    """Let systemd read the unit, with a program in place of the installed one."""
    unit = folder / "artel.service"
    unit.write_text((DEPLOY / "systemd" / "artel.service").read_text().replace("/opt/artel/bin/artel", sys.executable))
    run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit))
    exposure = run("systemd-analyze", "security", "--offline=true", "--threshold=25", "--no-pager", str(unit))
    return exposure.strip().splitlines()[-1].strip("→ ")


def checks(validate: str, folder: Path) -> Iterator[tuple[str, bool, str]]:
    """Yield for each tool its name, whether what it checks is right, and what it says."""
    has_compose = (
        shutil.which("docker")
        and not subprocess.run(
            ["docker", "compose", "version"], capture_output=True, check=False, timeout=SECONDS
        ).returncode
    )
    tools: list[tuple[str, object, Callable[[], str]]] = [
        ("kubernetes-validate", True, lambda: check_manifests(validate)),
        ("kubectl kustomize", shutil.which("kubectl"), lambda: check_kustomization(folder)),
        ("docker compose config", has_compose, check_compose),
        ("systemd-analyze", shutil.which("systemd-analyze"), lambda: check_unit(folder)),
    ]
    for name, exists, check in tools:
        if not exists:
            yield name, True, "is not installed here: not checked"
            continue
        try:
            yield name, True, check()
        except Refused as refused:
            yield name, False, str(refused)


def main(arguments: list[str]) -> int:
    """Print what each tool says; return the exit code."""
    with TemporaryDirectory() as folder:
        results = list(checks(arguments[0], Path(folder)))
    for name, is_right, text in results:
        print(f"{'ok' if is_right else 'WRONG':6} {name}: {text}")
    return 0 if all(is_right for _, is_right, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
