"""The agreement that all parties accept: a TOML file whose SHA-256 is its identity.

It alone holds everything that fixes the noise or the meaning of a statistic: model, columns, public bounds, priors,
Rényi order, largest ε. Two parties with the same identity therefore agree to the last bit, whatever comments,
spacing or key order their files have.
"""

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, SerializerFunctionWrapHandler, StrictInt, ValidationError, model_serializer, model_validator

from equipoise._util.canonical import canonical_json, read_limited, sha256_hex, strict_toml
from equipoise._util.recognition import mixed_up
from equipoise._util.text import first_repeat
from equipoise.agreement.schema import Party, Privacy, RewardRule
from equipoise.agreement.validation import describe_mistakes
from equipoise.errors import AgreementError
from equipoise.models import KINDS, AnyModel, Individuals, Layout
from equipoise.models.columns import Column, CountColumn
from equipoise.models.guarantee import Guarantee
from equipoise.models.section import Section

# Format 1 has conjugate priors only. Since format 2 the standardised ones are the default; since format 3 a typical
# range scales the noise unless a reach is stated.
FORMAT = 3
SURPLUS_RHO = 0.5  # default exponent of the surplus rule (ADR 32)


class Agreement(Section):
    """The immutable contract of all parties: model, columns, public bounds, priors, privacy, reward rule.

    Read one with `load` or `parse`; `equipoise agreement new` writes a first draft.

    Attributes
    ----------
    format : int
        Format of the document, 1 to 3.
    title : str
        For people.
    model : Model
        The kind of model, its columns with public bounds, and its prior.
    privacy : Privacy
        Rényi order (`order`), the largest ε (`max_epsilon`) and, if there is one, the smallest (`min_epsilon`) that a
        party may choose, and the most rows (`max_rows`) that it may claim.
    reward : RewardRule
        Mechanism, fairness exponent ρ, and what the operator may choose.
    parties : tuple of Party
        The members: each a name and, where agreed, a public key.

    Examples
    --------
    >>> agreement = eq.Agreement.parse('''
    ... format = 3
    ... [model]
    ... kind = "linear"
    ... features = [{ name = "age", typical = [25, 80] }]
    ... target = { name = "progression", typical = [50, 300], bounds = [0, 400] }
    ... [privacy]
    ... max_epsilon = 2.0
    ... [[parties]]
    ... name = "north"
    ... [[parties]]
    ... name = "south"
    ... ''')
    >>> agreement.party_names
    ('north', 'south')
    >>> agreement.guarantee(approx=(3.0, 1e-6)).epsilon < agreement.privacy.max_epsilon
    True
    """

    format: Annotated[StrictInt, Field(ge=1, le=FORMAT)]
    title: Annotated[str, Field(max_length=200)] = ""
    model: AnyModel
    privacy: Privacy
    reward: RewardRule = RewardRule()
    parties: Annotated[tuple[Party, ...], Field(min_length=1, max_length=10_000)]

    @model_validator(mode="before")
    @classmethod
    def _complete_model(cls, document: Any) -> Any:
        """Fill in what a format leaves unsaid: the priors of format 1, and reaches since format 3."""
        if not isinstance(document, dict) or not isinstance(document.get("model"), dict):
            return document
        kind, stated = document["model"].get("kind"), document.get("format")
        reward = document.get("reward", {})
        if isinstance(stated, int) and stated >= 3 and isinstance(reward, dict):
            rule = reward.get("rule", "surplus")
            document = {
                **document,
                "reward": {**({"rho": SURPLUS_RHO} if rule == "surplus" else {}), **reward, "rule": rule},
            }
        if not isinstance(kind, str) or kind not in KINDS or not isinstance(stated, int):
            return document
        if stated == 1:
            return {**document, "model": KINDS[kind].read_first_format(document["model"])}
        return {**document, "model": KINDS[kind].state_reaches(document["model"])} if stated >= 3 else document

    @model_serializer(mode="wrap")
    def _write_first_format(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write documents of format 1 without keys that format 1 does not know, so that identities stay."""
        document: dict[str, Any] = handler(self)
        if self.format == 1 and isinstance(document.get("model"), dict):
            self.model.write_first_format(document["model"])
        return document

    @model_validator(mode="after")
    def _check_first_format(self) -> Self:
        if self.format == 1:
            self.model.check_first_format()
        return self

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        columns = [column.name for column in self.columns]
        if self.privacy.individual in columns:
            raise ValueError(
                f"{self.privacy.individual!r} says whose row it is and cannot be learnt from; remove it from the model"
            )
        if self.privacy.aggregate == "mean" and any(isinstance(column, CountColumn) for column in self.columns):
            raise ValueError(
                'a mean of counts is no count, and this kind of model needs counts; write aggregate = "first" or '
                '"last" under [privacy]'
            )
        if repeated := first_repeat(columns):
            raise ValueError(f"the column {repeated!r} is named twice; each feature and the target need their own")
        # Names become file names, and not every file system tells cases apart.
        if repeated := first_repeat([party.name.casefold() for party in self.parties]):
            raise ValueError(f"two parties are called {repeated!r} (upper and lower case count as the same)")
        keys = [party.public_key for party in self.parties if party.public_key]
        if repeated := first_repeat(keys):
            raise ValueError(f"two parties share the public key {repeated[:16]}…; each needs its own")
        return self

    @classmethod
    def of(cls, agreement: "Agreement | str | Path") -> "Agreement":
        """Return the given agreement, or load the one at the given path."""
        return agreement if isinstance(agreement, Agreement) else cls.load(agreement)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read and check an agreement file.

        Parameters
        ----------
        path : path
            A TOML file.

        Returns
        -------
        Agreement

        Raises
        ------
        AgreementError
            The file cannot be read, or says something that cannot be agreed to; every mistake is named.

        Examples
        --------
        >>> eq.Agreement.load("agreement.toml").party_names
        ('north', 'south')
        """
        try:
            # Windows editors like to add a byte-order mark.
            text = read_limited(Path(path)).decode("utf-8-sig")
        except (OSError, ValueError) as error:
            raise AgreementError(
                mixed_up(Path(path), "an agreement")
                or f"cannot read the agreement {str(path)!r}: {getattr(error, 'strerror', None) or error}; "
                "write an example with `equipoise agreement new linear`"
            ) from error
        try:
            return cls.parse(text, name=str(path))
        except AgreementError as error:
            raise AgreementError(mixed_up(Path(path), "an agreement") or str(error)) from error

    @classmethod
    def parse(cls, text: str, *, name: str = "agreement") -> Self:
        """Check an agreement given as TOML text.

        Parameters
        ----------
        text : str
            The document.
        name : str
            What error messages call it.

        Returns
        -------
        Agreement

        Raises
        ------
        AgreementError
            It says something that cannot be agreed to; every mistake is named.
        """
        try:
            document = strict_toml(text)
        except ValueError as error:
            # This also refuses numbers of thousands of digits.
            raise AgreementError(
                f"{name} is not an agreement in TOML: {error}; write an example with `equipoise agreement new linear`"
            ) from error
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            lines = [f"  {line}" for line in describe_mistakes(error, cls, document)]
            raise AgreementError("\n".join([f"{name} cannot be agreed to:", *lines])) from error

    @cached_property
    def identity_digest(self) -> str:
        """The SHA-256 of the canonical form. Equal digests mean equal meaning; the order of parties has none."""
        document = self.model_dump(mode="json")
        document["parties"].sort(key=lambda party: party["name"])
        return sha256_hex(canonical_json(document))

    @property
    def identity(self) -> str:
        """Another name of `identity_digest`, as files and the HTTP API spell it."""
        return self.identity_digest

    @property
    def columns(self) -> tuple[Column, ...]:
        """Every column the model reads: the features in order, then the target."""
        return self.model.columns

    @property
    def individuals(self) -> Individuals | None:
        """The protected individuals, or None if single rows are protected."""
        privacy = self.privacy
        if privacy.individual is None:
            return None
        return Individuals(privacy.individual, privacy.rows_per_individual, privacy.excess == "drop", privacy.aggregate)

    @cached_property
    def layout(self) -> Layout:
        """The layout of the statistic that each party releases, with the sensitivity of what is protected."""
        layout, individuals = self.model.layout, self.individuals
        if individuals is not None:
            layout = layout.for_individuals(individuals)
        return layout if self.privacy.max_rows is None else replace(layout, agreed_rows=self.privacy.max_rows)

    @property
    def party_names(self) -> tuple[str, ...]:
        """The names of all members, in the order of the document."""
        return tuple(party.name for party in self.parties)

    def party(self, name: str) -> Party:
        """Return the member with exactly this name; raise `AgreementError` if there is none."""
        for party in self.parties:
            if party.name == name:
                return party
        raise AgreementError(
            f"{name!r} is not a party of this agreement; its parties are {', '.join(self.party_names)}"
        )

    def guarantee(
        self,
        *,
        epsilon: float | None = None,
        zcdp: float | None = None,
        approx: tuple[float, float] | None = None,
    ) -> Guarantee:
        """Return the guarantee, stated in exactly one of three ways, at the agreement's Rényi order.

        Parameters
        ----------
        epsilon : float, optional
            ε at that order.
        zcdp : float, optional
            Zero-concentrated ρ.
        approx : (float, float), optional
            (ε, δ).

        Returns
        -------
        Guarantee

        Raises
        ------
        AgreementError
            It is weaker than `privacy.max_epsilon` or stronger than `privacy.min_epsilon` allows, or not given in
            exactly one way.
        GuaranteeError
            The numbers do not describe a guarantee.
        """
        given = [
            name for name, value in (("epsilon", epsilon), ("zcdp", zcdp), ("approx", approx)) if value is not None
        ]
        if len(given) != 1:
            raise AgreementError(
                "state the guarantee in exactly one way: epsilon, zcdp or approx (epsilon, delta); "
                f"got {' and '.join(given) or 'none'}"
            )
        order = self.privacy.order
        if epsilon is not None:
            guarantee = Guarantee(order=order, epsilon=epsilon)
        elif zcdp is not None:
            guarantee = Guarantee.from_zcdp(zcdp, order=order)
        else:
            if not (isinstance(approx, tuple | list) and len(approx) == 2):
                raise AgreementError(f"approx must be a pair (epsilon, delta), not {approx!r}")
            guarantee = Guarantee.from_approx(*approx, order=order)
        largest = self.privacy.max_epsilon
        # Converting from the other readings may round up to just above the maximum.
        if largest < guarantee.epsilon <= largest * (1 + 1e-12):
            guarantee = Guarantee(order=order, epsilon=largest)
        if guarantee.epsilon > largest:
            raise AgreementError(
                f"epsilon = {guarantee.epsilon:g} at order {order:g} is above the agreed maximum "
                f"{self.privacy.max_epsilon:g}; choose a smaller one (more privacy)"
            )
        least = self.privacy.min_epsilon
        if least is not None and guarantee.epsilon < least:
            if guarantee.epsilon < least * (1 - 1e-12):
                raise AgreementError(
                    f"epsilon = {guarantee.epsilon:g} at order {order:g} is below the agreed minimum {least:g}; choose "
                    "a larger one (less privacy), or take no part"
                )
            guarantee = Guarantee(order=order, epsilon=least)
        return guarantee
