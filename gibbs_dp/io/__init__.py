"""Files: written whole or not at all, and read without running anything."""

import lazy_loader

# What is here is imported when it is used; its names and their types are in __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
