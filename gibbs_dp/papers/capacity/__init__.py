"""Privacy against an adversary from a restricted class of functions.

Chaudhuri, Imola & Machanavajjhala, *Capacity Bounded Differential Privacy* (2019). Divergences in
nats; adjacency is that for which a sensitivity (``shift``) was computed.
"""

import lazy_loader

# What is here is imported when it is used; its names and their types are in __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
