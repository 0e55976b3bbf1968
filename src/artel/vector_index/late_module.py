"""A module that is imported when it is first used."""

from importlib import import_module
from types import ModuleType
from typing import Any


class LateModule(ModuleType):
    """Stands for a module, and imports it for the first attribute that is read."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)  # so that it is found without this method from now on
        return value
