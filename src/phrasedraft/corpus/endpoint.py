"""The corpus through a server: any OpenAI-compatible one that serves the target, such as vLLM, answers the prompts.

The server gets the token ids of the rendered prompt, so its own chat template plays no part. It is asked for the ids
of the answer (`return_token_ids`, vLLM); from a server that gives only text, an answer is kept where encoding the
text again surely gives what the target wrote.
"""

import asyncio
import json
import os
import re
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx2
from rich.console import Console

from phrasedraft.corpus.answers import Corpus
from phrasedraft.corpus.distill import Answerer, DistillSettings, Question, write_answers
from phrasedraft.corpus.prompts import PromptFile
from phrasedraft.corpus.server_answer import answer_tokens
from phrasedraft.corpus.template import end_of_turn
from phrasedraft.errors import DataError, OptionError, TargetError
from phrasedraft.target import TransformersTarget

HINTS = {"return_token_ids": True, "skip_special_tokens": False, "spaces_between_special_tokens": False}
"""What vLLM is asked for beside OpenAI's own parameters; left out for a server that refuses them."""

AGAIN = "mend it and give the same command again; whole blocks are kept"
_TRY_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
_LONGEST_WAIT = 60.0


@dataclass(frozen=True, kw_only=True)
class EndpointSettings:
    """Where the server is and how it is asked; the key is read from the environment variable `api_key_env`, if set.

    A request that fails for the moment (busy, broken off, timed out) is made again up to `max_retries` times, after
    `retry_seconds`, twice as long each time, or what the server asks for.
    """

    url: str
    model: str
    api_key_env: str = "OPENAI_API_KEY"
    concurrency: int = 8
    timeout_seconds: float = 600.0
    max_retries: int = 6
    retry_seconds: float = 1.0

    def __post_init__(self) -> None:
        if not re.fullmatch(r"https?://[^/\s]\S*", self.url):
            raise OptionError(f"`url` is `{self.url}`, it must be like `http://localhost:8000/v1`")
        if not self.model:
            raise OptionError("`model` is empty, it must be the name the server knows the target by")
        if self.concurrency < 1 or self.max_retries < 0 or self.timeout_seconds <= 0 or self.retry_seconds < 0:
            raise OptionError(
                f"`concurrency` {self.concurrency} and `timeout_seconds` {self.timeout_seconds} must be above 0, "
                f"`max_retries` {self.max_retries} and `retry_seconds` {self.retry_seconds} 0 or more"
            )


def distill_through(
    target: TransformersTarget,
    prompts: PromptFile,
    settings: DistillSettings,
    endpoint: EndpointSettings,
    path: Path,
    *,
    console: Console | None = None,
) -> Corpus:
    """What `distill` does, with a server's answers: the same file, resumed the same way.

    Of `target` only the tokenizer, template and settings are used, so it needs no weights. A block's requests are made
    `concurrency` at a time, so a `batch_size` of many times that keeps the server busy.
    """
    with Endpoint(target, settings, endpoint) as server:
        return write_answers(
            target, prompts, settings, path, server.answerer, made_by={"model": endpoint.model}, console=console
        )


