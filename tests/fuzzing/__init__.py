"""Hostile inputs for readers, configuration, programs and graders. `python -m fuzzing` (make fuzz)
runs a campaign and writes a report.

mutations   what is done to a file, a value, a text
files, originals, configuration, arguments, texts   the targets: each takes a random generator, makes one case and runs it
judge       whether a case ended well
"""
