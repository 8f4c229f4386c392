"""What `phrasedraft chat` does: read turns, stream answers, keep the cache."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from rich.markup import escape

from phrasedraft.budget import NumDraftTokens
from phrasedraft.choice import Choice
from phrasedraft.cli.answering import stats_line
from phrasedraft.cli.console import data_console, note_console, show_error
from phrasedraft.cli.conversation import Conversation
from phrasedraft.cli.drafted_text import DraftedText
from phrasedraft.cli.loading import choice_of, has_chat_template, load, stopping_of
from phrasedraft.cli.options import ChoiceOptions, DraftingOptions, StoppingOptions
from phrasedraft.decoding import Decoder, DecodingStats, FinishReason, Session, Stopping
from phrasedraft.errors import OptionError, PhraseDraftError, PromptError

COMMANDS = "/reset, /stats and /exit"


@dataclass(frozen=True, kw_only=True)
class ChatOptions:
    """What is asked of a chat beside how it is decoded."""

    nodes: NumDraftTokens
    system: str | None
    chat_template_kwargs: str
    show_drafts: bool

    @property
    def template_arguments(self) -> dict[str, Any]:
        """The arguments for the chat template."""
        try:
            value = json.loads(self.chat_template_kwargs)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise OptionError(
                f"`--chat-template-kwargs` is `{self.chat_template_kwargs}`, it may be a JSON object",
                hint="""for example '{"enable_thinking": false}'""",
            )
        return value


def talk(
    target_options: DraftingOptions,
    choice_options: ChoiceOptions,
    stopping_options: StoppingOptions,
    options: ChatOptions,
) -> None:
    """Answer turns until there are no more."""
    template_arguments = options.template_arguments
    choice, stopping = choice_of(choice_options), stopping_of(stopping_options)
    loaded = load(target_options)
    if not has_chat_template(loaded.target):
        raise PromptError(
            f"the tokenizer of `{target_options.target}` has no chat template, which a conversation needs",
            hint="use `phrasedraft generate --raw`, or set `chat_template` in its tokenizer_config.json",
        )
    conversation = Conversation(
        loaded.target,
        system=options.system,
        template_arguments=template_arguments,
        reserve=stopping.max_new_tokens,
    )
    interactive = is_interactive()
    if interactive:
        note_console().print(f"{escape(target_options.target)}; {COMMANDS}; Ctrl-C stops an answer, Ctrl-D leaves")
    chat = Chat(loaded.decoder(options.nodes), conversation, choice, stopping, options)
    for line in _lines(interactive=interactive):
        if line == "/exit":
            return
        try:
            chat.take(line)
        except (KeyboardInterrupt, PhraseDraftError) as error:
            conversation.take_back()
            if not interactive:
                raise
            if isinstance(error, PhraseDraftError):
                show_error(error)


def is_interactive() -> bool:
    """Whether a person types the turns."""
    return sys.stdin.isatty()


class Chat:
    """One conversation with its place in the target's cache."""

    def __init__(
        self,
        decoder: Decoder,
        conversation: Conversation,
        choice: Choice,
        stopping: Stopping,
        options: ChatOptions,
    ) -> None:
        self._decoder = decoder
        self._conversation = conversation
        self._choice = choice
        self._stopping = stopping
        self._options = options
        self._session: Session = decoder.session()
        self._stats = DecodingStats()
        self._notes = note_console()

    def take(self, line: str) -> None:
        """A command, or a user's turn to answer."""
        if line == "/reset":
            self._conversation.reset()
            self._session = self._decoder.session()
            self._notes.print("the conversation begins anew")
        elif line == "/stats":
            said = stats_line(self._stats, self._options.nodes)
            self._notes.print(f"{said}; {self._session.num_cached_tokens} tokens in the cache", soft_wrap=True)
        elif line.startswith("/"):
            self._notes.print(f"there is no command {escape(line)}; there are {COMMANDS}")
        elif line:
            self._answer(line)

    def _answer(self, text: str) -> None:
        tokens, num_dropped = self._conversation.ask(text)
        if num_dropped:
            self._notes.print(f"the context is nearly full: the oldest {num_dropped} messages were dropped")
        stream = self._decoder.stream(tokens, self._choice, self._stopping, session=self._session)
        marked = DraftedText(data_console())
        shown = []
        try:
            for piece in stream:
                shown.append(piece.text)
                marked.write(piece if self._options.show_drafts else replace(piece, was_drafted=False))
        except KeyboardInterrupt:
            if not shown:
                raise
            self._notes.print("\nstopped")
        else:
            self._say_why(stream.result.finish_reason)
        finally:
            marked.end()
            self._stats.add(stream.stats)
        self._conversation.answered("".join(shown))

    def _say_why(self, reason: FinishReason) -> None:
        if reason is FinishReason.LENGTH:
            self._notes.print(f"\n(cut after --max-new-tokens {self._stopping.max_new_tokens})")
        elif reason is FinishReason.CONTEXT:
            self._notes.print("\n(the context is full)")


def _lines(*, interactive: bool) -> Iterator[str]:
    """The user's turns: from a prompt in a terminal, line by line from a pipe."""
    if not interactive:
        yield from (line.strip() for line in sys.stdin)
        return
    while True:
        try:
            yield input("> ").strip()
        except EOFError:
            note_console().print()
            return
        except KeyboardInterrupt:
            note_console().print("\n(Ctrl-D leaves)")
