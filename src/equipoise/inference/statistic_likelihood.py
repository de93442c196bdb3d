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
from jax import Array

from equipoise.inference.laplace import inverse_lower


class MatrixNoise(NamedTuple):
    """Noise variances: one for all off-diagonal entries [parties], one for each diagonal entry [parties, n].

    The bias entry is the public row count and carries none; by convention its variance is 2 · `off_diagonal`, which
    takes it out of the Woodbury correction and leaves a constant.
    """

    off_diagonal: Array
    diagonal: Array


class Factor(NamedTuple):
    """What solving with the parties' C takes, all having one M of size n."""

    values: Array  # eigenvalues λ of M [n]
    vectors: Array  # q, as columns [n, n]
    units: Array  # P: the diagonal unit matrices in the eigenbasis [n, n·n]
    weights: Array  # W [parties, n·n]
    rank_one: Array  # W û [parties, n·n]
    boost: Array  # 2c/den [parties]
    den: Array  # [parties]
    half_correction: Array  # F with FᵀF = (Δ⁻¹ − G)⁻¹ [parties, n, n]
    half_log_det: Array  # of C, with the constants of a normal density [parties]


def factorise(second_moment: Array, sampling: Array, noise: MatrixNoise, bias: int) -> Factor:
    """Factor C = `sampling` · K(M) + noise of all parties."""
    size = second_moment.shape[0]
    values, vectors = jnp.linalg.eigh(second_moment)
    units = (vectors[:, :, None] * vectors[:, None, :]).reshape(size, -1)
    spread = jnp.outer(values, values).reshape(-1)
    weights = 1 / (2 * sampling[:, None] * spread + 2 * noise.off_diagonal[:, None])
    outer = spread * units[bias]  # û
    den = 2 * noise.off_diagonal * (weights @ (outer * units[bias]))
    rank_one = weights * outer
    boost = 2 * sampling / den
    overlap = rank_one @ units.T
    gram = ((units * weights[:, None, :]).reshape(-1, size * size) @ units.T).reshape(-1, size, size)
    gram += boost[:, None, None] * overlap[:, :, None] * overlap[:, None, :]

    delta_root = jnp.sqrt(2 * noise.off_diagonal[:, None] - noise.diagonal)
    lower = jnp.linalg.cholesky(jnp.eye(size) - delta_root[:, :, None] * gram * delta_root[:, None, :])
    half_correction = inverse_lower(lower) * delta_root[:, None, :]

    # The log density of the entries themselves: back from √2-fold off-diagonal ones, and without the bias entry.
    entries = size * (size + 1) // 2 - 1
    constant = 0.5 * entries * math.log(2 * math.pi) - 0.25 * size * (size - 1) * math.log(2)
    log_weights = jnp.log(weights)
    log_weights = 0.5 * (jnp.sum(log_weights, axis=1) + jnp.sum(log_weights[:, :: size + 1], axis=1))  # over a ≤ b
    half_log_det = (
        constant
        + 0.5 * (jnp.log(den) - log_weights - jnp.log(2 * noise.off_diagonal))
        + jnp.sum(jnp.log(jnp.diagonal(lower, axis1=1, axis2=2)), axis=1)
    )
    return Factor(values, vectors, units, weights, rank_one, boost, den, half_correction, half_log_det)


def solve(factor: Factor, residual: Array) -> Array:
    """C⁻¹ of one symmetric matrix per party [parties, n, n]."""
    q = factor.vectors
    rotated = (q.T @ residual @ q).reshape(residual.shape[0], -1)
    return q @ _solve_rotated(factor, rotated).reshape(residual.shape) @ q.T


def apply_sampling(second_moment: Array, matrix: Array, bias: int) -> Array:
    """K of symmetric matrices [..., n, n]: the sampling covariance of one row."""
    mean = second_moment[:, bias]
    along = jnp.einsum("i,...ij,j->...", mean, matrix, mean)
    return 2 * second_moment @ matrix @ second_moment - 2 * along[..., None, None] * jnp.outer(mean, mean)


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def log_likelihood(
    second_moment: Array, statistic: Array, count: Array, sampling: Array, noise: MatrixNoise, bias: int
) -> Array:
    """Log density of each party's statistic, all parties having one second moment M.

    `statistic` [parties, n, n], `count`, `sampling` and the result [parties]. Differentiable in M only.
    """
    return _forward(second_moment, statistic, count, sampling, noise, bias)[0]


