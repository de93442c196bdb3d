"""What the service refuses, in words for people, with the number that HTTP has for it."""

from equipoise.errors import ServiceError


class Refusal(ServiceError):  # noqa: N818  (nothing went wrong)
    """Something that is not done; the message names the value and the remedy. `code` is for programs."""

    status = 400
    code = "refused"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class NotSignedIn(Refusal):
    """Nobody knows who is asking."""

    status, code = 401, "not-signed-in"


class WrongClock(Refusal):
    """A request was signed at another time than now."""

    status, code = 401, "clock"


class Forbidden(Refusal):
    """Who is asking may not do it."""

    status, code = 403, "forbidden"


class NotFound(Refusal):
    """It is not there, or not for who is asking: which of both is not said."""

    status, code = 404, "not-found"


class Slow(Refusal):
    """It did not come in time."""

    status, code = 408, "slow"


class Conflict(Refusal):
    """It contradicts what is there already."""

    status, code = 409, "conflict"


class TooLarge(Refusal):
    """It is larger than what is taken."""

    status, code = 413, "too-large"


class WrongType(Refusal):
    """It is not of the content type that is taken."""

    status, code = 415, "content-type"


class Invalid(Refusal):
    """It is not what it should be."""

    status, code = 422, "invalid"


class TooMany(Refusal):
    """There are too many of these."""

    status, code = 429, "too-many"


class Damaged(Refusal):
    """What is kept is not what it must be."""

    status, code = 500, "damaged"


class Unavailable(Refusal):
    """The database cannot be used just now."""

    status, code = 503, "unavailable"
