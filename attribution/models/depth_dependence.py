"""Whether a model computes its lower layers otherwise when its config has fewer layers.

Most models use the number of layers to build them and for nothing else, so that the layers above the captured one can
be left out of the config. Some scale every layer by it (MiniCPM, ESM C), or decide by it which layers share keys
(Gemma 3n). This is read off their code.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache

from transformers import MODEL_MAPPING, PreTrainedConfig

_DEPTHS = frozenset({"num_hidden_layers", "n_layer", "n_layers", "num_layers"})


def depth_matters(config: PreTrainedConfig) -> bool:
    """Whether the text model's code uses its number of layers for more than building them; True where it is unknown.

    The number may be the end of ``range`` or of a slice, or stand in ``_init_weights``.
    """
    text_config = config.get_text_config()
    if type(text_config) not in MODEL_MAPPING:
        return True
    model = MODEL_MAPPING[type(text_config)]
    classes = model if isinstance(model, tuple) else (model,)
    return any(_file_uses_depth(one.__module__) for one in classes)


@cache
def _file_uses_depth(module: str) -> bool:
    return _uses_depth(ast.parse(inspect.getsource(sys.modules[module])))


def _uses_depth(node: ast.AST) -> bool:
    """Whether a number of layers is read in ``node``, apart from where it only builds or counts layers."""
    if isinstance(node, ast.Attribute) and node.attr in _DEPTHS and isinstance(node.ctx, ast.Load):
        return True
    return any(_uses_depth(child) for child in ast.iter_child_nodes(node) if not _only_builds(node, child))


def _only_builds(parent: ast.AST, child: ast.AST) -> bool:
    if isinstance(parent, ast.Call):
        return isinstance(parent.func, ast.Name) and parent.func.id == "range"
    if isinstance(child, ast.FunctionDef):
        return child.name == "_init_weights"
    return isinstance(parent, ast.Slice) or isinstance(child, ast.Slice)
