"""An HTTP server on the loopback address with OpenAI's interface, whose answers a test
determines."""

import hashlib
import json
import random
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

CUT = "cut"  # an answer that is cut off, because the connection closes
RAW = "raw"  # (RAW, bytes): a response byte for byte
WORDS = ["red", "blue", "green"]


class ModelServer:
    """`answer(body, number)` answers a request, given its body and the number of earlier requests.
    `answer` returns CUT, content, (status, content), (status, content, headers), or (RAW, bytes):
    the bytes of the complete response, after which the connection ends. Content is an object, text
    or bytes.

    `requests` holds the bodies of requests in the order of their arrival, `headers` their headers
    with names in small letters, `answered` the bodies of requests that were answered with
    completions.
    """

    def __init__(self):
        self.answer: Callable = lambda body, number: completions_of(body)
        self.requests, self.headers, self.answered, self.paths = [], [], [], []
        self.connections = set()
        self.lock, self.in_flight, self.most_in_flight = threading.Lock(), 0, 0
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                owner.serve(self)

            def log_message(self, *_):
                pass

        class Listener(ThreadingHTTPServer):
            daemon_threads, request_queue_size = True, 128

            def handle_error(self, *_):  # no traceback if a client was killed
                pass

        self.listener = Listener(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.listener.server_port}/v1"
        threading.Thread(target=self.listener.serve_forever, args=(0.05,), daemon=True).start()

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        with self.lock:
            number = len(self.requests)
            self.requests.append(body)
            self.headers.append({name.lower(): value for name, value in handler.headers.items()})
            self.paths.append(handler.path)
            self.connections.add(handler.client_address)
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            answer = self.answer(body, number)
        finally:
            with self.lock:
                self.in_flight -= 1
        if answer == CUT:
            head = (
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
            )
            handler.wfile.write(head + b'{"choices": [')
            handler.connection.shutdown(socket.SHUT_RDWR)
            handler.close_connection = True
            return
        if isinstance(answer, tuple) and answer[0] == RAW:
            handler.wfile.write(answer[1])
            handler.close_connection = True
            return
        response = answer if isinstance(answer, tuple) else (200, answer)
        status, content, headers = (*response, {})[:3]
        send(handler, status, content, headers)
        if status == 200 and isinstance(content, dict):
            with self.lock:
                self.answered.append(body)


def send(handler: BaseHTTPRequestHandler, status: int, content, headers: dict) -> None:
    """Send a response whose content is an object, a text or bytes."""
    data, kind = content, "application/json"
    if isinstance(content, str):
        data, kind = content.encode(), "text/html"
    elif not isinstance(content, bytes):
        data = json.dumps(content).encode()
    handler.send_response(status)
    for name, value in ({"Content-Type": kind, "Content-Length": str(len(data))} | headers).items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data)


def completions_of(body: dict, **changes) -> dict:
    """An answer with completions that depend only on the prompt, the seed and the temperature.
    `changes` replace keys of the answer."""
    prompt = body["messages"][-1]["content"]
    choices = []
    for index in range(body.get("n", 1)):
        key = f"{prompt}:{body.get('seed')}:{index}:{body['temperature']}"
        number = hashlib.sha256(key.encode()).digest()[0]
        text = f"I think #### {WORDS[number % 3]}"
        scores = [-0.5] * len(text.split()) + [-0.25]
        scores = {"content": [{"token": "", "logprob": score} for score in scores]}
        message = {"role": "assistant", "content": text}
        choice = {"index": index, "finish_reason": "stop", "message": message}
        choices.append(choice | {"logprobs": scores if body.get("logprobs") else None})
    usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": 5 * len(choices)}
    answer = {"object": "chat.completion", "model": body["model"], "choices": choices}
    return answer | {"usage": usage} | changes


def refusal(message: str, status: int = 400, **fields) -> tuple[int, dict]:
    """An error response in the form of OpenAI's and vLLM's servers."""
    error = {"message": message, "type": "invalid_request_error", "code": None, "param": None}
    return status, {"error": error | fields}


def at_random(share: float, seed: int, failures: list) -> Callable:
    """A function `answer` for a `ModelServer`. With probability `share`, the answer is one of
    `failures`, chosen at random."""
    rng, lock = random.Random(seed), threading.Lock()

    def answer(body: dict, number: int):
        with lock:
            failure = rng.choice(failures) if rng.random() < share else None
        return completions_of(body) if failure is None else failure

    return answer


@pytest.fixture
def model_server():
    server = ModelServer()
    yield server
    server.listener.shutdown()
    server.listener.server_close()
