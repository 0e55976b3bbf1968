"""What is wrong with a path, in words for whoever chose it. None of them says where the folder itself lies."""


class PathError(Exception):
    """A path that is refused, or an operation on it that failed; `code` is one of the codes of task workspaces."""

    code = "read_failed"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class OutsideWorkspace(PathError):
    """The path leads out of the folder, or would if it were followed."""

    code = "path_traversal_blocked"

    def __init__(self) -> None:
        super().__init__("Path is outside workspace bounds")


class InvalidPath(PathError):
    """No path of ours looks like that."""

    code = "invalid_path"


class FileMissing(PathError):
    """There is nothing at the path."""

    code = "file_not_found"

    def __init__(self, path: str) -> None:
        super().__init__(f"Path {path} does not exist")


class ReadDenied(PathError):
    """The file may not be read: by its permissions, or by our rules."""

    code = "permission_denied"

    def __init__(self, path: str) -> None:
        super().__init__(f"Permission denied to read {path}")


class WriteDenied(PathError):
    """The file may not be written: by its permissions, or by our rules."""

    code = "permission_denied"

    def __init__(self, path: str) -> None:
        super().__init__(f"Permission denied to write to {path}")


class RuledOut(PathError):
    """The project's rules keep the file from agents."""

    code = "refused"

    def __init__(self, path: str) -> None:
        super().__init__(f"The rules of this project keep {path} from agents")


class ReadFailed(PathError):
    """The file could not be read."""


class WriteFailed(PathError):
    """The file could not be written; it is as it was."""

    code = "write_failed"


class FileChanged(WriteFailed):
    """The file is no longer what whoever writes it has read."""

    code = "file_changed"

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was changed meanwhile. Read it again, then write.")


class FolderMoved(PathError):
    """The folder itself is not where it was."""

    code = "workspace_gone"

    def __init__(self) -> None:
        super().__init__("The workspace folder was moved, replaced or removed. Connect it again.")