class Endpoint:
    """A server that answers questions; its requests run on a thread of their own, which leaves with the context."""

    def __init__(self, target: TransformersTarget, settings: DistillSettings, endpoint: EndpointSettings) -> None:
        self._target = target
        self._settings = settings
        self._endpoint = endpoint
        self._end_of_turn = end_of_turn(target)
        self._hints: dict[str, Any] = dict(HINTS)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="endpoint", daemon=True)

    def __enter__(self) -> "Endpoint":
        self._thread.start()
        self._client = self._wait(self._open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wait(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def answerer(self) -> Answerer:
        """How `write_answers` asks."""
        return lambda questions, on_tokens: self._wait(self._answer_all(questions, on_tokens))

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:  # what the coroutine returns
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _open(self) -> httpx2.AsyncClient:
        key = os.environ.get(self._endpoint.api_key_env)
        self._slots = asyncio.Semaphore(self._endpoint.concurrency)
        return httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=self._endpoint.timeout_seconds,
            limits=httpx2.Limits(max_connections=self._endpoint.concurrency),
        )

    async def _close(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:  # what an interrupt or error left
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._client.aclose()

    async def _answer_all(
        self, questions: Sequence[Question], on_tokens: Callable[[int], None]
    ) -> list[list[int] | None]:
        try:
            async with asyncio.TaskGroup() as group:  # the first error cancels the others
                tasks = [group.create_task(self._answer(question, on_tokens)) for question in questions]
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _answer(self, question: Question, on_tokens: Callable[[int], None]) -> list[int] | None:
        async with self._slots:
            choice = await self._ask(question)
        answer = answer_tokens(self._target, question.prompt, choice, self._end_of_turn)
        if answer is not None:
            on_tokens(len(answer))
        return answer

    async def _ask(self, question: Question) -> dict[str, Any]:
        """The server's choice for one question, asked again while it fails for the moment."""
        wait = self._endpoint.retry_seconds
        tries = 0
        while True:
            failure, asked_for = "", 0.0
            hints = self._hints
            try:
                response = await self._client.post(self._address, json=self._body(question, hints))
            except httpx2.ConnectError as error:
                raise TargetError(
                    f"nothing answers at `{self._address}`: {error}", hint=f"start it, {AGAIN}"
                ) from error
            except (httpx2.TimeoutException, httpx2.TransportError) as error:
                failure = f"{type(error).__name__} {error}".strip()
            else:
                if response.status_code in (400, 422) and hints:
                    self._hints = {}
                    continue
                if response.is_success and (choice := _choice(response)) is not None:
                    return choice
                failure = "200, but no whole JSON" if response.is_success else self._failure(response)
                asked_for = _retry_after(response)
            if tries == self._endpoint.max_retries:
                raise TargetError(f"`{self._address}` failed {tries + 1} times, lastly with {failure}", hint=AGAIN)
            await asyncio.sleep(min(max(wait, asked_for), _LONGEST_WAIT))
            tries, wait = tries + 1, 2 * wait

    @property
    def _address(self) -> str:
        return f"{self._endpoint.url.rstrip('/')}/completions"

    def _body(self, question: Question, hints: dict[str, Any]) -> dict[str, Any]:
        settings = self._settings
        body: dict[str, Any] = {
            "model": self._endpoint.model,
            "prompt": list(question.prompt),
            "max_tokens": settings.max_new_tokens,
            "temperature": settings.temperature,
        }
        if settings.temperature > 0:
            body |= {"top_p": settings.top_p, "seed": settings.choice(question.id).seed}
            body |= {"top_k": settings.top_k} if settings.top_k else {}
        return body | hints

    def _failure(self, response: httpx2.Response) -> str:
        """What is wrong for the moment; raises where asking again would not help."""
        said = " ".join(response.text.split())[:300]
        status = f"{response.status_code}: {said}"
        if response.status_code in _TRY_AGAIN:
            return status
        if response.status_code in (401, 403):
            hint = f"put the server's key into the environment variable `{self._endpoint.api_key_env}`"
        elif response.status_code == 404:
            hint = "the URL mostly ends in `/v1`, and `model` is the name the server gives the target"
        else:
            hint = "the server may have a shorter context, or not take token ids as `prompt`"
        raise TargetError(f"`{self._address}` refuses with {status}", hint=hint)


def _choice(response: httpx2.Response) -> dict[str, Any] | None:
    """The one choice of a response; None for half a response, `DataError` for one of another shape."""
    try:
        record = json.loads(response.content)
    except ValueError:
        return None
    choices = record.get("choices") if isinstance(record, dict) else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise DataError(
            f"`{response.url}` gave no `choices` with one answer",
            hint="it has to be an OpenAI-compatible `/completions`",
        )
    choice: dict[str, Any] = choices[0]
    return choice


def _retry_after(response: httpx2.Response) -> float:
    """The seconds a server asks to wait, 0 where it does not say."""
    try:
        return max(float(response.headers.get("retry-after", "0")), 0.0)
    except ValueError:  # a date, which few servers give
        return 0.0
