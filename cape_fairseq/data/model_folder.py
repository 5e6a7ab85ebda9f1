"""The folders in which the files of a model are."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class ModelFolder(NamedTuple):
    """The folders of a model, the one of its checkpoint before that of its dictionaries."""

    folders: tuple[Path, ...]

    def find(self, *choices: Sequence[str]) -> list[Path]:
        """Return the files of the first folder that has all names of one of the choices, or none.
        In a folder that has several, the first choice counts."""
        for folder in self.folders:
            for names in choices:
                files = [folder / name for name in names]
                if all(path.is_file() for path in files):
                    return files
        return []
