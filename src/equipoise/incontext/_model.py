"""The transformer of both learned and hand-built players.

It is a decoder as in Definition 3.1 of the in-context paper: layers that add to a residual stream,
masked attention (to all tokens so far), self-attention (of a token to itself) and MLPs. Attention
weights are a softmax or, as in the paper, a ReLU divided by i for the i-th token. Layer
normalisation and biases are optional: the theorems have neither.

Everything here is for one sequence; the caller `vmap`s. `Transformer.__call__` reads a whole
sequence, and `Transformer.step` reads the next token with a cache of earlier tokens; the two agree
up to rounding. The residual stream has the precision of the embedding, and layers compute in the
precision of their own weights, so that bfloat16 layers can be combined with a float32 stream.
"""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from equipoise.incontext import _attention as fused

Weighing = Literal["softmax", "relu"]
Scope = Literal["causal", "own"]


class LayerNorm(eqx.Module):
    """Centre and scale the features of a token; computed in float32 whatever the input."""

    scale: Float[Array, " width"]
    shift: Float[Array, " width"]

    def __call__(self, h: Float[Array, "*tokens width"]) -> Float[Array, "*tokens width"]:
        """Normalise the last axis."""
        wide = h.astype(jnp.promote_types(h.dtype, jnp.float32))
        centred = wide - wide.mean(-1, keepdims=True)
        variance = jnp.mean(centred * centred, -1, keepdims=True)
        normal = centred * jax.lax.rsqrt(variance + 1e-5)
        return (normal * self.scale + self.shift).astype(h.dtype)


class Memory(eqx.Module):
    """Keys and values of the tokens so far, as kept by a causal attention layer."""

    keys: Float[Array, "groups length size"]
    values: Float[Array, "groups length value_size"]


class Attention(eqx.Module):
    """`h_i + sum_m O_m sum_j weight_m(i, j) V_m h_j`, over tokens `j <= i`.

    The weight is a softmax over `j` of `scale <K_m h_j, Q_m h_i>`, or with `weighing="relu"` its
    positive part divided by `i` (the paper's masked attention layer). With `scope="own"` a token
    attends only to itself, without a division (the paper's self-attention layer). The paper's
    `V_m` is our `output[m] @ value[m]`.

    Heads may share keys and values in groups of equal size. This shrinks the cache, which is read
    in every round, by the size of a group.
    """

    query: Float[Array, "heads size width"]
    key: Float[Array, "groups size width"]
    value: Float[Array, "groups value_size width"]
    output: Float[Array, "heads width value_size"]
    norm: LayerNorm | None
    scale: float = eqx.field(static=True)
    weighing: Weighing = eqx.field(static=True, default="softmax")
    scope: Scope = eqx.field(static=True, default="causal")

    def __call__(self, h: Float[Array, "length width"]) -> Float[Array, "length width"]:
        """Apply the layer to all tokens of a sequence."""
        q, k, v = self._project(h)
        if self.scope == "own":
            score = jax.nn.relu(self.scale * jnp.einsum("gnlk,glk->gnl", q, k))
            mixed = score[..., None] * v[:, None]
        elif self.weighing == "softmax" and fused.usable(q):
            mixed = fused.attend(q, k, v, self.scale)
        elif self.weighing == "softmax" and jax.default_backend() == "cpu":
            mixed = fused.attend_in_chunks(q, k, v, self.scale)
        else:
            length = h.shape[0]
            score = self.scale * jnp.einsum("gnik,gjk->gnij", q, k)
            seen = jnp.arange(length)[None, :] <= jnp.arange(length)[:, None]
            weight = self._weigh(score, seen, jnp.arange(1, length + 1)[:, None])
            mixed = jnp.einsum("gnij,gjk->gnik", weight, v)
        return h + self._merge(mixed).astype(h.dtype)

    def step(
        self, h: Float[Array, " width"], memory: Memory | None, position: Any, reach: int
    ) -> tuple[Float[Array, " width"], Memory | None]:
        """Apply the layer to the next token, at `position` (from 0), reading at most `reach`."""
        if memory is None:
            return self(h[None])[0], None
        q, k, v = self._project(h[None])
        keys, values = (
            jax.lax.dynamic_update_slice_in_dim(old, new.astype(old.dtype), position, 1)
            for old, new in ((memory.keys, k), (memory.values, v))
        )
        if self.weighing == "softmax" and fused.usable_next(q, values):
            mixed = fused.attend_next(q, keys, values, position + 1, self.scale)
        else:
            score = self.scale * jnp.einsum("gnik,gjk->gnij", q, keys[:, :reach].astype(q.dtype))
            weight = self._weigh(score, jnp.arange(reach)[None] <= position, position + 1)
            mixed = jnp.einsum("gnij,gjk->gnik", weight, values[:, :reach].astype(weight.dtype))
        return h + self._merge(mixed)[0].astype(h.dtype), Memory(keys, values)

    def memory(self, length: int) -> Memory | None:
        """Return an empty memory for `length` tokens, or None if the layer needs none."""
        if self.scope == "own":
            return None
        (groups, size, _), dtype = self.key.shape, self.key.dtype
        values = jnp.zeros((groups, length, self.value.shape[1]), dtype)
        return Memory(jnp.zeros((groups, length, size), dtype), values)

    def _project(self, h: Float[Array, "length width"]) -> tuple[Array, Array, Array]:
        """Compute queries (groups, heads of a group, length, size), keys, values (groups, ...)."""
        normal = (h if self.norm is None else self.norm(h)).astype(self.query.dtype)
        parts = (self.query, self.key, self.value)
        rows = jnp.concatenate([part.reshape(-1, part.shape[-1]) for part in parts])
        product = normal @ rows.T  # one product for all three
        ends = [part.shape[0] * part.shape[1] for part in parts]
        pieces = jnp.split(product, [ends[0], ends[0] + ends[1]], axis=-1)
        q, k, v = (
            piece.reshape(h.shape[0], *part.shape[:2]).transpose(1, 0, 2)
            for piece, part in zip(pieces, parts, strict=True)
        )
        return q.reshape(k.shape[0], -1, *q.shape[1:]), k, v

    def _weigh(self, score: Array, seen: Array, count: Any) -> Array:
        if self.weighing == "relu":
            # XLA divides by a broadcast array with rounded reciprocals, and then 41 / 41 is not 1.
            counts = jnp.broadcast_to(jnp.asarray(count, score.dtype), score.shape)
            counts = jax.lax.optimization_barrier(counts)
            return jnp.where(seen, jax.nn.relu(score), 0.0) / counts
        wide = jnp.where(seen, score.astype(jnp.promote_types(score.dtype, jnp.float32)), -jnp.inf)
        return jax.nn.softmax(wide, -1).astype(score.dtype)

    def _merge(self, mixed: Float[Array, "groups members length value_size"]) -> Array:
        length, size = mixed.shape[2:]
        heads = self.output.shape[0]
        columns = self.output.transpose(0, 2, 1).reshape(heads * size, -1)
        flat = mixed.reshape(heads, length, size).transpose(1, 0, 2)
        return flat.reshape(length, heads * size) @ columns


