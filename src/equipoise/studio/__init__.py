"""The studio: a web application on your own machine, for looking at games and touching them.

`equipoise studio` starts it and opens the browser. Every number it shows comes from the public
functions of this library, on the server; the pages only draw. The server needs Starlette and
uvicorn: `pip install equipoise[studio]`.
"""

from equipoise.studio._folder import Folder
from equipoise.studio._server import Studio, serve

__all__ = ["Folder", "Studio", "serve"]
