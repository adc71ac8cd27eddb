"""How an audit names methods of the evaluation."""

WORDS = "attribeam.evaluation.methods.words:SpanWords"
FACT_WORDS = "attribeam.evaluation.methods.words:FactWords"
GRADIENTS = "attribeam.evaluation.methods.gradients:ContrastiveGradients"
HIDDEN_AVERAGE = "attribeam.evaluation.methods.hidden_states:HiddenAverage"
HIDDEN_UNION = "attribeam.evaluation.methods.hidden_states:HiddenUnion"
SENTENCE_UNION = "attribeam.evaluation.methods.unions:SentenceUnion"
