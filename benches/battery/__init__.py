"""The parts of verdict_battery.py: random jobs of fio, file systems, a liar, and the commands."""
