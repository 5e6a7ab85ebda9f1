"""Position encodings in pure PyTorch: one method, one file, one class.

Every module of this folder is imported, so that a new file registers its encoding.
"""

from importlib import import_module
from pkgutil import iter_modules

from cape_fairseq.positions.base import ENCODINGS, PositionEncoding, Side, register_encoding

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["ENCODINGS", "PositionEncoding", "Side", "register_encoding"]
