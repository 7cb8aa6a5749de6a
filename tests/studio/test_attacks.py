"""What the server refuses: other hosts, other origins, no token, long bodies, paths outside."""

import asyncio
import http.client
import json
import socket

import pytest

from equipoise.studio import Folder, Studio
from equipoise.studio._server import _listen


def ask(studio, method="GET", path="/", body=None, host=None, **headers):
    """The status, headers and text of a raw request; None leaves a header out."""
    own = f"127.0.0.1:{studio.port}"
    usual = {
        "Host": host or own,
        "Cookie": f"equipoise-{studio.port}={studio.token}",
        "Origin": f"http://{own}",
        "Content-Type": "application/json",
    }
    sent = usual | {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", studio.port, timeout=300)
    try:
        connection.putrequest(method, path, skip_host=True)
        for name, value in sent.items():
            if value is not None:
                connection.putheader(name, value)
        if body is not None and "Content-Length" not in sent:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def call(studio, name, content, **headers):
    return ask(studio, "POST", f"/call/{name}", json.dumps(content).encode(), **headers)


def test_its_own_page_is_let_in(studio):
    status, headers, text = ask(studio, Origin=None)
    assert status == 200
    assert "equipoise studio" in text
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert call(studio, "matrix/catalogue", {})[0] == 200


def test_the_server_is_bound_to_loopback_alone(studio):
    names = {found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None)}
    for name in names - {"127.0.0.1", "127.0.1.1", "::1"}:
        with pytest.raises(OSError, match=r"refused|timed out|unreachable"):
            socket.create_connection((name, studio.port), timeout=2)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:PORT", "127.0.0.1", "127.0.0.1:1"])
def test_another_host_is_refused(studio, host):
    host = host.replace("PORT", str(studio.port))
    assert ask(studio, host=host)[0] == 421
    assert ask(studio, path=f"/?token={studio.token}", host=host)[0] == 421
    assert call(studio, "matrix/catalogue", {}, host=host, Origin=f"http://{host}")[0] == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", None])
def test_a_foreign_origin_is_refused(studio, origin):
    assert call(studio, "matrix/catalogue", {}, Origin=origin)[0] == 403


def test_a_cross_site_request_is_refused(studio):
    assert call(studio, "matrix/catalogue", {}, Sec_Fetch_Site="cross-site")[0] == 403


@pytest.mark.parametrize("cookie", [None, "equipoise-PORT=wrong", "equipoise-PORT=é", "other=1"])
def test_without_the_token_nothing_is_shown(studio, cookie):
    cookie = None if cookie is None else cookie.replace("PORT", str(studio.port))
    for path in ("/", "/static/app.js", "/report?run=x", "/?token=wrong", "/?token="):
        status, headers, text = ask(studio, path=path, Cookie=cookie)
        assert status == 403
        assert studio.token not in text + str(headers)
    assert call(studio, "matrix/catalogue", {}, Cookie=cookie)[0] == 403


def test_the_link_sets_a_cookie_that_scripts_and_other_sites_cannot_use(studio):
    status, headers, _ = ask(studio, path=f"/?token={studio.token}", Cookie=None, Origin=None)
    assert (status, headers["Location"]) == (303, "/")
    cookie = headers["Set-Cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie


@pytest.mark.parametrize("origin", ["http://evil.example", None])
def test_a_websocket_of_another_page_is_refused(studio, origin):
    extra = {"Upgrade": "websocket", "Connection": "Upgrade", "Origin": origin}
    extra |= {"Sec_WebSocket_Key": "x3JJHMbDL1EzLkh9GBhXDw==", "Sec_WebSocket_Version": "13"}
    assert ask(studio, path="/jobs", **extra)[0] == 403


@pytest.mark.parametrize(
    "path", ["/file/log.csv", "/call/matrix/solve", "/job/city/tolls", "/stop"]
)
def test_a_body_of_a_gigabyte_is_refused_by_its_length(studio, path):
    # No body is sent, so a server that waited for it would never answer.
    status, _, text = ask(studio, "POST", path, Content_Length=str(2**30))
    assert status == 413
    assert "bytes" in text
    assert ask(studio, "POST", path, Transfer_Encoding="chunked")[0] == 413
    assert not (studio.folder.root / "uploads").exists()


@pytest.mark.parametrize(
    "name", ["..%2Fx.csv", "%2Fetc%2Fx.csv", ".x.csv", "a%00.csv", "x.html", "%3Cscript%3E.csv", ""]
)
def test_a_file_of_another_name_or_place_is_refused(studio, name):
    status, _, text = ask(studio, "POST", f"/file/{name}", b"1")
    assert status == 400, text
    assert not list(studio.folder.root.rglob("*.csv"))


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "", ".", "a/../../x", "a\\b", None, 3])
def test_paths_stay_below_the_folder(tmp_path, name):
    with pytest.raises(ValueError, match="below the studio's folder"):
        Folder(tmp_path).path(name)


