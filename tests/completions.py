"""A real HTTP server that answers `/v1/completions` with a tiny target, and fails when told to."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from phrasedraft import GREEDY, Choice, TransformersTarget
from phrasedraft.target.batching import answer_batch

HINTS = ("return_token_ids", "skip_special_tokens", "spaces_between_special_tokens")


@dataclass
class Completions:
    """A server of one model; `failures` are status codes (or `cut`) of its first replies.

    After `num_sound` requests every reply is `lasting`.
    """

    target: TransformersTarget
    failures: list[int | str] = field(default_factory=list)
    num_sound: int = 1000
    lasting: int | str = 503
    refuses_hints: bool = False
    key: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    num_at_once: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    model_lock: threading.Lock = field(default_factory=threading.Lock)

    def reply(self, path: str, key: str, body: dict[str, Any]) -> tuple[int, bytes, dict[str, str]]:
        with self.lock:
            self.requests.append(body)
            failure = self.failures.pop(0) if self.failures else None
            failure = self.lasting if len(self.requests) > self.num_sound else failure
        if path != "/v1/completions":
            return 404, b'{"error": "no such page"}', {}
        if self.key and key != f"Bearer {self.key}":
            return 401, b'{"error": "wrong key"}', {}
        if isinstance(failure, int):
            return failure, b'{"error": "not now"}', {"Retry-After": "0.01"}
        if self.refuses_hints and any(hint in body for hint in HINTS):
            return 400, b'{"error": "unknown parameter"}', {}
        data = json.dumps({"object": "text_completion", "choices": [self.choice(body)]}).encode()
        return 200, data[: len(data) // 2] if failure == "cut" else data, {}

    def choice(self, body: dict[str, Any]) -> dict[str, Any]:
        choice = GREEDY
        if body["temperature"] > 0:
            choice = Choice(
                temperature=body["temperature"], top_p=body["top_p"], top_k=body.get("top_k"), seed=body["seed"]
            )
        with self.model_lock:
            (tokens,) = answer_batch(self.target, [body["prompt"]], max_new_tokens=body["max_tokens"], choices=[choice])
        stopped = tokens[-1] in self.target.eos_token_ids
        text = self.target.tokenizer.decode(
            tokens[:-1] if stopped else tokens, skip_special_tokens=body.get("skip_special_tokens", True)
        )
        ids = {"token_ids": tokens} if body.get("return_token_ids") else {}
        return {"index": 0, "text": text, "finish_reason": "stop" if stopped else "length", **ids}


@contextmanager
def served(completions: Completions) -> Iterator[str]:
    """The URL under which `completions` answers."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            with completions.lock:
                completions.num_at_once += 1
                completions.most_at_once = max(completions.most_at_once, completions.num_at_once)
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, data, headers = completions.reply(self.path, self.headers.get("Authorization", ""), body)
            with completions.lock:
                completions.num_at_once -= 1
            self.send_response(status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(data)),
                **headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
