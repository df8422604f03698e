"""Hostile inputs for readers, configuration, programs and graders. `python -m fuzzing` (make fuzz)
runs a campaign and writes a report.

mutations   changes of a file, a value or a text
files, originals, configuration, arguments, texts   the targets: functions that take a random generator, make one case and run it
judge       decides whether a case ended well
"""
