"""Show the examples of docstrings as code.

Markdown reads a line that begins with `>>>` as a quotation in a quotation in a quotation. This
extension of griffe puts a fence around every such block before it is rendered.
"""

import re
from typing import Any

import griffe

#: From a prompt to the next empty line.
BLOCK = re.compile(r"^>>> .*(?:\n.*\S.*)*", re.M)


class DoctestBlocks(griffe.Extension):
    """Fences doctest blocks in every docstring."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for each object once it has been loaded."""
        if obj.docstring is not None:
            obj.docstring.value = BLOCK.sub(r"```python\n\g<0>\n```", obj.docstring.value)
