"""The web server: it authorises requests and routes them to the rooms, which know about games.

Any program on the machine can reach a local port, and any web page can make the browser send
requests to it. The server therefore binds to the loopback address, and every request must

- name this server in its Host header (a rebound DNS name does not),
- come from one of this server's pages if it has an Origin, which posts and websockets must have,
- carry the cookie that the link with the random token sets.

The length of a body is checked before the body is read. Pages run no inline scripts and load
nothing from other servers.
"""

import asyncio
import contextlib
import functools
import os
import secrets
import socket
import sys
import threading
import time
import traceback
import webbrowser
from collections.abc import Awaitable, Callable
from html import escape
from importlib import import_module, resources
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import parse_qs

from equipoise.core.errors import InputError
from equipoise.core.plain import dumps, loads
from equipoise.studio._folder import LARGEST, Folder
from equipoise.studio._jobs import Jobs

#: Largest request other than a dropped file, in bytes.
LONGEST = 4 * 2**20
#: Port of the studio unless it is taken, so that saved links work after a restart.
PORT = 8642
#: Seconds between two messages about the same job to a page.
PACE = 0.1
#: Number of calls that compute at the same time.
_WORKERS = 2
#: Room (a page of the studio) -> the module that answers its calls, imported when first needed.
ROOMS = {name: f"equipoise.studio._{name}" for name in ("matrix", "duel", "log", "city", "runs")}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_FAILED = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>No report · equipoise studio</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/static/style.css">
<link rel="stylesheet" href="/static/studio.css">
</head>
<body>
<main>
<h1>This report cannot be shown</h1>
<p class="error" role="alert">{told}</p>
<p><a href="/#runs">Go to the runs of this studio</a></p>
</main>
</body>
</html>
"""
_CLOSED = (
    "This is the equipoise studio. Open it with the link that `equipoise studio` printed: the link "
    "contains a token that keeps other programs and web pages out."
)


class Studio:
    """The web application for one folder, and the token that opens it.

    `app` is an ASGI application; `serve` runs it. A room is a module with `CALLS`, functions of
    `(studio, request)` that compute an answer, and `JOBS`, functions of `(studio, request, tell)`
    that take longer.

    **Example**

    >>> import tempfile
    >>> from equipoise.studio import Studio
    >>> with tempfile.TemporaryDirectory() as place:
    ...     studio = Studio(place, port=8123)
    >>> studio.link.startswith("http://127.0.0.1:8123/?token="), len(studio.token)
    (True, 43)
    """

    def __init__(self, folder: Any = ".", *, port: int):
        self.folder = Folder(folder)
        self.port = port
        self.token = secrets.token_urlsafe(32)
        self._once = ""
        self.jobs = Jobs()
        #: What rooms keep between calls: games that were read, and solutions for warm starts.
        self.kept: dict[Any, Any] = {}
        self._slots = asyncio.Semaphore(_WORKERS)
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self._routes: dict[tuple[str, str], Callable[..., Awaitable[Any]]] = {
            ("POST", "call"): self._call,
            ("POST", "job"): self._start,
            ("POST", "stop"): self._stop,
            ("POST", "file"): self._receive,
            ("GET", "report"): self._report,
        }

    @property
    def link(self) -> str:
        """The link that opens the studio."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def ticket(self) -> str:
        """Return a link that opens the studio once, for starting the browser.

        Every user of a machine can see the arguments of programs, so the token is not among them.

        **Example**

        >>> from equipoise.studio import Studio
        >>> studio = Studio(port=8123)
        >>> studio.ticket() == studio.link
        False
        """
        self._once = secrets.token_urlsafe(32)
        return self.link.replace(self.token, self._once)

    @property
    def _cookie(self) -> str:
        return f"equipoise-{self.port}"  # a cookie belongs to a host, whatever the port

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """The ASGI application."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        from starlette.requests import HTTPConnection

        asked = HTTPConnection(scope)
        refusal = self._refusal(scope, asked)
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send, refusal)
            return
        response = self._text(*refusal) if refusal else await self._answer(scope, receive)
        for name, value in {"Content-Security-Policy": _POLICY, **_HEADERS}.items():
            response.headers.setdefault(name, value)
        await response(scope, receive, send)

    async def _live(self, receive: Any, send: Any) -> None:
        while True:
            event = (await receive())["type"].removeprefix("lifespan.")
            if event == "shutdown":
                await self.jobs.close()
            await send({"type": f"lifespan.{event}.complete"})
            if event == "shutdown":
                return

    def _refusal(self, scope: Any, asked: Any) -> tuple[int, str] | None:
        """Return the status and the reason if a request is refused, else None."""
        posts = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD")
        if asked.headers.get("host") not in self._hosts:
            return 421, "this server answers only to 127.0.0.1 and localhost"
        origin = asked.headers.get("origin")
        if (origin or posts) and origin != f"http://{asked.headers['host']}":
            return 403, "only the studio's own pages may send requests"
        if posts and asked.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return 403, "only the studio's own pages may send requests"
        if scope["path"] == "/" and b"token=" in scope.get("query_string", b""):
            return None  # `_enter` compares it
        return None if self._knows(asked.cookies.get(self._cookie, "")) else (403, _CLOSED)

    def _knows(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(), self.token.encode())

    async def _answer(self, scope: Any, receive: Any) -> Any:
        """Return the response to an authorised request."""
        from starlette.requests import Request

        request = Request(scope, receive)
        path = PurePosixPath(scope["path"])
        query = parse_qs(scope["query_string"].decode("ascii", "replace"))
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        if method not in ("GET", "POST"):
            return self._text(405, "this server answers only GET, HEAD and POST")
        if method == "GET" and path == PurePosixPath("/"):
            entering = b"token=" in scope["query_string"]
            return self._enter(query) if entering else self._static("index.html")
        if len(path.parts) < 2:
            return self._text(404, "there is no such page")
        if method == "GET" and path.parts[1] == "static" and len(path.parts) == 3:
            return self._static(path.name)
        route = self._routes.get((method, path.parts[1]))
        if route is None:
            return self._text(404, "there is no such page")
        try:
            return await route(request, path.parts[2:], query)
        except _TooLong as error:
            return self._text(413, str(error))
        except OSError as error:
            status, told = 400, f"{error.filename or 'file'}: {error.strerror}"
        except (ValueError, NotImplementedError) as error:
            status, told = 400, str(error)
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            status, told = 500, f"internal error: {type(error).__name__}: {error}"
        # A browser shows the answer to a GET; scripts read the answer to a POST.
        return self._page(told, status) if method == "GET" else self._json({"error": told}, status)

    def _enter(self, query: dict[str, list[str]]) -> Any:
        from starlette.responses import RedirectResponse

        token = query.get("token", [""])[0]
        if self._once and secrets.compare_digest(token.encode(), self._once.encode()):
            self._once = ""
        elif not self._knows(token):
            return self._text(403, _CLOSED)
        response = RedirectResponse("/", 303)
        # "lax": links to the studio work on any page, but only its own pages can post.
        response.set_cookie(self._cookie, self.token, httponly=True, samesite="lax")
        return response

    def _text(self, status: int, text: str) -> Any:
        from starlette.responses import PlainTextResponse

        return PlainTextResponse(text + "\n", status, headers={"Connection": "close"})

    def _json(self, content: Any, status: int = 200) -> Any:
        from starlette.responses import Response

        return Response(dumps(content, "answer"), status, media_type="application/json")

    def _page(self, told: str, status: int) -> Any:
        """Return a page that says what went wrong."""
        from starlette.responses import HTMLResponse

        return HTMLResponse(_FAILED.format(told=escape(told)), status)

    def _static(self, name: str) -> Any:
        from starlette.responses import Response

        # Reports and the studio share the styles and the script for tables and numbers.
        shared = {"touch.js": "report", "style.css": "report"}
        place = resources.files(f"equipoise.{shared.get(name, 'studio')}")
        file = (place if name in shared else place / "static") / name
        kind = _TYPES.get(PurePosixPath(name).suffix)
        if kind is None or "\\" in name or not file.is_file():
            return self._text(404, "there is no such page")
        return Response(file.read_bytes(), media_type=kind)

    def _length(self, request: Any, most: int) -> None:
        """Refuse a body that is too long by its Content-Length, before reading any of it."""
        told = request.headers.get("content-length", "")
        told = "" if "transfer-encoding" in request.headers else told
        if not told.isdigit() or int(told) > most:
            found = f"{int(told):,}" if told.isdigit() else "no length"
            raise _TooLong(f"request: expected at most {most:,} bytes, found {found}")

    async def _body(self, request: Any) -> dict[str, Any]:
        if request.headers.get("content-type", "").split(";")[0] != "application/json":
            raise InputError("request", "application/json", request.headers.get("content-type"))
        content = loads((await request.body()).decode("utf-8", "replace"), "request")
        if not isinstance(content, dict):
            raise InputError("request", "an object", type(content).__name__)
        try:
            dumps(content, "request").encode()
        except UnicodeEncodeError as error:  # a lone surrogate, which an answer could not contain
            raise InputError("request", "Unicode text", str(error)) from error
        return content

    def _room(self, parts: tuple[str, ...], table: str) -> Any:
        if len(parts) != 2 or parts[0] not in ROOMS:
            raise InputError("room", f"one of {', '.join(ROOMS)}", "/".join(parts))
        known = getattr(import_module(ROOMS[parts[0]]), table)
        if parts[1] not in known:
            raise InputError("call", f"one of {', '.join(known)}", parts[1])
        return known[parts[1]]

    async def _call(self, request: Any, parts: tuple[str, ...], query: Any) -> Any:
        self._length(request, LONGEST)
        content = await self._body(request)
        async with self._slots:
            # The room is imported in the thread, too, since the first import loads JAX.
            found = await asyncio.to_thread(lambda: self._room(parts, "CALLS")(self, content))
            if isinstance(found, Awaitable):  # the call starts a command
                found = (await found).to_plain()
            return await asyncio.to_thread(self._json, found)

    async def _start(self, request: Any, parts: tuple[str, ...], query: Any) -> Any:
        self._length(request, LONGEST)
        content = await self._body(request)
        function = await asyncio.to_thread(self._room, parts, "JOBS")
        title = " ".join(str(content.get("title", parts[1])).split())[:200]
        work = functools.partial(function, self, content)
        job = self.jobs.call(parts[0], title, work, content)
        return self._json(job.to_plain())

    async def _stop(self, request: Any, parts: tuple[str, ...], query: Any) -> Any:
        self._length(request, LONGEST)
        return self._json(self.jobs.stop((await self._body(request)).get("job")).to_plain())

    async def _receive(self, request: Any, parts: tuple[str, ...], query: Any) -> Any:
        self._length(request, LARGEST)
        name = await self.folder.receive("/".join(parts), request.stream())
        return self._json({"file": name})

    async def _report(self, request: Any, parts: tuple[str, ...], query: Any) -> Any:
        from starlette.responses import HTMLResponse

        from equipoise.studio import _runs

        html, policy = await asyncio.to_thread(_runs.report, self, query.get("run", []))
        headers = {"Content-Security-Policy": f"{policy}; sandbox allow-scripts"}
        return HTMLResponse(html, headers=headers)

    async def _websocket(
        self, scope: Any, receive: Any, send: Any, refusal: tuple[int, str] | None
    ) -> None:
        """Send the changes of jobs, at most ten times a second, until the page is closed."""
        from starlette.websockets import WebSocket, WebSocketDisconnect

        socket = WebSocket(scope, receive, send)
        if refusal or scope["path"] != "/jobs":
            await socket.close(1008)
            return
        await socket.accept()
        queue = self.jobs.listen()

        async def follow() -> None:
            while True:
                changed = {job.id: job for job in [await queue.get()]}
                while not queue.empty():
                    changed |= {job.id: job for job in [queue.get_nowait()]}
                for job in changed.values():
                    await socket.send_text(dumps(job.to_plain(), "job"))
                await asyncio.sleep(PACE)

        task = asyncio.create_task(follow())
        try:
            while True:  # pages send nothing: this waits until they close
                await socket.receive_text()
        except WebSocketDisconnect:
            pass
        finally:
            self.jobs.listeners.discard(queue)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task


class _TooLong(ValueError):
    """The body of a request is too long and was not read."""


def serve(
    folder: Any = ".",
    *,
    port: int | None = None,
    browser: bool = True,
    ready: Callable[["Studio", Callable[[], None]], None] | None = None,
) -> None:
    """Serve the studio for a folder until Ctrl-C, and open it in the browser.

    The default port is 8642, or a free one if it is taken; `port=0` always chooses a free port.
    Once the server accepts requests, it calls `ready` with the studio and a function that stops the
    server; without `ready`, it prints the link.

    **Example**

    >>> import tempfile
    >>> from equipoise.studio import serve
    >>> def ready(studio, end):
    ...     print(studio.link.partition("token")[0].startswith("http://127.0.0.1:"))
    ...     end()
    >>> with tempfile.TemporaryDirectory() as place:
    ...     serve(place, port=0, browser=False, ready=ready)
    True
    """
    try:
        import uvicorn
    except ImportError as error:
        hint = "in the clone of equipoise, run: pip install '.[studio]'"
        raise InputError("studio", "Starlette and uvicorn", str(error), hint) from error
    with _listen(port) as listening:
        studio = Studio(folder, port=listening.getsockname()[1])
        options: dict[str, Any] = {"log_level": "warning", "server_header": False}
        options |= {"ws_max_size": 1024, "timeout_graceful_shutdown": 2}
        options |= {"interface": "asgi3", "proxy_headers": False}
        server = uvicorn.Server(uvicorn.Config(studio.app, **options))

        def end() -> None:
            server.should_exit = True

        def announce() -> None:
            while not server.started:
                if server.should_exit:
                    return
                time.sleep(0.02)
            if ready is not None:
                ready(studio, end)
            else:
                print(f"equipoise studio: {studio.link}\nPress Ctrl-C to stop.", flush=True)
            if browser:
                webbrowser.open(studio.ticket())
            if not server.should_exit:
                _warm_up()

        threading.Thread(target=announce, daemon=True).start()
        server.run(sockets=[listening])


def _listen(port: int | None) -> socket.socket:
    """Return a socket that listens on a port of the loopback address."""
    for tried in (PORT, 0) if port is None else (port,):
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            if os.name == "posix":  # elsewhere, this would share the port of another server
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(("127.0.0.1", tried))
            listening.listen()  # two sockets can be bound to a port, but only one can listen
        except (OSError, OverflowError) as error:
            listening.close()
            if port is not None:
                raise InputError("port", "a free port", port, str(error)) from error
        else:
            return listening
    raise InputError("port", "a free port", "none")


def _warm_up() -> None:
    """Load what the first page needs while the browser opens."""
    import equipoise as eq

    eq.solve(eq.games.load("rock-paper-scissors"))
