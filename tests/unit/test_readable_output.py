"""Outputs of capabilities as people read them."""

import pytest
from pydantic import JsonValue

from artel.nodes.capability import readable


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("Done.", "Done."),
        ({"text": "Done."}, "Done."),
        ({"score": 7, "sources": [], "note": None}, "**Score:** 7\n\n**Sources:** none\n\n**Note:** none"),
        ({"score": 7, "points": ["a", 2]}, "**Score:** 7\n\n**Points**\n\n- a\n- 2"),
        (
            {"verdict": "revise", "issues": [{"severity": "minor", "quote": "teh", "seen_in": ["a", "b"]}]},
            "**Verdict:** revise\n\n**Issues**\n\n- Severity: minor; Quote: teh; Seen in: a · b",
        ),
        (
            {"files": [{"path": "a.py", "content": "x = 1\ny = 2"}], "language": "Python"},
            "**Files**\n\n- Path: a.py\n\n~~~\nx = 1\ny = 2\n~~~\n\n\n**Language:** Python",
        ),
    ],
)
def test_output_is_text_without_json(output: JsonValue, text: str) -> None:
    assert readable(output) == text
