"""Papers, a folder each: what one defines, its figures and tables redrawn, its results verified.

Nothing else in the library needs them; `gibbs-dp` runs them.
"""

import lazy_loader

# What is here is imported when it is used; its names and their types are in __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
