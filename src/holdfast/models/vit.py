"""Vision transformers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from holdfast.models.layers import Activation, activation, check_image, scaled
from holdfast.models.network import Network


class Embedding(nn.Module):
    """Image to tokens, (N, 1 + patches, dim): a class token, then the projected patches, plus learnt positions."""

    def __init__(self, channels: int, patches: int, patch_size: int, dim: int) -> None:
        super().__init__()
        self.project = nn.Conv2d(channels, dim, patch_size, stride=patch_size)
        self.token = nn.Parameter(torch.zeros(1, 1, dim))
        self.position = nn.Parameter(torch.zeros(1, 1 + patches, dim))
        for parameter in (self.token, self.position):
            nn.init.trunc_normal_(parameter, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens."""
        patches = self.project(x).flatten(2).transpose(1, 2)
        z: Tensor = torch.cat((self.token.expand(x.shape[0], -1, -1), patches), dim=1) + self.position
        return z


class Attention(nn.Module):
    """Multi-head self-attention, written out because fused kernels have no second derivative."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """Attended tokens."""
        N, T, D = x.shape
        query, key, value = self.qkv(x).view(N, T, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(query @ key.transpose(-2, -1) * (D // self.heads) ** -0.5, dim=-1)
        z: Tensor = self.out((weights @ value).transpose(1, 2).reshape(N, T, D))
        return z


class Block(nn.Module):
    """Attention and a perceptron of four times the width, each on normalised tokens and added to its input."""

    def __init__(self, dim: int, heads: int, act: Activation) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(dim), Attention(dim, heads))
        self.perceptron = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), activation(act), nn.Linear(4 * dim, dim)
        )
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens."""
        x = x + self.attention(x)
        z: Tensor = x + self.perceptron(x)
        return z


class ClassToken(nn.Module):
    """The first token, (N, T, D) to (N, D)."""

    def forward(self, x: Tensor) -> Tensor:
        """Class token."""
        return x[:, 0]


@dataclass(frozen=True, kw_only=True)
class ViT:
    """Vision transformer, "tiny" by default; the stages are the embedding and each block.

    Height and width must be multiples of the patch size, and the image size is fixed by the position embedding.

    Args:
        patch_size: side of a patch.
        dim: length of a token.
        depth: number of blocks.
        heads: attention heads; must divide `dim`.
        width: multiplier of tokens and heads; the token length is rounded to a multiple of the heads.
        activation: inside the perceptrons.
        feature_dim: length of a linear neck before the head; None for no neck.

    Reference:
        Dosovitskiy et al., An Image is Worth 16x16 Words, ICLR 2021, arXiv:2010.11929. The tiny size is that of
        Touvron et al., Training data-efficient image transformers, ICML 2021, arXiv:2012.12877. No dropout.
    """

    patch_size: int = 4
    dim: int = 192
    depth: int = 12
    heads: int = 3
    width: float = 1.0
    activation: Activation = "gelu"
    feature_dim: int | None = None

    def __post_init__(self) -> None:
        if self.dim % self.heads:
            raise ValueError(f"vit: heads must divide dim, got {self.heads} heads and dim {self.dim}")

    def __call__(self, shape: tuple[int, int, int], classes: int) -> Network:
        """Build the network."""
        size = self.patch_size
        check_image("vit", shape, size)
        if shape[1] % size or shape[2] % size:
            raise ValueError(f"vit: height and width must be multiples of {size}, got {shape[1]}x{shape[2]}")
        heads = max(1, round(self.heads * self.width))
        dim = heads * max(1, round(scaled(self.dim, self.width) / heads))
        patches = (shape[1] // size) * (shape[2] // size)
        return Network(
            [
                Embedding(shape[0], patches, size, dim),
                *(Block(dim, heads, self.activation) for _ in range(self.depth)),
            ],
            nn.Sequential(nn.LayerNorm(dim), ClassToken()),
            channels=shape[0],
            features=dim,
            classes=classes,
            feature_dim=self.feature_dim,
        )
