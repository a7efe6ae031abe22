"""What simulating a drive, serving one and replaying a trace share: options of the drive, descriptions, traces."""