_Kept = tuple[Factor, Array, Array, Array]


def _forward(
    second_moment: Array, statistic: Array, count: Array, sampling: Array, noise: MatrixNoise, bias: int
) -> tuple[Array, _Kept]:
    factor = factorise(second_moment, sampling, noise, bias)
    q = factor.vectors
    residual = (q.T @ (statistic - count[:, None, None] * second_moment) @ q).reshape(len(count), -1)
    solved = _solve_rotated(factor, residual)
    return -factor.half_log_det - 0.5 * jnp.sum(residual * solved, axis=1), (factor, solved, count, sampling)


def _backward(bias: int, kept: _Kept, cotangent: Array) -> tuple[Array, None, None, None, None]:
    factor, solved, count, sampling = kept
    values, vectors = factor.values, factor.vectors
    parties, size = len(count), len(values)
    unit = vectors[bias]  # e_bias in the eigenbasis
    mean = values * unit
    share = cotangent * sampling

    def matrices(flat: Array) -> Array:
        return flat.reshape(*flat.shape[:-1], size, size)

    # ½⟨A, dK A⟩ with K(A) = 2 M A M − 2 (mᵀA m) m mᵀ
    pull = matrices(solved)
    along = pull @ mean
    arm = -4 * (along @ mean)[:, None] * along

    # −½ tr(C⁻¹ dK): against X ↦ 2 (dM X M + M X dM), C⁻¹ = diag(W) + boost (Wû)(Wû)ᵀ + Σₖ YₖYₖᵀ …
    overlap = factor.rank_one @ factor.units.T
    columns = factor.units * factor.weights[:, None, :] + (
        factor.boost[:, None, None] * overlap[:, :, None] * factor.rank_one[:, None, :]
    )
    halves = factor.half_correction @ columns
    weights = matrices(factor.weights)
    diagonal = weights @ values + jnp.diagonal(weights, axis1=1, axis2=2) * values
    # … and against −2 d(m mᵀ) ⟨m mᵀ, ·⟩, where B⁻¹û = Wû/den
    inverse_outer = factor.rank_one / factor.den[:, None]
    inverse_outer += jnp.einsum("pk,pkm->pm", halves @ jnp.outer(mean, mean).reshape(-1), halves)
    arm += 4 * matrices(inverse_outer) @ mean

    # All terms of the form Σ X Λ X are one product over parties and terms.
    stack = jnp.concatenate([solved[:, None], halves, factor.rank_one[:, None]], axis=1)
    sign = jnp.concatenate([jnp.ones((parties, 1)), -jnp.ones((parties, size)), -factor.boost[:, None]], axis=1)
    left = (2 * share[:, None] * sign)[:, :, None, None] * matrices(stack) * values[:, None]
    gradient = left.reshape(-1, size).T @ stack.reshape(-1, size)
    gradient -= jnp.diag(share @ diagonal)
    arms = jnp.outer(share @ arm, unit)
    gradient += 0.5 * (arms + arms.T)
    gradient += ((cotangent * count) @ solved).reshape(size, size)
    return vectors @ gradient @ vectors.T, None, None, None, None


log_likelihood.defvjp(_forward, _backward)


def _solve_rotated(factor: Factor, residual: Array) -> Array:
    """C⁻¹ of symmetric matrices given, and returned, in the eigenbasis of M as [parties, n·n]."""

    def base(vector: Array) -> Array:
        along = jnp.sum(factor.rank_one * vector, axis=1)
        return factor.weights * vector + (factor.boost * along)[:, None] * factor.rank_one

    touched = base(residual) @ factor.units.T
    half = jnp.einsum("pki,pi->pk", factor.half_correction, touched)
    lifted = jnp.einsum("pki,pk->pi", factor.half_correction, half) @ factor.units
    return base(residual + lifted)