def test_a_link_out_of_the_folder_is_not_followed(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "secret.nfg").write_text("")
    (tmp_path / "own" / "link.nfg").symlink_to(tmp_path / "secret.nfg")
    with pytest.raises(ValueError, match="below the studio's folder"):
        Folder(tmp_path / "own").file("link.nfg", ".nfg")


def test_what_is_there_is_not_replaced(tmp_path):
    async def dropped(*contents):
        async def chunks(content):
            yield content

        return [await folder.receive("log.csv", chunks(content)) for content in contents]

    folder = Folder(tmp_path)
    names = asyncio.run(dropped(b"one", b"two", b"one", b"three", b"two"))
    assert names == [f"uploads/log{end}.csv" for end in ("", "-2", "", "-3", "-2")]
    assert (tmp_path / "uploads/log.csv").read_bytes() == b"one"
    assert len(list((tmp_path / "uploads").iterdir())) == 3
    assert folder.new_run("offline") != folder.new_run("offline")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("matrix/solve", [], "request: expected an object"),
        ("matrix/nothing", {}, "call: expected one of"),
        ("kitchen/solve", {}, "room: expected one of"),
        ("matrix/solve", {"game": {"cells": [["x"]]}}, "cell in row 1, column 1"),
        ("matrix/solve", {"game": {"cells": [["1", "1 2"]]}}, "cells: expected one payoff"),
        ("matrix/certify", {"game": {"cells": [["1"]]}, "policy": 1}, "policy: expected"),
        ("city/solve", {"game": {"name": "braess-network"}, "tolls": {"9": 1}}, "links from 0"),
        ("log/open", {"file": "../log.csv"}, "below the studio's folder"),
        ("runs/curves", {"runs": ["../x"]}, "below the studio's folder"),
        ("duel/play", {"game": {"name": "matching-pennies"}, "moves": ["x"]}, "moves: expected"),
    ],
)
def test_wrong_requests_are_explained(studio, name, content, told):
    status, _, text = call(studio, name, content)
    assert status == 400
    assert told in json.loads(text)["error"]


def test_what_is_no_json_is_refused(studio):
    assert call(studio, "matrix/open", {}, Content_Type="text/plain")[0] == 400
    assert ask(studio, "POST", "/call/matrix/open", b"{")[0] == 400
    assert ask(studio, "GET", "/call/matrix/open")[0] == 404
    assert ask(studio, "GET", "/static/..%2f_server.py")[0] == 404
    half = b'{"game": {"cells": [["1"]], "players": ["\\ud800", "b"]}}'
    assert "expected Unicode text" in ask(studio, "POST", "/call/matrix/open", half)[2]


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(studio, method):
    for path in ("/", "/call/matrix/open", "/file/x.csv", "/static/app.js"):
        assert ask(studio, method, path, b"{}")[0] == 405
    assert ask(studio, "POST", "/", b"{}")[0] == 404
    assert not list(studio.folder.root.rglob("*.csv"))


def test_what_a_browser_is_started_with_opens_the_studio_once(studio):
    path = studio.ticket().partition(str(studio.port))[2]
    status, headers, _ = ask(studio, path=path, Cookie=None, Origin=None)
    assert status == 303
    assert studio.token in headers["Set-Cookie"]
    assert ask(studio, path=path, Cookie=None, Origin=None)[0] == 403


def test_tokens_differ(tmp_path):
    assert Studio(tmp_path, port=1).token != Studio(tmp_path, port=1).token


def test_two_studios_have_two_ports():
    with _listen(None) as one, _listen(None) as other:
        first, second = one.getsockname(), other.getsockname()
        assert first != second
        assert {first[0], second[0]} == {"127.0.0.1"}
        with pytest.raises(ValueError, match="port: expected a free port"):
            _listen(first[1])


def test_a_report_that_cannot_be_shown_is_a_page(studio):
    status, headers, text = ask(studio, path="/report?run=%3Cb%3Enothing%3C/b%3E", Origin=None)
    assert status == 400
    assert headers["Content-Type"].startswith("text/html")
    assert "This report cannot be shown" in text
    assert "&lt;b&gt;nothing" in text
    assert "<b>" not in text
