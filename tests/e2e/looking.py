"""Looking at a page as people do: on a screen and on a phone, in light and dark, with pictures for them to judge."""

import os
from pathlib import Path

from e2e.chromium import Browser

PICTURES = "EQUIPOISE_TEST_PICTURES"  # a folder to keep pictures in, for people to look at

# Colours of text that are too faint on what is behind it (WCAG AA: 4.5 to 1, or 3 to 1 for large text).
FAINT = """(() => {
    const number = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return m.length > 3 && m[3] === 0 ? null : m; };
    const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const light = (c) => c.slice(0, 3).map(v => linear(v / 255))
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (one) => { for (; one; one = one.parentElement) {
        const c = number(getComputedStyle(one).backgroundColor); if (c) return c; } return [255, 255, 255]; };
    const found = [];
    for (const one of document.querySelectorAll("body *")) {
        const own = [...one.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
        if (!own || !one.checkVisibility()) continue;
        const style = getComputedStyle(one);
        const fill = one.closest("svg") ? style.fill : style.color;
        if (!/^rgb/.test(fill)) continue;
        const [a, b] = [light(number(fill)), light(behind(one))].sort((x, y) => y - x);
        const large = parseFloat(style.fontSize) >= 24;
        if ((a + 0.05) / (b + 0.05) < (large ? 3 : 4.5)) found.push(`${one.textContent.trim().slice(0, 40)}: ${fill}`);
    }
    return found;
})()"""
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
UNLABELLED = """[...document.querySelectorAll("input:not([type=hidden]), select, textarea, button, progress")]
    .filter(f => !f.closest("[aria-hidden=true]"))
    .filter(f => !(f.labels?.length || f.ariaLabel || f.getAttribute("aria-labelledby") || f.textContent.trim()))
    .map(f => f.outerHTML)"""


def look_at(browser: Browser, name: str) -> None:
    """Check in light and dark, on a screen and a phone: nothing sticks out, text can be read, fields have names."""
    kept = os.environ.get(PICTURES)
    for width in (1200, 360):
        for dark in (False, True):
            browser.look(width=width, dark=dark)
            if kept:
                browser.picture(Path(kept) / f"{name}-{width}-{'dark' if dark else 'light'}.png")
            assert browser.run(TOO_WIDE) <= 0, f"{name} at {width} px"
            assert browser.run(FAINT) == [], f"{name} at {width} px, dark {dark}"
    assert browser.run(UNLABELLED) == [], name
    browser.look(width=1200)