class MLP(eqx.Module):
    """`h + second @ relu(first @ h)`, with biases and normalisation where they are not None."""

    first: Float[Array, "hidden width"]
    second: Float[Array, "width hidden"]
    first_bias: Float[Array, " hidden"] | None
    second_bias: Float[Array, " width"] | None
    norm: LayerNorm | None

    def __call__(self, h: Float[Array, "length width"]) -> Float[Array, "length width"]:
        """Apply the layer to every token separately."""
        normal = (h if self.norm is None else self.norm(h)).astype(self.first.dtype)
        hidden = normal @ self.first.T
        hidden = hidden if self.first_bias is None else hidden + self.first_bias[None]
        out = jax.nn.relu(hidden) @ self.second.T
        out = out if self.second_bias is None else out + self.second_bias[None]
        return h + out.astype(h.dtype)


Layer = Attention | MLP


class Transformer(eqx.Module):
    """A transformer that maps the features of each token to a vector of outputs.

    The layers are applied `repeats` times with the same weights: a hand-built network repeats one
    block per round; a learned network has `repeats = 1`.

    **Example**

    >>> import jax, jax.numpy as jnp
    >>> model = random_transformer(
    ...     jax.random.key(0), features=5, outputs=3, layers=1, heads=2, width=8, hidden=8
    ... )
    >>> tokens = jax.random.normal(jax.random.key(1), (7, 5))
    >>> whole, cache = model(tokens), model.cache(7)
    >>> for position in range(7):
    ...     one, cache = model.step(tokens[position], cache, position)
    >>> whole.shape, bool(jnp.allclose(whole[-1], one, atol=1e-5))
    ((7, 3), True)
    """

    embed: Float[Array, "width features"]
    embed_bias: Float[Array, " width"] | None
    layers: tuple[Layer, ...]
    norm: LayerNorm | None
    readout: Float[Array, "outputs width"]
    readout_bias: Float[Array, " outputs"] | None
    repeats: int = eqx.field(static=True, default=1)

    @property
    def width(self) -> int:
        """Size of the residual stream."""
        return self.embed.shape[0]

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return sum(leaf.size for leaf in jax.tree.leaves(self))

    def __call__(self, features: Float[Array, "length features"]) -> Float[Array, "length outputs"]:
        """Return the outputs at every token of a sequence."""
        h = self._embed(features)

        def block(h: Array) -> Array:
            for layer in self.layers:
                h = layer(h)
            return h

        if self.repeats == 1:
            return self._read(block(h))
        h, _ = jax.lax.scan(lambda h, _: (block(h), None), h, None, length=self.repeats)
        return self._read(h)

    def step(
        self,
        features: Float[Array, " features"],
        cache: Any,
        position: Any,
        reach: int | None = None,
    ) -> tuple[Float[Array, " outputs"], Any]:
        """Return the outputs at the next token, at `position` (from 0), and the updated cache.

        `reach` is an upper bound, known at compile time, on the number of tokens so far; attention
        reads only that part of the cache. By default it reads the whole cache.
        """
        h = self._embed(features[None])[0]

        def block(h: Array, cache: Any) -> tuple[Array, Any]:
            after = []
            for layer, memory in zip(self.layers, cache, strict=True):
                if isinstance(layer, Attention):
                    length = 0 if memory is None else memory.keys.shape[1]
                    h, memory = layer.step(h, memory, position, min(reach or length, length))
                else:
                    h = layer(h[None])[0]
                after.append(memory)
            return h, tuple(after)

        if self.repeats == 1:
            h, cache = block(h, cache)
        else:
            h, cache = jax.lax.scan(block, h, cache)
        return self._read(h[None])[0], cache

    def cache(self, length: int) -> Any:
        """Return an empty cache for `length` tokens, in the precision of the layers."""
        cache = tuple(
            None if isinstance(layer, MLP) else layer.memory(length) for layer in self.layers
        )
        if self.repeats == 1:
            return cache
        return jax.tree.map(lambda a: jnp.zeros((self.repeats, *a.shape), a.dtype), cache)

    def _embed(self, features: Array) -> Array:
        h = features.astype(self.embed.dtype) @ self.embed.T
        return h if self.embed_bias is None else h + self.embed_bias[None]

    def _read(self, h: Array) -> Array:
        h = h if self.norm is None else self.norm(h)
        out = h @ self.readout.T
        return out if self.readout_bias is None else out + self.readout_bias[None]


