"""How the embedded model in `assets/tiny` was made: data, tokenizer, trainer, evaluation."""
