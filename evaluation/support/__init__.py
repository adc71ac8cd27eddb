"""How far the support flag can be trusted, measured on two kinds of labels.

``support_rows`` and ``support_row_figures`` use spans labelled as supported or not, and ``support_check`` is their
command. ``judged_command`` and the modules that it imports use answers that people judged: they marked unsupported
characters, or said so of the whole answer. There, ``scorers`` are compared under one protocol (``scorer_figures``), and
``supported_spans`` counts flags on spans that people took from their sources.
"""
