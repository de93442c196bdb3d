"""What a coalition's submissions are worth, and what each party brings to them."""
