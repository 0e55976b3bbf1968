"""Inject faults into the code and list those that no test detects (mutation testing).

Each fault is an entry of tests/mutants/*.toml: a text of one source file, its replacement, and the requirement ids that
the change breaks. It is applied to a copy of the repository, where the tests with one of the ids then run: on SQLite,
unless it names a database. For a fault of the web UI its unit tests run too. A fault survives if all of them pass.
`make mutants ONLY=cache` runs the faults whose file, reason or ids match.
"""

import argparse
import concurrent.futures
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "src" / "artel" / "api" / "static" / "app"  # built from web/, which git ignores
NODE_MODULES = ROOT / "web" / "node_modules"
sys.path.insert(0, str(ROOT))

from tests.mutants import Mutant, load_mutants  # noqa: E402 - needs sys.path from the line above

TEST_SECONDS = 180  # for one test; far more than any of them needs
MUTANT_SECONDS = 1200  # for all tests of one fault
KILLED = "killed"
CHEAP_FIRST = ("unit", "contract", "acceptance", "faults", "browser")  # folders of tests


class Copy:
    """A copy of the repository with a virtual environment that imports `artel` from the copy."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "copy"
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        files = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, files.split("\0")):
            if (ROOT / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.root / name)
        if PAGE.is_dir():
            shutil.copytree(PAGE, self.root / PAGE.relative_to(ROOT))
        if NODE_MODULES.is_dir():
            (self.root / NODE_MODULES.relative_to(ROOT)).symlink_to(NODE_MODULES)
        environment = folder / "venv"
        venv.create(environment, symlinks=True)
        self.python = environment / "bin" / "python"
        installed = Path(sys.prefix) / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
        own = environment / installed.relative_to(sys.prefix)
        # Entries of a .pth file are searched in order: the copy first, then the installed packages.
        (own / "copy.pth").write_text(f"{self.root / 'src'}\n{installed}\n")
        command = environment / "bin" / "artel"
        command.write_text(f"#!{self.python}\nfrom artel.__main__ import main\nmain()\n")
        command.chmod(0o755)

    def build_page(self) -> None:
        """Build the web UI of the copy, if it changed."""
        subprocess.run([self.python, "scripts/web.py", "build"], cwd=self.root, check=True, stdout=subprocess.DEVNULL)

    def page_tests_fail(self) -> bool:
        """Whether a unit test of the web UI fails in the copy."""
        command = [str(self.python), "scripts/web.py", "test"]
        return (
            subprocess.run(command, check=False, cwd=self.root, capture_output=True, timeout=MUTANT_SECONDS).returncode
            != 0
        )

    def pytest(self, arguments: list[str], seconds: float | None = None) -> tuple[int, str]:
        """Run pytest in the copy; return its exit code and output. A timeout counts as a failure."""
        command = [str(self.python), "-m", "pytest", "-p", "no:cacheprovider", "-q", "--no-header", *arguments]
        variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        process = subprocess.Popen(
            command,
            cwd=self.root,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)  # lets pytest stop the servers that it has started
            try:
                process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
            return 1, f"timed out after {seconds:g} seconds"
        return process.returncode, output


def tests_by_requirement(copy: Copy) -> dict[str, list[str]]:
    """Return the tests of each requirement id."""
    report = copy.root / "build" / "tests-by-requirement.json"
    code, output = copy.pytest(["-n", "0", "--collect-only", f"--tests-by-requirement={report}"])
    if code:
        raise SystemExit(f"The tests can't be collected:\n{output[-3000:]}")
    tests: dict[str, list[str]] = json.loads(report.read_text())
    return tests


def tests_for(mutant: Mutant, tests: dict[str, list[str]]) -> list[str]:
    """Return the tests that should detect a fault, the cheap ones first.

    Those on the other database are left out, unless no other test proves an id.
    """
    chosen: set[str] = set()
    other = "sqlite" if mutant.database == "postgres" else "postgres"
    for requirement in mutant.breaks:
        names = tests.get(requirement, [])
        chosen |= {name for name in names if other not in name.partition("[")[2]} or set(names)
    return sorted(chosen, key=lambda name: (CHEAP_FIRST.index(name.split("/")[1]), name))


def verdict(copy: Copy, mutant: Mutant, names: list[str]) -> str:
    """Return `killed` and by which test, or why the fault survived."""
    if not names:
        return "no test has its ids"
    original = mutant.apply(copy.root)
    try:
        copy.build_page()
        code, output = copy.pytest(["-n", "0", "-x", f"--timeout={TEST_SECONDS}", *names], MUTANT_SECONDS)
        if code == 0 and mutant.file.startswith("web/") and copy.page_tests_fail():
            return f"{KILLED}, a unit test of the web UI"
    finally:
        (copy.root / mutant.file).write_text(original, encoding="utf-8")
        copy.build_page()
    if code == 1:
        failed = re.search(r"^(?:FAILED|ERROR) \S+", output, re.MULTILINE)
        return f"{KILLED}, {failed[0] if failed else output[-200:]}"
    if code == 0:
        return f"all {len(names)} tests passed"
    return f"pytest ended with {code}:\n{output[-2000:]}"


@contextmanager
def copies(count: int) -> Iterator["queue.SimpleQueue[Copy]"]:
    """Create copies in a queue, from which workers take one and put it back."""
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="artel-mutants-") as folder:
        for number in range(count):
            (Path(folder) / str(number)).mkdir()
            free.put(Copy(Path(folder) / str(number)))
        yield free


def run(mutants: list[Mutant], workers: int, *, check_first: bool) -> int:
    """Run the tests for all faults and print the verdicts; return the number of survivors."""
    with copies(workers) as free:
        copy = free.get()
        tests = tests_by_requirement(copy)
        if check_first:
            names = sorted({name for mutant in mutants for name in tests_for(mutant, tests)})
            print(f"{len(names)} tests have the ids of {len(mutants)} faults; running them first without a fault")
            code, output = copy.pytest(["-n", str(workers), f"--timeout={TEST_SECONDS}", *names])
            if code:
                raise SystemExit(f"Tests fail without a fault:\n{output[-3000:]}")
        free.put(copy)

        def attempt(mutant: Mutant) -> tuple[Mutant, str]:
            own_copy = free.get()
            try:
                return mutant, verdict(own_copy, mutant, tests_for(mutant, tests))
            finally:
                free.put(own_copy)

        survivors = 0
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            done = concurrent.futures.as_completed([pool.submit(attempt, mutant) for mutant in mutants])
            for number, future in enumerate(done, 1):
                mutant, outcome = future.result()
                survivors += not outcome.startswith(KILLED)
                state = outcome if outcome.startswith(KILLED) else f"SURVIVED, {outcome}"
                print(f"{number:4}/{len(mutants)} {mutant}: {state}", flush=True)
    print(f"\n{len(mutants) - survivors} of {len(mutants)} faults were detected, {survivors} survived.")
    return survivors


def main() -> int:
    """Run the selected faults; return 1 if one survives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="?", default="", help="a word of the file, the reason or the ids")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--unchecked", action="store_true", help="don't run the tests without a fault first")
    options = parser.parse_args()
    mutants = [mutant for mutant in load_mutants() if options.only in f"{mutant} {mutant.source}"]
    if not mutants:
        raise SystemExit(f"No fault matches {options.only!r}.")
    return 1 if run(mutants, options.workers, check_first=not options.unchecked) else 0


if __name__ == "__main__":
    sys.exit(main())
