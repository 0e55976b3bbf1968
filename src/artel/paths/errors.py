"""Errors of file operations; their messages never reveal where the folder itself is."""


class PathError(Exception):
    """A path was refused, or an operation on it failed; `code` is one of the codes of task workspaces."""

    code = "read_failed"

    def __init_subclass__(cls, *, code: str | None = None) -> None:
        if code is not None:
            cls.code = code

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class OutsideWorkspace(PathError, code="path_traversal_blocked"):
    def __init__(self) -> None:
        super().__init__("Path is outside workspace bounds")


class InvalidPath(PathError, code="invalid_path"):
    """The path has invalid characters, is too long or too deep, or names the folder itself."""


class FileMissing(PathError, code="file_not_found"):
    def __init__(self, path: str) -> None:
        super().__init__(f"Path {path} does not exist")


class ReadDenied(PathError, code="permission_denied"):
    """The file's permissions or our rules do not allow reading."""

    def __init__(self, path: str) -> None:
        super().__init__(f"Permission denied to read {path}")


class WriteDenied(PathError, code="permission_denied"):
    """The file's permissions or our rules do not allow writing."""

    def __init__(self, path: str) -> None:
        super().__init__(f"Permission denied to write to {path}")


class DeniedByProject(PathError, code="refused"):
    def __init__(self, path: str) -> None:
        super().__init__(f"The rules of this project do not allow access to {path}")


class ReadFailed(PathError):
    """The file could not be read."""


class WriteFailed(PathError, code="write_failed"):
    """The file could not be written and is unchanged."""


class FileChanged(WriteFailed, code="file_changed"):
    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was changed meanwhile. Read it again, then write.")


class FolderMoved(PathError, code="workspace_gone"):
    def __init__(self) -> None:
        super().__init__("The workspace folder was moved, replaced or removed. Connect it again.")
