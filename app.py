"""The explorer page: python app.py [--host 127.0.0.1] [--port 7860] [--model DIR] [--mcp]"""

from app.runs import Runs
from app.serve import launch, parse
from app.ui import build

runs = Runs()
demo = build(runs)

if __name__ == "__main__":
    options = parse()
    runs.choose_model(
        folder=options.model, impl=options.impl, device=options.device, dtype=options.dtype,
        graphs=not options.no_graphs,
    )
    launch(demo, options.host, options.port, options.root_path, options.mcp)
