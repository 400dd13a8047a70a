"""The explorer page: python app.py [--host 127.0.0.1] [--port 7860] [--model DIR] [--mcp]"""

import logging

from app.runs import Runs
from app.serve import launch, parse
from app.sweeps import Sweeps
from app.ui import build

runs = Runs()
sweeps = Sweeps(runs)
demo = build(runs, sweeps=sweeps)

if __name__ == "__main__":
    options = parse()
    runs.choose_model(
        folder=options.model, impl=options.impl, device=options.device, dtype=options.dtype,
        graphs=not options.no_graphs,
    )
    runs.models.is_open = not options.locked
    try:
        sweeps.keep_in(options.studies)
    except OSError as error:
        logging.warning("sweeps are kept until this page is closed: %s", error)
    launch(demo, options.host, options.port, options.root_path, options.mcp)
