"""`python -m tfprobe` is the same program as `tfprobe`."""

import sys

from tfprobe.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
