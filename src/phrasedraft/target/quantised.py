"""Whether a model's weights are quantised: asked by what packs them and by what measures their rounding."""

from torch import nn


def is_quantized(model: nn.Module) -> bool:
    """Whether some weights are kept in fewer bits than they are multiplied in, whoever has quantised them.

    transformers leaves `hf_quantizer`, `is_quantized` and a `quantization_config`; other libraries put parameters of
    one byte or less into the layers they replace.
    """
    return (
        getattr(model, "hf_quantizer", None) is not None
        or bool(getattr(model, "is_quantized", False))
        or getattr(getattr(model, "config", None), "quantization_config", None) is not None
        or any(parameter.element_size() < 2 for parameter in model.parameters())
    )
