r"""Likelihood of perturbed statistics of (x, 1) and a label y = ±1, without ever forming their covariance matrices.

A row's statistic is v vᵀ and y v, v = (x₁ … x_w, 1), n = w + 1 numbers. Its first part has the covariance of
`statistic_likelihood.py`, c K(M) and noise, which takes O(n⁴) to factorise; the second part is only n numbers. Hence
block elimination: with F the covariance of the first part, L that of the second, and X the cross covariances, a matrix
for each entry of y v,

    log N(r; 0, C) = log N(r₁; 0, F) + log N(r₂ − Xᵀ F⁻¹ r₁; 0, S),    S = L − Xᵀ F⁻¹ X,

where inner products of matrices are Frobenius. All is O(n⁴), where a dense factorisation takes O(n⁶).

The gradient is written by hand. With α = C⁻¹ r and Z = F⁻¹ X S^{−1/2}, a change of C has the derivative
½⟨α αᵀ − C⁻¹, dC⟩, whose blocks are α₁α₁ᵀ − F⁻¹ − Z Zᵀ, α₁α₂ᵀ + F⁻¹ X S⁻¹ and α₂α₂ᵀ − S⁻¹. The first is pulled back to
M as a linear statistic's is, with the columns of Z as n more terms. No eigenvector is differentiated: X is given in the
eigenbasis of M, and the density does not depend on which basis that is (docs/maths.md §3).
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from equipoise.inference.laplace import inverse_lower
from equipoise.inference.statistic_likelihood import (
    Factor,
    MatrixNoise,
    factorise_in,
    packed,
    pull_back,
    solve_rotated,
    unpacked,
    woodbury_halves,
)


class LabelledRow(NamedTuple):
    """Moments of one row's v vᵀ and y v, v = (x, 1).

    Cov(y vₐ, v vᵀ) is Vₐ pᵀ + p Vₐᵀ + Σᵣ `coefficients`ₐᵣ `matrices`ᵣ, with Vₐ a row of Cov(v).
    """

    second_moment: Array  # M = E[v vᵀ] [n, n]
    label_mean: Array  # E[y v] [n]
    label_covariance: Array  # of y v [n, n]
    covariance: Array  # V, of v [n, n]
    direction: Array  # p [n]
    coefficients: Array  # [n, r]
    matrices: Array  # symmetric [r, n, n]


class LabelledEvidence(NamedTuple):
    """All parties' statistics Σ v vᵀ and Σ y v, with their noise."""

    statistic: Array  # [parties, n, n]
    labelled: Array  # [parties, n]
    rows: Array
    sampling: Array
    noise: MatrixNoise
    labelled_noise: Array  # [parties, n]
    weight: Array


class _Blocks(NamedTuple):
    """What solving with the parties' C takes."""

    first: Factor  # F
    crossed: Array  # F⁻¹ c X in the eigenbasis of M [parties, n, t]
    half_schur: Array  # H with HᵀH = S⁻¹ [parties, n, n]
    half_log_det: Array  # of C, with the constants of a normal density [parties]


def log_likelihood(row: LabelledRow, evidence: LabelledEvidence) -> Array:
    """Log density of each party's statistic, all parties having one distribution of rows: [parties]."""
    values, vectors = jnp.linalg.eigh(jax.lax.stop_gradient(row.second_moment))
    crossed = _cross_covariance(row, vectors)
    found: Array = _log_normal(
        row.second_moment, crossed, row.label_mean, row.label_covariance, values, vectors, evidence, _bias(row)
    )
    return found


def information(row: LabelledRow, moment_slopes: Array, label_slopes: Array, evidence: LabelledEvidence) -> Array:
    """Fisher information Σ weight · c² Jᵀ C⁻¹ J: [d, d]; J = (dM, dE[y v]) is given as [d, n, n] and [d, n]."""
    values, vectors = jnp.linalg.eigh(row.second_moment)
    crossed = _cross_covariance(row, vectors)
    blocks = _factorise(crossed, row.label_covariance, values, vectors, evidence, _bias(row))
    columns = packed(vectors.T @ moment_slopes @ vectors)
    scale = evidence.weight * evidence.rows**2
    solved = jax.vmap(lambda column: solve_rotated(blocks.first, column[None]), out_axes=1)(columns)
    left = label_slopes - (blocks.crossed @ columns.T).mT
    white = jnp.sqrt(scale)[:, None, None] * (left @ blocks.half_schur.mT)
    white = jnp.moveaxis(white, 0, 1).reshape(len(columns), -1)
    first: Array = columns @ jnp.einsum("p,pdm->md", scale, solved)
    return first + white @ white.T


