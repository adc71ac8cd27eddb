"""How far the support flag can be trusted, measured on two kinds of labels.

``support_rows`` and ``support_row_figures`` use spans labelled as supported or not, and ``support_check`` is their
command. ``judged_answers`` and ``judged_command`` use answers in which a person marked unsupported characters.
"""
