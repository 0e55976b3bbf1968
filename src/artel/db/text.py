"""What a text column can hold."""


def storable(text: str) -> str:
    """Leave out what PostgreSQL can't hold and a model may still say: NUL, and halves of characters."""
    return text.replace("\x00", "").encode(errors="replace").decode()
