"""Charts as SVG text, drawn from plain numbers: for reports, and for any page that shows a settlement.

Every function but those that save a file returns one `<svg>` element to put into HTML. The element describes in words
what it shows (`aria-label`), is about 420 pixels wide and scales, needs no script and loads nothing. Its colours can be
told apart by colour-blind readers, and no meaning depends on colour alone. The same numbers give the same bytes, from
any thread.
"""

from equipoise.report.charts.advice import PrivacyChoices, Quantity, save_privacy_choices
from equipoise.report.charts.curve import Line, Mark, reward_curve
from equipoise.report.charts.dots import coalition_values, shapley_values
from equipoise.report.charts.gains import Gain, gains
from equipoise.report.charts.intervals import Limits, Panel, Parameter, interval_limits, intervals
from equipoise.report.charts.losses import losses, save_losses
from equipoise.report.charts.style import shortened
from equipoise.report.charts.sweep import EXPONENTS, Sweep, exponent_sweep

__all__ = [
    "EXPONENTS",
    "Gain",
    "Limits",
    "Line",
    "Mark",
    "Panel",
    "Parameter",
    "PrivacyChoices",
    "Quantity",
    "Sweep",
    "coalition_values",
    "exponent_sweep",
    "gains",
    "interval_limits",
    "intervals",
    "losses",
    "reward_curve",
    "save_losses",
    "save_privacy_choices",
    "shapley_values",
    "shortened",
]
