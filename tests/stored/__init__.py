"""Documents as releases have stored them: JSON files by kind and version, with `MARK` for the mark of a test."""

import json
from pathlib import Path
from typing import Any

STORED = Path(__file__).parent


def names(kind: str, version: str) -> list[str]:
    """Return the names of the documents of a kind and version."""
    return sorted(path.stem for path in (STORED / kind / version).glob("*.json"))


def document(kind: str, version: str, name: str, mark: str = "MARK") -> Any:
    """Return one document."""
    return json.loads((STORED / kind / version / f"{name}.json").read_text().replace("MARK", mark))
