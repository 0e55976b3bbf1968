"""Where the browser for the tests of the pages is."""

from .installed import Program

# The shell is the same engine without a window: it takes a third of the CPU of the whole browser.
CHROMIUM = Program(
    "Chromium",
    "chromium-headless-shell",
    ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"),
)
