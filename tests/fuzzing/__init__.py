"""Hostile inputs for readers, configuration, programs and graders. `python -m fuzzing` (make fuzz)
runs a campaign and prints a report.

mutations   changes of a file, a value or a text
files, originals, configuration, arguments, texts   the targets: the method `run` of a target draws one case and runs the case
judge       decides whether a case ended well
"""