def _bias(row: LabelledRow) -> int:
    return row.second_moment.shape[0] - 1


def _cross_covariance(row: LabelledRow, vectors: Array) -> Array:
    """Cov(y vₐ, v vᵀ) in the basis of given columns [n, n, n]."""
    outer = (row.covariance @ vectors)[:, :, None] * (row.direction @ vectors)
    matrices = vectors.T @ row.matrices @ vectors
    return outer + outer.mT + jnp.einsum("ar,rij->aij", row.coefficients, matrices)


def _factorise(
    crossed: Array, label_covariance: Array, values: Array, vectors: Array, evidence: LabelledEvidence, bias: int
) -> _Blocks:
    sampling = evidence.sampling[:, None, None]
    crossed = packed(crossed)
    first = factorise_in(values, vectors, evidence.sampling, evidence.noise, bias)
    solved = sampling * jax.vmap(lambda column: solve_rotated(first, column[None]), out_axes=1)(crossed)
    schur = sampling * (label_covariance - solved @ crossed.T) + jax.vmap(jnp.diag)(evidence.labelled_noise)
    lower = jnp.linalg.cholesky(schur)
    half_log_det = (
        first.half_log_det
        + 0.5 * len(values) * math.log(2 * math.pi)
        + jnp.sum(jnp.log(jnp.diagonal(lower, axis1=1, axis2=2)), axis=1)
    )
    return _Blocks(first, solved, inverse_lower(lower), half_log_det)


@partial(jax.custom_vjp, nondiff_argnums=(7,))
def _log_normal(
    second_moment: Array,
    crossed: Array,
    label_mean: Array,
    label_covariance: Array,
    values: Array,
    vectors: Array,
    evidence: LabelledEvidence,
    bias: int,
) -> Array:
    """Differentiable in the first four; `crossed` [n, n, n] is in the eigenbasis of M."""
    return _forward(second_moment, crossed, label_mean, label_covariance, values, vectors, evidence, bias)[0]


_Kept = tuple[_Blocks, Array, Array, LabelledEvidence]


def _forward(
    second_moment: Array,
    crossed: Array,
    label_mean: Array,
    label_covariance: Array,
    values: Array,
    vectors: Array,
    evidence: LabelledEvidence,
    bias: int,
) -> tuple[Array, _Kept]:
    blocks = _factorise(crossed, label_covariance, values, vectors, evidence, bias)
    count = evidence.rows[:, None]
    residual = packed(vectors.T @ (evidence.statistic - count[:, :, None] * second_moment) @ vectors)
    solved = solve_rotated(blocks.first, residual)
    labelled = evidence.labelled - count * label_mean - jnp.einsum("pam,pm->pa", blocks.crossed, residual)
    white = jnp.einsum("pka,pa->pk", blocks.half_schur, labelled)
    value = -blocks.half_log_det - 0.5 * (jnp.sum(residual * solved, axis=1) + jnp.sum(white**2, axis=1))
    labelled = jnp.einsum("pka,pk->pa", blocks.half_schur, white)
    solved -= jnp.einsum("pam,pa->pm", blocks.crossed, labelled)
    return value, (blocks, solved, labelled, evidence)


def _backward(bias: int, kept: _Kept, cotangent: Array) -> tuple[Array, Array, Array, Array, None, None, None]:
    blocks, solved, labelled, evidence = kept
    push, share = cotangent * evidence.rows, cotangent * evidence.sampling
    halves = blocks.half_schur @ blocks.crossed  # Z
    terms = jnp.concatenate([woodbury_halves(blocks.first), halves], axis=1)
    moment = pull_back(blocks.first, solved[:, None], terms, push, share, bias)
    shared = share[:, None, None]
    size = len(moment)
    # Sums over parties and entries are one product each.
    left = (shared * blocks.half_schur).reshape(-1, size)
    crossed = left.T @ halves.reshape(-1, solved.shape[-1]) + (share[:, None] * labelled).T @ solved
    covariance = 0.5 * ((share[:, None] * labelled).T @ labelled - left.T @ blocks.half_schur.reshape(-1, size))
    return moment, unpacked(crossed), push @ labelled, covariance, None, None, None


_log_normal.defvjp(_forward, _backward)
