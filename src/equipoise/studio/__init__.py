"""The studio: a web application that runs on your own machine, for exploring games and logs.

`equipoise studio` starts it and opens the browser. The server computes every number
with the public functions of this library; the pages only draw them. The server needs Starlette and
uvicorn: `pip install '.[studio]'` in the clone.
"""

from equipoise.studio._folder import Folder
from equipoise.studio._server import Studio, serve

__all__ = ["Folder", "Studio", "serve"]
