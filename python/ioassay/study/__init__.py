"""What a study is: its model and its files, the plan of its trials, and what the command line changes in it."""
