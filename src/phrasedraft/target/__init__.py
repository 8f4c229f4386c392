"""The frozen language model: the only place that touches transformers' model API."""

from phrasedraft.target.embedded import EMBEDDED_NAME, cache_folder
from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.loading import load_target
from phrasedraft.target.model import TransformersTarget
from phrasedraft.target.protocol import Pass, Support, Target, TargetIdentity, TargetSequence

__all__ = [
    "EMBEDDED_NAME",
    "FeatureSpec",
    "Pass",
    "Support",
    "Target",
    "TargetIdentity",
    "TargetSequence",
    "TransformersTarget",
    "cache_folder",
    "load_target",
]
