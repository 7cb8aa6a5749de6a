"""The transformer: cached and uncached agree, the past alone matters, sizes are what is named."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from equipoise import incontext
from equipoise.games import families
from equipoise.incontext import _attention as flash
from equipoise.incontext._model import Attention, lower_precision, random_transformer

SIZES = {"features": 5, "outputs": 3, "layers": 2, "heads": 4, "width": 16, "hidden": 24}


def make(**changes):
    model = random_transformer(jax.random.key(0), **{**SIZES, **changes})
    loud = jax.random.normal(jax.random.key(1), model.readout.shape)
    return eqx.tree_at(lambda m: m.readout, model, loud)


VARIANTS = [
    {},
    {"weighing": "relu"},
    {"layer_norm": False},
    {"groups": 1},
    {"groups": 2, "weighing": "relu", "layer_norm": False},
]


@pytest.mark.parametrize(
    ("variant", "length"), [*((variant, 9) for variant in VARIANTS), ({}, 130)], ids=str
)
def test_cached_and_uncached_outputs_agree(variant, length):
    model = make(**variant)
    tokens = jax.random.normal(jax.random.key(2), (length, 5))
    whole = eqx.filter_jit(lambda m, x: m(x))(model, tokens)

    def step(cache, moment):
        token, position = moment
        out, cache = model.step(token, cache, position)
        return cache, out

    _, each = jax.lax.scan(step, model.cache(length), (tokens, jnp.arange(length)))
    np.testing.assert_allclose(whole, each, atol=2e-5)
    assert float(jnp.std(whole)) > 0.1


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_token_sees_the_past_alone(variant):
    model = make(**variant)
    tokens = jax.random.normal(jax.random.key(2), (70, 5))
    other = tokens.at[40].add(1.0)
    read = eqx.filter_jit(lambda m, x: m(x))
    before, after = read(model, tokens), read(model, other)
    np.testing.assert_array_equal(before[:40], after[:40])
    assert (np.abs(np.asarray(before - after)[40:]).max(-1) > 0).all()


@pytest.mark.parametrize(("groups", "members"), [(1, 4), (2, 3), (1, 20)])
def test_the_kernel_of_the_next_token_is_a_softmax_over_the_tokens_so_far(groups, members):
    rng = np.random.default_rng(0)
    length, size = 70, 16
    q = jnp.asarray(rng.normal(size=(5, groups, members, 1, size)), jnp.float32)
    keys, values = jnp.asarray(rng.normal(size=(2, 5, groups, length, size)), jnp.float32)

    def one(q, keys, values, count):
        return flash.attend_next(q, keys, values, count, 0.3, interpret=True)

    kernel = jax.jit(jax.vmap(one, in_axes=(0, 0, 0, None)))
    for count in (1, 32, 33, length):
        got = kernel(q, keys, values, jnp.int32(count))
        score = 0.3 * jnp.einsum("sgnik,sgjk->sgnij", q, keys[:, :, :count])
        want = jnp.einsum("sgnij,sgjk->sgnik", jax.nn.softmax(score, -1), values[:, :, :count])
        np.testing.assert_allclose(got, want, atol=1e-5)
        # What lies behind the last token is not looked at.
        spoilt = values.at[:, :, count:].set(jnp.nan), keys.at[:, :, count:].set(jnp.nan)
        again = kernel(q, spoilt[1], spoilt[0], jnp.int32(count))
        np.testing.assert_array_equal(got, again)


def test_a_cache_that_is_longer_than_needed_changes_nothing():
    model = make()
    tokens = jax.random.normal(jax.random.key(2), (6, 5))
    step = eqx.filter_jit(lambda m, x, cache, t, reach: m.step(x, cache, t, reach))
    outputs = []
    for length, reach in ((6, None), (50, None), (50, 10)):
        cache = model.cache(length)
        for position in range(6):
            out, cache = step(model, tokens[position], cache, jnp.int32(position), reach)
        outputs.append(out)
    np.testing.assert_allclose(outputs[1], outputs[0], atol=1e-6)
    np.testing.assert_allclose(outputs[2], outputs[0], atol=1e-6)


def test_relu_attention_is_the_papers():
    """Eq. of Definition 3.1: positive parts of scores, divided by the number of tokens so far."""
    rng = np.random.default_rng(0)
    q, k, v, o = (rng.normal(size=shape) for shape in ((2, 3, 4), (2, 3, 4), (2, 3, 4), (2, 4, 3)))
    h = rng.normal(size=(5, 4))
    arrays = (jnp.asarray(a, jnp.float32) for a in (q, k, v, o))
    layer = Attention(*arrays, None, 1.0, "relu")
    expected = h.copy()
    for i in range(5):
        for m in range(2):
            for j in range(i + 1):
                score = max(0.0, (k[m] @ h[j]) @ (q[m] @ h[i]))
                expected[i] += o[m] @ (v[m] @ h[j]) * score / (i + 1)
    np.testing.assert_allclose(layer(jnp.asarray(h, jnp.float32)), expected, rtol=1e-4, atol=1e-4)


def test_bfloat16_layers_stay_close():
    model = make()
    tokens = jax.random.normal(jax.random.key(2), (12, 5))
    exact, low = model(tokens), lower_precision(model)(tokens)
    assert low.dtype == jnp.float32
    assert 0 < float(jnp.abs(exact - low).max()) < 0.3


def shapes(**changes):
    """Shapes of the parameters of one model of initial players."""
    config = incontext.Config(**{"rounds": 8, **changes})
    players = eqx.filter_eval_shape(
        lambda: incontext.initial_players(families.uniform(3), config, key=0)
    )
    models = players.models
    attention = models.layers[0]
    return {
        "layers": len(models.layers) // 2,
        "heads": attention.query.shape[2],
        "head_groups": attention.key.shape[2],
        "width": models.embed.shape[2],
        "hidden": models.layers[1].first.shape[2],
        "features": models.embed.shape[3],
        "norms": sum(layer.norm is not None for layer in models.layers),
        "weighing": attention.weighing,
        "seeds": players.seeds,
        "seats": players.seats,
    }


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        ({"layers": 5}, {"layers": 5, "norms": 10}),
        ({"heads": 8}, {"heads": 8}),
        ({"head_groups": None}, {"head_groups": 4}),
        ({"width": 32}, {"width": 32}),
        ({"hidden": 48}, {"hidden": 48}),
        ({"layer_norm": False}, {"norms": 0}),
        ({"attention": "relu"}, {"weighing": "relu"}),
        ({"seeds": 3}, {"seeds": 3}),
        ({"shared": False}, {"seats": 2}),
        ({"tokens": "vocabulary", "reward_bins": 30}, {"features": 1 + 3 + 30 + 3}),
    ],
    ids=str,
)
def test_a_hyper_parameter_changes_what_it_names(change, changed):
    assert shapes(**change) == {**shapes(), **changed}


def test_the_paper_has_its_size():
    assert shapes() == {**shapes(), "layers": 2, "heads": 4, "width": 64, "hidden": 256}
    config = incontext.Config.paper()
    assert config.head_groups is None
    assert (config.loss, config.tokens, config.training_games) == ("expert", "vocabulary", 5)
    assert config.learning_rate == 1e-3


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"layers": 0}, "layers: expected a whole number >= 1"),
        ({"width": 30}, "width: expected a multiple of heads"),
        ({"head_groups": 3}, "head_groups: expected a divisor"),
        ({"exploration": 1.5}, "exploration: expected a number in"),
        ({"learning_rate": 0.0}, "learning_rate: expected a number in"),
        ({"stop_on": "kl"}, "stop_on: expected 'gap'"),
        ({"contexts": "learners", "learners": ()}, "learners: expected at least one"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change, complaint):
    with pytest.raises(ValueError, match=complaint):
        incontext.Config(**change)
