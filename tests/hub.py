"""A small hub on loopback: what huggingface_hub asks of the real one, and faults on request."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "5d09c3f1a7e24b60f8c2d9e1b3a4c5d6e7f80912"
LARGE = (".safetensors", ".bin")
"""Kinds of files that the hub keeps as LFS objects, named by their SHA-256 sum."""


@dataclass
class Hub:
    """Repositories by name, each files by path; and everything that was asked for."""

    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    """Repositories that need a token."""
    gated: set[str] = field(default_factory=set)
    down: bool = False
    cut_after: int | None = None
    """Bytes of a large file after which the connection breaks, once."""
    stays_down: bool = True
    """Whether the hub is down from then on."""
    endpoint: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)
    authorizations: set[str | None] = field(default_factory=set)

    @property
    def fetched(self) -> set[str]:
        """Paths of all files whose head or body was asked for."""
        marked = [path.partition("/resolve/")[2] for _, path in self.requests]
        return {rest.partition("/")[2] for rest in marked if rest}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, *, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append((self.command, path))
        repo = self._repo(path)
        if self.hub.down:
            return self._send(503, b"down", {}, body)
        if repo is None:
            return self._send(404, b"", {}, body)
        given = self.headers.get("Authorization")
        self.hub.authorizations.add(given)
        wanted = self.hub.tokens.get(repo)
        if repo not in self.hub.repos or (wanted and given != f"Bearer {wanted}"):
            # the real hub does not tell who has no access which repositories there are
            if given:
                text = "Invalid credentials in Authorization header"
                return self._send(401, b"", {"X-Error-Message": text}, body)
            return self._send(401, b"", {"X-Error-Code": "RepoNotFound"}, body)
        if "/resolve/" in path and repo in self.hub.gated:
            return self._send(403, b"", {"X-Error-Code": "GatedRepo"}, body)
        return self._serve(repo, path, body)

    def _serve(self, repo: str, path: str, body: bool) -> None:
        files = self.hub.repos[repo]
        rest = path.partition(repo)[2]
        if rest in ("", "/revision/main", f"/revision/{COMMIT}"):
            siblings = [{"rfilename": name} for name in files]
            info = {"id": repo, "sha": COMMIT, "siblings": siblings, "private": False, "tags": []}
            return self._json(info, body)
        if rest.startswith("/tree/"):
            return self._json([_tree_entry(name, data) for name, data in files.items()], body)
        name = rest.removeprefix("/resolve/").partition("/")[2]
        if name not in files:
            return self._send(404, b"", {"X-Error-Code": "EntryNotFound"}, body)
        data = files[name]
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{_oid(name, data)}"'}
        if name.endswith(LARGE):
            headers |= {"X-Linked-Etag": headers["ETag"], "X-Linked-Size": str(len(data))}
        return self._send(200, data, headers, body, cut=name.endswith(LARGE))

    def _json(self, value: Any, body: bool) -> None:
        data = json.dumps(value).encode()
        self._send(200, data, {"Content-Type": "application/json"}, body)

    def _send(
        self, status: int, data: bytes, headers: dict[str, str], body: bool, *, cut: bool = False
    ) -> None:
        start = 0
        asked = self.headers.get("Range", "")
        if status == 200 and asked.startswith("bytes="):
            start = int(asked.removeprefix("bytes=").partition("-")[0])
            headers = {**headers, "Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}
            status = 206
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        if not body:
            return
        limit = self.hub.cut_after
        if cut and limit is not None:
            self.wfile.write(data[start : start + limit])
            self.hub.cut_after, self.hub.down = None, self.hub.stays_down
            self.close_connection = True
            return
        self.wfile.write(data[start:])

    def _repo(self, path: str) -> str | None:
        parts = path.removeprefix("/api/models/").strip("/").split("/")
        is_model = path.startswith("/api/models/") or "resolve" in parts
        return "/".join(parts[:2]) if is_model and len(parts) >= 2 else None


def _oid(name: str, data: bytes) -> str:
    if name.endswith(LARGE):
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _tree_entry(name: str, data: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "path": name, "size": len(data)}
    entry["oid"] = hashlib.sha1(data).hexdigest()
    if name.endswith(LARGE):
        entry["lfs"] = {"oid": _oid(name, data), "size": len(data), "pointerSize": 130}
    return entry


@contextmanager
def serve(hub: Hub) -> Iterator[Hub]:
    """Serve a hub on a free port of loopback."""
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
