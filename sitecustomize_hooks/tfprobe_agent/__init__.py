"""The part of tfprobe that runs inside the recorded job: standard library only, Python 3.6 to 3.13, silent."""
