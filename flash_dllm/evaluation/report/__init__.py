"""The paper's tables and figures: cells are measured, sections are made of them, pages show them.

Measuring and showing are apart: `measured.json` is all that a page needs.
"""
