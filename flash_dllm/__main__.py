"""python -m flash_dllm "PROMPT" …"""

import sys

from flash_dllm.cli import main

if __name__ == "__main__":
    sys.exit(main())
