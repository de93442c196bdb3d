r"""Likelihood of perturbed second-moment statistics, without ever forming their covariance matrices.

A row v = (x₁ … x_w, 1, y) is Gaussian with second moment M = E[v vᵀ]; its mean is the bias column of M. By the central
limit theorem the statistic Σ v vᵀ of c rows is N(cM, cK), where K acts on symmetric matrices as

    K(A) = 2 M A M − 2 (mᵀA m) m mᵀ,   m = M e_bias.

Noise adds variance ν to every off-diagonal entry and τᵢ to the i-th diagonal one. A dense evaluation would factorise a
matrix with n(n+1)/2 rows, O(n⁶). Here the covariance acts on symmetric matrices, in coordinates where an off-diagonal
entry counts √2-fold (so that inner products are Frobenius), and in the basis of the eigenvectors q of M:

    C = B − Pᵀ Δ P,   B(A) = A/W − 2c ⟨û, A⟩ û,   1/W_ab = 2c λₐλ_b + 2ν,   Δ = diag(2ν − τᵢ)

where û = m̂ m̂ᵀ and P A is the diagonal of A in the original basis. Sherman–Morrison undoes the rank-one part and
Woodbury the n diagonal entries, with G = P B⁻¹ Pᵀ. Everything is O(n⁴), as a few matrix products (docs/maths.md §2).

Two points keep it accurate:

* den = 1 − 2c Σ û² W cancels when noise is small. Since m̂ₐ = λₐ q_bias,a, it equals the sum of positive terms
  2ν Σ λₐ λ_b q_bias,a² q_bias,b² W_ab.
* The gradient is written by hand from d log N = ⟨A, c dM⟩ + ½⟨A, dC A⟩ − ½ tr(C⁻¹ dC), A = C⁻¹(O − cM). It needs no
  derivative of eigenvectors, so equal eigenvalues are as good as any others.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equipoise._util.arrays import Floats
from equipoise.inference.laplace import inverse_lower


class MatrixNoise(NamedTuple):
    """Noise variances: one for all off-diagonal entries [parties], one for each diagonal entry [parties, n].

    The bias entry is the public row count and carries none; by convention its variance is 2 · `off_diagonal`, which
    takes it out of the Woodbury correction and leaves a constant.
    """

    off_diagonal: Array
    diagonal: Array


def matrix_places(width: int) -> np.ndarray:
    """Where each entry of the n × n matrix (features, bias, target) stands in a regression's statistic.

    −1 for the count. The target's square comes last; where that is the count too, a statistic goes without it.
    """
    size, names = width + 2, [*range(width), width + 1]
    places = np.full((size, size), -1)
    for position, i in enumerate(names):
        places[i, width] = places[width, i] = position
    position = width + 1
    for first, i in enumerate(names):
        for j in names[first:]:
            places[i, j] = places[j, i] = position
            position += 1
    return places


def multiples(size: int) -> Floats:
    """How often entries of the upper triangle count: off-diagonal ones √2-fold."""
    first, second = np.triu_indices(size)
    return np.where(first == second, 1.0, math.sqrt(2))


def packed(matrix: Array) -> Array:
    """The upper triangle of symmetric matrices [..., n, n], with inner products as they were."""
    size = matrix.shape[-1]
    first, second = np.triu_indices(size)
    return matrix.reshape(*matrix.shape[:-2], -1)[..., first * size + second] * multiples(size)


def unpacked(triangle: Array) -> Array:
    """The symmetric matrices again."""
    size = math.isqrt(2 * triangle.shape[-1])
    places = np.zeros((size, size), int)
    places[np.triu_indices(size)] = np.arange(triangle.shape[-1])
    places = np.maximum(places, places.T)
    return (triangle / multiples(size))[..., places]


class Factor(NamedTuple):
    """What solving with the parties' C takes, all having one M of size n.

    Symmetric matrices are given by their t = n(n + 1)/2 entries (`packed`).
    """

    values: Array  # eigenvalues λ of M [n]
    vectors: Array  # q, as columns [n, n]
    units: Array  # P: the diagonal unit matrices in the eigenbasis [n, t]
    weights: Array  # W [parties, t]
    rank_one: Array  # W û [parties, t]
    boost: Array  # 2c/den [parties]
    den: Array  # [parties]
    half_correction: Array  # F with FᵀF = (Δ⁻¹ − G)⁻¹ [parties, n, n]
    half_log_det: Array  # of C, with the constants of a normal density [parties]


def factorise(second_moment: Array, sampling: Array, noise: MatrixNoise, bias: int) -> Factor:
    """Factor C = `sampling` · K(M) + noise of all parties."""
    values, vectors = jnp.linalg.eigh(second_moment)
    return factorise_in(values, vectors, sampling, noise, bias)


def factorise_in(values: Array, vectors: Array, sampling: Array, noise: MatrixNoise, bias: int) -> Factor:
    """The same, given the eigenvalues of M and its eigenvectors as columns."""
    size = len(values)
    first, second = np.triu_indices(size)
    units = vectors[:, first] * vectors[:, second] * multiples(size)
    spread = values[first] * values[second]
    weights = 1 / (2 * sampling[:, None] * spread + 2 * noise.off_diagonal[:, None])
    outer = spread * units[bias]  # û
    den = 2 * noise.off_diagonal * (weights @ (outer * units[bias]))
    rank_one = weights * outer
    boost = 2 * sampling / den
    overlap = rank_one @ units.T
    gram = ((units * weights[:, None, :]).reshape(-1, len(spread)) @ units.T).reshape(-1, size, size)
    gram += boost[:, None, None] * overlap[:, :, None] * overlap[:, None, :]

    delta_root = jnp.sqrt(2 * noise.off_diagonal[:, None] - noise.diagonal)
    lower = jnp.linalg.cholesky(jnp.eye(size) - delta_root[:, :, None] * gram * delta_root[:, None, :])
    half_correction = inverse_lower(lower) * delta_root[:, None, :]

    # The log density of the entries themselves: back from √2-fold off-diagonal ones, and without the bias entry.
    entries = size * (size + 1) // 2 - 1
    constant = 0.5 * entries * math.log(2 * math.pi) - 0.25 * size * (size - 1) * math.log(2)
    log_weights = jnp.sum(jnp.log(weights), axis=1)
    half_log_det = (
        constant
        + 0.5 * (jnp.log(den) - log_weights - jnp.log(2 * noise.off_diagonal))
        + jnp.sum(jnp.log(jnp.diagonal(lower, axis1=1, axis2=2)), axis=1)
    )
    return Factor(values, vectors, units, weights, rank_one, boost, den, half_correction, half_log_det)


def solve(factor: Factor, residual: Array) -> Array:
    """C⁻¹ of one symmetric matrix per party [parties, n, n]."""
    q = factor.vectors
    return q @ unpacked(solve_rotated(factor, packed(q.T @ residual @ q))) @ q.T


def solve_rotated(factor: Factor, residual: Array) -> Array:
    """C⁻¹ of symmetric matrices in the eigenbasis of M, [parties or 1, t] ↦ [parties, t]."""

    def base(vector: Array) -> Array:
        along = jnp.sum(factor.rank_one * vector, axis=1)
        return factor.weights * vector + (factor.boost * along)[:, None] * factor.rank_one

    touched = base(residual) @ factor.units.T
    half = jnp.einsum("pki,pi->pk", factor.half_correction, touched)
    lifted = jnp.einsum("pki,pk->pi", factor.half_correction, half) @ factor.units
    return base(residual + lifted)


def apply_sampling(second_moment: Array, matrix: Array, bias: int) -> Array:
    """K of symmetric matrices [..., n, n]: the sampling covariance of one row."""
    mean = second_moment[:, bias]
    along = jnp.einsum("i,...ij,j->...", mean, matrix, mean)
    return 2 * second_moment @ matrix @ second_moment - 2 * along[..., None, None] * jnp.outer(mean, mean)


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def log_likelihood(
    second_moment: Array,
    statistic: Array,
    count: Array,
    sampling: Array,
    noise: MatrixNoise,
    bias: int,
) -> Array:
    """Log density of each party's statistic, all parties having one second moment M.

    `statistic` [parties, n, n], `count`, `sampling` and the result [parties]. Differentiable in M only.
    """
    return _forward(second_moment, statistic, count, sampling, noise, bias)[0]


class _Kept(NamedTuple):
    factor: Factor
    solved: Array  # C⁻¹ of the residuals [parties, 1, t]
    push: Array
    sampling: Array


def _forward(
    second_moment: Array,
    statistic: Array,
    count: Array,
    sampling: Array,
    noise: MatrixNoise,
    bias: int,
) -> tuple[Array, _Kept]:
    factor = factorise(second_moment, sampling, noise, bias)
    q = factor.vectors
    residual = packed(q.T @ (statistic - count[:, None, None] * second_moment) @ q)
    solved = solve_rotated(factor, residual)
    found = -factor.half_log_det - 0.5 * jnp.sum(residual * solved, axis=1)
    return found, _Kept(factor, solved[:, None], count, sampling)


def _backward(bias: int, kept: _Kept, cotangent: Array) -> tuple[Array, None, None, None, None]:
    factor, solved, push, sampling = kept
    halves = woodbury_halves(factor)
    gradient = pull_back(factor, solved, halves, cotangent * push, cotangent * sampling, bias)
    return gradient, None, None, None, None


log_likelihood.defvjp(_forward, _backward)


def woodbury_halves(factor: Factor) -> Array:
    """Y with C⁻¹ = diag(W) + boost (Wû)(Wû)ᵀ + Σₖ YₖYₖᵀ, in the eigenbasis of M [parties, n, t]."""
    overlap = factor.rank_one @ factor.units.T
    columns = factor.units * factor.weights[:, None, :] + (
        factor.boost[:, None, None] * overlap[:, :, None] * factor.rank_one[:, None, :]
    )
    return factor.half_correction @ columns


def pull_back(
    factor: Factor,
    solved: Array,
    halves: Array,
    push: Array,
    share: Array,
    bias: int,
    number: Array | None = None,
) -> Array:
    """Gradient by M of Σ push ⟨A₀, M⟩ + share (½ Σⱼ ⟨Aⱼ, K Aⱼ⟩ − ½ number tr(D K)) over parties: [n, n].

    A and D are fixed: A is `solved` [parties, j, t], D = diag(W) + boost (Wû)(Wû)ᵀ + Σₖ YₖYₖᵀ with Y the `halves`
    [parties, k, t]: those of C⁻¹ itself, and more where C is a block of a larger matrix. Both are given in the
    eigenbasis of M. `number` is [parties], or 1.
    """
    values, vectors = factor.values, factor.vectors
    size, (parties, terms) = len(values), halves.shape[:2]
    number = jnp.ones(parties) if number is None else number
    unit = vectors[bias]  # e_bias in the eigenbasis
    mean = values * unit

    # ½⟨A, dK A⟩ with K(A) = 2 M A M − 2 (mᵀA m) m mᵀ
    along = unpacked(solved) @ mean
    arm = -4 * jnp.einsum("pj,pjn->pn", along @ mean, along)

    # −½ tr(D dK): against X ↦ 2 (dM X M + M X dM) …
    weights = unpacked((share * number) @ factor.weights * multiples(size))
    diagonal = weights @ values + jnp.diagonal(weights) * values
    # … and against −2 d(m mᵀ) ⟨m mᵀ, ·⟩, where B⁻¹û = Wû/den
    inverse_outer = factor.rank_one / factor.den[:, None]
    inverse_outer += jnp.einsum("pk,pkm->pm", halves @ packed(jnp.outer(mean, mean)), halves)
    arm += 4 * number[:, None] * (unpacked(inverse_outer) @ mean)

    # All terms of the form Σ X Λ X are one product over parties and terms.
    stack = jnp.concatenate([solved, halves, factor.rank_one[:, None]], axis=1)
    down = number[:, None] * jnp.concatenate([jnp.ones((parties, terms)), factor.boost[:, None]], axis=1)
    sign = jnp.concatenate([jnp.ones(solved.shape[:2]), -down], axis=1)
    whole = unpacked(stack)
    left = (2 * share[:, None] * sign)[:, :, None, None] * whole * values[:, None]
    gradient = left.reshape(-1, size).T @ whole.reshape(-1, size)
    gradient -= jnp.diag(diagonal)
    arms = jnp.outer(share @ arm, unit)
    gradient += 0.5 * (arms + arms.T)
    gradient += unpacked(push @ solved[:, 0])
    return vectors @ gradient @ vectors.T
