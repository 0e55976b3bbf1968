"""Print what `pip install 'artel-ai[server]'` takes on disk; fail if that is more than the documentation says.

The wheel is built and installed with the locked versions into an empty environment. Bytecode is not counted: pip writes
it or not, as it is told to.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
UV = Path(sys.executable).with_name("uv")
EXTRAS = ("server", "server,postgres,qdrant,web")
MAX_MEGABYTES = 450  # of the first; docs/how-to/production.md names it
SHOWN = 8
SECONDS = 600


def main() -> int:
    """Measure and print each installation; return 1 if the first is too large."""
    with TemporaryDirectory() as folder:
        build = Path(folder) / "dist"
        _uv("build", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", build, ROOT)
        (wheel,) = build.glob("*.whl")
        totals = [_measured(wheel, extras, Path(folder) / str(number)) for number, extras in enumerate(EXTRAS)]
    if totals[0] > MAX_MEGABYTES:
        print(f"[{EXTRAS[0]}] takes more than {MAX_MEGABYTES} MB: move what few installations need to an extra.")
        return 1
    return 0


def _measured(wheel: Path, extras: str, folder: Path) -> float:
    """Install the wheel with these extras; print and return the megabytes."""
    lock = ROOT / "requirements" / "server.txt"
    _uv("venv", "--python", sys.executable, folder)
    _uv("pip", "install", "--python", folder / "bin" / "python", "--constraints", lock, f"{wheel}[{extras}]")
    (packages,) = folder.glob("lib/python*/site-packages")
    sizes = package_bytes(packages)
    total = sum(sizes.values()) / 1e6
    largest = ", ".join(f"{name} {size / 1e6:.0f}" for name, size in sizes.most_common(SHOWN))
    print(f"artel-ai[{extras}]: {total:.0f} MB ({largest} …)")
    return total


def package_bytes(packages: Path) -> Counter[str]:
    """Return the bytes of each entry of an environment's folder of packages, without bytecode."""
    sizes: Counter[str] = Counter()
    for path in packages.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.suffix != ".pyc":
            sizes[path.relative_to(packages).parts[0]] += path.stat().st_size
    return sizes


def _uv(*arguments: str | Path) -> None:
    subprocess.run([UV, *arguments, "--quiet"], check=True, timeout=SECONDS)


if __name__ == "__main__":
    sys.exit(main())
