"""Cleaning of text before it is stored."""


def storable(text: str) -> str:
    """Remove NUL and replace lone surrogates, which PostgreSQL can't store but a model may produce."""
    return text.replace("\x00", "").encode(errors="replace").decode()
