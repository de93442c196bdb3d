"""The network whose last hidden layer gives CaliH its features (paper App. H.1), trained on public rows only.

Layers of 48, 24 and 6 rectified units; mean squared error, a penalty of 0.005 on the squared outputs of every hidden
layer and on the squared weights and bias of the last. Optimiser, batch size and number of epochs are not stated in the
paper: Adam with its usual settings, 64 rows, 40 epochs.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equipoise._util.arrays import Floats
from equipoise.errors import ExperimentError
from equipoise_paper.runtime import ONE_AT_A_TIME, double_precision

Layers = list[tuple[Array, Array]]
# Adam's state: weights, two moments, steps.
State = tuple[Layers, tuple[Layers, Layers], Array]

UNITS = (48, 24, 6)
PENALTY = 0.005
RATE, EPOCHS, BATCH = 1e-3, 40, 64
FIRST, SECOND, TINY = 0.9, 0.999, 1e-8  # Adam's
TRIES = 20
# A unit must be active for this share of the rows.
LEAST_ACTIVE = 0.05


@double_precision
def train(features: Floats, target: Floats, seed: int) -> Layers:
    """Train the network and return all layers, including the linear last one.

    If a unit of the last hidden layer stays silent, training starts again from other weights. Training always runs on
    the CPU in double precision, so that features do not depend on the machine's accelerators.
    """
    with jax.default_device(jax.devices("cpu")[0]):
        return _trained(features, target, seed)


def _trained(features: Floats, target: Floats, seed: int) -> Layers:
    table, wanted = jnp.asarray(features, jnp.float64), jnp.asarray(target, jnp.float64)
    for attempt in range(TRIES):
        key = jax.random.fold_in(jax.random.key(seed), attempt)
        with ONE_AT_A_TIME:
            layers: Layers = _train(key, table, wanted)
        # Check how often a unit is active, not its deviation: a unit that only a few outliers excite has a large one.
        if np.all(np.mean(hidden(layers, features) > 0, axis=0) > LEAST_ACTIVE):
            return layers
    raise ExperimentError(f"after {TRIES} trainings some unit of the last layer is always silent; try another seed")


def hidden(layers: Layers, features: Floats) -> Floats:
    """Compute the outputs of the last hidden layer."""
    for weights, bias in layers[:-1]:
        features = np.maximum(features @ np.asarray(weights) + np.asarray(bias), 0.0)
    return features


def _outputs(layers: Layers, features: Array) -> list[Array]:
    outputs = []
    for weights, bias in layers[:-1]:
        features = jax.nn.relu(features @ weights + bias)
        outputs.append(features)
    return outputs


def _loss(layers: Layers, features: Array, target: Array) -> Array:
    outputs = _outputs(layers, features)
    weights, bias = layers[-1]
    predicted = (outputs[-1] @ weights + bias)[:, 0]
    active = sum(jnp.mean(jnp.sum(output**2, axis=1)) for output in outputs)
    return jnp.mean((predicted - target) ** 2) + PENALTY * (active + jnp.sum(weights**2) + jnp.sum(bias**2))


@jax.jit
def _train(key: Array, features: Array, target: Array) -> Layers:
    start, order = jax.random.split(key)
    layers = _initial(start, features.shape[1])
    moments = jax.tree.map(jnp.zeros_like, (layers, layers))
    batches = len(target) // BATCH

    def step(state: State, chosen: Array) -> tuple[State, None]:
        layers, (first, second), number = state
        slopes = jax.grad(_loss)(layers, features[chosen], target[chosen])
        number = number + 1
        first = jax.tree.map(lambda m, g: FIRST * m + (1 - FIRST) * g, first, slopes)
        second = jax.tree.map(lambda v, g: SECOND * v + (1 - SECOND) * g**2, second, slopes)
        pace = RATE * jnp.sqrt(1 - SECOND**number) / (1 - FIRST**number)
        layers = jax.tree.map(lambda w, m, v: w - pace * m / (jnp.sqrt(v) + TINY), layers, first, second)
        return (layers, (first, second), number), None

    def epoch(state: State, key: Array) -> tuple[State, None]:
        shuffled = jax.random.permutation(key, len(target))[: batches * BATCH].reshape(batches, BATCH)
        return jax.lax.scan(step, state, shuffled)

    state = (layers, moments, jnp.array(0.0, jnp.float64))
    (layers, _, _), _ = jax.lax.scan(epoch, state, jax.random.split(order, EPOCHS))
    return layers


def _initial(key: Array, inputs: int) -> Layers:
    """Draw Glorot's uniform weights, with zero biases."""
    sizes = (inputs, *UNITS, 1)
    layers = []
    for number, (before, after) in enumerate(itertools.pairwise(sizes)):
        limit = float(np.sqrt(6 / (before + after)))
        weights = jax.random.uniform(jax.random.fold_in(key, number), (before, after), jnp.float64, -limit, limit)
        layers.append((weights, jnp.zeros(after, jnp.float64)))
    return layers
