"""What a head was made for, how it is built and where it comes from: its `config.json`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from phrasedraft.drafters.composed_output import OWN, ROWS, RowSettings
from phrasedraft.errors import HeadFileError

FORMAT_VERSION = 1
PHRASE, TOKEN_CHAIN, PHRASE_CHAIN = "phrase", "token_chain", "phrase_chain"
ARCHITECTURES = {PHRASE: "PhraseHead", TOKEN_CHAIN: "TokenChain", PHRASE_CHAIN: "PhraseChain"}
"""The class of each kind of head, by its `speculators_model_type`."""
RETRAIN = "train a head with `phrasedraft fit`, or take the folder from where it came again"


@dataclass(frozen=True, kw_only=True)
class TrainedTemplate:
    """How the prompts a head was trained on were rendered; no fingerprint where that is not known."""

    fingerprint: str | None = None
    system_prompt: str = ""
    thinking: str = "default"


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """What a head was made for, how it is built and where it comes from.

    `kind` is the `speculators_model_type`. A token chain drafts `num_steps` positions one after the other, a phrase
    chain phrases as many times; a phrase head has one step. `output` says where the rows of its entries come from,
    `text_window` how many tokens back the head sees the text, 0 for not at all.
    """

    target_name: str
    target_hidden_size: int
    target_vocab_size: int
    tokenizer_fingerprint: str | None = None
    state_fingerprint: tuple[float, ...] = ()
    template: TrainedTemplate = field(default_factory=TrainedTemplate)
    target_layers: tuple[int, ...] = (-1,)
    trunk_width: int = 256
    temperature: float = 1.0
    provenance: dict[str, Any] = field(default_factory=dict)
    kind: str = PHRASE
    num_steps: int = 1
    output: RowSettings = field(default_factory=RowSettings)
    text_window: int = 0


def describe_config(config: HeadConfig, phrase_shape: Sequence[int]) -> dict[str, Any]:
    """The envelope of the `speculators` format, before the weights' hash and the provenance."""
    return {
        "format_version": FORMAT_VERSION,
        "speculators_model_type": config.kind,
        "architectures": [ARCHITECTURES[config.kind]],
        "draft_vocab_size": phrase_shape[0],
        "max_phrase_tokens": phrase_shape[1],
        "target_hidden_size": config.target_hidden_size,
        "target_vocab_size": config.target_vocab_size,
        "target_layers": list(config.target_layers),
        "trunk_width": config.trunk_width,
        **({"num_steps": config.num_steps} if config.kind != PHRASE else {}),
        **(asdict(config.output) if config.output.rows != OWN else {}),
        **({"text_window": config.text_window} if config.text_window else {}),
        "temperature": config.temperature,
        "speculators_config": {
            "algorithm": config.kind,
            "verifier": {
                "name_or_path": config.target_name,
                "tokenizer_fingerprint": config.tokenizer_fingerprint,
                "state_fingerprint": list(config.state_fingerprint),
                "template": asdict(config.template),
            },
        },
    }


def parse_config(path: Path, envelope: dict[str, Any]) -> HeadConfig:
    """The config an envelope holds; every field is required and of its own type."""

    def field_of(line: dict[str, Any], name: str, *kinds: type) -> Any:  # the caller knows which kind it asked for
        if name not in line:
            raise HeadFileError(f"`{path}` has no `{name}`", hint=RETRAIN)
        if not isinstance(line[name], kinds) or isinstance(line[name], bool):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise HeadFileError(f"`{name}` in `{path}` is `{line[name]!r}`, it must be {wanted}", hint=RETRAIN)
        return line[name]

    verifier = field_of(field_of(envelope, "speculators_config", dict), "verifier", dict)
    field_of(envelope, "draft_vocab_size", int)
    field_of(envelope, "max_phrase_tokens", int)
    layers = field_of(envelope, "target_layers", list)
    temperature = float(field_of(envelope, "temperature", int, float))
    if not temperature > 0 or not all(isinstance(layer, int) for layer in layers):
        raise HeadFileError(
            f"`{path}` has a temperature or layers that cannot be: {temperature}, {layers}", hint=RETRAIN
        )
    kind = envelope["speculators_model_type"]
    num_steps = field_of(envelope, "num_steps", int) if kind != PHRASE else 1
    if num_steps < 1:
        raise HeadFileError(f"`num_steps` in `{path}` is {num_steps}, it must be 1 or more", hint=RETRAIN)
    return HeadConfig(
        target_name=field_of(verifier, "name_or_path", str),
        target_hidden_size=field_of(envelope, "target_hidden_size", int),
        target_vocab_size=field_of(envelope, "target_vocab_size", int),
        tokenizer_fingerprint=field_of(verifier, "tokenizer_fingerprint", str, type(None)),
        state_fingerprint=tuple(float(number) for number in verifier.get("state_fingerprint", ())),
        template=_template(path, verifier.get("template", {})),
        target_layers=tuple(layers),
        trunk_width=field_of(envelope, "trunk_width", int),
        temperature=temperature,
        provenance=field_of(envelope, "provenance", dict),
        kind=kind,
        num_steps=num_steps,
        output=_rows(path, envelope.get("rows", OWN), envelope.get("num_own_rows", 0)),
        text_window=_window(path, envelope.get("text_window", 0)),
    )


def _rows(path: Path, rows: Any, num_own_rows: Any) -> RowSettings:
    """Where output rows come from; heads that say nothing have one for each entry."""
    if rows not in ROWS or type(num_own_rows) is not int or num_own_rows < 0:
        raise HeadFileError(
            f"`rows` and `num_own_rows` in `{path}` are `{rows!r}` and `{num_own_rows!r}`, they must be one of "
            f"{', '.join(f'`{kind}`' for kind in ROWS)} and a whole number",
            hint=RETRAIN,
        )
    return RowSettings(rows=rows, num_own_rows=num_own_rows if rows != OWN else 0)


def _window(path: Path, window: Any) -> int:
    """How far back a head sees; heads that say nothing do not read the text."""
    if type(window) is not int or window < 0:
        raise HeadFileError(
            f"`text_window` in `{path}` is `{window!r}`, it must be a whole number of tokens, 0 or more", hint=RETRAIN
        )
    return window


def _template(path: Path, line: Any) -> TrainedTemplate:
    """How prompts were rendered in training; heads from before this was written down say nothing."""
    known = {one.name for one in fields(TrainedTemplate)}
    if not isinstance(line, dict) or not line.keys() <= known:
        raise HeadFileError(
            f"`template` in `{path}` is `{line!r}`, it may hold {', '.join(sorted(known))}", hint=RETRAIN
        )
    return TrainedTemplate(**line)