def random_transformer(
    key: jax.Array,
    *,
    features: int,
    outputs: int,
    layers: int,
    heads: int,
    width: int,
    hidden: int,
    groups: int | None = None,
    weighing: Weighing = "softmax",
    layer_norm: bool = True,
) -> Transformer:
    """Return an untrained transformer with `layers` pairs of attention and MLP.

    The output of each layer starts small (the second factor is scaled by `(2 layers)^-1/2`), and
    the read-out starts at zero, so that every policy starts uniform. Heads share keys and values
    in `groups` groups; by default each head has its own.

    **Example**

    >>> import jax
    >>> model = random_transformer(
    ...     jax.random.key(0), features=5, outputs=3, layers=1, heads=2, width=8, hidden=8
    ... )
    >>> model.parameters, float(abs(model.readout).max())
    (523, 0.0)
    """
    keys = iter(jax.random.split(key, 6 * layers + 1))

    def dense(shape: tuple[int, ...], fan_in: int, gain: float = 1.0) -> Array:
        return gain * fan_in**-0.5 * jax.random.normal(next(keys), shape)

    def norm() -> LayerNorm | None:
        return LayerNorm(jnp.ones(width), jnp.zeros(width)) if layer_norm else None

    size, damping = width // heads, (2 * layers) ** -0.5
    stack: list[Layer] = []
    for _ in range(layers):
        counts = (heads, groups or heads, groups or heads)
        query, keys_, value = (dense((count, size, width), width) for count in counts)
        output = dense((heads, width, size), width, damping)
        stack.append(Attention(query, keys_, value, output, norm(), size**-0.5, weighing))
        first = dense((hidden, width), width, 2**0.5)
        second = dense((width, hidden), hidden, damping)
        stack.append(MLP(first, second, jnp.zeros(hidden), jnp.zeros(width), norm()))
    return Transformer(
        embed=dense((width, features), features),
        embed_bias=jnp.zeros(width),
        layers=tuple(stack),
        norm=norm(),
        readout=jnp.zeros((outputs, width)),
        readout_bias=jnp.zeros(outputs),
    )


def lower_precision(model: Transformer, dtype: Any = jnp.bfloat16) -> Transformer:
    """Return the same network with the matrices of its layers in `dtype`.

    Embedding, read-out and normalisation keep their precision: a reward has more digits than
    bfloat16 can hold.

    >>> import jax
    >>> sizes = dict(features=5, outputs=3, layers=1, heads=2, width=8, hidden=8)
    >>> low = lower_precision(random_transformer(jax.random.key(0), **sizes))
    >>> low.layers[1].first.dtype.name, low.embed.dtype.name
    ('bfloat16', 'float32')
    """

    def convert(path: Any, leaf: Array) -> Array:
        return leaf if ".norm" in jax.tree_util.keystr(path) else leaf.astype(dtype)

    layers = jax.tree_util.tree_map_with_path(convert, model.layers)
    return eqx.tree_at(lambda m: m.layers, model, layers)
