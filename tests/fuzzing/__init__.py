"""Hostile inputs for readers, configuration, programs and graders. `python -m fuzzing` (make fuzz)
runs a campaign and writes a report.

mutations   changes of a file, a value or a text
files, originals, configuration, arguments, texts   the targets: `run` of a target makes one case with a random generator and runs it
judge       decides whether a case ended well
"""
