"""What runs model-written code: the candidate's process, the judge's process, their language."""
