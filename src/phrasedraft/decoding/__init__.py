"""The decoding loop, and what goes in and comes out of it."""

from phrasedraft.decoding.decoder import Decoder, Prompt, Stream
from phrasedraft.decoding.divergence import Divergence, first_divergence
from phrasedraft.decoding.generation import Generation, Piece
from phrasedraft.decoding.session import Session
from phrasedraft.decoding.stats import DecodingStats
from phrasedraft.decoding.stopping import FinishReason, Stopping
from phrasedraft.decoding.text_stream import TextStream
from phrasedraft.decoding.walk import Verification, walk

__all__ = [
    "Decoder",
    "DecodingStats",
    "Divergence",
    "FinishReason",
    "Generation",
    "Piece",
    "Prompt",
    "Session",
    "Stopping",
    "Stream",
    "TextStream",
    "Verification",
    "first_divergence",
    "walk",
]
