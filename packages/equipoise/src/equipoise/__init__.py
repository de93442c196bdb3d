"""Fair incentives for private collaborative machine learning.

Names are loaded when first used, so that `import equipoise` is instant and a party's machine never loads what only a
mediator needs. They are listed in `__init__.pyi`, once for Python, type checkers and editors.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
