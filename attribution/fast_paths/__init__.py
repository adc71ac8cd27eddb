"""Fast paths that rely on private parts of libraries, each behind a check and with a plain path beside it.

==================  ==========================================  ================================  ======================
module              relies on                                   check                             plain path
==================  ==========================================  ================================  ======================
modernbert_pass     the modules of transformers' ModernBERT     same attention on trial rows,     transformers' own pass
                                                                when the model is loaded
packed_layers       oneDNN's operators of torch's compiler,     products of random states agree,  torch's own products,
                    the text of transformers' gated block       same attention on trial rows      the block's code
spacy_pipeline      the states of spaCy's transition parser     its private methods are there     spaCy's own parser
==================  ==========================================  ================================  ======================

Two more places rely on private parts and stay where they are needed. ``attribution/models/four_bit_layers.py`` keeps
bitsandbytes from repacking NF4 weights. ``integer_products.py`` beside it calls ``torch._int_mm`` if a trial shows it
exact and fast; else products in float32 give the same bits.
"""
