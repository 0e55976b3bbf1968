"""Small faults, for `make mutants`: each breaks promises that tests must defend."""

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """A small fault, and the requirements that it breaks."""

    file: str
    find: str
    replace: str
    breaks: tuple[str, ...]
    why: str
    source: str  # the TOML file it comes from
    database: str  # on which its tests run: SQLite knows no row locks

    def __str__(self) -> str:
        return f"{self.file}: {self.why} ({', '.join(self.breaks)})"

    def apply(self, root: Path) -> str:
        """Write the fault into a copy of the repository and return the text that was there."""
        path = root / self.file
        original = path.read_text(encoding="utf-8")
        path.write_text(original.replace(self.find, self.replace), encoding="utf-8")
        return original


def load_mutants() -> list[Mutant]:
    """Read all faults."""
    return [
        Mutant(**{"database": "sqlite"} | entry | {"breaks": tuple(entry["breaks"])}, source=path.name)
        for path in sorted(Path(__file__).parent.glob("*.toml"))
        for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", [])
    ]
