"""Settings without the options that no experiment set, of backbones, masked and document language models."""

from typing import Any

GONE = {
    "depgen.backbones.transformer.Transformer": ("final_norm",),
    "depgen.backbones.prpn.PRPN": ("equal_gate", "rectified"),
    "depgen.models.dclm.AttentionContext": ("attention_size",),
    "depgen.models.masked_transformer.MaskedTransformer": ("evaluation_seed",),
    "depgen.models.structformer.StructFormer": ("evaluation_seed", "parser_kernel"),
    "depgen.models.udgn.UDGN": ("evaluation_seed", "mask_floor", "parser_hidden_size", "scaled_bias"),
}


def renamed(values: Any) -> Any:
    """Values in the new terms, at every depth."""
    if isinstance(values, list | tuple):
        return [renamed(value) for value in values]
    if not isinstance(values, dict):
        return values
    values = {name: renamed(value) for name, value in values.items()}
    gone = GONE.get(values.get("class_path"), ())
    if gone and isinstance(values.get("init_args"), dict):
        values["init_args"] = {name: value for name, value in values["init_args"].items() if name not in gone}
    return values
