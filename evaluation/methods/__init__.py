"""The paper's other systems and baselines, each a class that also serves as ``--method module:Class`` of an audit."""
