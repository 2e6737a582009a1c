"""MiniLM, a small BERT that embeds sentences, with its weights in host memory: each layer's are copied in when needed.

The encoder is BERT's (Devlin et al. 2019) as distilled by Wang et al. 2020; sentences are the mean of their tokens, as in
Sentence-BERT (Reimers and Gurevych 2019). It is plain PyTorch: nothing here is particular to the compiler.
"""

import json
import math
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import anabranch

# The tensors of one encoder layer, in the order in which `_layer` takes them.
_LAYER = [
    f"{part}.{kind}"
    for part in (
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
        "attention.output.dense",
        "attention.output.LayerNorm",
        "intermediate.dense",
        "output.dense",
        "output.LayerNorm",
    )
    for kind in ("weight", "bias")
]
_EMBEDDINGS = ("position_embeddings.weight", "token_type_embeddings.weight", "LayerNorm.weight", "LayerNorm.bias")


class MiniLM(nn.Module):
    """Embeds sentences on ``device``; ``weights`` and ``config`` are those of the pretrained model.

    The weights of layer l+1 are copied on a stream of their own while layer l computes. On CUDA that stream is
    ``copy_stream``, and the host memory is pinned; elsewhere it is stream 1 of ``anabranch.stream``.
    """

    def __init__(self, weights: dict[str, Tensor], config: dict[str, Any], device: torch.device):
        super().__init__()
        self.device = device
        self.heads = config["num_attention_heads"]
        self.eps = config["layer_norm_eps"]
        self.copy_stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        host = {name: w.pin_memory() if device.type == "cuda" else w for name, w in weights.items() if w.is_floating_point()}
        self.words = host["embeddings.word_embeddings.weight"]
        self.embeddings = [host[f"embeddings.{name}"] for name in _EMBEDDINGS]
        count = config["num_hidden_layers"]
        self.layers = [[host[f"encoder.layer.{i}.{name}"] for name in _LAYER] for i in range(count)]

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Unit vectors [sentences, hidden] for token ``ids`` [sentences, tokens] in host memory and their float ``mask``,
        1 for tokens and 0 for padding, on the device."""
        words = F.embedding(ids, self.words)
        embeddings, first = self.fetch([words, *self.embeddings]), self.fetch(self.layers[0])
        self.wait_for_copies()
        x = self.embed(*embeddings)
        hidden = (1.0 - mask[:, None, None, :]) * torch.finfo(torch.float32).min
        weights = first
        for number in range(len(self.layers)):
            # Copied while this layer computes.
            following = self.fetch(self.layers[number + 1]) if number + 1 < len(self.layers) else []
            x = self.layer(x, hidden, *weights)
            self.wait_for_copies()
            weights = following
        mean = (x * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        return F.normalize(mean, dim=1)

    def fetch(self, tensors: list[Tensor]) -> list[Tensor]:
        """Copies on the device, made on the copy stream."""
        if self.copy_stream is None:
            with anabranch.stream(1):
                return [t.to(self.device, copy=True) for t in tensors]
        # What was computed before may still read the memory that these copies get.
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            return [t.to(self.device, non_blocking=True, copy=True) for t in tensors]

    def wait_for_copies(self) -> None:
        """Makes what comes next start after all copies so far."""
        if self.copy_stream is not None:
            torch.cuda.current_stream().wait_stream(self.copy_stream)

    def embed(self, words: Tensor, positions: Tensor, types: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
        """Token embeddings [sentences, tokens, hidden]; all tokens are of type 0."""
        return F.layer_norm(words + positions[: words.shape[1]] + types[0], gain.shape, gain, bias, self.eps)

    def layer(self, x: Tensor, hidden: Tensor, *weights: Tensor) -> Tensor:
        """One encoder layer; ``hidden`` is added to the scores, very negative where there is padding."""
        wq, bq, wk, bk, wv, bv, wo, bo, gain1, bias1, w1, b1, w2, b2, gain2, bias2 = weights
        q, k, v = (self.split_heads(F.linear(x, w, b)) for w, b in ((wq, bq), (wk, bk), (wv, bv)))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + hidden
        context = (torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2)
        x = F.layer_norm(x + F.linear(context, wo, bo), gain1.shape, gain1, bias1, self.eps)
        inner = F.gelu(F.linear(x, w1, b1))
        return F.layer_norm(x + F.linear(inner, w2, b2), gain2.shape, gain2, bias2, self.eps)

    def split_heads(self, x: Tensor) -> Tensor:
        """[sentences, tokens, hidden] as [sentences, heads, tokens, hidden / heads]."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def load(folder: Path, device: torch.device) -> MiniLM:
    """The model from the files ``config.json`` and ``model.safetensors`` in ``folder``."""
    from safetensors.torch import load_file

    config = json.loads((folder / "config.json").read_text())
    return MiniLM(load_file(folder / "model.safetensors"), config, device).eval()


def tokenize(folder: Path, sentences: list[str]) -> tuple[Tensor, Tensor]:
    """Token ids (int64) and mask (float32) of ``sentences``, both [sentences, tokens of the longest], in host memory."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch(sentences)
    return torch.tensor([e.ids for e in encoded]), torch.tensor([e.attention_mask for e in encoded], dtype=torch.float32)
