"""Where the browser for the tests of the pages is."""

from .installed import Program

CHROMIUM = Program("Chromium", "chromium", ("chromium", "chromium-browser", "google-chrome"))
