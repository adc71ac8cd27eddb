"""Language models that are read beside the attention model: hidden states of a decoder, probabilities of answers."""
