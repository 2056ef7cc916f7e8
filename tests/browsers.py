"""Where Debian's chromium is, and how it is started for tests: without a network, without a screen."""

import shutil

CHROMIUM = shutil.which("chromium")
NO_BROWSER = "chromium is not installed (apt install chromium)"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
